//! Verdicts on sweeps of offered loads.

mod common;

use common::Noise;
use results::phrasing::sentence;
use results::{Plan, RunStatus, Summary, Trial, Verdict, VerdictKind};
use stats::{compare, summarise};

const PERCENT: [u64; 4] = [10, 50, 100, 115];

fn plan() -> Plan {
    Plan {
        workloads: vec!["offered".into()],
        sizes: vec![64],
        ..common::plan(&["tcp", "udp"])
    }
}

/// A trial that is offered `offered_per_s` of a transport that can carry `capacity_per_s`.
fn trial(block: u32, transport: &str, capacity_per_s: f64, offered_per_s: f64) -> Trial {
    let delivered = offered_per_s.min(capacity_per_s);
    let mut trial = common::trial(block, transport, "offered", 64, delivered);
    trial.metrics.insert("offered_per_s".into(), offered_per_s);
    trial
}

/// A sweep in per cent of what a pilot took for the capacity, over `blocks` blocks.
fn sweep(
    transport: &str,
    capacity_per_s: f64,
    pilot_per_s: f64,
    seed: u64,
    control: bool,
) -> Vec<Trial> {
    let mut noise = Noise {
        deviation: 0.003,
        ..Noise::calm(seed)
    };
    let mut trials = Vec::new();
    for block in 1..=6 {
        for percent in PERCENT {
            let offered = pilot_per_s * percent as f64 / 100.0;
            let mut made = trial(block, transport, capacity_per_s * noise.factor(), offered);
            made.cell = made.cell.with("load_percent", percent);
            made.control = control;
            trials.push(made);
        }
    }
    trials
}

fn judged(trials: &[Trial]) -> Summary {
    summarise(&plan(), trials, RunStatus::Complete, "", 1.0)
}

fn only(verdicts: &[Verdict]) -> &Verdict {
    let [verdict] = verdicts else {
        panic!("one verdict: {verdicts:?}")
    };
    verdict
}

#[test]
fn equal_capacities_are_equal_whatever_the_pilots_found() {
    // Both carry 100 k/s; one pilot took it for 95 k/s, the other for 110 k/s.
    let mut trials = sweep("tcp", 1e5, 0.95e5, 1, false);
    trials.extend(sweep("tcp", 1e5, 0.95e5, 3, true));
    trials.extend(sweep("udp", 1e5, 1.1e5, 2, false));
    let summary = judged(&trials);
    let verdict = only(&summary.verdicts);
    assert_eq!(verdict.kind, VerdictKind::Equal, "{verdict:?}");
    assert_eq!(only(&summary.control).kind, VerdictKind::Equal);
    // One cell remains for each load, with its own rates.
    assert_eq!(summary.cells.len(), 2 * PERCENT.len());
}

#[test]
fn sweep_in_percent_has_one_verdict_on_its_peak() {
    let mut trials = sweep("tcp", 2.4e5, 2.4e5, 1, false);
    trials.extend(sweep("udp", 1.2e5, 1.2e5, 2, false));
    let summary = judged(&trials);
    let verdict = only(&summary.verdicts);
    assert_eq!(verdict.kind, VerdictKind::Slower);
    assert!((verdict.ratio - 0.5).abs() < 0.01, "{verdict:?}");
    assert!(
        (verdict.alpha - 0.05 / 4.0).abs() < 1e-12,
        "one question costs one level"
    );
    assert!(
        sentence(verdict).starts_with("at 64 B udp delivers at most 0.50x the messages of tcp ("),
        "{}",
        sentence(verdict)
    );
    assert_eq!(verdict.because, "");
}

#[test]
fn loads_that_the_sender_could_not_offer_show_the_peak() {
    let mut trials = sweep("tcp", 1e5, 1e5, 1, false);
    trials.extend(sweep("udp", 0.5e5, 0.5e5, 2, false));
    for trial in &mut trials {
        // A call takes all of the time: the loop offers what is delivered, and falls behind.
        if trial.cell.integer("load_percent") >= Some(100) {
            let delivered = trial.metrics["delivered_per_s"];
            trial.metrics.insert("offered_per_s".into(), delivered);
            trial.status = results::Status::Invalid;
            trial.reason = format!("{} {delivered:.0} of more", results::GENERATOR_LATE);
        }
    }
    let summary = judged(&trials);
    let verdict = only(&summary.verdicts);
    assert_eq!(verdict.kind, VerdictKind::Slower);
    assert!((verdict.ratio - 0.5).abs() < 0.01, "{verdict:?}");
    let blames_baseline = |warning: &String| warning.contains("the baseline");
    assert!(
        !summary.warnings.iter().any(blames_baseline),
        "{:?}",
        summary.warnings
    );
}

#[test]
fn sweep_below_capacity_has_no_verdict_and_a_warning() {
    let mut trials = sweep("tcp", 1e5, 1e5, 1, false);
    // Far below its capacity everything arrives.
    trials.extend(sweep("udp", 9e5, 1e5, 2, false));
    let summary = judged(&trials);
    assert!(summary.verdicts.is_empty(), "{:?}", summary.verdicts);
    let warned = summary.warnings.iter().any(|warning| {
        warning.contains("udp") && warning.contains("delivered its largest load whole")
    });
    assert!(warned, "{:?}", summary.warnings);
}

#[test]
fn equal_absolute_rates_are_compared_at_each_rate() {
    let mut trials = Vec::new();
    for block in 1..=6 {
        for rate in [10_000u64, 200_000] {
            for (name, capacity) in [("tcp", 1e5), ("udp", 0.5e5)] {
                let mut made = trial(block, name, capacity, rate as f64);
                made.cell = made.cell.with("rate_per_s", rate);
                trials.push(made);
            }
        }
    }
    let kinds: Vec<VerdictKind> = judged(&trials).verdicts.iter().map(|v| v.kind).collect();
    assert_eq!(kinds, [VerdictKind::Equal, VerdictKind::Slower]);
}

#[test]
fn two_runs_are_compared_by_peak_not_by_share() {
    let before = sweep("tcp", 1e5, 0.95e5, 1, false);
    let after = sweep("tcp", 1e5, 1.1e5, 2, false);
    let verdicts = compare(&plan(), &before, &after, 0.05, 0.03);
    assert_eq!(only(&verdicts).kind, VerdictKind::Equal, "{verdicts:?}");
    assert_eq!(verdicts[0].metric, "peak_per_s");
}
