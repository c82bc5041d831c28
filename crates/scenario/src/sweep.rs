//! One scenario with many values and seeds, on many threads; rows have keys, so that an interrupted
//! sweep can be resumed and shards merged.

use crate::file::Scenario;
use crate::trace::{HASH_START, hash};
use crate::{RunOutcome, format_error, parse, run};
use serde::Serialize;
use std::collections::BTreeSet;
use std::sync::Mutex;
use std::sync::atomic::{AtomicUsize, Ordering};

/// A key and its values.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Axis {
    /// Path of the value: names and, in lists, indices, joined by dots: `traffic.0.messages`.
    pub key: String,
    /// TOML values as text; words need no quotes.
    pub values: Vec<String>,
}

/// A run of a sweep.
#[derive(Clone, Debug)]
pub struct SweepJob {
    /// Values changed, `key=value`.
    pub changes: Vec<String>,
    /// The scenario with these values.
    pub scenario: Scenario,
    /// The seed.
    pub seed: u64,
    /// A hash of the scenario's text, the changes, the seed and [`BUILD`].
    pub key: String,
}

/// A row with its key.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct Row {
    /// As in [`SweepJob`].
    pub key: String,
    /// As in [`BUILD`].
    pub build: &'static str,
    /// The result of the run.
    #[serde(flatten)]
    pub outcome: RunOutcome,
}

/// The build of the simulator: its version, and a hash of the sources of every crate of this workspace that a
/// run goes through. After a change to an engine, rows of before are of another build.
pub const BUILD: &str = concat!(env!("CARGO_PKG_VERSION"), "-", env!("SIMULATOR_SOURCES"));

/// Runs of a sweep at most.
const JOBS_MAX: usize = 1_000_000;

/// Every combination of the axes' values with every seed, in order.
///
/// # Errors
///
/// A key that names nothing, or an invalid value.
pub fn jobs(text: &str, axes: &[Axis], seeds: &[u64]) -> Result<Vec<SweepJob>, String> {
    parse(text)?;
    let combinations = axes.iter().map(|axis| axis.values.len().max(1));
    let count = combinations
        .chain([seeds.len()])
        .try_fold(1usize, |product, n| product.checked_mul(n));
    if count.is_none_or(|count| count > JOBS_MAX) {
        return Err(format!("more than {JOBS_MAX} runs; split the sweep"));
    }
    let mut points: Vec<Vec<String>> = vec![Vec::new()];
    for axis in axes {
        let longer = points.iter().flat_map(|point| {
            axis.values.iter().map(|value| {
                let mut point = point.clone();
                point.push(format!("{}={value}", axis.key));
                point
            })
        });
        points = longer.collect();
    }
    let mut jobs = Vec::new();
    for changes in points {
        let scenario = apply_changes(text, &changes)?;
        for &seed in seeds {
            jobs.push(SweepJob {
                key: job_key(text, &changes, seed),
                changes: changes.clone(),
                scenario: scenario.clone(),
                seed,
            });
        }
    }
    Ok(jobs)
}

fn job_key(text: &str, changes: &[String], seed: u64) -> String {
    let parts = [text, &changes.join("\n"), BUILD];
    let whole = parts.iter().fold(HASH_START, |sum, part| {
        hash(hash(sum, part.as_bytes()), &[0])
    });
    format!("{:016x}", hash(whole, &seed.to_be_bytes()))
}

/// The scenario with some values replaced. Errors are those of [`jobs`].
pub fn apply_changes(text: &str, changes: &[String]) -> Result<Scenario, String> {
    let mut table: toml::Value = toml::from_str(text).map_err(|error| {
        let span = error.span().unwrap_or(0..0);
        format_error(text, &(span, error.message().to_owned()))
    })?;
    for change in changes {
        let Some((key, value)) = change.split_once('=') else {
            return Err(format!("{change:?} changes nothing; use key=value"));
        };
        set_value(&mut table, key, parse_value(value))?;
    }
    let text = toml::to_string(&table).map_err(|error| error.to_string())?;
    parse(&text).map_err(|error| {
        let message = error.splitn(3, ':').nth(2).unwrap_or(&error).trim();
        format!("with {}: {message}", changes.join(", "))
    })
}

/// Sets the value at `key`. The last name may be new: options not written have defaults.
fn set_value(table: &mut toml::Value, key: &str, value: toml::Value) -> Result<(), String> {
    let no_such_key = |part: &str| {
        format!("{key} names no value at {part:?}; use names and numbers as in traffic.0.length")
    };
    let (parents, last) = key.rsplit_once('.').unwrap_or(("", key));
    let mut at = table;
    for part in parents.split('.').filter(|part| !part.is_empty()) {
        at = match at {
            toml::Value::Array(list) => part.parse().ok().and_then(|i: usize| list.get_mut(i)),
            toml::Value::Table(table) => table.get_mut(part),
            _ => None,
        }
        .ok_or_else(|| no_such_key(part))?;
    }
    match at {
        toml::Value::Table(table) => {
            table.insert(last.to_owned(), value);
            Ok(())
        }
        toml::Value::Array(list) => {
            let index = last.parse().ok();
            let slot = index.and_then(|index: usize| list.get_mut(index));
            *slot.ok_or_else(|| no_such_key(last))? = value;
            Ok(())
        }
        _ => Err(no_such_key(last)),
    }
}

/// Parses a TOML value; any other text is a string.
fn parse_value(text: &str) -> toml::Value {
    let line = format!("value = {text}");
    let parsed: Result<toml::Table, _> = toml::from_str(&line);
    let value = parsed.ok().and_then(|mut table| table.remove("value"));
    value.unwrap_or_else(|| toml::Value::String(text.to_owned()))
}

/// Runs the jobs whose keys are not in `known`, on `threads` threads, and passes each row to
/// `write`. The order is arbitrary; a row's contents depend on its job alone.
///
/// # Errors
///
/// The first error of `write` or of a run; no further runs are started.
pub fn run_all(
    jobs: &[SweepJob],
    known: &BTreeSet<String>,
    threads: usize,
    write: impl FnMut(Row) -> Result<(), String> + Send,
) -> Result<(), String> {
    let next = AtomicUsize::new(0);
    let state = Mutex::new((write, Ok(())));
    std::thread::scope(|scope| {
        for _ in 0..threads.max(1) {
            scope.spawn(|| {
                while let Some(job) = jobs.get(next.fetch_add(1, Ordering::Relaxed)) {
                    if known.contains(&job.key) {
                        continue;
                    }
                    let row = run(&job.scenario, &job.changes, job.seed, |_| {});
                    let row = row.map(|outcome| Row {
                        key: job.key.clone(),
                        build: BUILD,
                        outcome,
                    });
                    let Ok(mut state) = state.lock() else {
                        return;
                    };
                    let (write, result) = &mut *state;
                    if result.is_ok() {
                        *result = row.and_then(&mut *write);
                    }
                    if result.is_err() {
                        return;
                    }
                }
            });
        }
    });
    state
        .into_inner()
        .map_or_else(|_| Err("a run failed".to_owned()), |(_, result)| result)
}
