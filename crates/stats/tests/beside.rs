//! Circuits beside others against one of their transport alone, on made-up trials with known answers.

mod common;

use common::{plan, trial};
use results::phrasing::beside_sentence;
use results::{RunStatus, Summary, Trial, VerdictKind};
use stats::summarise;

/// What one contestant has of the metric of a workload: of itself, and of its circuits.
type Made<'a> = (&'a str, f64, &'a [(&'a str, f64)]);

/// Six blocks of these contestants, whose values all rise by 1 % a block.
fn blocks(workload: &str, circuits: u64, made: &[Made]) -> Vec<Trial> {
    let metric = results::metric::primary(workload);
    let mut trials = Vec::new();
    for block in 1..=6 {
        let moment = 1.0 + f64::from(block) * 0.01;
        for &(transport, whole, legs) in made {
            let mut one = trial(block, transport, workload, 64, whole * moment);
            for (leg, value) in legs {
                // A thousandth of scatter, or there would be no variance to judge by.
                let scatter = 1.0 + f64::from(block % 3) * 0.001;
                one.metrics
                    .insert(format!("{metric}.{leg}"), value * moment * scatter);
            }
            if circuits > 1 {
                one.cell = one.cell.with("circuits", circuits);
            }
            trials.push(one);
        }
    }
    trials
}

fn judged(transports: &[&str], trials: &[Trial]) -> Summary {
    summarise(&plan(transports), trials, RunStatus::Complete, "", 1.0)
}

/// Metric and contestant, what was found, and the ratio in hundredths.
fn found(summary: &Summary) -> Vec<(String, String, VerdictKind, i64)> {
    let one = |verdict: &results::Verdict| {
        let of = format!("{} against {}", verdict.contestant, verdict.baseline);
        let hundredths = (verdict.ratio * 100.0).round() as i64;
        (verdict.metric.clone(), of, verdict.kind, hundredths)
    };
    summary.beside.iter().map(one).collect()
}

#[test]
fn unlike_and_equal_legs_are_judged_by_themselves_alone() {
    let trials = blocks(
        "throughput",
        1,
        &[
            ("tcp", 100.0, &[]),
            ("udp", 200.0, &[]),
            ("tcp+udp", 150.0, &[("tcp", 50.0), ("udp", 200.0)]),
            (
                "tcp+tcp",
                120.0,
                &[("tcp", 120.0), ("tcp#1", 80.0), ("tcp#2", 40.0)],
            ),
        ],
    );
    let summary = judged(&["tcp", "udp", "tcp+udp", "tcp+tcp"], &trials);
    let verdict = |metric: &str, of: &str, kind, hundredths| {
        (metric.to_owned(), of.to_owned(), kind, hundredths)
    };
    let wanted = [
        verdict(
            "messages_per_s.tcp",
            "tcp+udp against tcp",
            VerdictKind::Slower,
            50,
        ),
        verdict(
            "messages_per_s.udp",
            "tcp+udp against udp",
            VerdictKind::Equal,
            100,
        ),
        verdict(
            "messages_per_s.tcp#1",
            "tcp+tcp against tcp",
            VerdictKind::Slower,
            80,
        ),
        verdict(
            "messages_per_s.tcp#2",
            "tcp+tcp against tcp",
            VerdictKind::Slower,
            40,
        ),
    ];
    // What both circuits of `tcp+tcp` moved together is no circuit's.
    assert_eq!(found(&summary), wanted);
    let sentences: Vec<String> = summary.beside.iter().map(beside_sentence).collect();
    assert!(
        sentences[0].starts_with("at 64 B tcp of tcp+udp moves 0.50x the messages of tcp alone ("),
        "{sentences:?}"
    );
    assert!(
        sentences[1].starts_with("at 64 B udp of tcp+udp and udp alone are equal within"),
        "{sentences:?}"
    );
}

#[test]
fn more_delay_beside_another_is_slower_and_circuits_are_paired_across_contests() {
    let mut trials = blocks("delay", 1, &[("tcp", 50.0, &[])]);
    let two = [("tcp", 90.0), ("tcp#1", 100.0), ("tcp#2", 50.0)];
    trials.extend(blocks("delay", 2, &[("tcp", 90.0, &two)]));
    let summary = judged(&["tcp"], &trials);
    let kinds = found(&summary).into_iter();
    let kinds = kinds.map(|(metric, _, kind, hundredths)| (metric, kind, hundredths));
    let wanted = [
        ("delay_p50_us.tcp#1".to_owned(), VerdictKind::Slower, 200),
        ("delay_p50_us.tcp#2".to_owned(), VerdictKind::Equal, 100),
    ];
    assert_eq!(kinds.collect::<Vec<_>>(), wanted);
    let text = beside_sentence(&summary.beside[0]);
    assert!(
        text.starts_with(
            "at 64 B with circuits 2 tcp#1 of tcp answers in 2.0x the time of tcp alone"
        ),
        "{text}"
    );
}

#[test]
fn circuits_that_never_ran_alone_are_not_judged() {
    let legs = [("tcp#1", 10.0), ("tcp#2", 10.0), ("tcp", 20.0)];
    let only_two = blocks("throughput", 2, &[("tcp", 20.0, &legs)]);
    assert_eq!(found(&judged(&["tcp"], &only_two)), []);
    let legs = [("tcp", 10.0), ("udp", 10.0)];
    let other = blocks(
        "throughput",
        1,
        &[("quic", 20.0, &[]), ("tcp+udp", 20.0, &legs)],
    );
    assert_eq!(found(&judged(&["quic", "tcp+udp"], &other)), []);
}
