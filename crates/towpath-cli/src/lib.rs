//! The `towpath` program: the command line, and what it prints.
//!
//! * [`args`] - commands and options.
//! * [`parse`] - option values: sizes, times, ranges.
//! * `alone` - one measurement at a time on this machine.
//! * [`contestants`] - the contestants of a race.
//! * [`environment`] - sets up the hosts, link and loads of a race.
//! * [`testbed_command`] - hosts that stay up, for the user's own programs.
//! * [`gate_command`] - two builds or contestants against each other, for CI.
//! * [`remote_race`] - races against agents on other hosts; [`agent_command`], [`key_command`] -
//!   the agent's side.
//! * [`profile_command`] - CPU time of a message by layer and procedure.
//! * [`forward_command`], [`cp_command`] - TCP tunnel and file copy over XTP (`cp_send`, `cp_receive`: its two ends);
//!   [`xtp_common`] is shared code.
//! * [`xtp_command`] - state of live XTP endpoints; `xtp_router` - router and multicast relay; `xtp_ping` -
//!   questions to hosts.
//! * `channel_command` - proxies of channels of shared memory.
//! * [`vmtp_command`] - state of live VMTP endpoints; [`blocks_command`] - the storage server and its
//!   client.
//! * [`mod@watch`] - a running race, study or sweep, from its files.
//! * [`export_command`] - results for other programs.
//! * `fan_out` - one sender and several receivers.
//! * [`history_command`] - each cell over many runs; [`index_command`] - a list of results.
//! * [`race`], [`transports`], [`doctor`], [`results_commands`], [`mod@sim`], [`mod@study`] - the
//!   other commands.
//! * `leftovers` - what killed programs have left.
//! * [`mod@print`] - standard output and standard error.
//! * [`progress`] - progress of a running race.
//!
//! Nothing here measures or computes: this crate parses arguments, calls the others and prints.
#![forbid(unsafe_code)]

pub mod agent_command;
mod alone;
pub mod args;
pub mod blocks_command;
mod calibrate;
pub mod cells_command;
mod channel_command;
mod channel_costs;
pub mod contestants;
pub mod cp_command;
mod cp_receive;
mod cp_send;
pub mod doctor;
pub mod environment;
mod exec_contestants;
pub mod export_command;
mod fan_out;
pub mod forward_command;
pub mod gate_command;
pub mod history_command;
pub mod index_command;
pub mod key_command;
mod leftovers;
mod live_endpoints;
pub mod message_counts;
pub mod parse;
mod pins;
pub mod print;
pub mod profile_command;
pub mod progress;
pub mod race;
mod race_checks;
pub mod remote_race;
pub mod results_commands;
mod resume;
pub mod sctp_command;
pub mod sctp_contexts;
pub mod sim;
pub mod study;
pub mod testbed_command;
pub mod transports;
mod turn_rows;
pub mod vmtp_command;
pub mod watch;
mod worker_captures;
mod xtp_ask;
pub mod xtp_command;
pub mod xtp_common;
mod xtp_group_text;
mod xtp_ping;
mod xtp_router;
mod xtp_set;

use args::{Cli, Command};
use clap::error::ErrorKind;
use clap::{CommandFactory, Parser};
use std::fmt;
use std::process::ExitCode;

/// Exit code: success.
pub const EXIT_OK: u8 = 0;
/// Exit code: the command failed.
pub const EXIT_FAILED: u8 = 1;
/// Exit code: wrong usage.
pub const EXIT_USAGE: u8 = 2;
/// Exit code: `compare --fail-on` or `gate` found a regression.
pub const EXIT_REGRESSION: u8 = 3;

/// Why a command failed.
#[derive(Debug)]
pub struct CliError {
    /// One line for the user: the problem and the remedy.
    pub message: String,
    /// The exit code.
    pub code: u8,
}

impl CliError {
    /// An error in the arguments.
    pub fn usage(message: impl Into<String>) -> CliError {
        CliError {
            message: message.into(),
            code: EXIT_USAGE,
        }
    }

    /// A failure at run time.
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
    leftovers::remove_before(&command);
    match command {
        Command::Race(args) => race::run(&args),
        Command::Gate(args) => gate_command::run(&args),
        Command::Transports(args) => transports::run(args.json),
        Command::Doctor(args) => doctor::run(&args),
        Command::Report(args) => results_commands::report(&args),
        Command::Fit(args) => results_commands::fit(&args),
        Command::Compare(args) => results_commands::compare(&args),
        Command::Watch(args) => watch::run(&args),
        Command::History(args) => history_command::run(&args),
        Command::Export(args) => export_command::run(&args),
        Command::Show(args) => results_commands::show(&args),
        Command::Sim(command) => sim::run(&command),
        Command::Study(command) => study::run(&command),
        Command::Profile(args) => profile_command::run(&args),
        Command::Testbed(command) => testbed_command::run(&command),
        Command::Forward(args) => forward_command::run(&args),
        Command::Cp(args) => cp_command::run(&args),
        Command::Xtp(command) => xtp_command::run(&command),
        Command::Sctp(command) => sctp_command::run(&command),
        Command::Vmtp(command) => vmtp_command::run(&command),
        Command::Cells(command) => cells_command::run(&command),
        Command::Blocks(command) => blocks_command::run(&command),
        Command::Channel(command) => channel_command::run(&command),
        Command::Agent(args) => agent_command::run(&args),
        Command::Key(command) => key_command::run(&command),
        Command::Worker { protocol: true, .. } => print_protocol(),
        Command::Worker {
            transport: Some(name),
            ..
        } => print_transport(&name),
        Command::Worker {
            trace,
            capture_rings,
            slower_by,
            ..
        } => {
            if let Some(folder) = &capture_rings {
                towpath::process_capture::capture_into(folder);
            }
            run_worker(trace.as_deref(), slower_by)
        }
        Command::RawSockets(args) => agent_command::run_raw_sockets(&args),
        Command::LoadUnit(args) => environment::load_unit(&args),
        Command::StudyRun { parent, words } => run_of_study(parent, words),
        Command::Man => print_man_page(),
        Command::Completions { shell } => {
            let mut script = Vec::new();
            clap_complete::generate(shell, &mut crate::command(), "towpath", &mut script);
            print::bytes(&script).map(|()| EXIT_OK)
        }
    }
}

/// Runs the words of a study's run, and ends with the study's process, however that ends.
fn run_of_study(parent: u32, words: Vec<String>) -> Result<u8, CliError> {
    let kill = Some(rustix::process::Signal::KILL);
    let asked = rustix::process::set_parent_process_death_signal(kill);
    asked.map_err(|error| {
        CliError::failed(format!(
            "the kernel does not end a run with its study: {error}; start the run by its own words"
        ))
    })?;
    // A study that ended before the request gave this process another parent already.
    if std::os::unix::process::parent_id() != parent {
        return Err(CliError::failed(
            "its study has ended; resume it with --resume",
        ));
    }
    let words = std::iter::once("towpath".to_owned()).chain(words);
    let cli = Cli::try_parse_from(words)
        .map_err(|error| CliError::usage(one_line(&error.to_string())))?;
    match cli.command {
        Command::StudyRun { .. } => Err(CliError::usage(
            "a run of a study is no study; give race, sim, profile, cells or channel",
        )),
        command => run(command),
    }
}

/// The words of this process as a user would give them: those of a study's run, without the hidden
/// command that runs them.
pub(crate) fn own_words(mut words: Vec<String>) -> Vec<String> {
    if words.get(1).is_some_and(|word| word == "study-run")
        && let Some(end) = words.iter().position(|word| word == "--")
    {
        words.drain(1..=end);
    }
    words
}

/// Prints help and version, which clap reports as errors; a wrong argument becomes one line.
fn report_usage_error(error: &clap::Error) -> ExitCode {
    if !error.use_stderr() {
        // A closed standard output (`| head`) is no failure.
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

/// Clap's message on one line, without its usage lines.
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

/// Says which worker protocol this program speaks, and which build it is.
fn print_protocol() -> Result<u8, CliError> {
    let answer = loadgen::worker_program::answer(&own_build());
    print::line(answer).map(|()| EXIT_OK)
}

/// Describes a transport for a race of another build, which does not have it.
fn print_transport(name: &str) -> Result<u8, CliError> {
    let line = loadgen::worker_program::described(name).map_err(CliError::usage)?;
    print::line(line).map(|()| EXIT_OK)
}

/// This program and its build: its version, and a hash of the sources of its engines.
pub(crate) fn own_build() -> String {
    format!("towpath {}", scenario::sweep::BUILD)
}

/// Runs as a worker; its standard input is the control channel.
fn run_worker(trace: Option<&std::path::Path>, slower_by: Option<f64>) -> Result<u8, CliError> {
    use std::os::fd::AsFd;
    if let Some(path) = trace {
        towpath::xtp::tracing::trace_all(path);
    }
    // The worker dies with its race. Where the kernel refuses this, the worker ends when its
    // control channel closes.
    let _ = rustix::process::set_parent_process_death_signal(Some(rustix::process::Signal::KILL));
    // A Ctrl-C at the terminal reaches workers too. They ignore it: the controller ends them after
    // it has closed the running trial.
    let ignored = std::sync::Arc::new(std::sync::atomic::AtomicBool::new(false));
    signal_hook::flag::register(signal_hook::consts::SIGINT, ignored).map_err(CliError::failed)?;
    let socket = std::io::stdin()
        .as_fd()
        .try_clone_to_owned()
        .map_err(CliError::failed)?;
    match slower_by {
        None => loadgen::worker::main(socket),
        Some(share) => loadgen::worker::main_slower_by(share, socket),
    }
    Ok(EXIT_OK)
}
