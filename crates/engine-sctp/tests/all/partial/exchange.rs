//! One end sends messages with notes, a link loses, doubles and reorders packets, and what becomes of each
//! message is noted.

use crate::support::PUSHED;
use core::ops::Range;
use core::time::Duration;
use engine::test_kit::{InFlight, take_packets};
use engine::{
    AbandonedMessage, Address, AssociationId, Associations, Bytes, Close, CloseReason, Deliveries,
    Event, Instant, Note, Protocol, RangeSet, Received, Secret, SplitMix64,
};
use engine_sctp::{Notice, Sctp, SctpConfig};
use std::collections::{BTreeMap, BTreeSet};

/// Nanoseconds in a millisecond.
const MS: u64 = 1_000_000;

/// What happens to packets, of a thousand.
#[derive(Clone, Copy)]
pub struct Faults {
    pub lost: u64,
    pub doubled: u64,
    pub late: u64,
}

/// A message to send: when, how long, and what travels with it. Its context is its number.
#[derive(Clone, Copy, Debug)]
pub struct Plan {
    pub at_ms: u64,
    pub len: u64,
    pub note: Note,
}

/// What became of the messages.
#[derive(Default)]
pub struct Outcome {
    /// Numbers of messages that arrived, in their order.
    pub received: Vec<usize>,
    /// Those that were given up, and whether something of them was sent.
    pub abandoned: BTreeMap<usize, bool>,
    pub closed: [Option<CloseReason>; 2],
    pub took_ms: u64,
    /// Times at which the sender had nothing left.
    pub dry: usize,
    /// Packets of the sender that held chunks of more than one stream, and all with user data.
    pub mixed_packets: usize,
    pub data_packets: usize,
}

/// The byte at `position` of the store.
fn byte_at(position: u64) -> u8 {
    (position * 31 + position / 251) as u8
}

struct Link {
    faults: Faults,
    random: SplitMix64,
    in_flight: InFlight<(usize, Vec<u8>)>,
}

impl Link {
    fn send(&mut self, now: Instant, from: usize, packet: Vec<u8>) {
        let mut happens = |of_thousand: u64| self.random.below(1000) < of_thousand;
        let (lost, doubled) = (happens(self.faults.lost), happens(self.faults.doubled));
        let late = happens(self.faults.late);
        let copies = if lost { 0 } else { 1 + usize::from(doubled) };
        for _ in 0..copies {
            let more = if late { self.random.below(15 * MS) } else { 0 };
            let at = now + Duration::from_nanos(5 * MS + more);
            self.in_flight.send(at, (from, packet.clone()));
        }
    }
}

struct Exchange {
    ends: [Sctp; 2],
    now: Instant,
    link: Link,
    id: AssociationId,
    /// Where messages begin in the store, by their numbers.
    starts: Vec<u64>,
    ends_of: Vec<u64>,
    released: RangeSet,
    /// Bytes of unfinished messages at the receiver, by stream and whether unordered.
    partial: BTreeMap<(u16, bool), Vec<u8>>,
    outcome: Outcome,
}

/// Sends `plans` and ends the association; fails if it is not over after ten minutes, or if anything that
/// must not happen does.
pub fn run(config: &SctpConfig, plans: &[Plan], faults: Faults, seed: u64) -> Outcome {
    let ends = [0, 1].map(|end| {
        Sctp::new(SctpConfig {
            seed: 2 * seed + end,
            secret: Secret::from_seed(2 * seed + end),
            ..config.clone()
        })
    });
    let mut exchange = Exchange {
        ends,
        now: Instant::from_nanos(MS),
        link: Link {
            faults,
            random: SplitMix64::new(seed),
            in_flight: InFlight::default(),
        },
        id: AssociationId(0),
        starts: Vec::new(),
        ends_of: Vec::new(),
        released: RangeSet::new(),
        partial: BTreeMap::new(),
        outcome: Outcome::default(),
    };
    exchange.open();
    exchange.send_all(plans);
    let now = exchange.now;
    let id = exchange.id;
    exchange.ends[0].close(now, id, Close::Graceful);
    exchange.run_until(600_000);
    let total = exchange.ends_of.last().copied().unwrap_or(0);
    let released = exchange
        .released
        .iter()
        .map(|range| (range.start, range.end));
    assert!(released.eq([(0, total)]), "all, seed {seed}");
    exchange.outcome
}

impl Exchange {
    fn open(&mut self) {
        self.ends[1].listen(true);
        let opened = self.ends[0].connect(self.now, &[Address::Station(1)]);
        self.id = opened.expect("room for one");
        self.ends[0].set_reports_dry(self.id, true);
        self.run_until(100);
    }

    fn send_all(&mut self, plans: &[Plan]) {
        let base = self.now_ms();
        for (number, plan) in plans.iter().enumerate() {
            self.run_until(base + plan.at_ms);
            let start = self.ends_of.last().copied().unwrap_or(0);
            self.starts.push(start);
            self.ends_of.push(start + plan.len);
            let note = Note {
                context: number as u64 + 1,
                ..plan.note
            };
            self.ends[0].submit(self.now, self.id, start + plan.len, PUSHED, &note);
        }
    }

    fn now_ms(&self) -> u64 {
        self.now.as_nanos() / MS
    }

    fn run_until(&mut self, until_ms: u64) {
        let until = Instant::from_nanos(until_ms * MS);
        loop {
            self.depart();
            let arrival = self.link.in_flight.next_at();
            let timers = self.ends.iter().filter_map(Sctp::poll_timeout);
            let Some(next) = timers.chain(arrival).min().filter(|at| *at <= until) else {
                if self.outcome.closed == [None; 2] {
                    self.now = self.now.max(until);
                }
                return;
            };
            self.now = self.now.max(next);
            self.outcome.took_ms = self.now_ms();
            while let Some((from, packet)) = self.link.in_flight.arrived(self.now) {
                self.arrive(1 - from, &packet);
            }
            for end in &mut self.ends {
                end.handle_timeout(self.now);
            }
        }
    }

    fn depart(&mut self) {
        for from in 0..2 {
            let released = &self.released;
            let copy = |_, range: &Range<u64>, out: &mut Vec<u8>| {
                let mut positions = range.clone();
                let is_released = positions.any(|at| released.contains(at));
                assert!(!is_released, "it was given back");
                out.extend(range.clone().map(byte_at));
            };
            let packets = take_packets(&mut self.ends[from], self.now, 16, copy);
            for (_, octets) in packets {
                self.note_packet(from, &octets);
                self.link.send(self.now, from, octets);
            }
            self.note_events(from);
        }
    }

    fn note_packet(&mut self, from: usize, octets: &[u8]) {
        let data =
            engine_sctp::pdu::Chunks::new(octets).filter(|chunk| [0, 64].contains(&chunk.kind.0));
        let streams: BTreeSet<[u8; 2]> =
            data.map(|chunk| [chunk.value[4], chunk.value[5]]).collect();
        if from == 0 {
            self.outcome.data_packets += usize::from(!streams.is_empty());
            self.outcome.mixed_packets += usize::from(streams.len() > 1);
        }
    }

    fn note_events(&mut self, end: usize) {
        while let Some(event) = self.ends[end].poll_event() {
            match event {
                Event::Released(_, range) => self.release(range),
                Event::Abandoned(_, message) => self.abandon(message),
                Event::Closed(_, reason) => self.outcome.closed[end] = Some(reason),
                _ => {}
            }
        }
        while let Some(notice) = self.ends[end].poll_notice() {
            let is_dry = matches!(notice, Notice::SenderDry { .. });
            self.outcome.dry += usize::from(is_dry);
        }
    }

    fn release(&mut self, range: core::ops::Range<u64>) {
        let len = range.end - range.start;
        assert_eq!(self.released.insert(range), len, "ranges do not overlap");
    }

    fn abandon(&mut self, message: AbandonedMessage) {
        let number = message.note.context as usize - 1;
        assert_eq!(message.range.end, self.ends_of[number]);
        assert!(message.range.start >= self.starts[number]);
        let before = self.outcome.abandoned.insert(number, message.was_sent);
        assert_eq!(before, None, "reported once");
        self.release(message.range);
    }

    fn arrive(&mut self, to: usize, packet: &[u8]) {
        let mut deliveries = Deliveries::default();
        let received = Received::new(Address::Station(1 - to as u32), packet);
        self.ends[to].handle_packet(self.now, received, &mut deliveries);
        for delivery in deliveries.bytes {
            let bytes = match &delivery.bytes {
                Bytes::Packet(range) => &packet[range.clone()],
                Bytes::Reassembled(bytes) => bytes,
            };
            let key = (delivery.note.stream, delivery.note.unordered);
            let partial = self.partial.entry(key).or_default();
            if delivery.gap {
                assert!(!partial.is_empty(), "something of it was delivered");
                partial.clear();
                continue;
            }
            partial.extend_from_slice(bytes);
            let len = bytes.len() as u64;
            if delivery.end_of_message {
                let whole = std::mem::take(partial);
                let number = self.number_of(&whole);
                self.outcome.received.push(number);
            }
            self.ends[to].consume(self.now, delivery.association, len);
        }
    }

    /// The message with these bytes.
    fn number_of(&self, bytes: &[u8]) -> usize {
        let is_it = |number: &usize| {
            let range = self.starts[*number]..self.ends_of[*number];
            range.end - range.start == bytes.len() as u64
                && range.map(byte_at).eq(bytes.iter().copied())
        };
        let mut all = 0..self.starts.len();
        all.find(is_it).expect("a message that was sent, whole")
    }
}
