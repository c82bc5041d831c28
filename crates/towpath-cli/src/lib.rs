//! The `towpath` program: arguments to options to objects.
//!
//! * [`args`] - what may be typed.
//! * [`parse`] - values: sizes, times, ranges.
//! * [`race`], [`inspect`], [`results_commands`] - the commands.
//! * [`progress`] - what a terminal shows while a race runs.
//!
//! Nothing here measures or computes; it turns words into calls and results into words.
#![forbid(unsafe_code)]

pub mod args;
pub mod inspect;
pub mod parse;
pub mod progress;
pub mod race;
pub mod results_commands;

use args::{Cli, Command};
use clap::{CommandFactory, Parser};
use std::fmt;
use std::process::ExitCode;

/// Exit code of a command that did what was asked.
pub const DONE: u8 = 0;
/// Exit code of a command that could not do it.
pub const FAILED: u8 = 1;
/// Exit code for wrong usage.
pub const USAGE: u8 = 2;
/// Exit code of a verdict against, see `compare --fail-on`.
pub const AGAINST: u8 = 3;

/// Why a command ends without having done what was asked.
#[derive(Debug)]
pub struct CliError {
    /// One line for the user: the thing and the remedy.
    pub message: String,
    /// The exit code.
    pub code: u8,
}

impl CliError {
    /// The user asked for something that makes no sense.
    pub fn usage(message: impl Into<String>) -> CliError {
        CliError {
            message: message.into(),
            code: USAGE,
        }
    }

    /// It could not be done.
    pub fn failed(message: impl fmt::Display) -> CliError {
        CliError {
            message: message.to_string(),
            code: FAILED,
        }
    }
}

/// The definition of all arguments, for the man page and completions.
pub fn command() -> clap::Command {
    Cli::command()
}

/// Runs the program.
pub fn main() -> ExitCode {
    let cli = match Cli::try_parse() {
        Ok(cli) => cli,
        Err(error) => {
            // Help and version come this way too and are no failure.
            let code = if error.use_stderr() { USAGE } else { DONE };
            let _ = error.print();
            return ExitCode::from(code);
        }
    };
    match run(cli.command) {
        Ok(code) => ExitCode::from(code),
        Err(error) => {
            anstream::eprintln!("towpath: {}", error.message);
            ExitCode::from(error.code)
        }
    }
}

fn run(command: Command) -> Result<u8, CliError> {
    match command {
        Command::Race(args) => race::run(&args),
        Command::Transports(args) => inspect::transports(args.json),
        Command::Doctor(args) => inspect::doctor(args.json),
        Command::Report(args) => results_commands::report(&args),
        Command::Fit(args) => results_commands::fit(&args),
        Command::Compare(args) => results_commands::compare(&args),
        Command::Export(args) => results_commands::export(&args),
        Command::Show(args) => results_commands::show(&args),
        Command::Worker => worker(),
        Command::Man => man(),
        Command::Completions { shell } => {
            clap_complete::generate(
                shell,
                &mut crate::command(),
                "towpath",
                &mut std::io::stdout(),
            );
            Ok(DONE)
        }
    }
}

fn man() -> Result<u8, CliError> {
    let page = clap_mangen::Man::new(command());
    page.render(&mut std::io::stdout())
        .map_err(CliError::failed)?;
    Ok(DONE)
}

/// A worker's control channel is its standard input.
fn worker() -> Result<u8, CliError> {
    use std::os::fd::AsFd;
    // The controller ends its workers itself; a Ctrl-C at the terminal reaches them too and must
    // not take the trial that is being closed away.
    let ignored = std::sync::Arc::new(std::sync::atomic::AtomicBool::new(false));
    signal_hook::flag::register(signal_hook::consts::SIGINT, ignored).map_err(CliError::failed)?;
    let socket = std::io::stdin()
        .as_fd()
        .try_clone_to_owned()
        .map_err(CliError::failed)?;
    measure::worker::main(socket);
    Ok(DONE)
}
