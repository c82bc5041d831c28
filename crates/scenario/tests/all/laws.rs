//! Laws that hold for every protocol: expected transmissions, Little's law, the cable's time.

use scenario::{build, parse};
use sim::{NetworkReport, PacketEvent};
use std::cell::RefCell;
use std::rc::Rc;

/// Runs a scenario; its report, and the packets offered by station 0 that are longer than `longer`.
fn report(text: &str, longer: usize) -> (NetworkReport, u64) {
    let scenario = parse(text).unwrap_or_else(|error| panic!("{error}\n{text}"));
    let mut network = build(&scenario, scenario.seed).expect("it builds");
    let count = Rc::new(RefCell::new(0));
    let counted = Rc::clone(&count);
    network.observe(move |observation| {
        let is_one = observation.event == PacketEvent::Offered
            && observation.from == 0
            && observation.packet.len() > longer;
        *counted.borrow_mut() += u64::from(is_one);
    });
    let ending = network.run(scenario.time_limit.0);
    let report = network.report(ending);
    let count = *count.borrow();
    (report, count)
}

#[test]
fn group_transmissions_match_expected_maximum() {
    // E = sum over m of 1 - (1 - p^m)^R: each of R receivers loses a share p on its own.
    for (receivers, percent, messages) in
        [(1, 5, 2000), (10, 5, 1500), (10, 10, 1000), (50, 1, 800)]
    {
        let text = format!(
            r#"
time_limit = "10000 s"
[medium]
kind = "ether10"
[faults]
loss = "{percent}%"
[[station]]
engine = {{ protocol = "xtp3", multicast = true, wtimer = "200 ms", answerers = {receivers} }}
[[station]]
count = {receivers}
engine = {{ protocol = "xtp3", multicast = true, answers = true }}
[[traffic]]
from = [0]
to = "all"
length = {{ fixed = 1000 }}
interarrival = {{ fixed = "1 s" }}
messages = {messages}
"#
        );
        let (report, sent) = report(&text, 1000);
        assert_eq!(report.flows[0].settled, messages);
        let p = f64::from(percent) / 100.0;
        let missing = |m: i32| 1.0 - (1.0 - p.powi(m)).powi(receivers);
        let expected: f64 = (0..60).map(missing).sum();
        // Var = sum over m of (2m + 1) P(more than m) less the mean squared.
        let square: f64 = (0..60).map(|m| f64::from(2 * m + 1) * missing(m)).sum();
        let deviation = ((square - expected * expected) / messages as f64).sqrt();
        let mean = sent as f64 / messages as f64;
        assert!(
            (mean - expected).abs() < 4.0 * deviation,
            "{receivers} receivers, {percent} %: {mean}, expected {expected} +- {deviation}"
        );
    }
}

#[test]
fn repository_scenarios_account_for_queues_and_cable() {
    let folder = concat!(env!("CARGO_MANIFEST_DIR"), "/../../studies/scenarios");
    for entry in std::fs::read_dir(folder).expect("the folder is there") {
        let path = entry.expect("a readable entry").path();
        let text = std::fs::read_to_string(&path).expect("a readable file");
        let scenario = parse(&text).unwrap_or_else(|error| panic!("{path:?}:{error}"));
        let mut network = build(&scenario, 1).expect("it builds");
        let ending = network.run_until(scenario.time_limit.0, 50);
        let report = network.report(ending);
        for station in &report.stations {
            // The sojourn of frames still at the controller is not complete.
            assert!(station.sojourn_ps <= station.controller_ps, "{path:?}");
        }
        if let Some((counters, time)) = report.ether {
            let sum = time.carrying_ps + time.collided_ps + time.idle_ps;
            assert!(sum.abs_diff(report.elapsed_ps) < 1_000, "{path:?}: {sum}");
            assert!(counters.sent + counters.dropped <= counters.offered);
        }
    }
}

#[test]
fn littles_law_exact_at_controllers_of_complete_run() {
    let text = r#"
time_limit = "1000 s"
[medium]
kind = "ether10"
[[station]]
count = 8
engine = { protocol = "xtp" }
[[traffic]]
from = [0, 1, 2, 3]
to = [4, 5, 6, 7]
length = { exponential = "4 KiB" }
interarrival = { exponential = "5 ms" }
messages = 500
"#;
    let (report, _) = report(text, 0);
    assert_eq!(
        report.flows.iter().map(|flow| flow.settled).sum::<u64>(),
        500
    );
    for station in &report.stations {
        assert_eq!(station.sojourn_ps, station.controller_ps);
        assert!(station.sojourn_ps > 0);
    }
}
