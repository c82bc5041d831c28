//! The knee of a sweep of offered loads.

mod common;

use results::{Status, Trial};
use stats::knee::{KneeLimit, sentence};

fn knees(trials: &[Trial]) -> Vec<stats::Knee> {
    stats::knees(&common::plan(&["tcp", "udp"]), trials)
}

/// A trial at `offered` messages a second.
fn point(offered: f64, delivered: f64, loss: f64, delay_p99_us: f64) -> Trial {
    let mut trial = common::trial(1, "udp", "offered", 64, delivered);
    trial.cell = trial.cell.with("rate_per_s", offered as u64);
    for (name, value) in [
        ("offered_per_s", offered),
        ("delivered_per_s", delivered),
        ("loss_fraction", loss),
        ("delay_p99_us", delay_p99_us),
    ] {
        trial.metrics.insert(name.into(), value);
    }
    trial
}

#[test]
fn knee_is_largest_load_carried() {
    let trials = [
        point(4e5, 3e5, 0.25, 900.0),
        point(1e5, 1e5, 0.0, 10.0),
        point(2e5, 2e5, 0.0005, 40.0),
    ];
    let knees = knees(&trials);
    let [knee] = knees.as_slice() else {
        panic!("one sweep, not {knees:?}");
    };
    assert_eq!(knee.carried.expect("one is").offered_per_s, 2e5);
    let (beyond, limit) = knee.beyond.expect("one is not");
    assert_eq!((beyond.offered_per_s, limit), (4e5, KneeLimit::Loss));
    assert_eq!(
        sentence(knee),
        "at 64 B udp carries 200 k/s (99 % delay 40.0 us); at 400 k/s 25.0 % is lost"
    );
}

#[test]
fn each_condition_limits_knee() {
    let low = || point(1e5, 1e5, 0.0, 10.0);
    let mut late = point(3e5, 3e5, 0.0, 10.0);
    late.status = Status::Invalid;
    for (high, limit) in [
        (point(3e5, 3e5, 0.0, 100.0), KneeLimit::Delay),
        (point(3e5, 2.9e5, 0.0, 10.0), KneeLimit::Undelivered),
        (point(3e5, 3e5, 0.001, 10.0), KneeLimit::Loss),
        (late, KneeLimit::Generator),
    ] {
        let knees = knees(&[low(), high]);
        assert_eq!(knees[0].beyond.expect("beyond").1, limit);
        assert_eq!(knees[0].carried.expect("carried").offered_per_s, 1e5);
    }
}

#[test]
fn short_sweep_reports_missing_knee() {
    let knees = knees(&[point(1e5, 1e5, 0.0, 10.0), point(2e5, 2e5, 0.0, 12.0)]);
    assert!(knees[0].beyond.is_none());
    assert!(sentence(&knees[0]).contains("perhaps more"));
}

#[test]
fn single_load_has_no_knee() {
    assert!(knees(&[point(1e5, 1e5, 0.0, 10.0)]).is_empty());
    let delay = common::trial(1, "udp", "delay", 64, 10.0);
    assert!(knees(&[delay]).is_empty());
}

#[test]
fn missing_percentile_is_not_printed_as_zero() {
    let without_p99 = |offered: f64, loss: f64| {
        let mut trial = point(offered, offered, loss, 0.0);
        trial.metrics.remove("delay_p99_us");
        trial
    };
    let zero = point(2e5, 2e5, 0.5, 0.0);
    for trials in [
        [without_p99(1e5, 0.0), without_p99(2e5, 0.5)],
        [point(1e5, 1e5, 0.0, 0.0), zero],
    ] {
        let text = sentence(&knees(&trials)[0]);
        assert!(!text.contains("0.00"), "{text}");
        assert!(
            text.contains("(99 % delay unknown: too few samples)"),
            "{text}"
        );
    }
}

#[test]
fn knees_stand_in_the_order_of_the_plan() {
    let at = |size: u64, transport: &str, offered: f64| {
        let mut trial = point(offered, offered, 0.0, 10.0);
        trial.cell = trial.cell.with("size", size).with("transport", transport);
        trial
    };
    // The order of trials is random.
    let places = [
        (64, "udp"),
        (16_384, "tcp"),
        (1024, "udp"),
        (64, "tcp"),
        (1024, "tcp"),
    ];
    let trials: Vec<Trial> = places
        .iter()
        .flat_map(|&(size, name)| [at(size, name, 2e5), at(size, name, 1e5)])
        .collect();
    let knees = knees(&trials);
    let order: Vec<(u64, String)> = knees
        .iter()
        .map(|knee| (knee.cell.size().expect("a size"), knee.cell.transport()))
        .collect();
    let wanted = [
        (64, "tcp"),
        (64, "udp"),
        (1024, "tcp"),
        (1024, "udp"),
        (16_384, "tcp"),
    ];
    assert_eq!(order, wanted.map(|(size, name)| (size, name.to_owned())));
}
