//! Contestants without a result keep their place, and factors their order.

mod common;

use common::{plan, trial};
use results::{Plan, RunStatus, Status, Trial};
use stats::{missing_results, summarise};

fn delays() -> Plan {
    Plan {
        workloads: vec!["delay".into()],
        sizes: vec![64, 1024],
        ..plan(&["tcp", "udp", "xtp"])
    }
}

/// A pilot that failed.
fn failed_pilot(transport: &str, size: u64) -> Trial {
    Trial {
        status: Status::Failed,
        reason: "no such device".into(),
        ..trial(0, transport, "delay", size, 1.0)
    }
}

#[test]
fn contestant_whose_pilot_failed_keeps_its_cells() {
    let plan = delays();
    let mut trials = vec![failed_pilot("xtp", 64), failed_pilot("xtp", 1024)];
    for block in 1..=5 {
        for size in [64, 1024] {
            trials.push(trial(block, "tcp", "delay", size, 10.0));
            trials.push(trial(block, "udp", "delay", size, 12.0));
        }
    }
    let summary = summarise(&plan, &trials, RunStatus::Complete, "", 1.0);
    let cells = summary.cells.iter();
    let names: Vec<String> = cells.map(|cell| cell.cell.transport()).collect();
    assert_eq!(names, ["tcp", "udp", "xtp", "tcp", "udp", "xtp"]);
    let missing = missing_results(&plan, &trials);
    assert_eq!(missing.len(), 2);
    assert_eq!(missing[0].cell.transport(), "xtp");
    assert_eq!(missing[0].reason, "its pilot failed: no such device");
    assert!(summary.warnings.is_empty(), "{:?}", summary.warnings);
}

#[test]
fn failed_pilot_of_a_sweep_concerns_all_its_loads() {
    let plan = plan(&["tcp", "udp"]);
    let at = |block, transport: &str, load: u64| {
        let mut trial = trial(block, transport, "offered", 64, 1.0);
        trial.cell = trial.cell.with("load_percent", load);
        trial
    };
    let mut pilot = at(0, "udp", 10);
    (pilot.status, pilot.reason) = (Status::Failed, "gone".into());
    let trials = [pilot, at(1, "tcp", 50), at(1, "tcp", 10)];
    let missing = missing_results(&plan, &trials);
    let loads: Vec<i64> = missing
        .iter()
        .filter_map(|one| one.cell.integer("load_percent"))
        .collect();
    assert_eq!(loads, [10, 50]);
}

#[test]
fn baseline_without_result_is_named_with_its_reason() {
    let plan = delays();
    let mut trials = vec![failed_pilot("tcp", 64), failed_pilot("tcp", 1024)];
    for block in 1..=5 {
        trials.push(trial(block, "udp", "delay", 64, 12.0));
        trials.push(trial(block, "udp", "delay", 1024, 12.0));
    }
    let summary = summarise(&plan, &trials, RunStatus::Complete, "", 1.0);
    assert_eq!(
        summary.warnings,
        [
            "the baseline tcp has no result in delay at 64 B and 1 more, so nothing is judged there: \
          its pilot failed: no such device; choose another with --baseline"
        ]
    );
}

#[test]
fn factors_stand_in_their_own_order_not_in_that_of_the_trials() {
    let plan = Plan {
        sizes: vec![64],
        ..delays()
    };
    let at = |block, link: &str, load: u64| {
        let mut trial = trial(block, "tcp", "delay", 64, 10.0);
        trial.cell = trial.cell.with("link", link).with("receiver_load", load);
        trial
    };
    // Pilots run in the order of the plan, trials in random order.
    let mut trials = vec![at(0, "slow", 0), at(0, "fast", 0)];
    for (link, load) in [
        ("fast", 10),
        ("slow", 9),
        ("fast", 0),
        ("slow", 10),
        ("slow", 0),
        ("fast", 9),
    ] {
        trials.push(at(1, link, load));
    }
    let summary = summarise(&plan, &trials, RunStatus::Complete, "", 1.0);
    let places = summary.cells.iter().map(|cell| {
        let load = cell.cell.integer("receiver_load").expect("a load");
        (cell.cell.text("link"), load)
    });
    let wanted = ["slow", "fast"].map(|link| [0, 9, 10].map(|load| (link.to_owned(), load)));
    assert!(places.eq(wanted.concat()));
}
