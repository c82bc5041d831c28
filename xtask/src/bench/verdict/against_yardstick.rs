//! How much a race of tcp against itself scatters on this machine, beside a yardstick that does the same in 30 lines of C.
//!
//! The targets of the other lines were set on a machine on which the yardstick's 12 starts of 2 s had a standard error of 0.25 %.

use super::super::bar::Bar;
use super::super::trial_runner::TrialRunner;
use super::super::yardstick::Yardstick;
use super::at_most;
use super::turns::{deviation, log_ratios_of};
use std::path::Path;

/// Fresh starts of each, in two parts: the yardstick begins the first, the race the second.
const STARTS: usize = 24;

/// Counted time of a start, seconds: half of it for each contestant.
const START_S: f64 = 1.0;

/// Standard error of our control in parts of the yardstick's, for the same number of starts and the same time.
pub fn bar(ours: &TrialRunner) -> Bar {
    let (value, note) = match measure(ours.program()) {
        Ok([race, yardstick]) => {
            let error = |values: &[f64]| 100.0 * deviation(values) / (STARTS as f64).sqrt();
            let (race, yardstick) = (error(&race), error(&yardstick));
            let note = format!(
                "standard error {race:.2} % after {STARTS} starts of {START_S} s, the yardstick's {yardstick:.2} %"
            );
            (Some(race / yardstick), note)
        }
        Err(why) => (None, why),
    };
    Bar {
        name: "verdict-yardstick".into(),
        value,
        unit: "x",
        target: at_most(1.5, 1.0),
        note,
    }
}

/// Log ratios of each start: the race's, the yardstick's.
fn measure(program: &Path) -> Result<[Vec<f64>; 2], String> {
    let yardstick = Yardstick::build("turn")?;
    let mut found = [Vec::new(), Vec::new()];
    for part in 0..2 {
        for whose in [1 - part, part] {
            let more = match whose {
                0 => race(program, part)?,
                _ => starts(&yardstick)?,
            };
            found[whose].extend(more);
        }
    }
    Ok(found)
}

fn race(program: &Path, part: usize) -> Result<Vec<f64>, String> {
    let trial = format!("{}ms", 500.0 * START_S);
    let blocks = (STARTS / 2).to_string();
    log_ratios_of(
        program,
        "throughput",
        "messages_per_s",
        (&trial, &blocks),
        part,
    )
}

fn starts(yardstick: &Yardstick) -> Result<Vec<f64>, String> {
    let seconds = START_S.to_string();
    let start = |_| yardstick.run(&[&seconds, "20", "2"], "mean");
    (0..STARTS / 2).map(start).collect()
}
