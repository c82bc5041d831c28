//! `towpath xtp set`: options of a live endpoint and its associations.

use crate::{CliError, EXIT_OK};
use clap::Args;
use std::io::ErrorKind;
use std::path::PathBuf;
use towpath::xtp::contexts::{query_all, request_change};

/// Options of `towpath xtp set`.
#[derive(Clone, Debug, Args)]
#[command(
    after_help = "Endpoints that answer `towpath xtp contexts` change for their own user, and for root. Of one association
output_rate, input_rate (of its peer) and sort change, each also off; of all together ctimer and
retrycount, and its trace: trace=FILE has the endpoint write its packets to a new file from now on, trace=off ends
that. Of groups nothing does.

Examples:
  towpath xtp set 4711 3 output_rate=10mbit           association 3 of process 4711
  towpath xtp set 4711 3 sort=1 input_rate=off
  towpath xtp set 4711 all trace=packets.txt
  towpath xtp set /run/user/1000/towpath/4711-2.sock all ctimer=5s"
)]
pub struct SetArgs {
    /// A process ID, or the path of a socket that `towpath xtp contexts` names.
    #[arg(value_name = "PID|PATH")]
    pub which: String,
    /// The number of an association, or all for the endpoint's options.
    #[arg(value_name = "ASSOCIATION|all")]
    pub association: String,
    /// The options.
    #[arg(value_name = "KEY=VALUE", required = true)]
    pub options: Vec<String>,
}

/// Changes the options, one after the other.
pub fn run(args: &SetArgs) -> Result<u8, CliError> {
    let pairs = args.options.iter().map(|word| {
        let pair = word.split_once('=');
        let pair = pair.filter(|(name, value)| *name == "trace" || !value.contains(' '));
        pair.ok_or_else(|| CliError::usage(format!("'{word}' is no option; write KEY=VALUE")))
    });
    let pairs: Vec<(&str, &str)> = pairs.collect::<Result<_, _>>()?;
    let path = find(&args.which)?;
    for (name, value) in pairs {
        let value = of_the_endpoint(name, value)?;
        let words = format!("{} {name} {value}", args.association);
        request_change(&path, &words).map_err(|error| match error.kind() {
            ErrorKind::InvalidInput => CliError::usage(error.to_string()),
            _ => CliError::failed(format!(
                "no endpoint changes at {}: {error}",
                path.display()
            )),
        })?;
    }
    Ok(EXIT_OK)
}

/// A value as the endpoint reads it, whose folder is another: the file of a trace by its absolute path.
fn of_the_endpoint(name: &str, value: &str) -> Result<String, CliError> {
    if name != "trace" || value == "off" {
        return Ok(value.to_owned());
    }
    let path = std::path::absolute(value);
    let path = path.map_err(|error| CliError::usage(format!("trace={value}: {error}")))?;
    let text = path.to_str().filter(|path| !path.contains('\n'));
    let text = text.ok_or_else(|| CliError::usage("trace: the name is not UTF-8 of one line"))?;
    Ok(text.to_owned())
}

/// The socket of an endpoint.
fn find(which: &str) -> Result<PathBuf, CliError> {
    let Ok(process) = which.parse() else {
        return Ok(PathBuf::from(which));
    };
    let found = query_all(Some(process)).map_err(CliError::failed)?;
    match found.as_slice() {
        [] => Err(CliError::failed(format!(
            "process {process} has no endpoint of XTP that answers"
        ))),
        [one] => Ok(one.path.clone()),
        several => {
            let paths = several.iter().map(|one| one.path.display().to_string());
            let paths: Vec<String> = paths.collect();
            Err(CliError::usage(format!(
                "process {process} has several endpoints; give one of {}",
                paths.join(", ")
            )))
        }
    }
}
