//! Coalescing of short messages: which are sent at once, which wait, and for how long. Draining.

use crate::pair::both;
use core::time::Duration;
use engine::test_kit::{give_packet, take_packets, zeros};
use engine::{
    Address, AssociationId, Associations, AssociationsExt, Event, Framing, Instant, Note, Protocol,
    SendFlags,
};
use engine_xtp::pdu::{HEADER_LEN, Header, Options};
use engine_xtp::{Config, Xtp};

/// Two engines with an open association, and packets carried by hand.
struct EnginePair {
    engines: [Xtp; 2],
    ids: [AssociationId; 2],
    now: Instant,
}

impl EnginePair {
    fn new(config: &Config) -> EnginePair {
        let mut engines = both(config, 9).map(Xtp::new);
        let now = Instant::from_nanos(1_000_000);
        engines[1].listen(true);
        let id = engines[0].connect(now, &[Address::Station(1)]);
        let id = id.expect("room for one");
        let mut ends = EnginePair {
            engines,
            ids: [id; 2],
            now,
        };
        ends.settle();
        while let Some(event) = ends.engines[1].poll_event() {
            if let Event::Accepted(peer, _) = event {
                ends.ids[1] = peer;
            }
        }
        ends
    }

    /// The packets one side sends now, with zeros as user bytes.
    fn send(&mut self, side: usize) -> Vec<Vec<u8>> {
        let sent = take_packets(&mut self.engines[side], self.now, 46, zeros);
        sent.into_iter().map(|(_, octets)| octets).collect()
    }

    fn arrive(&mut self, to: usize, packet: &[u8]) {
        let from = Address::Station(1 - to as u32);
        let deliveries = give_packet(&mut self.engines[to], self.now, from, packet);
        for delivery in deliveries.bytes {
            let engine::Bytes::Packet(range) = delivery.bytes else {
                continue;
            };
            self.engines[to].consume(self.now, delivery.association, range.len() as u64);
        }
    }

    /// Carries packets until neither side sends any.
    fn settle(&mut self) {
        loop {
            let sent = [self.send(0), self.send(1)];
            if sent.iter().all(Vec::is_empty) {
                return;
            }
            for (side, packets) in sent.iter().enumerate() {
                packets
                    .iter()
                    .for_each(|packet| self.arrive(1 - side, packet));
            }
        }
    }

    fn write(&mut self, end: u64) -> Vec<u64> {
        self.engines[0].submit(
            self.now,
            self.ids[0],
            end,
            SendFlags::NONE,
            &Note::default(),
        );
        self.sent_lens()
    }

    fn sent_lens(&mut self) -> Vec<u64> {
        let packets = self.send(0);
        let lens = packets
            .iter()
            .map(|packet| (packet.len() - HEADER_LEN) as u64);
        lens.collect()
    }

    fn pass(&mut self, span: Duration) {
        self.now = self.now + span;
        self.engines[0].handle_timeout(self.now);
    }
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
    let mut ends = EnginePair::new(&config());
    assert_eq!(ends.write(64), [64]);
    let mut whole = EnginePair::new(&config());
    assert_eq!(whole.write(3000), [1440, 1440, 120], "not even its tail");
}

#[test]
fn messages_coalesce_behind_data_in_flight() {
    let mut ends = EnginePair::new(&config());
    ends.write(64);
    for end in (128..64 + 1440).step_by(64) {
        assert_eq!(ends.write(end), [] as [u64; 0], "at {end}");
    }
    assert_eq!(ends.write(64 + 1440), [1440]);
}

#[test]
fn long_send_aligned_by_short_first_packet() {
    let mut few = EnginePair::new(&config());
    few.write(64);
    assert_eq!(few.write(64 + 3 * 1440), [1440; 3]);
    let mut many = EnginePair::new(&config());
    many.write(64);
    let lens = many.write(1440 * 17);
    assert_eq!(lens, [&[1440 - 64][..], &[1440; 16]].concat());
}

#[test]
fn coalescing_bounded_by_delay_and_push() {
    let delay = Duration::from_millis(3);
    let mut ends = EnginePair::new(&Config {
        coalesce_delay: delay,
        ..config()
    });
    ends.write(64);
    assert!(ends.write(128).is_empty());
    let due = ends.engines[0].poll_timeout().expect("a timer");
    assert!(due <= ends.now + delay, "the engine arms the timer itself");
    // Later data do not postpone it.
    ends.pass(Duration::from_millis(2));
    assert!(ends.write(192).is_empty());
    ends.pass(Duration::from_millis(1));
    assert_eq!(ends.sent_lens(), [128]);
    assert!(ends.write(256).is_empty());
    ends.engines[0].push(ends.now, ends.ids[0], 300);
    assert_eq!(ends.sent_lens(), [108]);
    let mut undelayed = EnginePair::new(&Config {
        coalesce_delay: Duration::ZERO,
        ..config()
    });
    undelayed.write(64);
    assert_eq!(undelayed.write(128), [64]);
}

#[test]
fn ack_releases_coalesced_message() {
    let mut ends = EnginePair::new(&Config {
        coalesce_delay: Duration::from_secs(9),
        ..Config::default()
    });
    ends.engines[0].submit(ends.now, ends.ids[0], 64, SendFlags::NONE, &Note::default());
    ends.settle();
    assert!(ends.write(128).is_empty());
    // The status timer requests an ACK, which releases the delayed message.
    for _ in 0..2 {
        ends.pass(Duration::from_millis(1));
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
    let mut ends = EnginePair::new(&low);
    assert_eq!(ends.write(150), [150]);
    assert_eq!(
        ends.write(250),
        [100],
        "150 in flight is not above the mark"
    );
    assert_eq!(ends.write(300), [] as [u64; 0]);
    let part = Config {
        high_water: Some(100),
        ..config()
    };
    let mut ends = EnginePair::new(&part);
    assert_eq!(ends.write(64), [64]);
    assert_eq!(ends.write(128), [] as [u64; 0]);
    assert_eq!(
        ends.write(170),
        [106],
        "above the mark a short packet is sent"
    );
    let many = Config {
        high_water: Some(4 * 1440),
        ..config()
    };
    let mut ends = EnginePair::new(&many);
    assert_eq!(ends.write(1440), [1440]);
    assert_eq!(
        ends.write(4 * 1440),
        [] as [u64; 0],
        "full packets wait too"
    );
    assert_eq!(ends.write(5 * 1440 + 7), [1440; 4], "full packets leave");
}

#[test]
fn end_of_message_not_delayed() {
    let mut ends = EnginePair::new(&Config {
        framing: Framing::Messages,
        ..config()
    });
    for end in [64, 128, 192] {
        ends.engines[0].end_message(ends.now, ends.ids[0], end);
    }
    assert_eq!(ends.write(192), [64, 64, 64]);
    ends.engines[0].end_message(ends.now, ends.ids[0], 256);
    assert_eq!(ends.write(256), [64]);
}

/// What a host does that drains an association and then drops it.
#[test]
fn drained_only_after_peer_knows_end_under_loss() {
    for lost in 0..12 {
        let mut ends = EnginePair::new(&Config::default());
        ends.engines[0].push(ends.now, ends.ids[0], 5000);
        ends.engines[0].finish(ends.now, ends.ids[0]);
        let (mut sent, mut finished) = (0, false);
        while ends.engines[0].bytes_in_flight(ends.ids[0]) > 0 {
            for side in [0, 1] {
                for packet in ends.send(side) {
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
            if ends.engines[0].bytes_in_flight(ends.ids[0]) > 0 {
                ends.now = next.min().expect("a timer is armed").max(ends.now);
                let now = ends.now;
                ends.engines
                    .iter_mut()
                    .for_each(|engine| engine.handle_timeout(now));
            }
        }
        while let Some(event) = ends.engines[1].poll_event() {
            finished |= event == Event::Finished(ends.ids[1]);
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
    let mut ends = EnginePair::new(&Config::default());
    assert_eq!(ends.engines[0].bytes_in_flight(ends.ids[0]), 0);
    ends.engines[0].finish(ends.now, ends.ids[0]);
    assert_eq!(ends.engines[0].bytes_in_flight(ends.ids[0]), 1);
    let packets = ends.send(0);
    let header = Header::parse(&packets[0]).expect("a good packet");
    assert!(header.options.has(Options::WCLOSE));
    assert_eq!(ends.engines[0].bytes_in_flight(ends.ids[0]), 1);
    packets.iter().for_each(|packet| ends.arrive(1, packet));
    ends.settle();
    assert_eq!(ends.engines[0].bytes_in_flight(ends.ids[0]), 0);
}
