//! Transactions and layers in scenarios.

use scenario::swarm::{Tally, check_scenario};
use scenario::{RunOutcome, parse, run, trace};
use std::sync::{Arc, Mutex};

/// Two stations that call a third over an ether with loss.
fn calls(more: &str) -> String {
    format!(
        r#"
name = "calls"
time_limit = "600 s"

[medium]
kind = "ether10"

[faults]
loss = "5%"

[[station]]
count = 3
engine = {{ protocol = "call", wait_initial = "50 ms", retries = 12 }}
{more}

[[traffic]]
from = [0, 1]
to = [2]
length = {{ uniform = [1, 20000] }}
interarrival = {{ exponential = "100 ms" }}
messages = 200
outstanding = 4
reply = "same"
"#
    )
}

/// Two stations with XTP circuits over a lossy link, with a layer or without.
fn circuits(layer: &str) -> String {
    format!(
        r#"
name = "circuits"
time_limit = "600 s"

[medium]
kind = "direct"
rate = "10 Mbit/s"
delay = "5 ms"

[faults]
loss = "2%"
duplicate = "1%"

[[station]]
count = 2
{layer}
engine = {{ protocol = "xtp", retries = 40 }}

[[traffic]]
from = [0]
to = [1]
length = {{ uniform = [1, 20000] }}
interarrival = {{ exponential = "10 ms" }}
messages = 300
"#
    )
}

fn outcome(text: &str, seed: u64) -> RunOutcome {
    let scenario = parse(text).expect("a good scenario");
    run(&scenario, &[], seed, |_| {}).expect("it builds")
}

fn lines(text: &str, seed: u64) -> Vec<String> {
    let scenario = parse(text).expect("a good scenario");
    let seen = Arc::new(Mutex::new(Vec::new()));
    let observer = Arc::clone(&seen);
    run(&scenario, &[], seed, move |network| {
        network.observe(move |observation| {
            let line = trace::line(observation);
            observer.lock().expect("nobody panicked").push(line);
        });
    })
    .expect("it builds");
    Arc::into_inner(seen)
        .and_then(|seen| seen.into_inner().ok())
        .unwrap_or_default()
}

/// Checks the invariants of the swarm.
fn tally(text: &str) -> Tally {
    let scenario = parse(text).expect("a good scenario");
    check_scenario(&scenario, &|engine| engine).expect("the invariants hold")
}

#[test]
fn calls_over_ether_with_loss_are_all_answered_as_sent() {
    let outcome = outcome(&calls(""), 1);
    assert_eq!(outcome.ending, "complete");
    let total = &outcome.total;
    assert_eq!(
        (total.offered, total.settled, total.received),
        (200, 200, 200)
    );
    assert_eq!(total.given_up, 0);
    let retransmissions: u64 = outcome.stations.iter().map(|row| row.retransmissions).sum();
    assert!(retransmissions > 20, "{retransmissions} prove little");
    for circuit in &outcome.circuits {
        assert_eq!(circuit.lost_bytes, 0);
        assert!(circuit.exchange.is_some(), "calls have an exchange time");
        let receiver = &circuit.receivers[0];
        assert_eq!((receiver.wrong_bytes, receiver.gaps), (0, 0));
        let delay = receiver.delay.as_ref().expect("a delay of each message");
        assert!(delay.mean_us > 0.0);
    }
    tally(&calls(""));
}

#[test]
fn replies_of_the_same_length_travel_back_and_empty_ones_do_not() {
    let octets_built = |text: &str| {
        let lines = lines(text, 1);
        let mut octets = 0_u64;
        for line in lines.iter().filter(|line| line.contains(" offered at=2 ")) {
            let len = line
                .split(" len=")
                .nth(1)
                .and_then(|rest| rest.split(' ').next());
            octets += len
                .and_then(|len| len.parse::<u64>().ok())
                .expect("a length");
        }
        octets
    };
    let (same, empty) = (calls(""), calls("").replace("\"same\"", "\"empty\""));
    assert!(octets_built(&same) > 50 * octets_built(&empty));
}

#[test]
fn same_seed_gives_the_same_trace_of_calls_and_layers() {
    for text in [
        calls(""),
        calls("layer = \"halves\""),
        circuits("layer = \"halves\""),
    ] {
        let first = lines(&text, 3);
        assert!(first.len() > 500 && first == lines(&text, 3));
        assert!(first != lines(&text, 4));
    }
}

#[test]
fn circuits_through_a_layer_deliver_everything_in_frames_of_half_a_packet() {
    let text = circuits("layer = \"halves\"");
    let outcome = outcome(&text, 1);
    assert_eq!((outcome.ending, outcome.total.settled), ("complete", 300));
    assert_eq!(outcome.circuits[0].receivers[0].wrong_bytes, 0);
    assert!(tally(&text).retransmissions > 50);
    let longest = |text: &str| {
        let lengths = lines(text, 1).into_iter().filter_map(|line| {
            let len = line.split(" len=").nth(1)?.split(' ').next()?;
            len.parse::<u64>().ok()
        });
        lengths.max()
    };
    assert_eq!(
        (longest(&circuits("")), longest(&text)),
        (Some(1500), Some(758))
    );
}

#[test]
fn station_that_restarts_calls_and_is_called_again() {
    for station in [0, 2] {
        for layer in ["", "layer = \"halves\""] {
            let crash = format!(
                "{}\n[[disturbance]]\nkind = \"crash\"\nstations = [{station}]\nat = \"2 s\"\n\
                 lasts = \"500 ms\"\n",
                calls(layer)
            );
            let outcome = outcome(&crash, 1);
            let total = &outcome.total;
            assert_eq!((outcome.ending, total.offered), ("complete", 200));
            assert_eq!(total.settled + total.given_up, 200);
            assert!(total.settled > 150, "{total:?}");
            assert_eq!(
                total.given_up > 0,
                station == 0,
                "only a caller gives up: {total:?}"
            );
            tally(&crash);
        }
    }
}

#[test]
fn calls_to_a_station_that_stays_away_time_out_and_are_given_up() {
    let text = format!(
        "{}\n[[disturbance]]\nkind = \"crash\"\nstations = [2]\nat = \"2 s\"\nlasts = \"900 s\"\n",
        calls("").replace("retries = 12", "retries = 3")
    );
    let outcome = outcome(&text, 1);
    let total = &outcome.total;
    assert_eq!((outcome.ending, total.offered), ("complete", 200));
    assert!(total.settled > 10 && total.given_up > 100, "{total:?}");
}

/// 200 calls of so many clients that do not pause, over a link without loss.
fn closed_loop(protocol: &str, clients: u64, more: &str) -> String {
    format!(
        r#"
name = "clients"
time_limit = "600 s"

[medium]
kind = "direct"
rate = "100 Mbit/s"
delay = "1 ms"

[[station]]
count = 2
engine = {{ protocol = "{protocol}" }}

[[traffic]]
from = [0]
to = [1]
length = {{ fixed = 100 }}
interarrival = {{ fixed = "0 us" }}
messages = 200
clients = {clients}
{more}
"#
    )
}

#[test]
fn clients_call_again_when_they_are_answered_and_are_served_at_once() {
    for protocol in ["call", "vmtp"] {
        let elapsed_s = |clients: u64| {
            let text = closed_loop(protocol, clients, "service = \"10 ms\"\nreply = 512");
            let outcome = outcome(&text, 1);
            assert_eq!(outcome.ending, "complete", "{protocol}");
            assert_eq!(outcome.total.settled, 200, "{protocol}");
            tally(&text);
            outcome.elapsed_s
        };
        let (one, four) = (elapsed_s(1), elapsed_s(4));
        // A call takes 10 ms, and 2 ms and a little on the link.
        assert!((2.4..2.6).contains(&one), "{protocol}: {one}");
        assert!((one / four - 4.0).abs() < 0.2, "{protocol}: {one}, {four}");
    }
}

#[test]
fn reply_of_a_given_length_travels_back() {
    let octets = |reply: &str| {
        let outcome = outcome(&closed_loop("call", 1, reply), 1);
        assert_eq!(outcome.ending, "complete");
        outcome.elapsed_s
    };
    let (empty, long) = (octets("reply = \"empty\""), octets("reply = \"10 kB\""));
    // 10,000 octets and headers take 0.8 ms more at 100 Mbit/s.
    let more = (long - empty) / 200.0;
    assert!((0.0008..0.001).contains(&more), "{more}");
    assert_eq!(octets("reply = 0"), empty);
}

#[test]
fn clients_outlive_a_server_that_is_away_for_a_while() {
    let text = closed_loop("vmtp", 8, "service = \"3 ms\"")
        + "\n[[disturbance]]\nkind = \"crash\"\nstations = [1]\nat = \"20 ms\"\nlasts = \"5 s\"\n";
    let outcome = outcome(&text, 1);
    let total = &outcome.total;
    assert_eq!((outcome.ending, total.offered), ("complete", 200));
    assert_eq!(total.settled + total.given_up, 200);
    assert!(total.settled > 20, "{total:?}");
}

#[test]
fn mistakes_about_calls_and_layers_are_refused_with_place_and_remedy() {
    let refused = |text: &str, words: &[&str]| {
        let error = parse(text).map(drop).expect_err(text);
        let place = error
            .split(':')
            .next()
            .and_then(|line| line.parse::<u32>().ok());
        assert!(place.is_some_and(|line| line > 1), "{error}");
        for word in words {
            assert!(error.contains(word), "{error} lacks {word}");
        }
    };
    refused(&calls("layer = \"cells\""), &["cells", "halves"]);
    refused(
        &circuits("").replace("messages", "reply = \"same\"\nmessages"),
        &["only calls"],
    );
    refused(
        &calls("").replace("\"same\"", "\"long\""),
        &["long", "empty or same"],
    );
    for (word, what) in [
        ("service = \"1 ms\"", "a service"),
        ("clients = 3", "clients"),
    ] {
        let text = circuits("").replace("messages", &format!("{word}\nmessages"));
        refused(&text, &["only calls have", what]);
    }
    refused(
        &closed_loop("call", 0, ""),
        &["0 clients", "has 1 to 10000"],
    );
    refused(
        &closed_loop("call", 3, "outstanding = 3"),
        &["clients or outstanding"],
    );
    refused(
        &closed_loop("vmtp", 1, "reply = \"5 MiB\""),
        &["a reply of 5242880 B", "4 MiB"],
    );
    refused(&calls("").replace("[2]", "\"all\""), &["no groups"]);
    refused(
        &calls("").replace("20000", "2000000"),
        &["2000000 B", "1 MiB"],
    );
    refused(
        &calls("").replace("wait_initial", "wait_min"),
        &["call has no option wait_min"],
    );
    let other = "\n[[station]]\nlayer = \"halves\"\nengine = { protocol = \"call\" }\n";
    let text = calls("") + other;
    refused(
        &text.replace("to = [2]", "to = [3]"),
        &["different layers", "0 and 3"],
    );
    let text = calls("") + "\n[[station]]\nengine = { protocol = \"xtp\" }\n";
    refused(
        &text.replace("to = [2]", "to = [3]"),
        &["calls", "circuits", "0 and 3"],
    );
}
