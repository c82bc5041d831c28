//! Reports of live endpoints, as `towpath sctp contexts` and `towpath vmtp entities` ask for them.

use crate::print::note;
use crate::{CliError, EXIT_FAILED, EXIT_OK};
use std::io;
use std::path::Path;
use towpath::xtp::contexts::Queried;

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
}

impl<R> Asking<R> {
    /// The reports of the endpoints that are meant - all, those of a process ID, that at a path - and
    /// the exit code: some may not answer.
    ///
    /// # Errors
    ///
    /// A sentence when none answers.
    pub fn find(&self, which: Option<&str>) -> Result<(Vec<R>, u8), CliError> {
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
