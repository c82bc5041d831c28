//! Circuits that run beside others: what each has, and how each compares with one alone.

use crate::support::{Scratch, is_valid_trial, race, trials_of};
use crate::testbeds::can_create_hosts;
use results::{RunData, Trial};

fn quick(arguments: &[&str]) -> RunData {
    let scratch = Scratch::new();
    let options = ["--sizes", "1KiB", "--no-control", "--blocks", "3"];
    race(&scratch, "run", &[arguments, &options].concat())
}

/// The sum over both circuits of a measure, each above 0.
#[track_caller]
fn sum_of_both(trial: &Trial, measure: &str) -> f64 {
    let legs = ["tcp#1", "tcp#2"].map(|leg| trial.metrics[&format!("{measure}.{leg}")]);
    assert!(legs.iter().all(|value| *value > 0.0), "{measure}: {legs:?}");
    legs.iter().sum()
}

/// What each circuit of `tcp+tcp` has adds up to what both have.
#[track_caller]
fn adds_up(trial: &Trial) {
    let whole = trial.metrics["messages_per_s.tcp"];
    assert!((sum_of_both(trial, "messages_per_s") / whole - 1.0).abs() < 1e-9);
    assert!((sum_of_both(trial, "share") - 1.0).abs() < 1e-9);
    if trial.cell.workload() == "delay" {
        assert!(sum_of_both(trial, "delay_p50_us") > 0.0);
        let samples = ["delay", "delay.tcp#1", "delay.tcp#2"].map(|name| {
            let histogram = trial.histograms[name].decode();
            histogram.expect("a histogram").len()
        });
        assert_eq!(samples[0], samples[1] + samples[2]);
    }
}

/// Metric, contestant and baseline of each verdict on a circuit beside others.
fn judged(run: &RunData) -> Vec<[String; 3]> {
    let summary = run.summary.as_ref().expect("a summary");
    let all = summary.beside.iter().map(|one| {
        assert_eq!(one.pairs, 3, "{one:?}");
        [&one.metric, &one.contestant, &one.baseline].map(String::clone)
    });
    all.collect()
}

#[test]
fn equal_and_unlike_circuits_have_measures_of_their_own_and_verdicts_against_one_alone() {
    let names = ["tcp", "xtp", "tcp+tcp", "tcp+xtp"];
    let run = quick(&[&names[..], &["-w", "throughput,delay"]].concat());
    for trial in trials_of(&run, "tcp+tcp") {
        assert!(is_valid_trial(trial));
        adds_up(trial);
    }
    let mut wanted = Vec::new();
    for metric in ["messages_per_s", "delay_p50_us"] {
        for (leg, contestant, alone) in [
            ("tcp#1", "tcp+tcp", "tcp"),
            ("tcp#2", "tcp+tcp", "tcp"),
            ("tcp", "tcp+xtp", "tcp"),
            ("xtp", "tcp+xtp", "xtp"),
        ] {
            wanted.push([format!("{metric}.{leg}"), contestant.into(), alone.into()]);
        }
    }
    assert_eq!(judged(&run), wanted);
    let notes = report::notes(&run);
    let said = notes
        .iter()
        .filter(|line| line.starts_with("beside others: "));
    assert_eq!(said.count(), wanted.len(), "{notes:?}");
}

/// Numbers of circuits as a factor: each of two against one alone, and the share of the link's rate that each has.
#[test]
fn two_circuits_over_a_link_are_judged_by_one_and_say_what_of_the_link_each_has() {
    if !can_create_hosts() {
        return;
    }
    let words = words!("tcp -w throughput --circuits 1,2 --trial 500ms");
    let link = ["--link", "rate=20mbit", "--no-calibration"];
    let words = [&words[..], &link].concat();
    let run = quick(&words);
    let two = run
        .trials
        .iter()
        .filter(|trial| trial.cell.text("circuits") == "2");
    for trial in two.filter(|trial| trial.block > 0 && is_valid_trial(trial)) {
        let all = trial.metrics["link_share_fraction.tcp"];
        assert!((sum_of_both(trial, "link_share_fraction") - all).abs() < 1e-9);
        let carried = trial.metrics["mbit_per_s"] / 20.0;
        assert!(
            (all / carried - 1.0).abs() < 1e-6,
            "{all} against {carried}"
        );
    }
    let wanted = ["messages_per_s.tcp#1", "messages_per_s.tcp#2"];
    assert_eq!(
        judged(&run),
        wanted.map(|leg| [leg, "tcp", "tcp"].map(str::to_owned))
    );
}
