//! The versions of XTP in scenarios, and its router.

use crate::texts::{outcome, sixty_messages};
use scenario::{parse, run};
use sim::PacketEvent;
use std::cell::RefCell;
use std::rc::Rc;

fn two_stations(engine: &str, faults: &str) -> String {
    sixty_messages(&format!("protocol = \"xtp\", {engine}"), faults)
}

#[test]
fn every_version_delivers_whole_messages_despite_loss() {
    for version in ["4.0", "3.6", "3.5", "3.3"] {
        for more in ["", ", routes = true", ", fixed_pairs = true", ", sort = 3"] {
            let engine = format!("dialect = {version:?}{more}");
            let outcome = outcome(&two_stations(&engine, "[faults]\nloss = \"3%\""), 1);
            let receiver = &outcome.circuits[0].receivers[0];
            assert_eq!(outcome.ending, "complete", "{engine}");
            assert_eq!((receiver.messages, receiver.gaps), (60, 0), "{engine}");
            assert_eq!(receiver.wrong_bytes, 0, "{engine}");
        }
    }
}

#[test]
fn longer_headers_need_more_packets() {
    let packets = |version: &str| {
        let outcome = outcome(&two_stations(&format!("dialect = {version:?}"), ""), 1);
        outcome.stations[0].packets_built
    };
    let [new, old] = ["3.6", "3.3"].map(packets);
    assert!(new >= old, "{new} and {old} packets");
}

#[test]
fn unreliable_service_has_gaps_reliable_has_none() {
    let loss = "[faults]\nloss = \"2%\"";
    let gaps = |engine: &str| {
        let outcome = outcome(&two_stations(engine, loss), 1);
        outcome.circuits[0].receivers[0].gaps
    };
    assert!(gaps("service = \"isochronous\", rate = \"9 Mbit/s\"") > 0);
    assert_eq!(gaps("service = \"bulk\""), 0);
}

const ROUTER: &str = include_str!("../../../../studies/scenarios/forwarder.toml");

#[test]
fn router_forwards_everything_at_its_rate() {
    let run = |text: &str| outcome(text, 1);
    let slow = run(ROUTER);
    let fast = run(&ROUTER.replace(", rate = \"2 Mbit/s\"", ""));
    for outcome in [&slow, &fast] {
        assert_eq!(outcome.ending, "complete");
        assert!(outcome.total.settled >= 400);
        assert!(outcome.circuits.iter().all(|circuit| {
            let receiver = &circuit.receivers[0];
            receiver.messages > 0 && receiver.gaps == 0 && receiver.wrong_bytes == 0
        }));
    }
    // 12 Mbit/s are offered to four routes of 2 Mbit/s.
    let (slow_s, fast_s) = (slow.elapsed_s, fast.elapsed_s);
    assert!(slow_s > 1.2 * fast_s, "{slow_s} and {fast_s} s");
    let again = run(ROUTER);
    assert_eq!(format!("{again:?}"), format!("{slow:?}"), "it repeats");
}

/// How long each packet of 3 messages took from station 1 to station 2 through station 0, ps, and
/// its octets.
fn forwarding_times(chips: &str) -> Vec<(u64, usize)> {
    let text = format!(
        r#"
time_limit = "10 s"
[medium]
kind = "switch"
rate = "10 Mbit/s"
delay = "5 us"
[[station]]
count = 1
engine = {{ protocol = "xtp-forwarder" }}
chips = {{ packet = "20 us"{chips} }}
[[station]]
count = 2
engine = {{ protocol = "xtp", dialect = "3.6", gateway = 0, packet = "1000 B" }}
[[traffic]]
from = [1]
to = [2]
length = {{ fixed = "800 B" }}
interarrival = {{ fixed = "50 ms" }}
messages = 3
"#
    );
    let scenario = parse(&text).unwrap_or_else(|error| panic!("{error}"));
    let times = Rc::new(RefCell::new((Vec::new(), Vec::new())));
    let recorded = Rc::clone(&times);
    let outcome = run(&scenario, &[], 1, move |network| {
        network.observe(move |observed| {
            let (offered, arrived) = &mut *recorded.borrow_mut();
            match (observed.event, observed.station, observed.from) {
                (PacketEvent::Offered, 1, 1) => offered.push(observed.at_ps),
                (PacketEvent::Arrived, 2, 0) => {
                    arrived.push((observed.at_ps, observed.packet.len()))
                }
                _ => {}
            }
        });
    });
    assert_eq!(outcome.expect("it builds").ending, "complete");
    let (offered, arrived) = &*times.borrow();
    // Packets are forwarded in the order in which they were sent; the router's own packets are
    // short.
    let passed: Vec<_> = arrived.iter().filter(|(_, octets)| *octets > 400).collect();
    let sent = &offered[offered.len().min(1)..];
    let first = (arrived[0].0 - offered[0], arrived[0].1);
    let data = passed.iter().map(|(at_ps, octets)| {
        let before = sent.iter().filter(|sent_ps| *sent_ps < at_ps);
        let at = before.max().expect("it was sent");
        (at_ps - at, *octets)
    });
    [first].into_iter().chain(data).collect()
}

#[test]
fn router_cut_through_saves_serialisation_time() {
    let stored = forwarding_times("");
    let cut = forwarding_times(", cut_through = 100");
    assert!(
        stored.len() >= 4 && stored.len() == cut.len(),
        "{stored:?} {cut:?}"
    );
    // FIRST installs the route: the router needs all of it either way.
    assert_eq!(stored[0], cut[0]);
    for (stored, cut) in stored.iter().zip(&cut).skip(1) {
        // 38 octets of frame, preamble and gap around a packet; 100 ns a bit.
        let waited_for = (stored.1 + 38 - 100) as u64;
        assert_eq!(stored.1, cut.1);
        assert_eq!(
            stored.0 - cut.0,
            waited_for * 8 * 100_000,
            "{stored:?} {cut:?}"
        );
    }
}

#[test]
fn invalid_version_options_refused() {
    for (engine, expected_error) in [
        (
            "dialect = \"3.4\"",
            "no dialect \"3.4\"; use 4.0, 3.6, 3.5, 3.3",
        ),
        ("gateway = 0", "a gateway needs dialect"),
        ("queue = \"1 KiB\"", "xtp has no option queue"),
    ] {
        let refusal = parse(&two_stations(engine, "")).expect_err(engine);
        assert!(refusal.contains(expected_error), "{engine}: {refusal}");
    }
    let chips = two_stations("dialect = \"3.6\"", "")
        .replace("count = 2", "count = 2\nchips = { cut_through = 60 }");
    let refusal = parse(&chips).expect_err("no forwarder");
    assert!(
        refusal.contains("chips.cut_through is for xtp-forwarder"),
        "{refusal}"
    );
}
