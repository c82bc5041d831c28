//! The revisions of XTP in scenarios, and its intermediate system.

use scenario::{Outcome, parse, run};

fn outcome(text: &str, seed: u64) -> Outcome {
    let scenario = parse(text).unwrap_or_else(|error| panic!("{error}\n{text}"));
    run(&scenario, &[], seed, |_| {}).expect("it builds")
}

fn two(engine: &str, faults: &str) -> String {
    format!(
        r#"
time_limit = "300 s"
[medium]
kind = "direct"
rate = "10 Mbit/s"
delay = "5 ms"
{faults}
[[station]]
count = 2
engine = {{ protocol = "xtp", {engine} }}
[[traffic]]
from = [0]
to = [1]
length = {{ fixed = "30 KiB" }}
interarrival = {{ fixed = "30 ms" }}
messages = 60
"#
    )
}

#[test]
fn every_dialect_delivers_whole_messages_through_loss() {
    for dialect in ["4.0", "3.6", "3.5", "3.3"] {
        for more in ["", ", routes = true", ", fixed_pairs = true", ", sort = 3"] {
            let engine = format!("dialect = {dialect:?}{more}");
            let outcome = outcome(&two(&engine, "[faults]\nloss = \"3%\""), 1);
            let receiver = &outcome.circuits[0].receivers[0];
            assert_eq!(outcome.ending, "complete", "{engine}");
            assert_eq!((receiver.messages, receiver.gaps), (60, 0), "{engine}");
            assert_eq!(receiver.wrong_bytes, 0, "{engine}");
        }
    }
}

#[test]
fn longer_headers_carry_less() {
    let packets = |dialect: &str| {
        let outcome = outcome(&two(&format!("dialect = {dialect:?}"), ""), 1);
        outcome.stations[0].packets_built
    };
    let [new, old] = ["3.6", "3.3"].map(packets);
    assert!(new >= old, "{new} and {old} packets");
}

#[test]
fn services_without_repair_lose_and_those_with_it_do_not() {
    let loss = "[faults]\nloss = \"2%\"";
    let gaps = |engine: &str| {
        let outcome = outcome(&two(engine, loss), 1);
        outcome.circuits[0].receivers[0].gaps
    };
    assert!(gaps("service = \"isochronous\", rate = \"9 Mbit/s\"") > 0);
    assert_eq!(gaps("service = \"bulk\""), 0);
}

const FORWARDER: &str = include_str!("../../../../studies/scenarios/forwarder.toml");

#[test]
fn an_intermediate_system_passes_everything_on_at_its_rate() {
    let run = |text: &str| outcome(text, 1);
    let slow = run(FORWARDER);
    let fast = run(&FORWARDER.replace(", rate = \"2 Mbit/s\"", ""));
    for outcome in [&slow, &fast] {
        assert_eq!(outcome.ending, "complete");
        assert!(outcome.total.settled >= 400);
        assert!(outcome.circuits.iter().all(|circuit| {
            let receiver = &circuit.receivers[0];
            receiver.messages > 0 && receiver.gaps == 0 && receiver.wrong_bytes == 0
        }));
    }
    // 12 Mbit/s come up for four routes of 2 Mbit/s.
    let (slow_s, fast_s) = (slow.elapsed_s, fast.elapsed_s);
    assert!(slow_s > 1.2 * fast_s, "{slow_s} and {fast_s} s");
    let again = run(FORWARDER);
    assert_eq!(format!("{again:?}"), format!("{slow:?}"), "it repeats");
}

#[test]
fn what_makes_no_sense_is_refused() {
    for (engine, told) in [
        (
            "dialect = \"3.4\"",
            "no dialect \"3.4\"; use 4.0, 3.6, 3.5, 3.3",
        ),
        ("gateway = 0", "a gateway needs dialect"),
        ("queue = \"1 KiB\"", "xtp has no option queue"),
    ] {
        let refusal = parse(&two(engine, "")).expect_err(engine);
        assert!(refusal.contains(told), "{engine}: {refusal}");
    }
}
