//! Crashes, partitions, flaps, periods of loss and inexact clocks.

use crate::texts::{self, SLOW_LINK};
use scenario::{RunOutcome, parse, run};

/// Two stations on a link, a message every 10 ms for 4 s, and `more`.
fn outcome(engine: &str, more: &str) -> RunOutcome {
    outcome_of(400, engine, more)
}

fn outcome_of(messages: u64, engine: &str, more: &str) -> RunOutcome {
    outcome_with_seed(1, messages, engine, more)
}

fn outcome_with_seed(seed: u64, messages: u64, engine: &str, more: &str) -> RunOutcome {
    let text = format!(
        r#"{SLOW_LINK}
[[station]]
engine = {{ {engine} }}
[[station]]
engine = {{ {engine} }}
[[traffic]]
from = [0]
to = [1]
length = {{ fixed = 1000 }}
interarrival = {{ fixed = "10 ms" }}
messages = {messages}
{more}
"#
    );
    texts::outcome(&text, seed)
}

const XTP: &str = "protocol = \"xtp\"";

/// Loss closes no circuit: with two packets in five lost each way, eight unanswered requests in a
/// row are not rare.
const MANY_RETRIES: &str = "protocol = \"xtp\", retries = 100";

/// Closes a circuit after some 0.7 s without an answer.
const FEW_RETRIES: &str = "protocol = \"xtp\", retries = 3, wait_max = \"200 ms\"";

fn damaged(outcome: &RunOutcome) -> u64 {
    let receivers = outcome
        .circuits
        .iter()
        .flat_map(|circuit| &circuit.receivers);
    receivers.map(|r| r.wrong_bytes + r.gaps).sum()
}

#[test]
fn short_partition_delays_without_loss() {
    let calm = outcome(XTP, "");
    let cut = outcome(
        XTP,
        "[[disturbance]]\nkind = \"partition\"\nstations = [1]\nat = \"1 s\"\nlasts = \"500 ms\"",
    );
    for outcome in [&calm, &cut] {
        assert_eq!((outcome.ending, outcome.total.received), ("complete", 400));
        assert_eq!((outcome.total.given_up, damaged(outcome)), (0, 0));
    }
    let slowest = |outcome: &RunOutcome| outcome.total.delay.as_ref().map_or(0.0, |d| d.max_us);
    assert!(slowest(&calm) < 20_000.0, "{}", slowest(&calm));
    // A message sent just after the partition began waited for all of it.
    assert!(slowest(&cut) > 450_000.0, "{}", slowest(&cut));
    assert!(cut.stations[0].retransmissions > calm.stations[0].retransmissions);
}

#[test]
fn long_partition_closes_circuit_and_user_reopens() {
    let outcome = outcome_of(
        1000,
        FEW_RETRIES,
        "[[disturbance]]\nkind = \"partition\"\nstations = [0]\nat = \"1 s\"\nlasts = \"2 s\"",
    );
    assert_eq!(outcome.ending, "complete");
    assert!(outcome.circuits.len() > 1, "{}", outcome.circuits.len());
    let given_up = outcome.total.given_up;
    assert!((150..450).contains(&given_up), "{given_up}");
    assert_eq!(outcome.total.settled + given_up, 1000);
    assert_eq!(damaged(&outcome), 0);
}

#[test]
fn flap_repeats_partition() {
    let flap = |times: u64| {
        outcome(
            XTP,
            &format!(
                "[[disturbance]]\nkind = \"flap\"\nstations = [1]\nat = \"500 ms\"\n\
                 lasts = \"100 ms\"\nevery = \"600 ms\"\ntimes = {times}"
            ),
        )
    };
    let (once, often) = (flap(1), flap(5));
    assert_eq!((once.total.received, often.total.received), (400, 400));
    let retransmissions = |outcome: &RunOutcome| outcome.stations[0].retransmissions;
    assert!(
        retransmissions(&often) > 3 * retransmissions(&once).max(1),
        "{} {}",
        retransmissions(&once),
        retransmissions(&often)
    );
}

#[test]
fn loss_period_and_faults_end_on_time() {
    let of = |more: &str| outcome_with_seed(7, 400, MANY_RETRIES, more);
    let loss_period = of(
        "[[disturbance]]\nkind = \"loss\"\nloss = \"40%\"\nloss_run = 1.7\nat = \"1 s\"\n\
         lasts = \"1 s\"",
    );
    assert_eq!(
        (loss_period.ending, loss_period.total.received),
        ("complete", 400)
    );
    let all = of("[faults]\nloss = \"40%\"\nloss_run = 1.7");
    let retransmissions = |outcome: &RunOutcome| outcome.stations[0].retransmissions;
    assert!(
        retransmissions(&loss_period) > 10,
        "{}",
        retransmissions(&loss_period)
    );
    assert!(
        retransmissions(&all) > 2 * retransmissions(&loss_period),
        "{} {}",
        retransmissions(&all),
        retransmissions(&loss_period)
    );
    // The same for faults that end.
    let ended = outcome(
        MANY_RETRIES,
        "[faults]\nloss = \"40%\"\nloss_run = 1.7\nuntil = \"1 s\"",
    );
    assert!(retransmissions(&ended) > 10 && retransmissions(&all) > 2 * retransmissions(&ended));
}

#[test]
fn crashed_receiver_gets_new_circuit() {
    let outcome = outcome_of(
        1000,
        FEW_RETRIES,
        "[[disturbance]]\nkind = \"crash\"\nstations = [1]\nat = \"1 s\"\nlasts = \"300 ms\"",
    );
    assert_eq!(outcome.ending, "complete");
    assert_eq!(outcome.circuits.len(), 2, "one before and one after");
    assert!(outcome.total.given_up > 10, "{}", outcome.total.given_up);
    assert_eq!(outcome.total.settled + outcome.total.given_up, 1000);
    let after = &outcome.circuits[1];
    assert!(after.settled > 100 && after.receivers[0].messages == after.settled);
    assert_eq!(damaged(&outcome), 0);
}

#[test]
fn crashed_sender_opens_new_circuit() {
    let outcome = outcome(
        XTP,
        "[[disturbance]]\nkind = \"crash\"\nstations = [0]\nat = \"1 s\"\nlasts = \"300 ms\"",
    );
    assert_eq!((outcome.ending, outcome.circuits.len()), ("complete", 2));
    // 100 before, some 30 while it was down, the rest after.
    assert!(
        (25..60).contains(&outcome.total.given_up),
        "{}",
        outcome.total.given_up
    );
    assert_eq!(outcome.total.settled + outcome.total.given_up, 400);
    assert_eq!(damaged(&outcome), 0);
}

#[test]
fn fast_clock_expires_timers_early() {
    // The only packet of a message is lost, and sent again when the sender's timer expires.
    let wait = |ppm: i64| {
        let text = format!(
            r#"
time_limit = "100 s"
[medium]
kind = "direct"
[[station]]
engine = {{ protocol = "xtp3", wtimer = "1 s" }}
chips = {{ clock_ppm = {ppm} }}
[[station]]
engine = {{ protocol = "xtp3" }}
[[traffic]]
from = [0]
to = [1]
length = {{ fixed = 100 }}
interarrival = {{ fixed = "1 ms" }}
messages = 1
[[disturbance]]
kind = "partition"
stations = [1]
at = "0 s"
lasts = "500 ms"
"#
        );
        let scenario = parse(&text).unwrap_or_else(|error| panic!("{error}"));
        let outcome = run(&scenario, &[], 1, |_| {}).expect("it builds");
        assert_eq!(outcome.total.received, 1);
        outcome.total.delay.expect("it arrived").mean_us
    };
    let right = wait(0);
    assert!((right - 1e6).abs() < 1e4, "{right}");
    for ppm in [100_000, -100_000, 200] {
        let expected = 1e6 / (1.0 + ppm as f64 * 1e-6);
        let found = wait(ppm) - (right - 1e6);
        assert!(
            (found - expected).abs() < 5.0,
            "{ppm}: {found}, expected {expected}"
        );
    }
}

#[test]
fn invalid_disturbance_error_names_line_and_column() {
    let text = |disturbance: &str| {
        format!(
            "time_limit = \"1 s\"\n[medium]\nkind = \"ether10\"\n[[station]]\ncount = 2\n\
             engine = {{ protocol = \"xtp\" }}\n[[traffic]]\nfrom = [0]\nto = [1]\n\
             length = {{ fixed = 1 }}\ninterarrival = {{ fixed = \"1 s\" }}\n\
             [[disturbance]]\nat = \"0 s\"\nlasts = \"1 s\"\n{disturbance}\n"
        )
    };
    for (disturbance, expected_error) in [
        (
            "kind = \"fire\"",
            "15:8: no disturbance \"fire\"; use crash, partition",
        ),
        (
            "kind = \"crash\"",
            "15:8: a crash needs stations; name them",
        ),
        (
            "kind = \"crash\"\nstations = [2]",
            "15:8: no station 2; there are 0 to 1",
        ),
        (
            "kind = \"loss\"",
            "15:8: kind = \"loss\" takes loss and no stations",
        ),
        (
            "kind = \"flap\"\nstations = [1]",
            "15:8: a repeated disturbance needs every",
        ),
        (
            "kind = \"crash\"\nstations = [1]\nevery = \"2 s\"\ntimes = 0",
            "15:8: 0 times is out of range",
        ),
        (
            "kind = \"crash\"\nstations = [1]\nevery = \"1000000 s\"\ntimes = 10000",
            "15:8: it would end after",
        ),
    ] {
        let refusal = parse(&text(disturbance)).expect_err(disturbance);
        assert!(
            refusal.starts_with(expected_error),
            "{disturbance}: {refusal}"
        );
    }
}
