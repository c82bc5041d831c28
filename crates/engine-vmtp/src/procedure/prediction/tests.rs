//! Two endpoints that predict, and two that do not, do the same.

use super::*;
use crate::config::VmtpConfig;
use core::time::Duration;
use engine::test_kit::{Twin, TwoQueues, assert_twins, pause};
use engine::{
    Address, CallFlags, CallNote, Event, Protocol, Reliability, SplitMix64, Transactions,
};

const CALLERS: [EntityId; 2] = [EntityId(10), EntityId(11)];
const SERVERS: [EntityId; 2] = [EntityId(20), EntityId(21)];

/// Two endpoints and what is on its way between them.
struct Pair {
    ends: [Vmtp; 2],
    packets: TwoQueues,
    /// Requests of each end that are not answered, and calls that are not over.
    requests: [Vec<TransactionId>; 2],
    calls: [Vec<TransactionId>; 2],
    messages: u64,
}

fn config(seed: u64) -> VmtpConfig {
    VmtpConfig {
        checksum: seed % 4 != 3,
        packet_lifetime: Duration::from_secs(seed % 2),
        // With it Requests of later calls have other numbers.
        message_max: if seed.is_multiple_of(3) {
            16_384
        } else {
            1 << 20
        },
        records_max: if seed % 5 == 4 { 2 } else { 100 },
        ..VmtpConfig::default()
    }
}

impl Pair {
    fn message(&mut self, len: u64) -> (engine::OutgoingMessage, u64) {
        self.messages += 1;
        (engine::OutgoingMessage(self.messages), len)
    }

    fn call(&mut self, now: Instant, (from, to): (usize, usize), len: u64, note: &Note) {
        let message = self.message(len);
        let begun = self.ends[0].call(now, CALLERS[from], SERVERS[to], message, note);
        self.packets.log += &format!("{begun:?}\n");
        self.calls[0].extend(begun.ok());
    }

    fn reply(&mut self, now: Instant, len: u64, note: &Note) {
        if let Some(request) = self.requests[1].pop() {
            let message = self.message(len);
            let replied = self.ends[1].reply(now, request, message, note);
            self.packets.log += &format!("{replied:?}\n");
        }
    }

    fn transmit(&mut self, now: Instant, end: usize) {
        self.packets.transmit(&mut self.ends[end], now, end);
    }

    fn receive(&mut self, now: Instant, end: usize, packet: &[u8]) {
        let mut deliveries = Deliveries::default();
        let received = Received::new(Path::to(Address::Station(1 - end as u32)), packet);
        self.ends[end].handle_packet(now, received, &mut deliveries);
        self.packets.log += &format!("{:?}\n", deliveries.blocks);
        self.take_events(end);
    }

    fn take_events(&mut self, end: usize) {
        while let Some(event) = self.ends[end].poll_event() {
            match &event {
                Event::Transaction(TransactionEvent::Requested { transaction, .. }) => {
                    self.requests[end].push(*transaction);
                }
                Event::Transaction(TransactionEvent::Ended(over, _)) => {
                    self.calls[end].retain(|call| call != over);
                }
                _ => {}
            }
            self.packets.log += &format!("{event:?}\n");
        }
    }

    fn time_out(&mut self, now: Instant) {
        for end in 0..2 {
            self.ends[end].handle_timeout(now);
            self.take_events(end);
        }
    }
}

fn len(random: &mut SplitMix64) -> u64 {
    match random.below(10) {
        0 => 0,
        1 => 1 + random.below(19),
        2 => 21 + random.below(2000),
        3 => 16_384 + random.below(3),
        _ => 20,
    }
}

/// A note of a call or of a reply: mostly none.
fn note(random: &mut SplitMix64) -> Note {
    let call = |call| Note {
        call,
        ..Note::default()
    };
    let flags = |flags| {
        call(CallNote {
            flags,
            ..CallNote::default()
        })
    };
    match random.below(40) {
        0 => Note {
            reliability: Reliability::Retransmissions(0),
            ..Note::default()
        },
        1 => flags(CallFlags::CONDITIONAL),
        2 => flags(CallFlags::HEADER_CHECK),
        3 => flags(CallFlags::NO_REPAIR),
        4 => flags(CallFlags::PARTIAL),
        5 => flags(CallFlags::DELAYED_REPLIES),
        6 => call(CallNote::of_priority(12)),
        7 => Note {
            stream: 1,
            ..Note::default()
        },
        8..12 => Note {
            // Codes of users, and those that fail a call.
            tag: Some(random.below(1 << 9)),
            ..Note::default()
        },
        12 => call(CallNote {
            co_resident: Some(SERVERS[0]),
            ..CallNote::default()
        }),
        _ => Note::default(),
    }
}

/// A call and its reply, each of which may be lost.
fn exchange(pair: &mut Pair, random: &mut SplitMix64, now: &mut Instant) {
    let ends = (random.below(8) as usize / 7, random.below(8) as usize / 7);
    pair.call(*now, ends, 20, &Note::default());
    for end in 0..2 {
        *now = *now + Duration::from_micros(1 + random.below(40));
        pair.transmit(*now, end);
        for packet in core::mem::take(&mut pair.packets.queues[1 - end]) {
            if random.below(60) > 0 {
                pair.receive(*now, 1 - end, &packet);
            }
        }
        pair.take_events(end);
        pair.reply(*now, 20, &Note::default());
    }
    if random.below(30) == 0 {
        *now = *now + Duration::from_millis(250);
        pair.time_out(*now);
    }
}

/// One step of both, by the same numbers.
fn step(pair: &mut Pair, random: &mut SplitMix64, now: &mut Instant) {
    let end = random.below(2) as usize;
    match random.below(16) {
        0..3 => {
            let (len, note) = (len(random), note(random));
            let ends = (random.below(2) as usize, random.below(2) as usize);
            pair.call(*now, ends, len, &note);
        }
        3..6 => {
            let (len, note) = (len(random), note(random));
            pair.reply(*now, len, &note);
        }
        6..11 => {
            if let Some((mut packet, fate)) = pair.packets.next(end, random) {
                if fate == 3 {
                    // Another header than was sent, as a peer of another make may send it, without a check.
                    let at = random.below(64) as usize;
                    packet[at] ^= 1 << random.below(8);
                    let check = packet.len() - 4;
                    packet[check..].fill(0);
                }
                pair.receive(*now, end, &packet);
            }
        }
        11 => {
            *now = *now + pause(random, [20_000, 700]);
            pair.time_out(*now);
        }
        12 => {
            let calls = pair.calls[0].len() as u64;
            if calls > 6 {
                let call = pair.calls[0][random.below(calls) as usize];
                pair.ends[0].abandon(*now, call);
                pair.take_events(0);
            }
        }
        13 => {
            if random.below(8) == 0 && !pair.requests[1].is_empty() {
                let request = pair.requests[1].remove(0);
                pair.ends[1].abandon(*now, request);
                pair.take_events(1);
            }
        }
        _ => pair.transmit(*now, end),
    }
}

impl Twin for Pair {
    fn new(seed: u64, predicts: bool) -> Pair {
        let ends = [1, 2].map(|own: u32| {
            let mut end = Vmtp::new(VmtpConfig {
                host: own,
                seed: 100 * seed + u64::from(own),
                ..config(seed)
            });
            end.predictions.is_off = !predicts;
            end
        });
        let mut pair = Pair {
            ends,
            packets: TwoQueues::default(),
            requests: Default::default(),
            calls: Default::default(),
            messages: 0,
        };
        for (end, own, other) in [(0, CALLERS, SERVERS), (1, SERVERS, CALLERS)] {
            for entity in own {
                pair.ends[end].create_entity(entity).expect("room");
            }
            for entity in other {
                pair.ends[end].locate(entity, Address::Station(1 - end as u32));
            }
        }
        pair
    }

    fn step(&mut self, random: &mut SplitMix64, now: &mut Instant) {
        step(self, random, now);
    }

    fn exchange(&mut self, random: &mut SplitMix64, now: &mut Instant, _: usize) {
        exchange(self, random, now);
    }

    /// All that it is, but for memory of calls that are over, and the client that was looked up last.
    fn text(&mut self) -> String {
        let take = |end: &mut Vmtp| {
            end.spare_calls.clear();
            end.keys.last.set(None);
            core::mem::take(&mut end.predictions)
        };
        self.packets
            .text(&mut self.ends, take, |end, kept| end.predictions = kept)
    }

    fn tested(&self) -> [u64; 2] {
        let sums = self.ends.each_ref().map(|end| end.predictions);
        let of = |count: fn(&Predictions) -> u64| sums.iter().map(count).sum();
        [of(|sum| sum.requests), of(|sum| sum.responses)]
    }
}

#[test]
fn predicted_packets_are_those_of_the_general_way() {
    assert_twins::<Pair>(0..16, 40, 2000);
}
