//! UDP and receivers with a queue.

use scenario::sweep::apply_changes;
use scenario::{RunOutcome, run};

const SCENARIO: &str = include_str!("../../../../studies/scenarios/udp-fragments.toml");

fn outcome(changes: &[&str]) -> RunOutcome {
    let changes: Vec<String> = changes.iter().map(|change| (*change).to_owned()).collect();
    let scenario = apply_changes(SCENARIO, &changes).expect("it can be changed");
    run(&scenario, &[], 1, |_| {}).expect("it builds")
}

/// The share of datagrams that came, and packets that the receiver dropped.
fn arrived(changes: &[&str]) -> (f64, u64) {
    let outcome = outcome(changes);
    assert_eq!(outcome.ending, "complete");
    let receiver = &outcome.circuits[0].receivers[0];
    assert_eq!((receiver.wrong_bytes, receiver.gaps), (0, 0));
    assert_eq!(
        receiver.bytes,
        receiver.messages * 8192,
        "whole or not at all"
    );
    let share = receiver.messages as f64 / outcome.total.settled as f64;
    (share, outcome.stations[1].arrivals_dropped)
}

#[test]
fn all_datagrams_come_where_nothing_is_lost() {
    let (share, dropped) = arrived(&["faults.loss=0%"]);
    // The last one may be on its way when the run ends.
    assert!(share >= 0.995 && dropped == 0, "{share} {dropped}");
}

#[test]
fn loss_of_one_fragment_of_six_loses_the_datagram() {
    let (share, dropped) = arrived(&["messages=5000", "time_limit=200 s"]);
    let expected = 0.99f64.powi(6);
    assert!((share - expected).abs() < 0.01, "{share}, not {expected}");
    assert_eq!(dropped, 0);
    let short = {
        let outcome = outcome(&[
            "messages=5000",
            "traffic.0.length.fixed=1472",
            "time_limit=200 s",
        ]);
        let received = outcome.circuits[0].receivers[0].messages;
        received as f64 / outcome.total.settled as f64
    };
    assert!((short - 0.99).abs() < 0.005, "one packet each: {short}");
}

#[test]
fn receiver_that_drops_fragments_gets_hardly_a_datagram() {
    let at = |interarrival: &str, queue: &str| arrived(&["faults.loss=0%", interarrival, queue]);
    let queue = "station.1.chips.queue=8";
    let (kept_up, none) = at("traffic.0.interarrival.fixed=14 ms", queue);
    assert!(kept_up > 0.98 && none == 0, "{kept_up} {none}");
    // It has time for five packets of six: of most datagrams one is dropped.
    let (collapsed, dropped) = at("traffic.0.interarrival.fixed=10 ms", queue);
    assert!(collapsed < 0.5 && dropped > 100, "{collapsed} {dropped}");
    let (patient, dropped) = at(
        "traffic.0.interarrival.fixed=10 ms",
        "station.1.chips.queue=100000",
    );
    assert!(dropped == 0 && patient > collapsed, "{patient} {dropped}");
}

#[test]
fn packets_are_as_long_as_links_carry() {
    let of_medium = |mtu: u64| {
        let outcome = outcome(&[
            "medium.kind=direct",
            "medium.rate=10Mbit/s",
            &format!("medium.mtu={mtu}"),
            "faults.loss=0%",
            "station.1.chips.packet=0 us",
        ]);
        assert!(
            outcome.circuits[0].receivers[0].messages >= 495,
            "mtu {mtu}"
        );
        outcome.stations[0].packets_built as f64 / outcome.total.settled as f64
    };
    // 8,200 octets in pieces of 1,480 and of 552.
    assert!((of_medium(1500) - 6.0).abs() < 0.1);
    assert!((of_medium(576) - 15.0).abs() < 0.1);
}

#[test]
fn what_udp_cannot_do_is_refused_with_a_remedy() {
    for (change, named) in [
        ("traffic.0.length.fixed=65508", "65507 B"),
        ("station.0.engine.packet=63", "use 64 to 65535"),
        (
            "station.0.engine.error=selective",
            "udp has no option error",
        ),
        ("station.0.engine.retries=3", "udp has no option retries"),
    ] {
        let error = apply_changes(SCENARIO, &[change.to_owned()]).expect_err(change);
        assert!(error.contains(named), "{change}: {error}");
    }
    assert!(apply_changes(SCENARIO, &["traffic.0.length.fixed=65507".to_owned()]).is_ok());
}
