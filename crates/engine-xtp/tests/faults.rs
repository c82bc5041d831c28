//! Streams and messages over links with faults: exact delivery, repeatable, nothing left behind.

mod pair;

use engine::{CloseReason, Framing, SplitMix64};
use engine_xtp::api::{Congestion, RateLimit};
use engine_xtp::{Config, ErrorControl, FlowControl, Holdings, SpanMeaning};
use link::LinkConfig;
use pair::{MS, Outcome, Plan, both, clean, joined, messages, run, seeds};

fn faulty(random: &mut SplitMix64) -> LinkConfig {
    let mut ppm = |most: u64| {
        if random.below(3) == 0 {
            0
        } else {
            random.below(most) as u32
        }
    };
    LinkConfig {
        loss_ppm: ppm(80_000),
        duplicate_ppm: ppm(50_000),
        reorder_ppm: ppm(80_000),
        corrupt_ppm: ppm(20_000),
        reorder_ps: random.below(5) * MS,
        delay_ps: random.below(20) * MS / 4,
        rate_bps: Some(1_000_000 << random.below(10)),
        ..clean()
    }
}

fn options(random: &mut SplitMix64) -> Config {
    let mut coin = || random.below(2) == 0;
    Config {
        framing: if coin() {
            Framing::Stream
        } else {
            Framing::Messages
        },
        error: if coin() {
            ErrorControl::Selective
        } else {
            ErrorControl::GoBackN
        },
        fastnak: coin(),
        explicit: coin(),
        flow: if coin() {
            FlowControl::Allocation
        } else {
            FlowControl::Off
        },
        spans: if coin() {
            SpanMeaning::Received
        } else {
            SpanMeaning::Missing
        },
        congestion: [Congestion::Off, Congestion::Loss, Congestion::Delay]
            [random.below(3) as usize],
        rate: (random.below(4) == 0).then_some(RateLimit {
            rate_bytes_per_s: 1_000_000,
            burst_bytes: 1000 << random.below(6),
        }),
        window: 8192 << random.below(8),
        status_every: 4096 << random.below(6),
        packet_len: [256, 576, 1472][random.below(3) as usize],
        ..Config::default()
    }
}

/// One run of `seed`: both sides send.
pub fn one(seed: u64) -> (Config, [Vec<Vec<u8>>; 2], Outcome) {
    let mut random = SplitMix64::new(seed);
    let link = faulty(&mut random);
    let config = options(&mut random);
    let sent = [60, 20].map(|count| messages(&mut random, count));
    let plans = sent.clone().map(|sends| Plan {
        sends,
        answers: seed.is_multiple_of(3),
    });
    let plans = [
        Plan {
            answers: false,
            ..plans[0].clone()
        },
        plans[1].clone(),
    ];
    let outcome = run(both(&config, seed), plans, link, seed);
    (config, sent, outcome)
}

#[test]
fn every_byte_arrives_once_and_in_order_whatever_the_link_does() {
    let mut repaired = 0;
    for seed in 0..seeds(300) {
        let (config, sent, outcome) = one(seed);
        let about = format!("seed {seed}, {config:?}");
        for side in [0, 1] {
            let (got, expected) = (&outcome.received[1 - side], &sent[side]);
            if config.framing == Framing::Messages {
                assert!(
                    got == expected,
                    "{about}: messages of {side} differ: {} of {}",
                    got.len(),
                    expected.len()
                );
            } else {
                let (got, expected) = (joined(got), joined(expected));
                assert!(
                    got == expected,
                    "{about}: bytes of {side} differ: {} of {}",
                    got.len(),
                    expected.len()
                );
            }
        }
        assert_eq!(outcome.finished, [true; 2], "{about}");
        assert!(
            outcome.closed.iter().all(Option::is_some),
            "{about}: {:?}",
            outcome.closed
        );
        assert_eq!(outcome.holdings, [Holdings::default(); 2], "{about}");
        repaired += outcome.counters[0].retransmissions;
    }
    assert!(
        repaired > 100,
        "only {repaired} retransmissions: the links were too good"
    );
}

#[test]
fn the_same_seed_gives_the_same_trace_and_another_seed_another() {
    assert!(one(21).2.trace == one(21).2.trace);
    assert!(one(21).2.trace != one(22).2.trace);
}

#[test]
fn a_loss_that_later_data_shows_is_repaired_without_a_timer() {
    let sent = messages(&mut SplitMix64::new(1), 1000);
    let config = Config {
        wait_initial: core::time::Duration::from_secs(9),
        wait_min: core::time::Duration::from_secs(9),
        ..Config::default()
    };
    let link = LinkConfig {
        loss_ppm: 2_000,
        ..clean()
    };
    let plans = [sent.clone(), Vec::new()].map(|sends| Plan {
        sends,
        answers: false,
    });
    let outcome = run(both(&config, 5), plans, link, 12);
    assert!(joined(&outcome.received[1]) == joined(&sent));
    assert!(outcome.counters[0].retransmissions > 0, "nothing was lost");
    assert!(
        outcome.counters[0].retransmissions < 20,
        "more was sent again than lost"
    );
}

#[test]
fn without_error_control_gaps_are_reported_and_nothing_is_sent_again() {
    for seed in 0..seeds(40) {
        let sent = messages(&mut SplitMix64::new(seed), 200);
        let config = Config {
            error: ErrorControl::None,
            framing: Framing::Messages,
            explicit: seed.is_multiple_of(2),
            ..Config::default()
        };
        let link = LinkConfig {
            loss_ppm: 20_000,
            duplicate_ppm: 10_000,
            ..clean()
        };
        let plans = [sent.clone(), Vec::new()].map(|sends| Plan {
            sends,
            answers: false,
        });
        let outcome = run(both(&config, seed), plans, link, seed);
        let mut rest = sent.iter();
        for message in &outcome.received[1] {
            assert!(
                rest.any(|sent| sent == message),
                "seed {seed}: invented, twice or damaged"
            );
        }
        let counters = outcome.counters[1];
        let total = joined(&sent).len() as u64;
        assert_eq!(
            counters.bytes_delivered + counters.bytes_lost,
            total,
            "seed {seed}"
        );
        assert!(outcome.received[1].len() > 100, "seed {seed}");
        assert_eq!(
            outcome.closed,
            [Some(CloseReason::Graceful); 2],
            "seed {seed}"
        );
        assert_eq!(outcome.holdings, [Holdings::default(); 2], "seed {seed}");
    }
}

#[test]
fn a_peer_that_falls_silent_is_given_up() {
    let config = Config::default();
    let dead = LinkConfig {
        loss_ppm: 1_000_000,
        ..clean()
    };
    let plans = [vec![vec![1; 5000]], Vec::new()].map(|sends| Plan {
        sends,
        answers: false,
    });
    let outcome = run(both(&config, 1), plans, dead, 1);
    assert_eq!(outcome.closed[0], Some(CloseReason::TimedOut));
    let again = outcome.counters[0].retransmissions;
    assert!(
        (4..=u64::from(config.retries_max)).contains(&again),
        "{again} more tries"
    );
    assert!(
        outcome.end_ps < 60_000 * MS,
        "it took {} ms",
        outcome.end_ps / MS
    );
    assert_eq!(outcome.holdings, [Holdings::default(); 2]);
}
