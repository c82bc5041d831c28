//! What turns gain and cost, in races of tcp against itself at 64 B.

use super::super::bar::Bar;
use super::super::trial_runner::TrialRunner;
use super::at_most;
use super::race_result::{RaceResult, log_ratio};
use serde_json::Value;
use std::collections::BTreeMap;
use std::path::Path;

/// Bar, workload and measure of each comparison.
pub const WORKLOADS: [(&str, &str, &str); 2] = [
    ("verdict-scatter", "throughput", "messages_per_s"),
    ("verdict-scatter-delay", "delay", "delay_p50_us"),
];

/// Pairs of races, one in turns and one back to back, in changing order.
const PAIRS: usize = 2;

/// Blocks of such a race.
const BLOCKS: &str = "20";

/// The deviation of a block's log ratio in turns, in parts of that back to back.
pub fn scatter(ours: &TrialRunner, name: &str, workload: &str, metric: &str) -> Bar {
    let mut bar = Bar {
        name: name.into(),
        value: None,
        unit: "x",
        target: at_most(0.5, 0.25),
        note: String::new(),
    };
    match deviations(ours.program(), workload, metric) {
        Ok([on, off]) => {
            bar.value = Some(on / off);
            bar.note = format!(
                "log ratios of {workload} deviate by {:.2} % in turns and {:.2} % back to back, {} \
                 blocks of trials of 200 ms each",
                100.0 * on,
                100.0 * off,
                PAIRS * 20
            );
        }
        Err(error) => bar.note = error,
    }
    bar
}

/// Deviations in turns and back to back.
fn deviations(program: &Path, workload: &str, metric: &str) -> Result<[f64; 2], String> {
    let mut squares = [0.0; 2];
    for pair in 0..PAIRS {
        for way in [pair % 2, 1 - pair % 2] {
            let turns = ["on", "off"][way];
            let race = race(program, workload, turns, ("200ms", BLOCKS), pair)?;
            squares[way] += deviation(&log_ratios(&race.trials, metric)).powi(2);
        }
    }
    Ok(squares.map(|sum| (sum / PAIRS as f64).sqrt()))
}

/// Counted time of each trial of which the cost is measured.
const COST_TRIAL: (&str, f64) = ("1s", 1.0);

/// Share of the time of a race's blocks that is not measured: the parts of turns that do not count, and
/// the start of the processes.
pub fn cost(ours: &mut TrialRunner) -> Bar {
    let race = race(ours.program(), "throughput", "on", (COST_TRIAL.0, "5"), 0);
    let share = race.and_then(|race| unmeasured(&race).ok_or_else(|| "no trials".to_owned()));
    let (value, note) = match share {
        Ok(share) => (
            Some(share),
            "5 blocks of two contestants with trials of 1 s, with the start of their processes"
                .to_owned(),
        ),
        Err(error) => (None, error),
    };
    Bar {
        name: "verdict-turn-cost".into(),
        value,
        unit: "of the time",
        target: at_most(0.25, 0.1),
        note,
    }
}

/// The log ratio of each block of a race of tcp against itself in turns.
pub(super) fn log_ratios_of(
    program: &Path,
    workload: &str,
    metric: &str,
    (trial, blocks): (&str, &str),
    seed: usize,
) -> Result<Vec<f64>, String> {
    let race = race(program, workload, "on", (trial, blocks), seed)?;
    Ok(log_ratios(&race.trials, metric))
}

fn race(
    program: &Path,
    workload: &str,
    turns: &str,
    (trial, blocks): (&str, &str),
    seed: usize,
) -> Result<RaceResult, String> {
    let seed = (seed + 1).to_string();
    let words = [
        "tcp",
        "tcp",
        "-w",
        workload,
        "--sizes",
        "64",
        "--no-control",
        "--turns",
        turns,
        "--trial",
        trial,
        "--blocks",
        blocks,
        "--seed",
        &seed,
    ];
    RaceResult::of(program, &words)
}

fn unmeasured(race: &RaceResult) -> Option<f64> {
    let first_s = race.trials.first()?["started_s"].as_f64()?;
    let end_s = first_s + race.summary["elapsed_s"].as_f64()?;
    let started = race
        .of_blocks()
        .filter_map(|trial| trial["started_s"].as_f64());
    let begin_s = started.fold(f64::INFINITY, f64::min);
    // The span of a trial in turns has the parts of its turns that do not count.
    let measured_s = race.of_blocks().count() as f64 * COST_TRIAL.1;
    (end_s > begin_s).then(|| 1.0 - measured_s / (end_s - begin_s))
}

/// The log ratio of the two contestants in each block that both have.
fn log_ratios(trials: &[Value], metric: &str) -> Vec<f64> {
    let mut blocks: BTreeMap<u64, [Option<&Value>; 2]> = BTreeMap::new();
    for trial in trials.iter().filter(|trial| trial["status"] == "ok") {
        let block = trial["block"].as_u64().unwrap_or(0);
        let at = usize::from(trial["cell"]["transport"] != "tcp");
        if block > 0 {
            blocks.entry(block).or_default()[at] = Some(trial);
        }
    }
    let ratio = |trials: &[Option<&Value>; 2]| log_ratio(trials[1]?, trials[0]?, metric);
    blocks.values().filter_map(ratio).collect()
}

/// Sample standard deviation; not a number for fewer than two values.
pub(super) fn deviation(values: &[f64]) -> f64 {
    let count = values.len() as f64;
    let mean = values.iter().sum::<f64>() / count;
    let squares: f64 = values.iter().map(|value| (value - mean).powi(2)).sum();
    (squares / (count - 1.0)).sqrt()
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    fn trial(block: u64, transport: &str, rate: f64, status: &str) -> Value {
        json!({
            "block": block, "status": status, "cell": { "transport": transport },
            "metrics": { "messages_per_s": rate }, "started_s": 100.0 + block as f64, "span_s": 0.4,
        })
    }

    #[test]
    fn blocks_with_both_contestants_have_a_log_ratio() {
        let trials = [
            trial(0, "tcp", 9.0, "ok"),
            trial(1, "tcp", 2.0, "ok"),
            trial(1, "tcp#2", 1.0, "ok"),
            trial(2, "tcp", 1.0, "ok"),
            trial(2, "tcp#2", 1.0, "failed"),
        ];
        let ratios = log_ratios(&trials, "messages_per_s");
        assert_eq!(ratios.len(), 1);
        assert!((ratios[0] + 2f64.ln()).abs() < 1e-12);
        assert!((deviation(&[1.0, 3.0]) - 2f64.sqrt()).abs() < 1e-12);
    }

    #[test]
    fn time_that_is_not_measured_runs_from_the_first_block() {
        let race = RaceResult {
            summary: json!({ "elapsed_s": 3.5 }),
            trials: vec![
                trial(0, "tcp", 1.0, "ok"),
                trial(1, "tcp", 1.0, "ok"),
                trial(1, "tcp#2", 1.0, "ok"),
            ],
            took_s: 2.1,
        };
        let share = unmeasured(&race).expect("trials");
        assert!((share - 0.2).abs() < 1e-9, "{share}");
        assert_eq!(race.of_blocks().count(), 2, "the pilot does not count");
    }
}
