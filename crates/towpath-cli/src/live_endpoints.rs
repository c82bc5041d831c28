//! Reports of live endpoints, as `towpath xtp contexts`, `towpath sctp contexts` and `towpath vmtp entities` ask for them.

use crate::print::{json, line, note};
use crate::{CliError, EXIT_FAILED, EXIT_OK};
use clap::Args;
use serde::Serialize;
use std::io;
use std::path::Path;
use towpath::xtp::contexts::Queried;

/// Which endpoints are asked, and how their reports are printed.
#[derive(Clone, Debug, Args)]
pub struct LiveArgs {
    /// A process ID or the path of a socket; default: all endpoints.
    #[arg(value_name = "PID|PATH")]
    pub which: Option<String>,
    /// Print JSON.
    #[arg(long)]
    pub json: bool,
}

/// How the endpoints of a protocol are asked.
pub struct Asking<R> {
    /// Name of the protocol.
    pub protocol: &'static str,
    /// A command of ours whose endpoints answer.
    pub command: &'static str,
    /// Asks the endpoint at a socket.
    pub query: fn(&Path) -> io::Result<R>,
    /// Asks all endpoints of this user, or of one process.
    pub query_all: fn(Option<u32>) -> io::Result<Vec<Queried<R>>>,
    /// The text of a report.
    pub text: fn(&R) -> String,
}

impl<R: Serialize> Asking<R> {
    /// Asks the endpoints and prints their reports.
    ///
    /// # Errors
    ///
    /// When no endpoint answers, or standard output cannot be written.
    pub fn run(&self, args: &LiveArgs) -> Result<u8, CliError> {
        let (reports, code) = self.find(args.which.as_deref())?;
        if args.json {
            json(&reports)?;
        } else {
            let texts: Vec<String> = reports.iter().map(self.text).collect();
            line(texts.join("\n"))?;
        }
        Ok(code)
    }

    /// The reports of the endpoints that are meant - all, those of a process ID, that at a path - and
    /// the exit code: some may not answer. Fails when none does.
    fn find(&self, which: Option<&str>) -> Result<(Vec<R>, u8), CliError> {
        let process: Option<u32> = which.and_then(|which| which.parse().ok());
        if let (Some(path), None) = (which, process) {
            return Ok((vec![self.at(path)?], EXIT_OK));
        }
        let found = (self.query_all)(process).map_err(CliError::failed)?;
        if found.is_empty() {
            return Err(self.none(process));
        }
        let (mut reports, mut code) = (Vec::new(), EXIT_OK);
        for endpoint in found {
            match endpoint.report {
                Ok(report) => reports.push(report),
                Err(error) => {
                    code = EXIT_FAILED;
                    let path = endpoint.path.display();
                    note(format_args!("towpath: {path} does not answer: {error}"));
                }
            }
        }
        Ok((reports, code))
    }

    fn at(&self, path: &str) -> Result<R, CliError> {
        (self.query)(Path::new(path)).map_err(|error| {
            CliError::failed(format!(
                "no endpoint answers at {path}: {error}; give a process ID or the path of a socket"
            ))
        })
    }

    fn none(&self, process: Option<u32>) -> CliError {
        let whose = process.map_or("this user".to_owned(), |process| {
            format!("process {process}")
        });
        let Asking {
            protocol, command, ..
        } = self;
        CliError::failed(format!(
            "no endpoint of {protocol} of {whose} answers; start `{command}`, or a program with \
             TOWPATH_CONTEXTS=on"
        ))
    }
}
