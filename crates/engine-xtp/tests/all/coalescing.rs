//! Coalescing of short messages: which are sent at once, which wait, and for how long. Draining.

use crate::engine_pair::EnginePair;
use core::time::Duration;
use engine::{Associations, AssociationsExt, Event, Framing, Instant, Note, Protocol, SendFlags};
use engine_xtp::Config;
use engine_xtp::pdu::{HEADER_LEN, Header, Options};

/// Two engines with an open association, whose users read what arrives.
fn open(config: &Config) -> EnginePair {
    let (mut ends, _) = EnginePair::new(config, 1);
    ends.reads = true;
    ends
}

/// Bytes of the packets that the first end sends after a write of all bytes below `end`.
fn write(ends: &mut EnginePair, end: u64) -> Vec<u64> {
    let id = ends.ids()[0];
    ends.engines[0].submit(ends.now, id, end, SendFlags::NONE, &Note::default());
    sent_lens(ends)
}

/// Bytes of the packets that the first end sends.
fn sent_lens(ends: &mut EnginePair) -> Vec<u64> {
    let packets = ends.take(0, 1000);
    let lens = packets
        .iter()
        .map(|packet| (packet.len() - HEADER_LEN) as u64);
    lens.collect()
}

/// Time passes at the first end alone, and nothing is carried.
fn wait(ends: &mut EnginePair, span: Duration) {
    ends.now = ends.now + span;
    ends.engines[0].handle_timeout(ends.now);
}

fn config() -> Config {
    Config {
        // No status requests during the test.
        status_delay: Duration::from_secs(1),
        ..Config::default()
    }
}

#[test]
fn idle_message_sent_at_once() {
    let mut ends = open(&config());
    assert_eq!(write(&mut ends, 64), [64]);
    let mut whole = open(&config());
    assert_eq!(
        write(&mut whole, 3000),
        [1440, 1440, 120],
        "not even its tail"
    );
}

#[test]
fn messages_coalesce_behind_data_in_flight() {
    let mut ends = open(&config());
    write(&mut ends, 64);
    for end in (128..64 + 1440).step_by(64) {
        assert_eq!(write(&mut ends, end), [] as [u64; 0], "at {end}");
    }
    assert_eq!(write(&mut ends, 64 + 1440), [1440]);
}

#[test]
fn long_send_aligned_by_short_first_packet() {
    let mut few = open(&config());
    write(&mut few, 64);
    assert_eq!(write(&mut few, 64 + 3 * 1440), [1440; 3]);
    let mut many = open(&config());
    write(&mut many, 64);
    let lens = write(&mut many, 1440 * 17);
    assert_eq!(lens, [&[1440 - 64][..], &[1440; 16]].concat());
}

#[test]
fn coalescing_bounded_by_delay_and_push() {
    let delay = Duration::from_millis(3);
    let mut ends = open(&Config {
        coalesce_delay: delay,
        ..config()
    });
    write(&mut ends, 64);
    assert!(write(&mut ends, 128).is_empty());
    let due = ends.engines[0].poll_timeout().expect("a timer");
    assert!(due <= ends.now + delay, "the engine arms the timer itself");
    // Later data do not postpone it.
    wait(&mut ends, Duration::from_millis(2));
    assert!(write(&mut ends, 192).is_empty());
    wait(&mut ends, Duration::from_millis(1));
    assert_eq!(sent_lens(&mut ends), [128]);
    assert!(write(&mut ends, 256).is_empty());
    ends.engines[0].push(ends.now, ends.ids()[0], 300);
    assert_eq!(sent_lens(&mut ends), [108]);
    let mut undelayed = open(&Config {
        coalesce_delay: Duration::ZERO,
        ..config()
    });
    write(&mut undelayed, 64);
    assert_eq!(write(&mut undelayed, 128), [64]);
}

#[test]
fn ack_releases_coalesced_message() {
    let mut ends = open(&Config {
        coalesce_delay: Duration::from_secs(9),
        ..Config::default()
    });
    ends.engines[0].submit(
        ends.now,
        ends.ids()[0],
        64,
        SendFlags::NONE,
        &Note::default(),
    );
    ends.settle();
    assert!(write(&mut ends, 128).is_empty());
    // The status timer requests an ACK, which releases the delayed message.
    for _ in 0..2 {
        wait(&mut ends, Duration::from_millis(1));
        ends.settle();
    }
    let counters = ends.engines[0].counters();
    assert_eq!((counters.bytes_sent, counters.retransmissions), (128, 0));
}

#[test]
fn water_marks_bound_coalescing() {
    let low = Config {
        low_water: 200,
        ..config()
    };
    let mut ends = open(&low);
    assert_eq!(write(&mut ends, 150), [150]);
    assert_eq!(
        write(&mut ends, 250),
        [100],
        "150 in flight is not above the mark"
    );
    assert_eq!(write(&mut ends, 300), [] as [u64; 0]);
    let part = Config {
        high_water: Some(100),
        ..config()
    };
    let mut ends = open(&part);
    assert_eq!(write(&mut ends, 64), [64]);
    assert_eq!(write(&mut ends, 128), [] as [u64; 0]);
    assert_eq!(
        write(&mut ends, 170),
        [106],
        "above the mark a short packet is sent"
    );
    let many = Config {
        high_water: Some(4 * 1440),
        ..config()
    };
    let mut ends = open(&many);
    assert_eq!(write(&mut ends, 1440), [1440]);
    assert_eq!(
        write(&mut ends, 4 * 1440),
        [] as [u64; 0],
        "full packets wait too"
    );
    assert_eq!(
        write(&mut ends, 5 * 1440 + 7),
        [1440; 4],
        "full packets leave"
    );
}

#[test]
fn end_of_message_not_delayed() {
    let mut ends = open(&Config {
        framing: Framing::Messages,
        ..config()
    });
    for end in [64, 128, 192] {
        ends.engines[0].end_message(ends.now, ends.ids()[0], end);
    }
    assert_eq!(write(&mut ends, 192), [64, 64, 64]);
    ends.engines[0].end_message(ends.now, ends.ids()[0], 256);
    assert_eq!(write(&mut ends, 256), [64]);
}

/// What a host does that drains an association and then drops it.
#[test]
fn drained_only_after_peer_knows_end_under_loss() {
    for lost in 0..12 {
        let mut ends = open(&Config::default());
        ends.engines[0].push(ends.now, ends.ids()[0], 5000);
        ends.engines[0].finish(ends.now, ends.ids()[0]);
        let (mut sent, mut finished) = (0, false);
        while ends.engines[0].bytes_in_flight(ends.ids()[0]) > 0 {
            for side in [0, 1] {
                for packet in ends.take(side, 1000) {
                    sent += 1;
                    if sent - 1 != lost {
                        ends.arrive(1 - side, &packet);
                    }
                }
            }
            let next = ends
                .engines
                .iter()
                .filter_map(|engine| engine.poll_timeout());
            if ends.engines[0].bytes_in_flight(ends.ids()[0]) > 0 {
                ends.now = next.min().expect("a timer is armed").max(ends.now);
                let now = ends.now;
                ends.engines
                    .iter_mut()
                    .for_each(|engine| engine.handle_timeout(now));
            }
        }
        while let Some(event) = ends.engines[1].poll_event() {
            finished |= event == Event::Finished(ends.ids()[1]);
        }
        assert!(
            finished,
            "packet {lost} lost: the peer does not know the end"
        );
        assert!(
            ends.now < Instant::from_nanos(2_000_000_000),
            "packet {lost}"
        );
    }
}

#[test]
fn end_in_flight_from_finish_until_acknowledged() {
    let mut ends = open(&Config::default());
    assert_eq!(ends.engines[0].bytes_in_flight(ends.ids()[0]), 0);
    ends.engines[0].finish(ends.now, ends.ids()[0]);
    assert_eq!(ends.engines[0].bytes_in_flight(ends.ids()[0]), 1);
    let packets = ends.take(0, 1000);
    let header = Header::parse(&packets[0]).expect("a good packet");
    assert!(header.options.has(Options::WCLOSE));
    assert_eq!(ends.engines[0].bytes_in_flight(ends.ids()[0]), 1);
    packets.iter().for_each(|packet| ends.arrive(1, packet));
    ends.settle();
    assert_eq!(ends.engines[0].bytes_in_flight(ends.ids()[0]), 0);
}
