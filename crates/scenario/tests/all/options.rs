//! Options of protocols: accepted, effective, and refused where a protocol does not have them.

use crate::texts::{self, sixty_messages as text};
use scenario::{RunOutcome, parse, run};

fn outcome(engine: &str, faults: &str) -> RunOutcome {
    texts::outcome(&text(engine, faults), 1)
}

const LOSS: &str = "[faults]\nloss = \"5%\"";

#[test]
fn every_xtp_option_delivers_whole_messages_despite_loss() {
    for option in [
        "error = \"selective\"",
        "error = \"go-back-n\"",
        "checksum = false",
        "fastnak = true",
        "flow = \"off\"",
        "congestion = \"newreno\"",
        "congestion = \"ledbat\"",
        "congestion = \"bbr\"",
        "rate = \"5 Mbit/s\"",
        "rate = \"5 Mbit/s\", burst = \"3 KiB\"",
        "explicit = false",
        "window = \"16 KiB\"",
        "packet = 576",
        "status_every = \"8 KiB\"",
        "status_delay = \"20 ms\"",
        "wait_min = \"50 ms\", wait_max = \"1 s\", wait_initial = \"200 ms\"",
        "retries = 20, keep_alive = \"10 s\"",
    ] {
        let outcome = outcome(&format!("protocol = \"xtp\", {option}"), LOSS);
        let receiver = &outcome.circuits[0].receivers[0];
        assert_eq!(
            (outcome.ending, receiver.messages),
            ("complete", 60),
            "{option}"
        );
        assert_eq!((receiver.gaps, receiver.wrong_bytes), (0, 0), "{option}");
    }
}

#[test]
fn options_have_their_effect() {
    let retransmissions = |option: &str| {
        let outcome = outcome(&format!("protocol = \"xtp\", {option}"), LOSS);
        outcome.stations[0].retransmissions
    };
    // Go-back-n retransmits packets that had arrived.
    let (selective, back) = (
        retransmissions("error = \"selective\""),
        retransmissions("error = \"go-back-n\""),
    );
    assert!(back * 2 > selective * 3, "{selective} {back}");
    // Without error control nothing is retransmitted, and gaps remain.
    let none = outcome("protocol = \"xtp\", error = \"none\"", LOSS);
    assert_eq!(none.stations[0].retransmissions, 0);
    assert!(none.circuits[0].receivers[0].gaps > 10);
    // 30 KiB at 2 Mbit/s take 123 ms, at the link's 10 Mbit/s 25.
    let took = |option: &str| {
        let outcome = outcome(&format!("protocol = \"xtp\"{option}"), "");
        outcome.elapsed_s
    };
    let (free, limited) = (took(""), took(", rate = \"2 Mbit/s\""));
    assert!(free < 2.0 && limited > 7.0, "{free} {limited}");
    // A window below the bandwidth-delay product leaves the link idle.
    assert!(took(", window = \"4 KiB\"") > 1.5 * free);
    // Resend pairs make control packets 128 octets longer, so an exchange takes longer.
    let delay = |option: &str| {
        let outcome = outcome(&format!("protocol = \"xtp3\"{option}"), "");
        let exchange = outcome.circuits[0].exchange.as_ref();
        exchange.expect("there are answers").mean_us
    };
    let longer = delay(", resend_pairs = true") - delay("");
    assert!((longer - 128.0 * 0.8).abs() < 1.0, "{longer}");
}

/// A sender and ten receivers on an Ethernet where each receiver loses 2 % of the frames.
/// Links that carry 1300 octets: who probes sends packets that pass, with packets of 1500 nothing arrives.
#[test]
fn links_of_an_mtu_lose_longer_packets_and_probes_find_it() {
    let of = |option: &str| {
        let engine = format!("protocol = \"sctp\", packet = 1500, retries = 3, {option}");
        let text = text(&engine, "mtu = 1300");
        texts::outcome(&text, 1)
    };
    let probing = of("path_mtu = \"probe\"");
    let receiver = &probing.circuits[0].receivers[0];
    assert_eq!((probing.ending, receiver.messages), ("complete", 60));
    let fixed = of("path_mtu = \"fixed\"");
    assert_eq!(fixed.circuits[0].receivers[0].messages, 0);
}

#[test]
fn mtu_and_path_mtu_are_refused_where_they_are_nothing() {
    let refusal = |text: &str| parse(text).map(|_| ()).expect_err("refused");
    let sctp = |option: &str, medium: &str| text(&format!("protocol = \"sctp\"{option}"), medium);
    let narrow = refusal(&sctp("", "mtu = 500"));
    assert!(narrow.contains("548 B or more"), "{narrow}");
    let word = refusal(&sctp(", path_mtu = \"no\"", ""));
    assert!(word.contains("use probe or fixed"), "{word}");
    let ether = sctp("", "mtu = 1400").replace("kind = \"direct\"", "kind = \"ether10\"");
    let ether = ether.replace("rate = \"10 Mbit/s\"\ndelay = \"5 ms\"", "");
    let ether = refusal(&ether);
    assert!(ether.contains("for links"), "{ether}");
}

fn group_outcome(option: &str) -> RunOutcome {
    let text = format!(
        r#"
time_limit = "300 s"
[medium]
kind = "ether10"
[faults]
loss = "2%"
[[station]]
engine = {{ protocol = "xtp-group", members = 10{option} }}
[[station]]
count = 10
engine = {{ protocol = "xtp-group"{option} }}
[[traffic]]
from = [0]
to = "all"
length = {{ fixed = "8 KiB" }}
interarrival = {{ fixed = "20 ms" }}
messages = 100
"#
    );
    texts::outcome(&text, 1)
}

#[test]
fn group_engine_delivers_everything_to_all_receivers() {
    let mut retransmissions = Vec::new();
    for option in [
        "",
        ", error = \"go-back-n\"",
        ", slot = \"5 ms\"",
        ", window = \"16 KiB\", reliability = \"buckets\", requests = 2, tolerated = 4",
        ", window = \"16 KiB\", dialect = \"3.6\", tolerated = 4",
        ", window = \"16 KiB\", dialect = \"3.5\", tolerated = 4, answer_to_group = true",
    ] {
        let outcome = group_outcome(option);
        assert_eq!(outcome.ending, "complete", "{option}");
        let circuit = &outcome.circuits[0];
        assert_eq!(circuit.receivers.len(), 10);
        for receiver in &circuit.receivers {
            let faults = (receiver.gaps, receiver.wrong_bytes);
            assert_eq!((receiver.messages, faults), (100, (0, 0)), "{option}");
        }
        retransmissions.push(outcome.stations[0].retransmissions);
    }
    assert!(
        retransmissions.iter().all(|count| *count > 0),
        "{retransmissions:?}"
    );
    assert!(
        retransmissions[0] * 2 < retransmissions[1],
        "{retransmissions:?}"
    );
}

#[test]
fn unsupported_option_refused() {
    for (engine, expected_error) in [
        (
            "protocol = \"bare\", damping = true",
            "bare has no option damping",
        ),
        (
            "protocol = \"xtp3\", error = \"selective\"",
            "xtp3 has no option error",
        ),
        (
            "protocol = \"xtp\", wtimer = \"1 s\"",
            "xtp has no option wtimer",
        ),
        (
            "protocol = \"xtp\", error = \"some\"",
            "no error control \"some\"; use selective, go-back-n, none",
        ),
        (
            "protocol = \"xtp\", congestion = \"cubic\"",
            "no congestion control \"cubic\"; use off, newreno, ledbat, bbr",
        ),
        (
            "protocol = \"xtp\", path_mtu = \"probe\"",
            "xtp has no option path_mtu",
        ),
        (
            "protocol = \"xtp-group\", reliability = \"some\"",
            "no reliability \"some\"; use counted, buckets, none",
        ),
        (
            "protocol = \"xtp-group\", dialect = \"3.3\"",
            "no dialect \"3.3\"; use 4.0, 3.6, 3.5",
        ),
        (
            "protocol = \"xtp-group\", dialect = \"3.6\", reliability = \"counted\"",
            "know no members",
        ),
        (
            "protocol = \"xtp-group\", dialect = \"3.6\", error = \"selective\"",
            "go back in a group",
        ),
        (
            "protocol = \"xtp-group\", requests = 0",
            "requests of 0 is out of range; use 1 to 64",
        ),
        (
            "protocol = \"xtp\", members = 3",
            "xtp has no option members",
        ),
        (
            "protocol = \"xtp\", packet = 20",
            "a packet of 20 octets is out of range",
        ),
    ] {
        let refusal = parse(&text(engine, "")).expect_err(engine);
        assert!(refusal.contains(expected_error), "{engine}: {refusal}");
    }
}

#[test]
fn outstanding_one_sends_one_message_at_a_time() {
    let text =
        text("protocol = \"xtp\"", "").replace("messages = 60", "messages = 60\noutstanding = 1");
    let scenario = parse(&text).expect("good");
    let outcome = run(&scenario, &[], 1, |_| {}).expect("it builds");
    assert_eq!(outcome.total.settled, 60);
    // At most one message of 30 KiB is in the send buffer.
    assert_eq!(outcome.circuits[0].held_max_bytes, 30 << 10);
    assert!(outcome.elapsed_s > 60.0 * 0.03, "{}", outcome.elapsed_s);
}
