//! Whether turns move a ratio: the same race in turns and back to back, in changing order.

use super::super::bar::{Bar, BenchTarget};
use super::super::trial_runner::TrialRunner;
use super::race_record::RaceRecord;
use super::race_result::{RaceResult, log_ratio};
use serde_json::Value;
use std::collections::BTreeMap;
use std::path::Path;

/// Contestants of a run without options, baseline first; `--all` takes all of this host.
const COMMON: &str = "tcp tcp-batched udp udp-batched unix-stream quic xtp bare";

/// Workload, measure and sizes of each race.
const WORKLOADS: [(&str, &str, &str); 2] = [
    ("throughput", "messages_per_s", "64,16KiB"),
    ("delay", "delay_p50_us", "64"),
];

/// Largest shift of a ratio that does not matter, per cent.
const SHIFT_MAX: f64 = 2.0;

/// Chance that any of the intervals misses its shift.
const LEVEL: f64 = 0.05;

/// What a ratio belongs to: `WORKLOAD SIZE CONTESTANT`.
type Name = String;

/// By how much turns move the ratios to tcp: the largest shift that is shown, with the widest interval.
pub fn moved(ours: &TrialRunner, races: usize, all: bool, record: &mut RaceRecord) -> Bar {
    let shifts = shifts(ours.program(), races, all, record);
    let (value, note) = match shifts.map(|found| intervals(&found)) {
        Ok(found) if found.is_empty() => (None, "--races needs to be 2 or more".to_owned()),
        Ok(found) => {
            let shown = found.iter().map(Interval::shown).fold(0.0, f64::max);
            (Some(shown), note(&found, races))
        }
        Err(error) => (None, error),
    };
    Bar {
        name: "verdict-moved".into(),
        value,
        unit: "%",
        target: BenchTarget::AtMost(SHIFT_MAX),
        note,
    }
}

/// The shifts of each log ratio, one of every pair of races.
fn shifts(
    program: &Path,
    races: usize,
    all: bool,
    record: &mut RaceRecord,
) -> Result<BTreeMap<Name, Vec<f64>>, String> {
    let mut shifts: BTreeMap<Name, Vec<f64>> = BTreeMap::new();
    for (workload, metric, sizes) in WORKLOADS {
        for pair in 0..races {
            let whose = if all { "all" } else { "common" };
            let name = format!("verdict-moved {whose} {workload} {}", pair + 1);
            let measure = || pair_of_races(program, (workload, metric, sizes), pair, all);
            let found = record.value(&name, || measure().map(Value::Object))?;
            for (name, shift) in found.as_object().into_iter().flatten() {
                let shift = shift.as_f64().ok_or(format!("no shift of {name}"))?;
                shifts.entry(name.clone()).or_default().push(shift);
            }
        }
    }
    Ok(shifts)
}

/// The shift of each log ratio between a race in turns and one back to back; which comes first alternates.
fn pair_of_races(
    program: &Path,
    (workload, metric, sizes): (&str, &str, &str),
    pair: usize,
    all: bool,
) -> Result<serde_json::Map<Name, Value>, String> {
    let mut ratios = [BTreeMap::new(), BTreeMap::new()];
    for way in [pair % 2, 1 - pair % 2] {
        let turns = ["auto", "off"][way];
        let race = race(program, (workload, sizes), turns, pair, all)?;
        ratios[way] = log_ratios(&race, workload, metric, turns == "auto");
    }
    let [turns, back_to_back] = ratios;
    let shift = |(name, log_ratio): (Name, f64)| {
        let other = back_to_back.get(&name)?;
        Some((name, Value::from(log_ratio - other)))
    };
    Ok(turns.into_iter().filter_map(shift).collect())
}

fn race(
    program: &Path,
    (workload, sizes): (&str, &str),
    turns: &str,
    pair: usize,
    all: bool,
) -> Result<RaceResult, String> {
    let seed = (pair + 1).to_string();
    let mut words = match all {
        true => vec!["--all", "--baseline", "tcp"],
        false => COMMON.split(' ').collect(),
    };
    words.extend(["-w", workload, "--sizes", sizes, "--turns", turns]);
    words.extend(["--no-control", "--trial", "200ms", "--blocks", "3"]);
    words.extend(["--seed", &seed]);
    RaceResult::of(program, &words)
}

/// Mean over the blocks of each contestant's log ratio to tcp. Trials that were not `in_turns` as asked for
/// are left out: a contestant that is too slow for turns sends its cell back to back.
fn log_ratios(
    race: &RaceResult,
    workload: &str,
    metric: &str,
    in_turns: bool,
) -> BTreeMap<Name, f64> {
    let mut blocks: BTreeMap<(u64, u64), BTreeMap<&str, &Value>> = BTreeMap::new();
    let ok = |trial: &&serde_json::Value| {
        trial["status"] == "ok" && trial["evidence"].get("turns").is_some() == in_turns
    };
    for trial in race.of_blocks().filter(ok) {
        let cell = &trial["cell"];
        let at = (trial["block"].as_u64(), cell["size"].as_u64());
        if let ((Some(block), Some(size)), Some(transport)) = (at, cell["transport"].as_str()) {
            let contest = blocks.entry((size, block)).or_default();
            contest.insert(transport, trial);
        }
    }
    let mut logs: BTreeMap<Name, Vec<f64>> = BTreeMap::new();
    for ((size, _), trials) in &blocks {
        let Some(baseline) = trials.get("tcp") else {
            continue;
        };
        for (transport, trial) in trials.iter().filter(|(name, _)| **name != "tcp") {
            let name = format!("{workload} {size} {transport}");
            logs.entry(name)
                .or_default()
                .extend(log_ratio(trial, baseline, metric));
        }
    }
    let mean = |values: Vec<f64>| values.iter().sum::<f64>() / values.len() as f64;
    logs.into_iter()
        .map(|(name, values)| (name, mean(values)))
        .collect()
}

/// A shift with its interval, per cent.
struct Interval {
    name: Name,
    shift: f64,
    half_width: f64,
}

impl Interval {
    /// How large the shift is at least.
    fn shown(&self) -> f64 {
        (self.shift.abs() - self.half_width).max(0.0)
    }

    /// How large it is at most.
    fn most(&self) -> f64 {
        self.shift.abs() + self.half_width
    }
}

/// Intervals that hold together at [`LEVEL`]; a ratio of one pair has none.
fn intervals(shifts: &BTreeMap<Name, Vec<f64>>) -> Vec<Interval> {
    let repeated: Vec<_> = shifts.iter().filter(|(_, logs)| logs.len() > 1).collect();
    let tail = LEVEL / (2.0 * repeated.len().max(1) as f64);
    let of = |(name, logs): (&Name, &Vec<f64>)| {
        let count = logs.len() as f64;
        let mean = logs.iter().sum::<f64>() / count;
        let quantile = stats::distribution::student_tail_quantile(tail, count - 1.0);
        let half = quantile * super::turns::deviation(logs) / count.sqrt();
        Interval {
            name: name.clone(),
            shift: 100.0 * mean.exp_m1(),
            half_width: 100.0 * half.exp_m1(),
        }
    };
    repeated.into_iter().map(of).collect()
}

/// What lies beyond the bound, what within, and how large the shifts are in the middle.
fn note(found: &[Interval], races: usize) -> String {
    let sizes: Vec<f64> = found.iter().map(|one| one.shift.abs()).collect();
    let within = found.iter().filter(|one| one.most() <= SHIFT_MAX).count();
    let mut note = format!(
        "{races} pairs of races; {within} of {} ratios are shown within {SHIFT_MAX} %, median shift {:.1} %",
        found.len(),
        stats::estimate::median(&sizes),
    );
    let mut largest: Vec<&Interval> = found.iter().collect();
    largest.sort_by(|one, other| other.shift.abs().total_cmp(&one.shift.abs()));
    let beyond = |one: &&&Interval| one.shown() > SHIFT_MAX;
    let mut named: Vec<&Interval> = largest.iter().filter(beyond).copied().collect();
    if named.is_empty() {
        named.extend(largest.first());
    }
    for one in named {
        let Interval {
            name,
            shift,
            half_width,
        } = one;
        note += &format!("; {name} {shift:+.1} % +- {half_width:.1}");
    }
    note
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    fn trial(block: u64, size: u64, transport: &str, rate: f64) -> Value {
        json!({
            "block": block, "status": "ok", "cell": { "transport": transport, "size": size },
            "metrics": { "messages_per_s": rate },
        })
    }

    #[test]
    fn ratios_are_to_tcp_of_the_same_block_and_size() {
        let race = RaceResult {
            summary: json!({}),
            trials: vec![
                trial(0, 64, "udp", 9.0),
                trial(1, 64, "tcp", 2.0),
                trial(1, 64, "udp", 1.0),
                trial(2, 64, "tcp", 8.0),
                trial(2, 64, "udp", 1.0),
                trial(2, 16384, "udp", 1.0),
            ],
            took_s: 1.0,
        };
        let found = log_ratios(&race, "throughput", "messages_per_s", true);
        assert!(found.is_empty(), "none took turns");
        let found = log_ratios(&race, "throughput", "messages_per_s", false);
        assert_eq!(found.len(), 1);
        assert!((found["throughput 64 udp"] + 2.0 * 2f64.ln()).abs() < 1e-12);
    }

    #[test]
    fn shift_is_shown_only_beyond_its_interval() {
        let steady = vec![0.1, 0.101, 0.099, 0.1];
        let noisy = vec![0.3, -0.2, 0.3, -0.2];
        let shifts = BTreeMap::from([
            ("a".to_owned(), steady),
            ("b".to_owned(), noisy),
            ("c".to_owned(), vec![0.5]),
        ]);
        let found = intervals(&shifts);
        assert_eq!(found.len(), 2, "one pair shows nothing");
        assert!(
            (10.0..10.5).contains(&found[0].shown()),
            "{}",
            found[0].shown()
        );
        assert_eq!(found[1].shown(), 0.0);
        let note = note(&found, 4);
        assert!(
            note.contains("0 of 2 ratios are shown within 2 %"),
            "{note}"
        );
        assert!(
            note.contains("; a +10.5 %") && !note.contains("; b"),
            "{note}"
        );
    }
}
