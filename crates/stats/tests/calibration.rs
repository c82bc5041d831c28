//! A machine is calibrated by races of a contestant against itself: their rate of false verdicts, and what
//! shows in which time.

mod common;

use common::{Noise, plan, trial};
use results::{Machine, Plan, RunData, SCHEMA_VERSION, Trial};
use stats::calibration::{BLOCKS, Calibration, calibrate};

/// A run of tcp against itself, of so many blocks and seconds.
fn run(blocks: u32, elapsed_s: f64, mut value: impl FnMut(u32, usize) -> f64) -> RunData {
    let plan = Plan {
        control: false,
        ..plan(&["tcp", "tcp#2"])
    };
    let mut trials: Vec<Trial> = Vec::new();
    for block in 1..=blocks {
        for (at, name) in ["tcp", "tcp#2"].into_iter().enumerate() {
            trials.push(trial(block, name, "throughput", 64, value(block, at)));
        }
    }
    let complete = results::RunStatus::Complete;
    let summary = stats::summarise(&plan, &trials, complete, "", elapsed_s);
    RunData {
        path: "calibration".into(),
        plan,
        machine: Machine {
            version: SCHEMA_VERSION,
            facts: Vec::new(),
            findings: Vec::new(),
        },
        trials,
        summary: Some(summary),
    }
}

fn only(run: &RunData) -> Calibration {
    let mut all = calibrate(run);
    assert_eq!(all.len(), 1);
    all.remove(0)
}

#[test]
fn equal_contestants_in_calm_noise_keep_the_level_and_show_less_the_longer() {
    let mut noise = Noise::calm(7);
    let found = only(&run(2000, 1000.0, |_, _| 1e6 * noise.factor()));
    assert_eq!(found.races, 2000 / BLOCKS);
    assert!(found.rate.0 <= 0.05, "{found:?}");
    assert!(
        f64::from(found.wrong) <= 0.1 * f64::from(found.races),
        "{found:?}"
    );
    assert!(
        found.rate.0 <= found.rate.1 && found.rate.1 < 0.15,
        "{found:?}"
    );
    // 3 % noise of each, 2 blocks a second: 20 blocks in 10 s, 120 in a minute.
    let [ten, minute, long] = found.smallest.map(|share| share.expect("there is time"));
    assert!(ten > minute && minute > long, "{found:?}");
    assert!((0.02..0.06).contains(&ten), "{ten}");
    assert!((0.007..0.015).contains(&minute), "{minute}");
}

/// The second one of each block is slower: an order that a schedule failed to draw at random, say.
#[test]
fn machine_that_prefers_one_of_two_equals_has_every_verdict_wrong() {
    let mut noise = Noise::calm(3);
    let found = only(&run(200, 100.0, |_, at| {
        noise.factor() * if at == 0 { 1.0 } else { 0.5 }
    }));
    assert_eq!((found.races, found.wrong), (20, 20));
    assert!(found.rate.0 > 0.8 && found.rate.1 > 0.999, "{found:?}");
}

#[test]
fn run_too_short_for_a_race_has_no_calibration_and_too_short_times_no_difference() {
    let mut noise = Noise::calm(1);
    assert_eq!(calibrate(&run(9, 9.0, |_, _| noise.factor())), []);
    let slow = only(&run(10, 100.0, |_, _| noise.factor()));
    assert_eq!(slow.races, 1);
    assert_eq!(slow.smallest[0], None, "a block takes 10 s");
    assert!(slow.smallest[1].is_some());
}
