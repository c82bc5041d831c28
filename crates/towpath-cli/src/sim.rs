//! `towpath sim`: scenarios in virtual time.

mod curves;
pub mod eta;
mod outcome_text;
mod packet_logs;
mod sweeps;

use crate::print;
use crate::{CliError, EXIT_OK};
use clap::{Args, Subcommand};
use eta::EtaReporter;
use packet_logs::PacketLogs;
use scenario::Scenario;
use scenario::sweep;
use std::fs::File;
use std::io::{BufRead, BufReader};
use std::path::{Path, PathBuf};
use std::rc::Rc;

/// What to do with scenarios.
#[derive(Clone, Debug, Subcommand)]
pub enum SimCommand {
    /// Run a scenario once.
    #[command(after_help = "Examples:
  towpath sim run studies/scenarios/two-hosts.toml
  towpath sim run two-hosts.toml --seed 2 --trace two.trace --pcap two.pcapng
  towpath sim run two-hosts.toml --set messages=100 --json")]
    Run(RunArgs),
    /// Run a scenario at many points and seeds, a row of JSON for each.
    #[command(
        after_help = "Rows have keys made from the scenario, its changes and the seed: with --out, what is in the
file already is not run again, and files of several shards can simply be joined.

Examples:
  towpath sim sweep two-hosts.toml --points traffic.0.length.fixed=6,128,1024 --seeds 1..3
  towpath sim sweep two-hosts.toml --seeds 1..100 --out rows.jsonl
  towpath sim sweep two-hosts.toml --seeds 1..100 --out rows.jsonl --resume --html curves.html
  towpath sim sweep two-hosts.toml --seeds 1..100 --out part.jsonl --shard 2/4"
    )]
    Sweep(SweepArgs),
    /// Draw the rows of a sweep as curves: one HTML file.
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
    /// Say where two traces part.
    #[command(after_help = "Exit code 1 when they differ.

Examples:
  towpath sim diff before.trace after.trace
  towpath sim diff --outline live.trace simulated.trace")]
    Diff {
        /// Compare what happened at which station to packets of which length, and not the times and
        /// octets, which are never the same for live endpoints.
        #[arg(long)]
        outline: bool,
        /// A trace.
        first: PathBuf,
        /// Another.
        second: PathBuf,
    },
}

/// A scenario to run once.
#[derive(Clone, Debug, Args)]
pub struct RunArgs {
    /// The scenario.
    pub file: PathBuf,
    /// Another seed than the scenario's.
    #[arg(long)]
    pub seed: Option<u64>,
    /// Change a value of the scenario.
    #[arg(long, value_name = "KEY=VALUE")]
    pub set: Vec<String>,
    /// Write a line for everything that happens to a packet.
    #[arg(long, value_name = "FILE")]
    pub trace: Option<PathBuf>,
    /// Write the packets for Wireshark.
    #[arg(long, value_name = "FILE")]
    pub pcap: Option<PathBuf>,
    /// Print JSON.
    #[arg(long)]
    pub json: bool,
}

/// A scenario to run often.
#[derive(Clone, Debug, Args)]
pub struct SweepArgs {
    /// The scenario.
    pub file: PathBuf,
    /// Values a key takes: `traffic.0.length.fixed=6,128`. More than once: all combinations.
    #[arg(long, value_name = "KEY=V,V")]
    pub points: Vec<String>,
    /// Seeds: `1..10` or `1,5,9`; the scenario's unless given.
    #[arg(long)]
    pub seeds: Option<String>,
    /// Runs at the same time; as many as there are processors unless given.
    #[arg(long, value_parser = clap::value_parser!(u16).range(1..=1024))]
    pub jobs: Option<u16>,
    /// Part i of n: `2/4`.
    #[arg(long, value_name = "I/N")]
    pub shard: Option<String>,
    /// Add the rows to this file, and leave out those that are in it.
    #[arg(long, value_name = "FILE")]
    pub out: Option<PathBuf>,
    /// Go on with the file of --out, which must be there.
    #[arg(long, requires = "out")]
    pub resume: bool,
    /// Print a line of CSV for each run instead of JSON.
    #[arg(long, conflicts_with = "out")]
    pub csv: bool,
    /// Draw all rows, also those that were there before, as curves in an HTML file.
    #[arg(long, value_name = "FILE")]
    pub html: Option<PathBuf>,
}

/// Runs the command.
///
/// # Errors
///
/// What is wrong with the file or the options, in one line.
pub fn run(command: &SimCommand) -> Result<u8, CliError> {
    match command {
        SimCommand::Run(args) => run_once(args),
        SimCommand::Sweep(args) => sweeps::run_sweep(args),
        SimCommand::Report { rows, html } => report(rows, html),
        SimCommand::Diff {
            outline,
            first,
            second,
        } => diff(first, second, *outline),
    }
}

fn read(path: &Path) -> Result<String, CliError> {
    std::fs::read_to_string(path)
        .map_err(|error| CliError::usage(format!("cannot read {}: {error}", path.display())))
}

fn parse(path: &Path, changes: &[String]) -> Result<Scenario, CliError> {
    let text = read(path)?;
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
    let logs = PacketLogs::open(args.trace.as_deref(), args.pcap.as_deref())?;
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
            "{} events in {wall:.2} s, {:.2} million a second",
            outcome.events,
            outcome.events as f64 / wall.max(1e-9) / 1e6
        ));
    }
    Ok(EXIT_OK)
}

fn diff(first: &Path, second: &Path, outline: bool) -> Result<u8, CliError> {
    let lines = |path: &Path| -> Result<_, CliError> {
        let file = File::open(path)
            .map_err(|error| CliError::usage(format!("cannot read {}: {error}", path.display())))?;
        let lines = BufReader::new(file).lines().map_while(Result::ok);
        Ok(lines.filter_map(move |line| match outline {
            true => scenario::trace::outline(&line),
            false => Some(line),
        }))
    };
    let Some(difference) = scenario::trace::difference(lines(first)?, lines(second)?) else {
        print::line("the traces are equal")?;
        return Ok(EXIT_OK);
    };
    let unit = if outline { "event" } else { "line" };
    let shown = |line: Option<String>| line.unwrap_or_else(|| "(its end)".to_owned());
    print::line(format_args!(
        "they part at {unit} {}\n  {}: {}\n  {}: {}",
        difference.line,
        first.display(),
        shown(difference.first),
        second.display(),
        shown(difference.second)
    ))?;
    Ok(crate::EXIT_FAILED)
}

fn report(rows: &[PathBuf], html: &Path) -> Result<u8, CliError> {
    let texts = rows.iter().map(|path| read(path));
    let texts = texts.collect::<Result<Vec<String>, CliError>>()?;
    write_page(&texts.join("\n"), html)?;
    Ok(EXIT_OK)
}

/// Draws rows.
fn write_page(rows: &str, html: &Path) -> Result<(), CliError> {
    let page = report::curves_html(&curves::page(rows)?);
    std::fs::write(html, page)
        .map_err(|error| CliError::failed(format!("cannot write {}: {error}", html.display())))?;
    print::note(format_args!("the curves are in {}", html.display()));
    Ok(())
}
