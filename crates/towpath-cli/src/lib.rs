//! The `towpath` program: arguments to options to objects.
//!
//! * [`args`] - what may be typed.
//! * [`parse`] - values: sizes, times, ranges.
//! * [`contestants`] - who takes part in a race.
//! * [`sharing`] - what several circuits at once did to each other.
//! * [`stage`] - what surrounds a race: hosts, a link, loads.
//! * [`surroundings`] - what links and loads did.
//! * [`testbed_command`] - hosts that stay, for programs of the user's own.
//! * [`far`] - races against agents on other hosts; [`agent_command`], [`key_command`] - the other end.
//! * [`profile_command`] - where a message's time goes.
//! * [`forward_command`], [`cp_command`] - tools on XTP; [`tools`] is what they share.
//! * [`xtp_command`] - what live endpoints of XTP are doing.
//! * [`race`], [`inspect`], [`doctor`], [`results_commands`], [`mod@sim`], [`mod@study`] - the
//!   commands.
//! * [`mod@print`] - how words reach the user.
//! * [`progress`] - what a terminal shows while a race runs.
//!
//! Nothing here measures or computes; it turns words into calls and results into words.
#![forbid(unsafe_code)]

pub mod agent_command;
pub mod args;
pub mod contestants;
pub mod cp_command;
pub mod doctor;
pub mod environment;
pub mod environment_report;
pub mod fairness;
pub mod forward_command;
pub mod key_command;
pub mod parse;
pub mod print;
pub mod profile_command;
pub mod progress;
pub mod race;
pub mod remote_race;
pub mod results_commands;
pub mod sim;
pub mod study;
pub mod testbed_command;
pub mod transports;
pub mod xtp_command;
pub mod xtp_common;
mod xtp_router;

use args::{Cli, Command};
use clap::error::ErrorKind;
use clap::{CommandFactory, Parser};
use std::fmt;
use std::process::ExitCode;

/// Exit code of a command that did what was asked.
pub const EXIT_OK: u8 = 0;
/// Exit code of a command that could not do it.
pub const EXIT_FAILED: u8 = 1;
/// Exit code for wrong usage.
pub const EXIT_USAGE: u8 = 2;
/// Exit code of a verdict against, see `compare --fail-on`.
pub const EXIT_REGRESSION: u8 = 3;

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
            code: EXIT_USAGE,
        }
    }

    /// It could not be done.
    pub fn failed(message: impl fmt::Display) -> CliError {
        CliError {
            message: message.to_string(),
            code: EXIT_FAILED,
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
        Err(error) => return report_usage_error(&error),
    };
    match run(cli.command) {
        Ok(code) => ExitCode::from(code),
        Err(error) => {
            print::note(format_args!("towpath: {}", error.message));
            ExitCode::from(error.code)
        }
    }
}

fn run(command: Command) -> Result<u8, CliError> {
    match command {
        Command::Race(args) => race::run(&args),
        Command::Transports(args) => transports::run(args.json),
        Command::Doctor(args) => doctor::run(&args),
        Command::Report(args) => results_commands::report(&args),
        Command::Fit(args) => results_commands::fit(&args),
        Command::Compare(args) => results_commands::compare(&args),
        Command::Export(args) => results_commands::export(&args),
        Command::Show(args) => results_commands::show(&args),
        Command::Sim(command) => sim::run(&command),
        Command::Study(command) => study::run(&command),
        Command::Profile(args) => profile_command::run(&args),
        Command::Testbed(command) => testbed_command::run(&command),
        Command::Forward(args) => forward_command::run(&args),
        Command::Cp(args) => cp_command::run(&args),
        Command::Xtp(command) => xtp_command::run(&command),
        Command::Agent(args) => agent_command::run(&args),
        Command::Key(command) => key_command::run(&command),
        Command::Worker { trace } => run_worker(trace.as_deref()),
        Command::LoadUnit { cpu, parts } => environment::load_unit(cpu, &parts),
        Command::Man => print_man_page(),
        Command::Completions { shell } => {
            let mut script = Vec::new();
            clap_complete::generate(shell, &mut crate::command(), "towpath", &mut script);
            print::bytes(&script).map(|()| EXIT_OK)
        }
    }
}

/// Help and version come as errors too and are none; a wrong argument is said in one line.
fn report_usage_error(error: &clap::Error) -> ExitCode {
    if !error.use_stderr() {
        // A reader that has gone has seen enough of the help.
        let _ = error.print();
        return ExitCode::from(EXIT_OK);
    }
    if error.kind() == ErrorKind::DisplayHelpOnMissingArgumentOrSubcommand {
        print::note(error.render().ansi());
        return ExitCode::from(EXIT_USAGE);
    }
    print::note(format_args!("towpath: {}", one_line(&error.to_string())));
    ExitCode::from(EXIT_USAGE)
}

/// What clap says, without its usage lines.
pub(crate) fn one_line(text: &str) -> String {
    let lines = text.lines().map(str::trim);
    let message_lines =
        lines.take_while(|line| !line.starts_with("Usage:") && !line.starts_with("For more"));
    let words: Vec<&str> = message_lines.filter(|line| !line.is_empty()).collect();
    let line = words.join(" ").replace(" tip: ", "; tip: ");
    let line = line.strip_prefix("error: ").unwrap_or(&line);
    format!("{line}; see --help")
}

fn print_man_page() -> Result<u8, CliError> {
    let mut page = Vec::new();
    let man = clap_mangen::Man::new(command());
    man.render(&mut page).map_err(CliError::failed)?;
    print::bytes(&page).map(|()| EXIT_OK)
}

/// A worker's control channel is its standard input.
fn run_worker(trace: Option<&std::path::Path>) -> Result<u8, CliError> {
    use std::os::fd::AsFd;
    if let Some(path) = trace {
        towpath::xtp::tracing::trace_all(path);
    }
    // A race that was killed leaves no one behind. Where this cannot be had the worker notices
    // its channel closing, later.
    let _ = rustix::process::set_parent_process_death_signal(Some(rustix::process::Signal::KILL));
    // The controller ends its workers itself; a Ctrl-C at the terminal reaches them too and must
    // not take the trial that is being closed away.
    let ignored = std::sync::Arc::new(std::sync::atomic::AtomicBool::new(false));
    signal_hook::flag::register(signal_hook::consts::SIGINT, ignored).map_err(CliError::failed)?;
    let socket = std::io::stdin()
        .as_fd()
        .try_clone_to_owned()
        .map_err(CliError::failed)?;
    measure::worker::main(socket);
    Ok(EXIT_OK)
}
