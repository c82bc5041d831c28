//! Sweeps: one scenario at many points and seeds.

use super::elsewhere::{self, Elsewhere};
use super::eta::EtaReporter;
use super::{
    LINE_OCTETS_MAX, ROWS_OCTETS_MAX, SCENARIO_OCTETS_MAX, SweepArgs, parse, read, write_page,
};
use crate::print;
use crate::{CliError, EXIT_OK};
use results::bounded_file::{BoundedLines, open_regular};
use scenario::RunOutcome;
use scenario::sweep::{self, Axis, SweepJob};
use std::collections::BTreeSet;
use std::fs::{File, OpenOptions};
use std::io::Write;
use std::os::unix::fs::FileExt;
use std::path::Path;

/// Runs a sweep.
pub fn run_sweep(args: &SweepArgs) -> Result<u8, CliError> {
    let scenario = parse(&args.file, &[])?;
    let axes = args.points.iter().map(|text| axis(text));
    let axes = axes.collect::<Result<Vec<Axis>, CliError>>()?;
    let seeds = match &args.seeds {
        Some(text) => seeds(text)?,
        None => vec![scenario.seed],
    };
    let text = read(&args.file, SCENARIO_OCTETS_MAX)?;
    let mut jobs = sweep::jobs(&text, &axes, &seeds).map_err(CliError::usage)?;
    if let Some(text) = &args.shard {
        let (part, parts) = shard(text)?;
        let mut index = 0;
        jobs.retain(|_| {
            index += 1;
            (index - 1) % parts == part - 1
        });
    }
    if let Some(out) = args
        .out
        .as_deref()
        .filter(|out| args.resume && !out.exists())
    {
        return Err(CliError::usage(format!(
            "cannot resume: {} does not exist; omit --resume to start",
            out.display()
        )));
    }
    let known = finished_keys(args.out.as_deref())?;
    if let Some((path, build)) = args
        .out
        .as_deref()
        .and_then(|path| Some((path, other_build(path)?)))
    {
        return Err(CliError::usage(format!(
            "{} has rows of build {build}, and this is {}; give another --out",
            path.display(),
            sweep::BUILD
        )));
    }
    let left = jobs.iter().filter(|job| !known.contains(&job.key)).count();
    let out = args.out.as_deref();
    let file = out
        .map(|path| Ok::<_, CliError>((path, open_for_append(path)?)))
        .transpose()?;
    let mut rows = RowSink {
        file,
        csv: args.csv,
        page_rows: args.html.is_some().then(String::new),
        done: 0,
        total: left,
        eta: EtaReporter::begin(),
    };
    if args.csv {
        print::line(CSV_HEAD)?;
    }
    match place_of(args) {
        Some(place) => {
            let left = jobs.iter().filter(|job| !known.contains(&job.key));
            let left: Vec<&SweepJob> = left.collect();
            elsewhere::run_all(&place, &text, &left, |row| rows.write(row.to_owned()))?;
        }
        None => {
            let threads = threads(args);
            sweep::run_all(&jobs, &known, threads, |row| rows.write_row(&row))
                .map_err(CliError::failed)?;
        }
    }
    if let (Some(html), Some(kept)) = (&args.html, rows.page_rows) {
        let all = match &args.out {
            Some(path) => read(path, ROWS_OCTETS_MAX)?,
            None => kept,
        };
        write_page(&all, html)?;
    }
    Ok(EXIT_OK)
}

fn place_of(args: &SweepArgs) -> Option<Elsewhere> {
    let place = args.on.clone()?;
    let send = args.send;
    Some(Elsewhere { place, send })
}

fn threads(args: &SweepArgs) -> usize {
    args.jobs.map_or_else(
        || std::thread::available_parallelism().map_or(1, usize::from),
        usize::from,
    )
}

/// Checks the options of a sweep of the scenario `text` without running it.
/// Errors are those of [`run_sweep`] before its first run.
pub(crate) fn check_sweep(text: &str, args: &SweepArgs) -> Result<(), CliError> {
    let axes = args.points.iter().map(|text| axis(text));
    let axes = axes.collect::<Result<Vec<Axis>, CliError>>()?;
    let seeds = args.seeds.as_deref().map_or(Ok(vec![1]), seeds)?;
    args.shard.as_deref().map(shard).transpose()?;
    sweep::jobs(text, &axes, &seeds[..1]).map_err(CliError::usage)?;
    Ok(())
}

/// Writes rows to a file or standard output.
struct RowSink<'a> {
    file: Option<(&'a Path, File)>,
    csv: bool,
    /// Rows for the HTML page.
    page_rows: Option<String>,
    done: usize,
    total: usize,
    eta: EtaReporter,
}

const CSV_HEAD: &str = "changes,seed,ending,elapsed_s,offered,settled,received,throughput_bps,\
delay_mean_us,delay_p99_us,utilisation,collisions";

impl RowSink<'_> {
    fn write_row(&mut self, row: &sweep::Row) -> Result<(), String> {
        let json = serde_json::to_string(row).map_err(|error| error.to_string())?;
        self.keep(&json);
        self.write_line(if self.csv { csv(&row.outcome) } else { json })
    }

    /// Writes a row of JSON as it is.
    fn write(&mut self, json: String) -> Result<(), String> {
        self.keep(&json);
        self.write_line(json)
    }

    fn keep(&mut self, json: &str) {
        if let Some(kept) = &mut self.page_rows {
            kept.push_str(json);
            kept.push('\n');
        }
    }

    fn write_line(&mut self, line: String) -> Result<(), String> {
        match &mut self.file {
            Some((path, file)) => {
                writeln!(file, "{line}").map_err(|error| write_error(path, &error).message)?;
            }
            None => print::line(line).map_err(|error| error.message)?,
        }
        self.done += 1;
        let share = self.done as f64 / self.total.max(1) as f64;
        self.eta
            .update(share, || format!("{} of {} runs", self.done, self.total));
        Ok(())
    }
}

fn csv(outcome: &RunOutcome) -> String {
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
            "{text:?} has no values; use key=value,value"
        )));
    };
    let values = values.split(',').map(|value| axis_values(value.trim()));
    let values: Result<Vec<Vec<String>>, CliError> = values.collect();
    Ok(Axis {
        key: key.trim().to_owned(),
        values: values?.concat(),
    })
}

/// Most numbers of a range.
const RANGE_MAX: u64 = 100_000;

/// A value, or the numbers of a range `first..last`.
fn axis_values(text: &str) -> Result<Vec<String>, CliError> {
    let numbers = text.split_once("..").and_then(|(first, last)| {
        let last = last.trim_start_matches('=');
        Some((first.parse::<u64>().ok()?, last.parse::<u64>().ok()?))
    });
    let Some((first, last)) = numbers else {
        return Ok(vec![text.to_owned()]);
    };
    if last < first || last - first >= RANGE_MAX {
        return Err(CliError::usage(format!(
            "{text:?} is no range; use first..last, of up to {RANGE_MAX} numbers"
        )));
    }
    Ok((first..=last).map(|number| number.to_string()).collect())
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

/// Keys of the rows in a file. Truncated lines are skipped, and a device or a pipe has no rows.
fn finished_keys(path: Option<&Path>) -> Result<BTreeSet<String>, CliError> {
    let mut keys = BTreeSet::new();
    let Some(path) = path.filter(|path| path.is_file()) else {
        return Ok(keys);
    };
    let refuse = |error: std::io::Error| super::unreadable(path, &error);
    let file = open_regular(path).map_err(refuse)?;
    let mut lines = BoundedLines::new(file, LINE_OCTETS_MAX);
    while let Some(line) = lines.next_line().map_err(refuse)? {
        let row: Option<serde_json::Value> = serde_json::from_slice(line).ok();
        let key = row.as_ref().and_then(|row| row.get("key")?.as_str());
        keys.extend(key.map(str::to_owned));
    }
    Ok(keys)
}

/// The build of the first row in a file that is of another build than this one.
pub(crate) fn other_build(path: &Path) -> Option<String> {
    let file = open_regular(path).ok()?;
    let mut lines = BoundedLines::new(file, LINE_OCTETS_MAX);
    // A file that cannot be read further is refused where its keys are read.
    while let Ok(Some(line)) = lines.next_line() {
        let row: Option<serde_json::Value> = serde_json::from_slice(line).ok();
        let Some(row) = row.filter(|row| row.get("key").is_some()) else {
            continue;
        };
        let build = row.get("build").and_then(serde_json::Value::as_str);
        if build != Some(sweep::BUILD) {
            return Some(build.unwrap_or("unknown").to_owned());
        }
    }
    None
}

/// Opens a file for appending rows; a truncated last line is terminated first.
fn open_for_append(path: &Path) -> Result<File, CliError> {
    let refuse = |error: std::io::Error| write_error(path, &error);
    let cut = ends_within_line(path).map_err(refuse)?;
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

/// Whether the last octet of a file, if it has one, ends no line.
fn ends_within_line(path: &Path) -> std::io::Result<bool> {
    let len =
        std::fs::metadata(path).map_or(0, |about| if about.is_file() { about.len() } else { 0 });
    let Some(last) = len.checked_sub(1) else {
        return Ok(false);
    };
    let mut octet = [0];
    open_regular(path)?.read_exact_at(&mut octet, last)?;
    Ok(octet != *b"\n")
}

fn write_error(path: &Path, error: &std::io::Error) -> CliError {
    CliError::failed(format!("cannot write {}: {error}", path.display()))
}
