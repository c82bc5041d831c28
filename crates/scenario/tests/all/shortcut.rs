//! Rings between stations of one host: the wire changes under an association, and back.

use crate::texts::SLOW_LINK;
use scenario::{RunOutcome, parse, run, trace};
use std::sync::{Arc, Mutex};

const TAKEN: &str = "protocol = \"xtp\", shortcut = true";

/// Two stations of one host on a slow link, a message each millisecond for 2 s, and `more`.
fn text(engine: &str, more: &str) -> String {
    format!(
        r#"{SLOW_LINK}
[[station]]
count = 2
engine = {{ {engine} }}
host = "a"
[[traffic]]
from = [0]
to = [1]
length = {{ fixed = 500 }}
interarrival = {{ fixed = "1 ms" }}
messages = 2000
{more}
"#
    )
}

/// The outcome, and the lines of the trace.
fn traced(text: &str, seed: u64) -> (RunOutcome, Vec<String>) {
    let scenario = parse(text).unwrap_or_else(|error| panic!("{error}\n{text}"));
    let lines = Arc::new(Mutex::new(Vec::new()));
    let seen = Arc::clone(&lines);
    let outcome = run(&scenario, &[], seed, move |network| {
        network.observe(move |observation| {
            let line = trace::line(observation);
            seen.lock().expect("nobody panicked").push(line);
        });
    });
    let lines = std::mem::take(&mut *lines.lock().expect("nobody panicked"));
    (outcome.expect("it builds"), lines)
}

fn event(line: &str) -> &str {
    line.split(' ').nth(1).expect("an event")
}

fn count(lines: &[String], wanted: &str) -> usize {
    lines.iter().filter(|line| event(line) == wanted).count()
}

/// When the only event of this name was, ps.
fn time_of(lines: &[String], wanted: &str) -> u64 {
    let mut found = lines.iter().filter(|line| event(line) == wanted);
    let line = found.next().expect("it happened");
    assert_eq!(found.next(), None, "once");
    let time = line.split(' ').next().expect("a time");
    time.parse().expect("a number")
}

/// All messages came, whole, over the circuit that was opened at first.
fn assert_whole(outcome: &RunOutcome) {
    assert_eq!((outcome.ending, outcome.total.received), ("complete", 2000));
    assert_eq!((outcome.circuits.len(), outcome.total.given_up), (1, 0));
    let receiver = &outcome.circuits[0].receivers[0];
    assert_eq!((receiver.wrong_bytes, receiver.gaps), (0, 0));
}

fn median_us(outcome: &RunOutcome) -> f64 {
    let delay = outcome.total.delay.as_ref().expect("delays");
    delay.p50_us.expect("enough of them")
}

#[test]
fn packets_go_through_rings_once_the_stations_have_met() {
    let (outcome, lines) = traced(&text(TAKEN, ""), 1);
    assert_whole(&outcome);
    let began = time_of(&lines, "rings-began");
    // The first packet takes 1 ms and its own time over the link, and the meeting 100 us.
    assert!((1_100_000_000..3_000_000_000).contains(&began), "{began}");
    assert_eq!(count(&lines, "rings-ended"), 0);
    let by_ring = count(&lines, "offered-to-ring");
    assert_eq!(count(&lines, "arrived-by-ring"), by_ring);
    assert!(by_ring > 50 * count(&lines, "offered"), "{by_ring}");
    let sent: u64 = outcome.stations.iter().map(|one| one.ring_packets).sum();
    assert_eq!(sent, by_ring as u64);
    assert!(outcome.stations.iter().all(|one| one.ring_packets > 0));
    let (without, _) = traced(&text("protocol = \"xtp\"", ""), 1);
    assert_whole(&without);
    assert_eq!(without.stations[0].ring_packets, 0);
    // 1 us instead of more than 1 ms.
    assert!(median_us(&outcome) < 5.0, "{}", median_us(&outcome));
    assert!(median_us(&without) > 1000.0, "{}", median_us(&without));
}

#[test]
fn rings_that_die_leave_the_association_to_the_medium() {
    let death = "[[disturbance]]\nkind = \"rings\"\nstations = [0]\nat = \"1000000500 ns\"\nlasts = \"1 ms\"";
    let (outcome, lines) = traced(&text(TAKEN, death), 1);
    assert_whole(&outcome);
    let ended = time_of(&lines, "rings-ended");
    assert_eq!(ended, 1_000_000_500_000);
    let after = lines.iter().position(|line| event(line) == "rings-ended");
    let after = &lines[after.expect("it is there")..];
    assert_eq!(count(after, "offered-to-ring"), 0);
    // The message of that moment was in the ring.
    assert_eq!(count(after, "lost-in-ring"), 1);
    assert!(count(after, "offered") > 1000);
    assert!(outcome.stations[0].retransmissions > 0);
}

#[test]
fn restarted_station_meets_again() {
    let crash =
        "[[disturbance]]\nkind = \"crash\"\nstations = [1]\nat = \"500 ms\"\nlasts = \"100 ms\"";
    let few = format!("{TAKEN}, retries = 3, wait_max = \"200 ms\"");
    let slow = text(&few, crash).replace("\"1 ms\" }", "\"5 ms\" }");
    let (outcome, lines) = traced(&slow, 1);
    assert_eq!(outcome.ending, "complete");
    assert_eq!(count(&lines, "rings-ended"), 1);
    assert_eq!(count(&lines, "rings-began"), 2, "with another circuit");
    assert!(outcome.circuits.len() > 1);
    let receivers = outcome.circuits.iter().flat_map(|one| &one.receivers);
    let damage: u64 = receivers.map(|one| one.wrong_bytes + one.gaps).sum();
    assert_eq!(damage, 0);
}

#[test]
fn loss_and_partitions_are_of_the_medium() {
    let faults = "[faults]\nloss = \"20%\"\n[[disturbance]]\nkind = \"partition\"\nstations = [0]\nat = \"500 ms\"\nlasts = \"1 s\"";
    let (outcome, lines) = traced(&text(TAKEN, faults), 2);
    assert_whole(&outcome);
    let began = lines.iter().position(|line| event(line) == "rings-began");
    let after = &lines[began.expect("they met")..];
    let lost = count(after, "lost") + count(after, "lost-in-ring");
    // What was on the link when they met.
    assert!(lost < 5, "{lost}");
    assert!(outcome.elapsed_s < 2.5, "{}", outcome.elapsed_s);
}

#[test]
fn what_a_ring_has_no_room_for_goes_over_the_medium() {
    let station = format!("[[station]]\nengine = {{ {TAKEN} }}\nhost = \"a\"\n");
    let slow = "chips = { packet = \"5 ms\" }\n[[host]]\nname = \"a\"\nring = \"16 KiB\"\n";
    let both = station.replace("engine", "count = 2\nengine");
    let own = text(TAKEN, "").replace(&both, &format!("{station}{station}{slow}"));
    assert!(own.contains(slow), "{own}");
    let (outcome, lines) = traced(&own, 1);
    assert_whole(&outcome);
    let began = lines.iter().position(|line| event(line) == "rings-began");
    let after = &lines[began.expect("they met")..];
    let ways = ["offered-to-ring", "offered"].map(|way| count(after, way));
    // Packets of both ways wait in one row for the receiver, so that one in the ring waits for those before it.
    assert!(ways.iter().all(|&packets| packets > 20), "{ways:?}");
}

#[test]
fn rings_cost_the_processor_their_copies_and_arrive_later_by_their_latency() {
    let host = [
        "[[host]]\nname = \"a\"\nlatency = \"40 us\"\nmeeting = \"1 ms\"",
        "copy_fixed = \"7 us\"\ncopy_delay = \"1 us\"\ncopy_bytes = 1024",
    ];
    let host = &host.join("\n");
    let (outcome, _) = traced(&text(TAKEN, host), 1);
    assert_whole(&outcome);
    let median = median_us(&outcome);
    // 40 us, and twice 7 us and half a microsecond for some 570 octets.
    assert!((53.5..57.0).contains(&median), "{median}");
}

#[test]
fn same_seed_gives_the_same_trace() {
    let faults = "[faults]\nloss = \"2%\"\nreorder = \"2%\"\nreorder_by = \"5 ms\"";
    let death =
        "[[disturbance]]\nkind = \"rings\"\nstations = [0, 1]\nat = \"700 ms\"\nlasts = \"1 s\"";
    let text = text(TAKEN, &format!("{faults}\n{death}"));
    let (first, second) = (traced(&text, 5), traced(&text, 5));
    assert_eq!(first, second);
    assert_whole(&first.0);
    assert_ne!(first.1, traced(&text, 6).1);
}

#[test]
fn shortcuts_and_hosts_that_cannot_be_are_refused_with_the_remedy() {
    let refused = |text: &str| parse(text).expect_err("it is refused");
    let alone = text(TAKEN, "").replace("host = \"a\"\n", "");
    assert!(refused(&alone).contains("give them host"));
    let other = text("protocol = \"bare\", shortcut = true", "");
    assert!(refused(&other).contains("bare has no option shortcut"));
    for (more, words) in [
        ("[[host]]\nname = \"b\"", "no station is on host \"b\""),
        (
            "[[host]]\nname = \"a\"\n[[host]]\nname = \"a\"",
            "described twice",
        ),
        ("[[host]]\nname = \"a\"\nring = 100", "2 KiB to 256 MiB"),
    ] {
        let why = refused(&text(TAKEN, more));
        assert!(why.contains(words), "{why}");
    }
    let death = "[[disturbance]]\nkind = \"rings\"\nstations = [0]\nat = \"1 s\"\nlasts = \"1 s\"";
    let without = refused(&text("protocol = \"xtp\"", death));
    assert!(without.contains("has a shortcut"), "{without}");
    let by_path = format!("{death}\npath = 0");
    assert!(refused(&text(TAKEN, &by_path)).contains("no path"));
}
