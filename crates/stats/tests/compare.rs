//! Comparison of two runs.

mod common;

use common::{Noise, block, plan};
use results::phrasing::sentence;
use results::{Trial, VerdictKind};
use stats::{only_in, worse_than};

fn compare(before: &[Trial], after: &[Trial], alpha: f64, equal: f64) -> Vec<results::Verdict> {
    stats::compare(&plan(&["tcp", "udp"]), before, after, alpha, equal)
}

fn run(seed: u64, speed: impl Fn(&str, u64) -> f64) -> Vec<Trial> {
    let plan = plan(&["tcp", "udp"]);
    let mut noise = Noise::calm(seed);
    let blocks = 1..=12;
    blocks
        .flat_map(|number| block(&plan, number, &mut noise, &speed))
        .collect()
}

#[test]
fn regression_is_found_in_its_cell_only() {
    let before = run(1, |_, _| 1.0);
    let slower = |name: &str, size| {
        if name == "udp" && size == 1024 {
            0.85
        } else {
            1.0
        }
    };
    let verdicts = compare(&before, &run(2, slower), 0.05, 0.03);
    assert_eq!(verdicts.len(), 6);
    let worse = worse_than(&verdicts, 0.03);
    assert_eq!(worse.len(), 1);
    assert_eq!(
        (worse[0].contestant.as_str(), worse[0].contest.size()),
        ("udp", Some(1024))
    );
    assert_eq!(worse[0].kind, VerdictKind::Slower);
    let text = sentence(worse[0]);
    assert!(
        text.starts_with("at 1 KiB udp moves 0.8") && text.contains("messages of udp before"),
        "{text}"
    );
    assert!(worse_than(&verdicts, 0.20).is_empty());
}

#[test]
fn equal_runs_differ_at_most_at_alpha() {
    let differing = (0..200).filter(|seed| {
        let verdicts = compare(
            &run(2 * seed, |_, _| 1.0),
            &run(2 * seed + 1, |_, _| 1.0),
            0.05,
            0.0,
        );
        verdicts
            .iter()
            .any(|verdict| verdict.kind != VerdictKind::NotEnoughData)
    });
    // 5 % of 200 and three standard deviations.
    let differing = differing.count();
    assert!(differing <= 19, "{differing} of 200");
}

#[test]
fn cells_of_single_run_are_skipped() {
    let mut after = run(4, |_, _| 1.0);
    after.retain(|trial| trial.cell.transport() == "tcp");
    let verdicts = compare(&run(3, |_, _| 1.0), &after, 0.05, 0.03);
    assert_eq!(verdicts.len(), 3);
    assert!(compare(&[], &after, 0.05, 0.03).is_empty());
    let plan = plan(&["tcp", "udp"]);
    let alone = only_in(&plan, &run(3, |_, _| 1.0), &after);
    let names: Vec<(String, Option<u64>)> = alone
        .iter()
        .map(|cell| (cell.transport(), cell.size()))
        .collect();
    let sizes = [64, 1024, 16_384];
    assert_eq!(names, sizes.map(|size| ("udp".to_owned(), Some(size))));
    assert!(only_in(&plan, &after, &run(3, |_, _| 1.0)).is_empty());
}

#[test]
fn higher_delay_is_worse() {
    let delays = |seed, us: f64| -> Vec<Trial> {
        let mut noise = Noise {
            deviation: 0.01,
            ..Noise::calm(seed)
        };
        let trial = |n| common::trial(n, "tcp", "delay", 64, us * noise.factor());
        (1..=8).map(trial).collect()
    };
    let verdicts = compare(&delays(1, 10.0), &delays(2, 11.0), 0.05, 0.03);
    assert_eq!(worse_than(&verdicts, 0.03).len(), 1);
    let verdicts = compare(&delays(1, 11.0), &delays(2, 10.0), 0.05, 0.03);
    assert!(worse_than(&verdicts, 0.03).is_empty());
    assert_eq!(verdicts[0].kind, VerdictKind::Faster);
}
