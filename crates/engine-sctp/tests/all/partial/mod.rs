//! Partial reliability, interleaving and schedulers between two ends in virtual time (RFC 3758, RFC 7496, RFC
//! 8260).

mod exchange;

use crate::drawn::seeds;
use crate::fuzz::SCHEDULERS;
use core::time::Duration;
use engine::{CloseReason, Note, Reliability, SplitMix64};
use engine_sctp::{Scheduler, SctpConfig};
use exchange::{Faults, Outcome, Plan, run};
use std::collections::BTreeSet;

const CLEAN: Faults = Faults {
    lost: 0,
    doubled: 0,
    late: 0,
};

const LOSSY: Faults = Faults {
    lost: 80,
    doubled: 30,
    late: 60,
};

/// Messages of every policy, ordered and not, of one chunk and of several. Their lengths differ, so that
/// a message is known by its bytes.
fn plans(count: u64, seed: u64) -> Vec<Plan> {
    let mut random = SplitMix64::new(seed);
    let plan = |index: u64| {
        let base = [40, 300, 1200, 4000, 9000][random.below(5) as usize];
        let reliability = match random.below(5) {
            0 | 1 => Reliability::Full,
            2 => Reliability::Lifetime(Duration::from_millis(1 + random.below(60))),
            3 => Reliability::Retransmissions(random.below(2) as u32),
            _ => Reliability::Priority(random.below(4) as u16),
        };
        Plan {
            at_ms: index / 4 * random.below(3) / 2,
            len: base + index,
            note: Note {
                stream: random.below(5) as u16,
                unordered: random.below(4) == 0,
                tag: (random.below(2) == 0).then_some(51),
                reliability,
                ..Note::default()
            },
        }
    };
    let mut plans: Vec<Plan> = (0..count).map(plan).collect();
    plans.sort_by_key(|plan| plan.at_ms);
    plans
}

/// Every message arrived once, whole, in the order of its stream, or was reported; what must arrive did.
fn check(plans: &[Plan], outcome: &Outcome, what: &str) {
    // A late packet of the receiver meets nobody and is answered with an ABORT (RFC 9260 section 8.4).
    let [sender, receiver] = outcome.closed;
    assert_eq!(sender, Some(CloseReason::Graceful), "{what}");
    assert!(receiver.is_some(), "{what}");
    let received: BTreeSet<usize> = outcome.received.iter().copied().collect();
    assert_eq!(received.len(), outcome.received.len(), "{what}: each once");
    for (number, plan) in plans.iter().enumerate() {
        let is_abandoned = outcome.abandoned.contains_key(&number);
        assert!(
            received.contains(&number) || is_abandoned,
            "{what}: message {number}"
        );
        let must_arrive = plan.note.reliability == Reliability::Full;
        assert!(!(must_arrive && is_abandoned), "{what}: message {number}");
    }
    let ordered = outcome
        .received
        .iter()
        .filter(|number| !plans[**number].note.unordered);
    let mut last = std::collections::BTreeMap::new();
    for number in ordered {
        let before = last.insert(plans[*number].note.stream, *number);
        assert!(
            before < Some(*number),
            "{what}: message {number} after {before:?}"
        );
    }
}

#[test]
fn every_message_arrives_once_whole_in_order_or_is_reported() {
    let (mut abandoned, mut begun) = (0, 0);
    for seed in seeds(40) {
        let config = SctpConfig {
            interleave: seed % 2 == 1,
            scheduler: SCHEDULERS[(seed / 2 % 6) as usize],
            send_buffer: 30_000,
            receive_buffer: [20_000, 512 << 10][(seed % 3 / 2) as usize],
            ..SctpConfig::default()
        };
        let plans = plans(150, seed);
        let outcome = run(&config, &plans, LOSSY, seed);
        check(&plans, &outcome, &format!("seed {seed}"));
        abandoned += outcome.abandoned.len();
        begun += outcome
            .abandoned
            .values()
            .filter(|was_sent| **was_sent)
            .count();
        assert!(outcome.dry > 0, "seed {seed}");
    }
    assert!(
        begun > 20 && abandoned > begun + 20,
        "{begun} of {abandoned} were begun"
    );
}

#[test]
fn peer_without_partial_reliability_gets_every_message() {
    let config = SctpConfig {
        partial_reliability: false,
        ..SctpConfig::default()
    };
    for seed in seeds(6) {
        let plans = plans(100, seed);
        let outcome = run(&config, &plans, LOSSY, seed);
        check(&plans, &outcome, &format!("seed {seed}"));
        assert_eq!((outcome.received.len(), outcome.abandoned.len()), (100, 0));
    }
}

fn of(stream: u16, reliability: Reliability) -> Note {
    Note {
        stream,
        reliability,
        ..Note::default()
    }
}

#[test]
fn lossless_link_needs_no_retransmission_to_be_given_up() {
    let note = of(1, Reliability::Retransmissions(0));
    let plan = |index| Plan {
        at_ms: index,
        len: 1000 + index,
        note,
    };
    let plans: Vec<Plan> = (0..200).map(plan).collect();
    let outcome = run(&SctpConfig::default(), &plans, CLEAN, 1);
    assert_eq!((outcome.received.len(), outcome.abandoned.len()), (200, 0));
}

#[test]
fn lost_messages_without_retransmissions_hold_nobody_up() {
    let plan = |reliability| {
        move |index: u64| Plan {
            at_ms: index * 10,
            len: 1000 + index,
            note: of(1, reliability),
        }
    };
    let took = |reliability| {
        let plans: Vec<Plan> = (0..300).map(plan(reliability)).collect();
        let outcome = run(&SctpConfig::default(), &plans, LOSSY, 5);
        check(&plans, &outcome, "messages that need not arrive");
        outcome
    };
    let none = took(Reliability::Retransmissions(0));
    let many = took(Reliability::Retransmissions(20));
    assert!(none.abandoned.len() > 10, "{}", none.abandoned.len());
    assert!(many.abandoned.is_empty());
}

#[test]
fn messages_of_a_low_value_push_out_others_when_the_buffer_is_full() {
    let config = SctpConfig {
        send_buffer: 50_000,
        ..SctpConfig::default()
    };
    let plan = |index: u64| Plan {
        at_ms: 0,
        len: 1000 + index,
        note: of(0, Reliability::Priority((index % 3) as u16)),
    };
    let plans: Vec<Plan> = (0..300).map(plan).collect();
    let outcome = run(&config, &plans, CLEAN, 1);
    check(&plans, &outcome, "one of three values");
    let of_value = |value| {
        let abandoned = outcome.abandoned.keys();
        abandoned.filter(|number| **number % 3 == value).count()
    };
    assert_eq!(of_value(0), 0);
    assert!(
        of_value(2) > 80 && of_value(1) > 20,
        "{} {}",
        of_value(1),
        of_value(2)
    );
}

/// Where in the order of arrival the first message of `stream` is.
fn first_of(plans: &[Plan], outcome: &Outcome, stream: u16) -> usize {
    let mut received = outcome.received.iter();
    let found = received.position(|number| plans[*number].note.stream == stream);
    found.expect("it arrived")
}

#[test]
fn interleaved_message_overtakes_a_long_one_that_was_begun() {
    let plans = [
        Plan {
            at_ms: 0,
            len: 300_000,
            note: of(3, Reliability::Full),
        },
        Plan {
            at_ms: 1,
            len: 100,
            note: of(2, Reliability::Full),
        },
    ];
    let order = |interleave, scheduler| {
        let config = SctpConfig {
            interleave,
            scheduler,
            ..SctpConfig::default()
        };
        let outcome = run(&config, &plans, CLEAN, 1);
        check(&plans, &outcome, "two messages");
        outcome.received
    };
    for scheduler in &SCHEDULERS[1..4] {
        assert_eq!(order(true, *scheduler), [1, 0], "{scheduler:?}");
        assert_eq!(order(false, *scheduler), [0, 1], "{scheduler:?}");
    }
    assert_eq!(order(true, Scheduler::Fcfs), [0, 1]);
}

#[test]
fn schedulers_serve_streams_in_their_order() {
    // 60 messages on stream 3, then 20 each on streams 0 and 1.
    let streams = [[3; 60].to_vec(), [0, 1].repeat(20)].concat();
    let plan = |(index, stream): (usize, &u16)| Plan {
        at_ms: 0,
        len: 1000 + index as u64,
        note: of(*stream, Reliability::Full),
    };
    let plans: Vec<Plan> = streams.iter().enumerate().map(plan).collect();
    let run_with = |scheduler| {
        let config = SctpConfig {
            scheduler,
            ..SctpConfig::default()
        };
        let outcome = run(&config, &plans, CLEAN, 1);
        check(&plans, &outcome, scheduler.name());
        outcome
    };
    let outcome = run_with(Scheduler::Fcfs);
    assert!(outcome.received.is_sorted(), "as they were sent");
    for scheduler in [
        Scheduler::RoundRobin,
        Scheduler::FairBandwidth,
        Scheduler::Weighted,
    ] {
        let outcome = run_with(scheduler);
        assert!(first_of(&plans, &outcome, 0) < 20, "{}", scheduler.name());
    }
    let outcome = run_with(Scheduler::Priority);
    let last_of_0 = outcome
        .received
        .iter()
        .rposition(|number| plans[*number].note.stream == 0);
    assert!(
        last_of_0 < Some(35),
        "stream 0 is served first: {last_of_0:?}"
    );
}

#[test]
fn packets_of_round_robin_per_packet_hold_one_stream_each() {
    let plan = |index: u64| Plan {
        at_ms: 0,
        len: 100 + index,
        note: of((index % 4) as u16, Reliability::Full),
    };
    let plans: Vec<Plan> = (0..200).map(plan).collect();
    for (scheduler, mixes) in [
        (Scheduler::RoundRobinPacket, false),
        (Scheduler::RoundRobin, true),
    ] {
        let config = SctpConfig {
            scheduler,
            ..SctpConfig::default()
        };
        let outcome = run(&config, &plans, CLEAN, 1);
        assert_eq!(outcome.mixed_packets > 0, mixes, "{}", scheduler.name());
        assert!(
            outcome.data_packets < 100,
            "messages share packets: {}",
            outcome.data_packets
        );
    }
}
