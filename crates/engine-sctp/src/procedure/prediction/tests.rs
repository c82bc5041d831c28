//! Two endpoints that predict, and two that do not, do the same.

use super::*;
use crate::Sctp;
use crate::config::{CongestionChoice, SctpConfig};
use congestion::Congestion;
use core::time::Duration;
use engine::test_kit::{Twin, TwoQueues, assert_twins};
use engine::{
    Address, AssociationId, Associations, Bytes, Ecn, Note, Path, Protocol, SendFlags, SplitMix64,
};

/// Two endpoints and what is on its way between them.
struct Pair {
    ends: [Sctp; 2],
    ids: [Option<AssociationId>; 2],
    packets: TwoQueues,
    /// Bytes submitted at each end, and delivered there that its user has not taken.
    submitted: [u64; 2],
    unread: [u64; 2],
}

fn config(seed: u64) -> SctpConfig {
    SctpConfig {
        checksum: seed % 4 != 3,
        max_burst: if seed.is_multiple_of(3) { 4 } else { 0 },
        spread: seed % 5 == 4,
        unordered: seed % 7 == 6,
        receive_buffer: if seed % 6 == 5 { 6000 } else { 512 << 10 },
        probes_path_mtu: seed.is_multiple_of(2),
        congestion: match seed % 8 {
            6 => CongestionChoice::Other(Congestion::NewReno),
            7 => CongestionChoice::Other(Congestion::Off),
            _ => CongestionChoice::Rfc9260,
        },
        ..SctpConfig::default()
    }
}

impl Pair {
    fn submit(&mut self, now: Instant, end: usize, len: u64, (push, note): (bool, &Note)) {
        let Some(id) = self.ids[end] else {
            return;
        };
        self.submitted[end] += len;
        let flags = SendFlags {
            push,
            ..SendFlags::END_OF_MESSAGE
        };
        self.ends[end].submit(now, id, self.submitted[end], flags, note);
    }

    fn transmit(&mut self, now: Instant, end: usize) {
        self.packets.transmit(&mut self.ends[end], now, end);
    }

    fn receive(&mut self, now: Instant, end: usize, packet: &[u8]) {
        let mut deliveries = Deliveries::with_whole_messages();
        let received = Received {
            path: Path::to(Address::Station(1 - end as u32)),
            ecn: Ecn::NotEct,
            octets: packet,
        };
        self.ends[end].handle_packet(now, received, &mut deliveries);
        let whole = deliveries.whole.iter().flat_map(|whole| &whole.ranges);
        let whole: u64 = whole.map(|range| u64::from(range.end - range.start)).sum();
        let parts = deliveries.bytes.iter();
        let parts = parts.map(|delivery| match &delivery.bytes {
            Bytes::Packet(range) => range.len() as u64,
            Bytes::Reassembled(bytes) => bytes.len() as u64,
        });
        let parts: u64 = parts.sum();
        self.unread[end] += whole + parts;
        self.packets.log += &format!("{deliveries:?}\n");
        self.take_events(end);
    }

    fn take_events(&mut self, end: usize) {
        while let Some(event) = self.ends[end].poll_event() {
            if let Event::Accepted(id, _) | Event::Connected(id) = event {
                self.ids[end] = Some(id);
            }
            self.packets.log += &format!("{event:?}\n");
        }
    }
}

/// A message of `end`, which may be lost, and whatever it brings about.
fn exchange(pair: &mut Pair, random: &mut SplitMix64, now: &mut Instant, end: usize) {
    *now = *now + Duration::from_micros(random.below(40));
    let len = if random.below(16) == 0 { 300 } else { 64 };
    pair.submit(*now, end, len, (true, &Note::default()));
    pair.transmit(*now, end);
    for packet in core::mem::take(&mut pair.packets.queues[1 - end]) {
        if random.below(60) > 0 {
            pair.receive(*now, 1 - end, &packet);
        }
    }
    let all = core::mem::take(&mut pair.unread[1 - end]);
    if let Some(id) = pair.ids[1 - end] {
        pair.ends[1 - end].consume(*now, id, all);
    }
    pair.take_events(end);
    if random.below(20) == 0 {
        *now = *now + Duration::from_millis(250);
        for end in 0..2 {
            pair.ends[end].handle_timeout(*now);
        }
    }
}

/// One step of both, by the same numbers.
fn step(pair: &mut Pair, random: &mut SplitMix64, now: &mut Instant) {
    let end = random.below(2) as usize;
    match random.below(16) {
        0..4 => {
            // Requests and replies of one length, and now and then another pattern.
            let count = 1 + random.below(8).saturating_sub(5);
            for _ in 0..count {
                let len = match random.below(8) {
                    0 => 1 + random.below(4000),
                    _ => 64,
                };
                let note = match random.below(24) {
                    0 => Note {
                        stream: 3,
                        ..Note::default()
                    },
                    1 => Note {
                        tag: Some(9),
                        unordered: true,
                        ..Note::default()
                    },
                    _ => Note::default(),
                };
                pair.submit(*now, end, len, (random.below(4) > 0, &note));
            }
        }
        4..8 => {
            if let Some((packet, _)) = pair.packets.next(end, random) {
                pair.receive(*now, end, &packet);
            }
        }
        8..11 => {
            let all = core::mem::take(&mut pair.unread[end]);
            if let Some(id) = pair.ids[end] {
                pair.ends[end].consume(*now, id, all);
            }
        }
        11 => {
            let ms = match random.below(40) {
                0 => 1500,
                1 => 250,
                _ => random.below(8),
            };
            *now = *now + Duration::from_millis(ms);
            for end in 0..2 {
                pair.ends[end].handle_timeout(*now);
                pair.take_events(end);
            }
        }
        _ => pair.transmit(*now, end),
    }
}

impl Twin for Pair {
    fn new(seed: u64, predicts: bool) -> Pair {
        let ends = [1, 2].map(|own| {
            let mut end = Sctp::new(SctpConfig {
                seed: 100 * seed + own,
                ..config(seed)
            });
            end.shared.predictions.is_off = !predicts;
            end.listen(true);
            end
        });
        let mut pair = Pair {
            ends,
            ids: [None; 2],
            packets: TwoQueues::default(),
            submitted: [0; 2],
            unread: [0; 2],
        };
        let opened = pair.ends[0].connect(Instant::from_nanos(1_000_000), &[Address::Station(1)]);
        pair.ids[0] = Some(opened.expect("there is room"));
        pair
    }

    fn step(&mut self, random: &mut SplitMix64, now: &mut Instant) {
        step(self, random, now);
    }

    fn exchange(&mut self, random: &mut SplitMix64, now: &mut Instant, count: usize) {
        exchange(self, random, now, count % 2);
    }

    /// All that it is, but for memory that is used anew each time.
    fn text(&mut self) -> String {
        for end in &mut self.ends {
            end.shared.prefix.clear();
            end.shared.scratch.clear();
        }
        let kept = self.ends.each_ref().map(|end| end.shared.predictions);
        for end in &mut self.ends {
            end.shared.predictions = Default::default();
        }
        let text = format!("{:?} {:?}", self.ends, self.packets);
        for (end, kept) in self.ends.iter_mut().zip(kept) {
            end.shared.predictions = kept;
        }
        self.packets.log.clear();
        text
    }

    fn tested(&self) -> [u64; 2] {
        let sums = self.ends.each_ref().map(|end| end.shared.predictions);
        [
            sums[0].received + sums[1].received,
            sums[0].sent + sums[1].sent,
        ]
    }
}

#[test]
fn predicted_packets_are_those_of_the_general_way() {
    assert_twins::<Pair>(0..24, 20, 500);
}
