//! Summaries of synthetic trials.

mod common;

use common::{Noise, block, plan, trial};
use random::SplitMix64;
use results::phrasing::sentence;
use results::{
    Cell, Histogram, Ledger, Plan, RunStatus, Series, Status, Summary, TURNS_SERIES, Trial,
    VerdictKind,
};
use stats::{judge_race, summarise};

fn complete(plan: &Plan, trials: &[Trial]) -> Summary {
    summarise(plan, trials, RunStatus::Complete, "", 12.5)
}

/// Speed of two transports with a crossover at 1000 B.
fn speed(transport: &str, size: u64) -> f64 {
    let size = size as f64;
    match transport {
        "udp" => 1000.0 / (400.0 + 0.7 * size),
        _ => 1000.0 / (1000.0 + 0.1 * size),
    }
}

fn five_blocks(plan: &Plan) -> Vec<Trial> {
    let mut noise = Noise {
        deviation: 0.002,
        ..Noise::calm(5)
    };
    (1..=5)
        .flat_map(|number| block(plan, number, &mut noise, speed))
        .collect()
}

#[test]
fn small_race_end_to_end() {
    let plan = plan(&["tcp", "udp"]);
    let mut trials = five_blocks(&plan);
    for trial in &mut trials {
        let wakeups = if trial.cell.transport() == "udp" {
            0.9
        } else {
            2.1
        };
        trial.evidence.insert("wakeups_per_message".into(), wakeups);
    }
    let summary = complete(&plan, &trials);

    assert_eq!((summary.blocks, summary.version), (5, 1));
    let order = summary.cells.iter().map(|cell| {
        (
            cell.cell.size().expect("a size"),
            cell.cell.transport(),
            cell.trials_ok,
        )
    });
    let pairs =
        [64, 1024, 16_384].map(|size| [(size, "tcp".to_owned(), 5), (size, "udp".to_owned(), 5)]);
    assert!(order.eq(pairs.concat()));

    let kinds: Vec<VerdictKind> = summary
        .verdicts
        .iter()
        .map(|verdict| verdict.kind)
        .collect();
    assert_eq!(
        kinds,
        [VerdictKind::Faster, VerdictKind::Equal, VerdictKind::Slower]
    );
    // The truth is 1006.4 / 444.8 = 2.26.
    let first = sentence(&summary.verdicts[0]);
    assert!(
        first.starts_with("at 64 B udp moves 2.") && first.contains("x the messages of tcp ("),
        "{first}"
    );
    assert!(
        first.ends_with("); because 0.9 wake-ups a message against 2.1"),
        "{first}"
    );
    // Fewer wake-ups explain no slowness.
    assert_eq!(summary.verdicts[2].because, "");
    let within =
        |verdict: &results::Verdict| verdict.low <= verdict.ratio && verdict.ratio <= verdict.high;
    assert!(summary.verdicts.iter().chain(&summary.control).all(within));

    assert_eq!(summary.overall.len(), 1);
    assert_eq!(summary.control.len(), 3);
    assert_eq!(summary.fits.len(), 2);
    let [crossover] = &summary.crossovers[..] else {
        panic!("one crossover: {:?}", summary.crossovers)
    };
    assert_eq!(
        (crossover.below.as_str(), crossover.above.as_str()),
        ("udp", "tcp")
    );
    assert!((900.0..1100.0).contains(&crossover.size), "{crossover:?}");
}

#[test]
fn alpha_is_shared_by_comparisons_of_look() {
    let plan = plan(&["tcp", "udp", "pipe"]);
    let mut noise = Noise::calm(1);
    let trials: Vec<Trial> = (1..=5)
        .flat_map(|n| block(&plan, n, &mut noise, |_, _| 1.0))
        .collect();
    let judgement = judge_race(&plan, &trials);
    // 6 cells and 2 overall at the first of three looks; none is rejected, so all are judged at the first level.
    let level = 0.05 / 4.0 / 8.0;
    let all = judgement.verdicts.iter().chain(&judgement.overall);
    assert!(
        all.clone()
            .all(|verdict| (verdict.alpha - level).abs() < 1e-12)
    );
    assert_eq!(all.count(), 8);
}

#[test]
fn pilots_and_invalid_trials_are_excluded() {
    let plan = plan(&["tcp", "udp"]);
    let mut trials = five_blocks(&plan);
    let clean = complete(&plan, &trials);
    trials.insert(0, trial(0, "tcp", "throughput", 64, 1.0));
    let mut bad = trial(5, "udp", "throughput", 64, 1.0);
    bad.status = Status::Invalid;
    bad.reason = "the generator fell behind".into();
    trials.push(bad);
    let summary = complete(&plan, &trials);
    assert_eq!(summary.verdicts, clean.verdicts);
    assert_eq!(
        (summary.cells[1].trials_ok, summary.cells[1].trials_bad),
        (5, 1)
    );
    assert_eq!(summary.cells[0], clean.cells[0]);
    assert_eq!(
        summary.warnings,
        ["1 of 16 trials of udp do not count: the generator fell behind"]
    );
}

#[test]
fn percentiles_are_merged_and_need_enough_samples() {
    let plan = plan(&["tcp", "udp"]);
    let mut random = SplitMix64::new(3);
    let mut trials = Vec::new();
    for number in 1..=4 {
        let mut histogram = results::new_histogram();
        for _ in 0..500 {
            histogram.saturating_record(10_000 + random.below(10_000));
        }
        let mut trial = trial(number, "tcp", "delay", 64, 15.0);
        let encoded = Histogram::encode(&histogram, "ns").expect("it encodes");
        trial.histograms.insert("delay".into(), encoded);
        trials.push(trial);
    }
    let summary = complete(&plan, &trials);
    let cell = &summary.cells[0];
    assert_eq!(cell.samples["delay"], 2000);
    let shown: Vec<&String> = cell.quantiles["delay"].keys().collect();
    assert_eq!(shown, ["0.5", "0.9", "0.99"]);
    assert!((cell.quantiles["delay"]["0.5"] - 15.0).abs() < 0.5, "in us");

    trials[0].histograms.insert(
        "delay".into(),
        Histogram {
            unit: "ns".into(),
            hdr_v2: "AAAA".into(),
        },
    );
    let summary = complete(&plan, &trials);
    assert_eq!(summary.cells[0].samples["delay"], 1500);
    assert_eq!(
        summary.warnings,
        ["1 histograms cannot be read or merged and are left out"]
    );
}

#[test]
fn lower_delay_is_faster() {
    let plan = Plan {
        workloads: vec!["delay".into()],
        sizes: vec![64],
        ..plan(&["tcp", "udp"])
    };
    let delay =
        |n: u32, name: &str, us: f64| trial(n, name, "delay", 64, us + f64::from(n % 3) * 0.01);
    let trials: Vec<Trial> = (1..=5)
        .flat_map(|n| [delay(n, "tcp", 10.0), delay(n, "udp", 8.1)])
        .collect();
    let summary = complete(&plan, &trials);
    assert_eq!(summary.verdicts[0].kind, VerdictKind::Faster);
    assert!(
        sentence(&summary.verdicts[0]).starts_with("at 64 B udp answers in 0.81x the time of tcp")
    );
    // With one cell the overall verdict is that of the cell and costs no level.
    assert_eq!(summary.overall[0].ratio, summary.verdicts[0].ratio);
    assert_eq!(summary.overall[0].contest, Cell::default());
    assert!((summary.verdicts[0].alpha - 0.05 / 4.0).abs() < 1e-12);
}

#[test]
fn factors_separate_contests() {
    let plan = plan(&["tcp", "udp"]);
    let trials: Vec<Trial> = five_blocks(&plan)
        .into_iter()
        .flat_map(|trial| {
            let with = |load: u64| Trial {
                cell: trial.cell.clone().with("host_load", load),
                ..trial.clone()
            };
            [with(0), with(2)]
        })
        .collect();
    let summary = complete(&plan, &trials);
    assert_eq!((summary.cells.len(), summary.verdicts.len()), (12, 6));
    assert_eq!(summary.fits.len(), 4);
    assert!(sentence(&summary.verdicts[3]).starts_with("at 64 B with host_load 2 udp moves"));
}

#[test]
fn summary_warns_of_disturbances() {
    let plan = plan(&["tcp", "udp"]);
    let mut trials = five_blocks(&plan);
    for trial in &mut trials {
        if trial.control {
            let rate = trial.metrics.values_mut().next().expect("a rate");
            *rate *= 1.2;
        }
        trial.disturbed.push(format!("steal {} %", trial.block));
    }
    trials[0].ledger = Some(Ledger {
        sent: 10,
        delivered: 9,
        ..Ledger::default()
    });
    trials[1].metrics.clear();
    let warnings = complete(&plan, &trials).warnings;
    let warns = |part: &str| warnings.iter().any(|warning| warning.contains(part));
    assert!(
        warns("45 of 45 trials were disturbed, most often: steal"),
        "{warnings:?}"
    );
    assert!(
        warns("the control differs: at 64 B tcp moves 1.2"),
        "{warnings:?}"
    );
    assert!(warns("x the messages of itself"), "{warnings:?}");
    assert!(
        warns("the ledger of 1 trials does not close, most often of tcp"),
        "{warnings:?}"
    );
    assert!(
        warns("at 64 B udp has no messages_per_s above 0 in 1 trials"),
        "{warnings:?}"
    );
}

#[test]
fn interrupted_run_keeps_finished_trials() {
    let plan = plan(&["tcp", "udp"]);
    let mut trials = five_blocks(&plan);
    trials.truncate(4 * 9 + 5);
    let summary = summarise(&plan, &trials, RunStatus::Interrupted, "Ctrl-C", 3.0);
    assert_eq!((summary.blocks, summary.reason.as_str()), (4, "Ctrl-C"));
    assert_eq!(summary.verdicts[0].pairs, 5);
    let nothing = summarise(&plan, &[], RunStatus::Failed, "no worker", 0.1);
    assert_eq!(nothing.blocks, 0);
    assert!(nothing.cells.is_empty() && nothing.verdicts.is_empty());
}

#[test]
fn extreme_values_give_valid_summary() {
    let plan = plan(&["tcp", "udp"]);
    let mut trials = five_blocks(&plan);
    for (index, value) in [0.0, -1.0, f64::MAX, f64::MIN_POSITIVE, 1e308]
        .iter()
        .enumerate()
    {
        trials[index]
            .metrics
            .insert("messages_per_s".into(), *value);
        trials[index + 9].metrics.insert("odd".into(), *value);
    }
    trials[3].block = u32::MAX;
    let summary = complete(&plan, &trials);
    let text = serde_json::to_string(&summary).expect("it encodes");
    // A number that is not finite would be written as null, which does not parse as a number.
    let read: Summary = serde_json::from_str(&text).expect("it decodes");
    assert_eq!(read.cells.len(), summary.cells.len());
}

#[test]
fn missing_baseline_gives_estimates_without_verdicts() {
    let plan = plan(&["tcp", "udp"]);
    let mut trials = five_blocks(&plan);
    trials.retain(|trial| trial.cell.transport() != "tcp");
    let summary = complete(&plan, &trials);
    assert_eq!(summary.cells.len(), 3);
    assert!(summary.verdicts.is_empty() && summary.overall.is_empty());
    assert!(judge_race(&plan, &trials).decided());
}

/// A trial of 10 turns, of which the first so many have a fifth of the rate.
fn trial_in_turns(block: u32, transport: &str, rate: f64, stalled: usize) -> Trial {
    let turn = |at: usize| if at < stalled { 0.2 * rate } else { rate };
    let values: Vec<f64> = (0..10).map(turn).collect();
    let sum = values.iter().sum::<f64>() / 10.0;
    let mut trial = trial(block, transport, "throughput", 64, sum);
    let series = Series {
        unit: "/s".into(),
        at_s: (1..=10).map(f64::from).collect(),
        values,
    };
    trial.series.insert(TURNS_SERIES.into(), series);
    trial
}

/// The warnings and the verdict of a race of ten blocks in turns, in which udp is as fast as tcp and each of them has stalled turns.
fn race_in_turns(tcp: usize, udp: usize) -> Summary {
    let mut trials = Vec::new();
    for block in 1..=10 {
        let noise = 1.0 + 0.002 * f64::from(block % 3);
        trials.push(trial_in_turns(block, "tcp", 1000.0, tcp));
        trials.push(trial_in_turns(block, "udp", 1000.0 * noise, udp));
    }
    summarise(
        &plan(&["tcp", "udp"]),
        &trials,
        RunStatus::Complete,
        "",
        1.0,
    )
}

#[test]
fn stalls_of_some_turns_do_not_move_the_ratio_and_are_said() {
    let summary = race_in_turns(0, 3);
    let verdict = &summary.verdicts[0];
    assert_eq!(verdict.kind, VerdictKind::Equal, "{verdict:?}");
    let stalled = |summary: &Summary| {
        let mut warnings = summary.warnings.iter();
        warnings.any(|text| text.contains("in a typical round") && text.contains("0.76"))
    };
    assert!(stalled(&summary), "{:?}", summary.warnings);
    // Where both stall alike, nothing is to be said.
    let summary = race_in_turns(3, 3);
    assert!(!stalled(&summary), "{:?}", summary.warnings);
}
