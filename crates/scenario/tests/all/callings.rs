//! Streams, requests that are passed on, and groups of VMTP in scenarios.

use scenario::swarm::check_scenario;
use scenario::{RunOutcome, parse, run};

/// Five stations on a link each; station 0 calls 200 times.
fn text(loss: &str, traffic: &str) -> String {
    format!(
        r#"
name = "callings"
time_limit = "900 s"

[medium]
kind = "switch"
rate = "100 Mbit/s"
delay = "1 ms"

[faults]
loss = "{loss}"

[[station]]
count = 5
engine = {{ protocol = "vmtp", retries = 40 }}

[[traffic]]
from = [0]
interarrival = {{ fixed = "0 us" }}
messages = 200
{traffic}
"#
    )
}

fn outcome(text: &str) -> RunOutcome {
    let scenario = parse(text).expect(text);
    check_scenario(&scenario, &|engine| engine).expect("the invariants hold");
    run(&scenario, &[], 1, |_| {}).expect("it builds")
}

/// Messages received by each receiver of the one circuit.
fn received(outcome: &RunOutcome) -> Vec<(usize, u64)> {
    let receivers = outcome.circuits[0].receivers.iter();
    receivers.map(|row| (row.station, row.messages)).collect()
}

const STREAM: &str = "to = [1]\nlength = { fixed = 600 }\nreply = \"same\"\noutstanding = 16\n";

#[test]
fn stream_serves_calls_one_after_another_and_single_calls_at_once() {
    let elapsed_s = |more: &str| {
        let outcome = outcome(&text("0%", &format!("{STREAM}service = \"10 ms\"\n{more}")));
        assert_eq!((outcome.ending, outcome.total.settled), ("complete", 200));
        assert_eq!(received(&outcome), [(1, 200)]);
        outcome.elapsed_s
    };
    // Each of 200 requests takes 10 ms of a user who has one at a time, or 16.
    assert!(elapsed_s("stream = 16") > 2.0);
    assert!(elapsed_s("") < 0.5);
}

#[test]
fn stream_hides_the_delay_of_a_link_that_a_caller_alone_waits_for() {
    let elapsed_s = |traffic: &str| {
        let outcome = outcome(&text("0%", traffic));
        assert_eq!((outcome.ending, outcome.total.settled), ("complete", 200));
        outcome.elapsed_s
    };
    let alone = STREAM.replace("outstanding = 16", "outstanding = 1");
    let (stream, alone) = (
        elapsed_s(&format!("{STREAM}stream = 64")),
        elapsed_s(&alone),
    );
    assert!(4.0 * stream < alone, "{stream} and {alone} s");
}

#[test]
fn streams_lose_nothing_and_keep_their_order_under_loss() {
    for run in [1, 5, 64] {
        let outcome = outcome(&text("5%", &format!("{STREAM}stream = {run}")));
        assert_eq!((outcome.ending, outcome.total.settled), ("complete", 200));
        assert_eq!(received(&outcome), [(1, 200)]);
    }
}

#[test]
fn request_that_is_passed_on_is_executed_by_both_and_answered_once() {
    for (loss, length) in [("0%", 20), ("5%", 20), ("5%", 40_000)] {
        let traffic = format!(
            "to = [1, 2]\nlength = {{ fixed = {length} }}\nreply = \"same\"\noutstanding = 3\nforward = 3"
        );
        let outcome = outcome(&text(loss, &traffic));
        assert_eq!((outcome.ending, outcome.total.settled), ("complete", 200));
        let circuits = outcome.circuits.iter();
        for (circuit, called) in circuits.zip([1, 2]) {
            let rows: Vec<(usize, u64)> = circuit
                .receivers
                .iter()
                .map(|row| (row.station, row.messages))
                .collect();
            assert_eq!(rows, [(called, circuit.settled), (3, circuit.settled)]);
            assert!(circuit.settled > 50, "both are called");
            assert_eq!(circuit.replies, circuit.settled);
        }
    }
}

#[test]
fn passing_on_takes_a_packet_more_than_answering() {
    let packets = |traffic: &str| -> u64 {
        let outcome = outcome(&text("0%", traffic));
        let stations = outcome.stations.iter();
        stations.map(|row| row.packets_built).sum()
    };
    let base = "to = [1]\nlength = { fixed = 20 }\noutstanding = 1\n";
    let (answered, passed) = (packets(base), packets(&format!("{base}forward = 3")));
    assert!(
        answered + 200 <= passed,
        "{answered} packets, {passed} when requests are passed on"
    );
}

#[test]
fn group_call_is_settled_by_the_first_reply_and_executed_by_every_member() {
    let group = "to = { group = [2, 3, 4] }\nlength = { fixed = 1000 }\noutstanding = 1\n";
    let outcome = outcome(&text("0%", group));
    assert_eq!((outcome.ending, outcome.total.settled), ("complete", 200));
    assert_eq!(received(&outcome), [(2, 200), (3, 200), (4, 200)]);
    assert_eq!(outcome.stations[1].packets_built, 0, "no member");
}

#[test]
fn replies_of_a_group_are_collected_until_there_are_enough() {
    let calls = |to: &str, more: &str| {
        outcome(&text(
            "0%",
            &format!("to = {to}\nlength = {{ fixed = 100 }}\noutstanding = 1\n{more}"),
        ))
    };
    let all = calls("\"all\"", "collect = \"20 ms\"");
    assert_eq!(all.circuits[0].replies, 800, "four members, 200 calls");
    assert!(all.elapsed_s >= 4.0, "each call takes all of its time");
    let three = calls("\"all\"", "collect = \"20 ms\"\nreplies = 3");
    assert_eq!(three.circuits[0].replies, 600);
    assert!(three.elapsed_s < 1.0, "it is over with the third");
    let five = calls("\"all\"", "collect = \"20 ms\"\nreplies = 5");
    assert_eq!((five.total.settled, five.total.given_up), (0, 200));
}

#[test]
fn station_that_restarts_is_a_member_again() {
    let crash = "to = { group = [4] }\nlength = { fixed = 100 }\noutstanding = 1\n\
                 [[disturbance]]\nkind = \"crash\"\nstations = [4]\nat = \"50 ms\"\nlasts = \"1 s\"\n";
    let outcome = outcome(&text("0%", crash));
    assert_eq!((outcome.ending, outcome.total.settled), ("complete", 200));
}

#[test]
fn mistakes_about_callings_are_refused_with_place_and_remedy() {
    let refused = |text: &str, words: &[&str]| {
        let error = parse(text).map(drop).expect_err(text);
        for word in words {
            assert!(error.contains(word), "{error} lacks {word}");
        }
    };
    let one = "to = [1]\nlength = { fixed = 100 }\n";
    let cases: [(&str, &[&str]); 18] = [
        ("stream = 65\noutstanding = 2", &["65 calls", "1 to 64"]),
        ("stream = 2", &["give outstanding or clients"]),
        ("stream = 2\noutstanding = 65", &["64 calls in flight"]),
        ("forward = 9", &["no station 9", "0 to 4"]),
        ("forward = 0", &["station 0 calls"]),
        ("collect = \"1 s\"", &["replies once", "a group"]),
        ("replies = 2", &["give collect"]),
        (
            "forward = 2\ncollect = \"1 s\"",
            &["forward and collect exclude"],
        ),
        ("reply = \"5 MiB\"", &["4 MiB"]),
        ("stream = 0\noutstanding = 2", &["0 calls"]),
        (
            "stream = 2\noutstanding = 2\nforward = 2",
            &["stream and forward exclude"],
        ),
        ("repeat = 9", &["9 copies", "1 to 8"]),
        ("repeat = 2\nstream = 2", &["stream and repeat exclude"]),
        ("repeat = 2\nreply = \"20 B\"", &["datagrams have no reply"]),
        ("tries = 0", &["0 tries", "1 to 255"]),
        ("spacing = \"0 ms\"", &["spacing out of range"]),
        ("repair = \"fec\"", &["fec", "notify or timeout"]),
        (
            "repeat = 2\nrepair = \"timeout\"",
            &["datagrams have no repair"],
        ),
    ];
    for (more, words) in cases {
        refused(&text("0%", &format!("{one}{more}")), words);
    }
    let group = "to = { members = 5 }\nlength = { fixed = 100 }\n";
    refused(&text("0%", group), &["5 members", "1 to 4"]);
    let all = "to = \"all\"\nlength = { fixed = 100 }\n";
    refused(&text("0%", &format!("{all}forward = 2")), &["to a group"]);
    refused(
        &text("0%", &all.replace("100", "16385")),
        &["16385 B", "16 KiB"],
    );
    refused(
        &text("0%", &format!("{all}reply = \"17 KiB\"")),
        &["a reply of", "16 KiB"],
    );
    let xtp = |text: String| text.replace("\"vmtp\"", "\"xtp\"");
    refused(
        &xtp(text("0%", &format!("{one}forward = 2"))),
        &["only calls have a station to forward to"],
    );
    let call = |text: String| text.replace("\"vmtp\"", "\"call\"");
    refused(
        &call(text("0%", &format!("{one}forward = 2"))),
        &["call has no forwarding", "vmtp"],
    );
    refused(&call(text("0%", all)), &["call has no groups"]);
    refused(
        &text("0%", one).replace("from = [0]", "from = { group = [0] }"),
        &["a group is no sender"],
    );
}

/// Two streams with all calls in flight together, 2 MB on a slow cable, and their server away for a moment.
const FORGOTTEN_RUN: &str = r#"
name = "h"
seed = 103
time_limit = "400 s"
[medium]
kind = "ether3"
[faults]
loss = "0%"
duplicate = "5%"
until = "10 s"
[[disturbance]]
kind = "partition"
stations = [1]
at = "2 s"
lasts = "1500 ms"
[[station]]
count = 4
engine = { protocol = "vmtp" }
[[traffic]]
from = [0]
to = [1]
length = { uniform = [1, 60000] }
interarrival = { exponential = "10 us" }
messages = 40
stream = 64
outstanding = 60
reply = "16 KiB"
[[traffic]]
from = [2]
to = [1]
length = { uniform = [1, 60000] }
interarrival = { exponential = "10 us" }
messages = 30
stream = 64
outstanding = 60
reply = "16 KiB"
"#;

#[test]
fn run_that_its_server_forgot_is_sent_again_once_and_executed_once() {
    let scenario = parse(FORGOTTEN_RUN).expect("it is valid");
    let held = scenario::swarm::check_scenario(&scenario, &|engine| engine);
    // Calls may be given up in such a queue; none is executed twice.
    let doubled = |failure: &scenario::swarm::InvariantFailure| {
        failure.0 != scenario::swarm::Invariant::NotGivenUp
    };
    assert!(!held.as_ref().is_err_and(doubled), "{held:?}");
    let outcome = run(&scenario, &[], scenario.seed, |_| {}).expect("it builds");
    // Two copies of 40 requests are 2,500 packets; one for each packet that was refused were 16,000.
    let longest = outcome.stations[0].controller_max;
    assert!(longest < 5000, "{longest} frames in the caller's queue");
}
