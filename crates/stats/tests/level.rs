//! Whole simulated races: rate of false verdicts, and power to detect a true difference.

mod common;

use common::{Noise, block, plan};
use results::{Plan, Trial, Verdict, VerdictKind};
use stats::mean::Mean;
use stats::{Judgement, is_look, judge_race};

/// Runs a race block by block, takes the planned interim looks, and stops when all is decided.
fn race(plan: &Plan, noise: &mut Noise, speed: impl Fn(&str, u64) -> f64) -> (u32, Judgement) {
    let mut trials: Vec<Trial> = Vec::new();
    for number in 1..=plan.blocks.max {
        trials.extend(block(plan, number, noise, &speed));
        if is_look(plan, number) {
            let judgement = judge_race(plan, &trials);
            if judgement.decided() || number == plan.blocks.max {
                return (number, judgement);
            }
        }
    }
    unreachable!("the last block is a look")
}

fn differs(verdict: &&Verdict) -> bool {
    matches!(verdict.kind, VerdictKind::Faster | VerdictKind::Slower)
}

/// Of 1000 races of equal transports: how many had a false verdict, and how many a false control.
fn false_races(noise: impl Fn(u64) -> Noise) -> (usize, usize) {
    let plan = plan(&["tcp", "udp", "pipe"]);
    let (mut false_verdicts, mut false_controls) = (0, 0);
    for seed in 0..1000 {
        let (_, judgement) = race(&plan, &mut noise(seed), |_, _| 1.0);
        let mut verdicts = judgement.verdicts.iter().chain(&judgement.overall);
        false_verdicts += usize::from(verdicts.any(|verdict| differs(&verdict)));
        false_controls += usize::from(judgement.control.iter().any(|verdict| differs(&verdict)));
    }
    (false_verdicts, false_controls)
}

/// 5 % of 1000, and two standard deviations of a count that is 50 in the mean.
const FALSE_MAX: usize = 50 + 14;

/// No more races than that have a false verdict, or a false control; how many had a verdict.
fn assert_few_false_races(noise: impl Fn(u64) -> Noise) -> usize {
    let (verdicts, controls) = false_races(noise);
    assert!(
        verdicts <= FALSE_MAX,
        "{verdicts} of 1000 races had a false verdict"
    );
    assert!(
        controls <= FALSE_MAX,
        "{controls} of 1000 races had a false control"
    );
    verdicts
}

#[test]
fn false_verdict_rate_with_slow_phases() {
    assert_few_false_races(Noise::usual);
}

#[test]
fn false_verdict_rate_with_plain_noise() {
    let verdicts = assert_few_false_races(Noise::calm);
    // The error rate is not far below its level, or the corrections would be too strict.
    assert!(verdicts >= 10, "only {verdicts}");
}

/// Of `races` races in which udp is faster by `gain` at every size: the share of cells, and of
/// overall verdicts, that detected it.
fn found(races: u64, gain: f64, noise: impl Fn(u64) -> Noise) -> (f64, f64) {
    let plan = plan(&["tcp", "udp", "pipe"]);
    let speed = |transport: &str, _| if transport == "udp" { gain } else { 1.0 };
    let (mut cells, mut overall) = (0, 0);
    let right = |verdicts: &[Verdict]| {
        let of_udp = verdicts
            .iter()
            .filter(|verdict| verdict.contestant == "udp");
        of_udp
            .filter(|verdict| verdict.kind == VerdictKind::Faster)
            .count()
    };
    for seed in 0..races {
        let (blocks, judgement) = race(&plan, &mut noise(10_000 + seed), speed);
        assert!(blocks <= 20);
        cells += right(&judgement.verdicts);
        overall += right(&judgement.overall);
    }
    let races = races as f64;
    (cells as f64 / (3.0 * races), overall as f64 / races)
}

#[test]
fn ten_percent_is_detected_in_plain_noise() {
    let (cells, overall) = found(200, 1.10, Noise::calm);
    assert!(cells >= 0.995, "in {cells} of the cells");
    assert!(overall >= 0.995, "in {overall} of the races");
}

#[test]
fn ten_percent_is_detected_with_slow_phases() {
    let (cells, overall) = found(200, 1.10, Noise::usual);
    assert!(cells >= 0.90, "in {cells} of the cells");
    assert!(overall >= 0.95, "in {overall} of the races");
}

#[test]
fn equal_transports_are_judged_equal_in_low_noise() {
    let plan = plan(&["tcp", "udp"]);
    let mut equal = 0;
    for seed in 0..100 {
        let mut noise = Noise {
            deviation: 0.01,
            ..Noise::calm(seed)
        };
        let (_, judgement) = race(&plan, &mut noise, |_, _| 1.0);
        let verdicts = judgement.verdicts.iter();
        equal += verdicts
            .filter(|verdict| verdict.kind == VerdictKind::Equal)
            .count();
    }
    assert!(equal >= 290, "{equal} of 300");
}

#[test]
fn optional_stopping_inflates_false_positives() {
    let false_at_some_block = |seed: &u64| {
        let mut noise = Noise::calm(*seed);
        let logs: Vec<f64> = (0..20)
            .map(|_| (noise.factor() / noise.factor()).ln())
            .collect();
        let significant = |n| Mean::of(&logs[..n]).is_some_and(|mean| mean.p_value() < 0.05);
        (3..=20).any(significant)
    };
    let wrong = (0..1000).filter(false_at_some_block).count();
    assert!(
        wrong > 150,
        "{wrong} of 1000; then looks need no correction"
    );
}
