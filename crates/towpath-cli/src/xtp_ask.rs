//! `towpath xtp ask`: what an endpoint or router of another host says about itself (MGMT).

use crate::print::{json, line};
use crate::xtp_common::{parse_transport, resolve};
use crate::{CliError, EXIT_OK, parse};
use clap::Args;
use control::validate::printable;
use std::collections::BTreeMap;
use std::io::ErrorKind;
use std::time::Duration;
use towpath::xtp::ask::{self, RECORD_LEN_MAX, Subject};

/// Options of `towpath xtp ask`.
#[derive(Clone, Debug, Args)]
#[command(
    after_help = "A question is a MGMT packet, which XTP 3.3 to 3.6 have and 4.0 has not. A `towpath xtp forwarder`
and endpoints with dialect=3.6 (3.5, 3.3) answer the hosts that they name with --managers, or
managers=ADDR/ADDR, and no others. An answer is as long as its question.

Examples:
  towpath xtp ask 10.0.1.1:9000 routes
  towpath xtp ask 10.0.2.7:9000 contexts --json
  towpath forward --from xtp,dialect=3.6,managers=10.0.1.5 10.0.2.7:9000 --to localhost:22
  towpath xtp forwarder 10.0.1.1:9000 --to 10.0.2.7:9000 --managers 10.0.1.5"
)]
pub struct AskArgs {
    /// The endpoint or router to ask.
    #[arg(value_name = "HOST:PORT")]
    pub host: String,
    /// What to ask for: contexts, routes or counters.
    #[arg(value_name = "contexts|routes|counters", value_parser = parse_subject)]
    pub subject: Subject,
    /// How long each answer is waited for.
    #[arg(long, value_name = "TIME", value_parser = parse::time, default_value = "2s")]
    pub timeout: Duration,
    /// Version of XTP: 3.6, 3.5 or 3.3.
    #[arg(long, value_name = "VERSION", default_value = "3.6")]
    pub dialect: String,
    /// Print JSON.
    #[arg(long)]
    pub json: bool,
}

fn parse_subject(text: &str) -> Result<Subject, String> {
    let mut all = Subject::ALL.iter();
    let found = all.find(|(name, _)| *name == text);
    found.map(|(_, subject)| *subject).ok_or_else(|| {
        let names = Subject::ALL.map(|(name, _)| name);
        format!("nothing is known of '{text}'; choose {}", names.join(", "))
    })
}

/// Asks and prints the answer.
pub fn run(args: &AskArgs) -> Result<u8, CliError> {
    let to = resolve(&args.host)?;
    let words = format!("xtp,dialect={}", args.dialect);
    let version = parse_transport(&words)?.config.version;
    let asked = ask::ask(to, version, args.subject, args.timeout);
    let records = asked.map_err(|error| match error.kind() {
        ErrorKind::InvalidInput => CliError::usage(error.to_string()),
        _ => CliError::failed(format!("{to}: {error}")),
    })?;
    if args.json {
        let fields = |record: &String| -> BTreeMap<String, String> {
            let words = record.split(' ').filter_map(|word| word.split_once('='));
            words.map(|(k, v)| (k.to_owned(), v.to_owned())).collect()
        };
        json(&records.iter().map(fields).collect::<Vec<_>>())?;
        return Ok(EXIT_OK);
    }
    for record in records {
        // Another host wrote it.
        line(format_args!("{}", printable(&record, RECORD_LEN_MAX)))?;
    }
    Ok(EXIT_OK)
}
