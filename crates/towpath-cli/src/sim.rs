//! `towpath sim`: scenarios in virtual time.

mod files;

use crate::print;
use crate::{CliError, DONE};
use clap::{Args, Subcommand};
use files::Watchers;
use scenario::sweep::{self, Axis};
use scenario::{Outcome, Scenario};
use std::collections::BTreeSet;
use std::fmt::Write as _;
use std::fs::{File, OpenOptions};
use std::io::{BufRead, BufReader, Write};
use std::path::{Path, PathBuf};
use std::sync::Mutex;
use std::time::{Duration, Instant};

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
  towpath sim sweep two-hosts.toml --seeds 1..100 --out part.jsonl --shard 2/4"
    )]
    Sweep(SweepArgs),
    /// Say where two traces part.
    #[command(after_help = "Exit code 1 when they differ.

Examples:
  towpath sim diff before.trace after.trace")]
    Diff {
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
    /// Print a line of CSV for each run instead of JSON.
    #[arg(long, conflicts_with = "out")]
    pub csv: bool,
}

/// Runs the command.
///
/// # Errors
///
/// What is wrong with the file or the options, in one line.
pub fn run(command: &SimCommand) -> Result<u8, CliError> {
    match command {
        SimCommand::Run(args) => run_once(args),
        SimCommand::Sweep(args) => run_sweep(args),
        SimCommand::Diff { first, second } => diff(first, second),
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
    sweep::changed(&text, changes).map_err(CliError::usage)
}

fn run_once(args: &RunArgs) -> Result<u8, CliError> {
    let scenario = parse(&args.file, &args.set)?;
    let seed = args.seed.unwrap_or(scenario.seed);
    let watchers = Watchers::open(args.trace.as_deref(), args.pcap.as_deref())?;
    let watching = watchers.clone();
    let began = Instant::now();
    let outcome = scenario::run(&scenario, &args.set, seed, |network| {
        if watching.any() {
            network.observe(move |observation| watching.see(observation));
        }
    });
    let outcome = outcome.map_err(CliError::usage)?;
    watchers.finish()?;
    if args.json {
        print::json(&outcome)?;
    } else {
        print::line(text(&outcome))?;
        let wall = began.elapsed().as_secs_f64();
        print::note(format_args!(
            "{} events in {wall:.2} s, {:.2} million a second",
            outcome.events,
            outcome.events as f64 / wall.max(1e-9) / 1e6
        ));
    }
    Ok(DONE)
}

fn text(outcome: &Outcome) -> String {
    let mut out = String::new();
    let total = &outcome.total;
    let _ = writeln!(
        out,
        "{}, seed {}: {} after {:.3} s\n{} messages produced, {} settled, {} received; \
         {:.0} user bytes/s",
        outcome.scenario,
        outcome.seed,
        ended(outcome.ending),
        outcome.elapsed_s,
        total.offered,
        total.settled,
        total.received,
        total.throughput_bps
    );
    if let Some(delay) = &total.delay {
        let shown = |value: Option<f64>| value.map_or("-".to_owned(), |v| format!("{v:.1}"));
        let _ = writeln!(
            out,
            "delay us: mean {:.1}, median {}, 90 % {}, 99 % {}, 99.9 % {}, largest {:.1}",
            delay.mean_us,
            shown(delay.p50_us),
            shown(delay.p90_us),
            shown(delay.p99_us),
            shown(delay.p999_us),
            delay.max_us
        );
    }
    if let Some(ether) = &outcome.ether {
        let _ = writeln!(
            out,
            "ether: {:.1} % frames, {:.1} % collisions; {} sent, {} collided, {} given up",
            ether.utilisation * 100.0,
            ether.collided * 100.0,
            ether.sent,
            ether.collisions,
            ether.dropped
        );
    }
    stations(&mut out, outcome);
    circuits(&mut out, outcome);
    out.trim_end().to_owned()
}

fn ended(ending: &str) -> &'static str {
    match ending {
        "complete" => "complete",
        "stuck" => "STUCK, messages are left and nothing will ever happen",
        _ => "the time was up",
    }
}

/// Stations and circuits shown; --json has all.
const SHOWN: usize = 12;

fn stations(out: &mut String, outcome: &Outcome) {
    out.push_str("\nstation  writer reader sender receiver   queue mean/max   packets   again\n");
    for (number, station) in outcome.stations.iter().take(SHOWN).enumerate() {
        let [writer, reader, sender, receiver] = station.busy.map(|share| share * 100.0);
        let _ = writeln!(
            out,
            "{number:>7} {writer:>6.1}% {reader:>5.1}% {sender:>5.1}% {receiver:>7.1}% {:>9.2} \
             {:>6} {:>9} {:>7}",
            station.controller_mean,
            station.controller_max,
            station.packets_built,
            station.retransmissions
        );
    }
    more(out, outcome.stations.len());
}

fn circuits(out: &mut String, outcome: &Outcome) {
    out.push_str("\ncircuit  to  messages     bytes/s   after warm-up        delay us\n");
    let receivers = outcome.circuits.iter().enumerate();
    let receivers: Vec<_> = receivers
        .flat_map(|(number, circuit)| circuit.receivers.iter().map(move |r| (number, r)))
        .collect();
    for (number, receiver) in receivers.iter().take(SHOWN) {
        let steady = match (receiver.steady_bps, receiver.steady_error_bps) {
            (Some(mean), Some(error)) => format!("{mean:.0} +- {error:.0}"),
            _ => receiver.settling.to_owned(),
        };
        let delay = receiver.delay.as_ref().map_or(0.0, |delay| delay.mean_us);
        let _ = write!(
            out,
            "{number:>7} {:>3} {:>9} {:>11.0} {steady:>20} {delay:>11.1}",
            receiver.station, receiver.messages, receiver.throughput_bps
        );
        if receiver.gaps + receiver.wrong_bytes > 0 {
            let _ = write!(
                out,
                "  {} gaps, {} wrong bytes",
                receiver.gaps, receiver.wrong_bytes
            );
        }
        out.push('\n');
    }
    more(out, receivers.len());
}

fn more(out: &mut String, count: usize) {
    if count > SHOWN {
        let _ = writeln!(out, "        and {} more; see --json", count - SHOWN);
    }
}

fn run_sweep(args: &SweepArgs) -> Result<u8, CliError> {
    let scenario = parse(&args.file, &[])?;
    let axes = args.points.iter().map(|text| axis(text));
    let axes = axes.collect::<Result<Vec<Axis>, CliError>>()?;
    let seeds = match &args.seeds {
        Some(text) => seeds(text)?,
        None => vec![scenario.seed],
    };
    let mut jobs = sweep::jobs(&read(&args.file)?, &axes, &seeds).map_err(CliError::usage)?;
    if let Some(text) = &args.shard {
        let (part, parts) = shard(text)?;
        let mut index = 0;
        jobs.retain(|_| {
            index += 1;
            (index - 1) % parts == part - 1
        });
    }
    let known = known(args.out.as_deref())?;
    let left = jobs.iter().filter(|job| !known.contains(&job.key)).count();
    let file = args.out.as_deref().map(append).transpose()?;
    let mut rows = Rows {
        file,
        csv: args.csv,
        done: 0,
        left,
        began: Instant::now(),
        said: Mutex::new(Instant::now()),
    };
    if args.csv {
        print::line(CSV_HEAD)?;
    }
    let threads = args.jobs.map_or_else(
        || std::thread::available_parallelism().map_or(1, usize::from),
        usize::from,
    );
    sweep::run_all(&jobs, &known, threads, |row| rows.take(&row)).map_err(CliError::failed)?;
    Ok(DONE)
}

/// Where rows go.
struct Rows {
    file: Option<File>,
    csv: bool,
    done: usize,
    left: usize,
    began: Instant,
    said: Mutex<Instant>,
}

const CSV_HEAD: &str = "changes,seed,ending,elapsed_s,offered,settled,received,throughput_bps,\
delay_mean_us,delay_p99_us,utilisation,collisions";

impl Rows {
    fn take(&mut self, row: &sweep::Row) -> Result<(), String> {
        let line = if self.csv {
            csv(&row.outcome)
        } else {
            serde_json::to_string(row).map_err(|error| error.to_string())?
        };
        match &mut self.file {
            Some(file) => writeln!(file, "{line}").map_err(|error| error.to_string())?,
            None => print::line(line).map_err(|error| error.message)?,
        }
        self.done += 1;
        if let Ok(mut said) = self.said.lock()
            && said.elapsed() > Duration::from_secs(5)
        {
            *said = Instant::now();
            let each = self.began.elapsed().as_secs_f64() / self.done as f64;
            let left = self.left - self.done;
            print::note(format_args!(
                "{} of {} runs, {:.0} s left",
                self.done,
                self.left,
                each * left as f64
            ));
        }
        Ok(())
    }
}

fn csv(outcome: &Outcome) -> String {
    let total = &outcome.total;
    let delay = total.delay.as_ref();
    let shown = |value: Option<f64>| value.map_or(String::new(), |value| format!("{value}"));
    let ether = outcome.ether.as_ref();
    format!(
        "\"{}\",{},{},{},{},{},{},{},{},{},{},{}",
        outcome.changes.join(" ").replace('"', "\"\""),
        outcome.seed,
        outcome.ending,
        outcome.elapsed_s,
        total.offered,
        total.settled,
        total.received,
        total.throughput_bps,
        shown(delay.map(|delay| delay.mean_us)),
        shown(delay.and_then(|delay| delay.p99_us)),
        shown(ether.map(|ether| ether.utilisation)),
        ether.map_or(String::new(), |ether| ether.collisions.to_string())
    )
}

fn axis(text: &str) -> Result<Axis, CliError> {
    let Some((key, values)) = text.split_once('=') else {
        return Err(CliError::usage(format!(
            "{text:?} names no values; use key=value,value"
        )));
    };
    Ok(Axis {
        key: key.trim().to_owned(),
        values: values.split(',').map(|v| v.trim().to_owned()).collect(),
    })
}

fn seeds(text: &str) -> Result<Vec<u64>, CliError> {
    let wrong = || CliError::usage(format!("{text:?} are no seeds; use 1..10 or 1,5,9"));
    if let Some((first, last)) = text.split_once("..") {
        let first: u64 = first.parse().map_err(|_| wrong())?;
        let last: u64 = last.trim_start_matches('=').parse().map_err(|_| wrong())?;
        if last < first || last - first >= 1_000_000 {
            return Err(wrong());
        }
        return Ok((first..=last).collect());
    }
    let numbers = text.split(',').map(|number| number.trim().parse());
    numbers.collect::<Result<_, _>>().map_err(|_| wrong())
}

fn shard(text: &str) -> Result<(usize, usize), CliError> {
    let parts = text.split_once('/');
    let numbers = parts.and_then(|(i, n)| Some((i.parse().ok()?, n.parse().ok()?)));
    numbers
        .filter(|(i, n): &(usize, usize)| (1..=*n).contains(i))
        .ok_or_else(|| CliError::usage(format!("{text:?} is no shard; use 1/4 to 4/4")))
}

/// Keys of the rows that are in a file already. A line cut off by an interruption has none.
fn known(path: Option<&Path>) -> Result<BTreeSet<String>, CliError> {
    let Some(path) = path.filter(|path| path.exists()) else {
        return Ok(BTreeSet::new());
    };
    let text = read(path)?;
    let key = |line: &str| {
        let row: serde_json::Value = serde_json::from_str(line).ok()?;
        Some(row.get("key")?.as_str()?.to_owned())
    };
    Ok(text.lines().filter_map(key).collect())
}

/// Opens a file to add rows; a line cut off is ended first.
fn append(path: &Path) -> Result<File, CliError> {
    let refuse = |error: std::io::Error| {
        CliError::failed(format!("cannot write {}: {error}", path.display()))
    };
    let cut = std::fs::read(path).is_ok_and(|old| old.last().is_some_and(|last| *last != b'\n'));
    let mut file = OpenOptions::new()
        .create(true)
        .append(true)
        .open(path)
        .map_err(refuse)?;
    if cut {
        writeln!(file).map_err(refuse)?;
    }
    Ok(file)
}

fn diff(first: &Path, second: &Path) -> Result<u8, CliError> {
    let lines = |path: &Path| -> Result<_, CliError> {
        let file = File::open(path)
            .map_err(|error| CliError::usage(format!("cannot read {}: {error}", path.display())))?;
        Ok(BufReader::new(file).lines().map_while(Result::ok))
    };
    let Some(parting) = scenario::trace::difference(lines(first)?, lines(second)?) else {
        print::line("the traces are equal")?;
        return Ok(DONE);
    };
    let shown = |line: Option<String>| line.unwrap_or_else(|| "(its end)".to_owned());
    print::line(format_args!(
        "they part at line {}\n  {}: {}\n  {}: {}",
        parting.line,
        first.display(),
        shown(parting.first),
        second.display(),
        shown(parting.second)
    ))?;
    Ok(crate::FAILED)
}
