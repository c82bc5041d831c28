//! `towpath sim`: scenarios in virtual time.

mod curves;
mod elsewhere;
pub mod eta;
mod join;
mod outcome_text;
mod packet_logs;
mod sweeps;

pub(crate) use sweeps::{check_sweep, other_build};

use crate::print;
use crate::{CliError, EXIT_OK};
use clap::{Args, Subcommand};
use eta::EtaReporter;
use packet_logs::PacketLogs;
use results::bounded_file::{BoundedLines, read_text};
use scenario::Scenario;
use scenario::sweep;
use std::cell::RefCell;
use std::fs::File;
use std::path::{Path, PathBuf};
use std::rc::Rc;

/// Subcommands of `towpath sim`.
#[derive(Clone, Debug, Subcommand)]
pub enum SimCommand {
    /// Run a scenario once.
    #[command(after_help = "Examples:
  towpath sim run studies/scenarios/two-hosts.toml
  towpath sim run two-hosts.toml --seed 2 --trace two.trace --pcap two.pcapng
  towpath sim run two-hosts.toml --set messages=100 --json")]
    Run(RunArgs),
    /// Run a scenario at many points and seeds; one row of JSON per run.
    #[command(
        after_help = "Each row has a key made from the scenario, its changes, the seed and the build: with --out, runs that are in the
file are not repeated. `sim join` makes one file of those of several shards.

Examples:
  towpath sim sweep two-hosts.toml --points traffic.0.length.fixed=6,128,1024 --seeds 1..3
  towpath sim sweep two-hosts.toml --seeds 1..100 --out rows.jsonl
  towpath sim sweep two-hosts.toml --seeds 1..100 --out rows.jsonl --resume --html curves.html
  towpath sim sweep two-hosts.toml --seeds 1..100 --out part.jsonl --shard 2/4
  towpath sim sweep two-hosts.toml --seeds 1..10000 --out rows.jsonl --on ray"
    )]
    Sweep(SweepArgs),
    /// Join parts of a sweep: each run once; says what is missing.
    Join(join::JoinArgs),
    /// Plot the rows of a sweep as one HTML file.
    #[command(after_help = "Examples:
  towpath sim report rows.jsonl --html curves.html
  towpath sim report part-1.jsonl part-2.jsonl --html curves.html")]
    Report {
        /// Files of rows, as sweep --out writes them.
        #[arg(required = true)]
        rows: Vec<PathBuf>,
        /// The file to write.
        #[arg(long, value_name = "FILE")]
        html: PathBuf,
    },
    /// Show the first difference of two traces.
    #[command(after_help = "Exit code 1 when the traces differ.

Examples:
  towpath sim diff before.trace after.trace
  towpath sim diff --outline live.trace simulated.trace")]
    Diff {
        /// Compare only event, station and length of each packet, not times and octets, which
        /// always differ between live endpoints.
        #[arg(long)]
        outline: bool,
        /// The first trace.
        first: PathBuf,
        /// The second trace.
        second: PathBuf,
    },
}

/// Options of a single run.
#[derive(Clone, Debug, Args)]
pub struct RunArgs {
    /// The scenario.
    pub file: PathBuf,
    /// Seed; default: the scenario's.
    #[arg(long)]
    pub seed: Option<u64>,
    /// Change a value of the scenario; may be repeated.
    #[arg(long, value_name = "KEY=VALUE")]
    pub set: Vec<String>,
    /// Write a trace, one line per packet event.
    #[arg(long, value_name = "FILE")]
    pub trace: Option<PathBuf>,
    /// Write the packets to a pcapng file.
    #[arg(long, value_name = "FILE")]
    pub pcap: Option<PathBuf>,
    /// Print JSON.
    #[arg(long)]
    pub json: bool,
}

/// Options of a sweep.
#[derive(Clone, Debug, Args)]
pub struct SweepArgs {
    /// The scenario.
    pub file: PathBuf,
    /// Values of a key: `traffic.0.length.fixed=6,128`. Repeated: all combinations.
    #[arg(long, value_name = "KEY=V,V")]
    pub points: Vec<String>,
    /// Seeds: `1..10` or `1,5,9`; default: the scenario's.
    #[arg(long)]
    pub seeds: Option<String>,
    /// Concurrent runs; default: the number of CPUs.
    #[arg(long, value_parser = crate::parse::whole::<1, 1024, u16>)]
    pub jobs: Option<u16>,
    /// Run elsewhere: on a Ray cluster (its address: that of the environment, or a new one), or by a command
    /// for the shell that takes jobs and gives rows.
    #[arg(long, value_name = "ray[:ADDRESS] or COMMAND", conflicts_with_all = ["jobs", "csv"])]
    pub on: Option<String>,
    /// With --on ray: send this wheel to nodes that have none or one of another build.
    #[arg(long, requires = "on")]
    pub send: bool,
    /// Run shard I of N only: `2/4`.
    #[arg(long, value_name = "I/N")]
    pub shard: Option<String>,
    /// Append the rows to this file; runs whose rows are in it are skipped.
    #[arg(long, value_name = "FILE")]
    pub out: Option<PathBuf>,
    /// Resume: the file of --out must exist.
    #[arg(long, requires = "out")]
    pub resume: bool,
    /// Print CSV instead of JSON.
    #[arg(long, conflicts_with = "out")]
    pub csv: bool,
    /// Plot all rows, earlier ones included, as an HTML file.
    #[arg(long, value_name = "FILE")]
    pub html: Option<PathBuf>,
}

/// Runs the command.
///
/// # Errors
///
/// One line on what is wrong with the file or the options.
pub fn run(command: &SimCommand) -> Result<u8, CliError> {
    match command {
        SimCommand::Run(args) => run_once(args),
        SimCommand::Sweep(args) => sweeps::run_sweep(args),
        SimCommand::Join(args) => join::run(args),
        SimCommand::Report { rows, html } => report(rows, html),
        SimCommand::Diff {
            outline,
            first,
            second,
        } => diff(first, second, *outline),
    }
}

/// Most octets of a scenario; the longest of the examples has 3 KiB.
const SCENARIO_OCTETS_MAX: u64 = 1 << 20;

/// Most octets of the rows of a page: about 1 KiB a run, so 60,000 runs.
const ROWS_OCTETS_MAX: u64 = 64 << 20;

/// Most octets of a line of a trace or of a row; a row has about 1 KiB.
const LINE_OCTETS_MAX: usize = 1 << 20;

fn read(path: &Path, octets_max: u64) -> Result<String, CliError> {
    read_text(path, octets_max).map_err(|error| unreadable(path, &error))
}

/// The rows of a sweep.
#[cfg(feature = "parquet")]
pub(crate) fn read_rows(path: &Path) -> Result<String, CliError> {
    read(path, ROWS_OCTETS_MAX)
}

fn unreadable(path: &Path, error: &std::io::Error) -> CliError {
    CliError::usage(format!("cannot read {}: {error}", path.display()))
}

fn parse(path: &Path, changes: &[String]) -> Result<Scenario, CliError> {
    let text = read(path, SCENARIO_OCTETS_MAX)?;
    let refuse = |error: String| CliError::usage(format!("{}:{error}", path.display()));
    let scenario = scenario::parse(&text).map_err(refuse)?;
    if changes.is_empty() {
        return Ok(scenario);
    }
    sweep::apply_changes(&text, changes).map_err(CliError::usage)
}

fn run_once(args: &RunArgs) -> Result<u8, CliError> {
    let scenario = parse(&args.file, &args.set)?;
    let seed = args.seed.unwrap_or(scenario.seed);
    let logs = PacketLogs::open(args.trace.as_deref(), args.pcap.as_deref(), &scenario)?;
    let observer_logs = logs.clone();
    let eta = Rc::new(EtaReporter::begin());
    let observer_eta = Rc::clone(&eta);
    let (limit_ps, wanted) = (scenario.time_limit.0, scenario.messages);
    let outcome = scenario::run(&scenario, &args.set, seed, move |network| {
        if observer_logs.is_enabled() {
            network.observe(move |observation| observer_logs.record(observation));
        }
        network.on_progress(move |now_ps, settled| {
            let of_messages = wanted.map_or(0.0, |wanted| settled as f64 / wanted.max(1) as f64);
            let share = of_messages.max(now_ps as f64 / limit_ps.max(1) as f64);
            observer_eta.update(share, || {
                format!(
                    "{:.3} s simulated, {settled} messages settled",
                    now_ps as f64 / 1e12
                )
            });
        });
    });
    let outcome = outcome.map_err(CliError::usage)?;
    logs.finish()?;
    if args.json {
        print::json(&outcome)?;
    } else {
        print::line(outcome_text::text(&outcome))?;
        let wall = eta.elapsed().as_secs_f64();
        print::note(format_args!(
            "{} events in {wall:.2} s, {:.2} million per second",
            outcome.events,
            outcome.events as f64 / wall.max(1e-9) / 1e6
        ));
    }
    Ok(EXIT_OK)
}

fn diff(first: &Path, second: &Path, outline: bool) -> Result<u8, CliError> {
    // What ends a trace early; a trace that cannot be read is not equal to another.
    let failed: Rc<RefCell<Option<CliError>>> = Rc::default();
    let lines = |path: &Path| -> Result<_, CliError> {
        let file = File::open(path).map_err(|error| unreadable(path, &error))?;
        let mut lines = BoundedLines::new(file, LINE_OCTETS_MAX);
        let (failed, path) = (Rc::clone(&failed), path.to_owned());
        let lines = std::iter::from_fn(move || {
            let line = lines
                .next_line()
                .and_then(|line| line.map(to_text).transpose());
            line.unwrap_or_else(|error| {
                *failed.borrow_mut() = Some(unreadable(&path, &error));
                None
            })
        });
        Ok(lines.filter_map(move |line| match outline {
            true => scenario::trace::outline(&line),
            false => Some(line),
        }))
    };
    let difference = scenario::trace::difference(lines(first)?, lines(second)?);
    if let Some(error) = failed.take() {
        return Err(error);
    }
    let Some(difference) = difference else {
        print::line("the traces are equal")?;
        return Ok(EXIT_OK);
    };
    let unit = if outline { "event" } else { "line" };
    let shown = |line: Option<String>| line.unwrap_or_else(|| "(its end)".to_owned());
    print::line(format_args!(
        "the traces differ at {unit} {}\n  {}: {}\n  {}: {}",
        difference.line,
        first.display(),
        shown(difference.first),
        second.display(),
        shown(difference.second)
    ))?;
    Ok(crate::EXIT_FAILED)
}

/// A line of a trace without its end.
fn to_text(line: &[u8]) -> std::io::Result<String> {
    let text = String::from_utf8(line.strip_suffix(b"\n").unwrap_or(line).to_vec());
    text.map_err(|_| std::io::Error::new(std::io::ErrorKind::InvalidData, "it is not UTF-8 text"))
}

fn report(rows: &[PathBuf], html: &Path) -> Result<u8, CliError> {
    let texts = rows.iter().map(|path| read(path, ROWS_OCTETS_MAX));
    let texts = texts.collect::<Result<Vec<String>, CliError>>()?;
    write_page(&texts.join("\n"), html)?;
    Ok(EXIT_OK)
}

/// Writes the HTML page of rows.
fn write_page(rows: &str, html: &Path) -> Result<(), CliError> {
    let page = report::curves_html(&curves::page(rows)?);
    std::fs::write(html, page)
        .map_err(|error| CliError::failed(format!("cannot write {}: {error}", html.display())))?;
    print::note(format_args!("the curves are in {}", html.display()));
    Ok(())
}
