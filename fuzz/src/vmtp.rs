//! An endpoint of VMTP, driven by a script of packets, commands and time steps; any octets are one.
//!
//! The endpoint calls an entity at a peer and is called. The script builds packets from its octets,
//! sends the endpoint's own packets back to it, changed, and says what its users do. Its host checks
//! what a host relies on.

#![allow(dead_code, reason = "each target uses one of the functions")]

#[path = "vmtp_packets.rs"]
mod packets;

use engine::{
    Address, Batch, CallFlags, CallNote, Deliveries, EntityId, Event, IncomingMessage, Instant,
    Note, OutgoingMessage, Protocol, RangeSet, Received, Reliability, Store, TransactionEvent,
    TransactionId, Transactions,
};
use engine_vmtp::blocks::BlockMask;
use engine_vmtp::pdu::{Control, Flags, VmtpHeader, packet};
use engine_vmtp::{Vmtp, VmtpConfig};
use packets::{management, request, sign, wishing_request};
use std::collections::{BTreeMap, BTreeSet};
use std::time::Duration;

const PACKET_LEN: usize = 1100;
const MESSAGE_MAX: u32 = 40_000;
const RECORDS_MAX: usize = 4;
const ENTITIES_MAX: usize = 6;
const BASE: u64 = 0x0000_0001_f000_0000;

/// The endpoint's second entity, and a group that the first is a member of.
const SECOND: EntityId = EntityId(2);
const GROUP: EntityId = EntityId(1 << 62 | 7 << 32);

/// Calls of a stream that are not answered, at most.
const RUN_MAX: usize = 64;

/// What a script reached, so that a test can tell that it reached anything.
#[derive(Clone, Copy, Debug, Default)]
pub struct Reached {
    /// Requests that were told to the user.
    pub requests: u64,
    /// Replies that were told to the caller.
    pub replies: u64,
    /// Packets that the endpoint built.
    pub packets: u64,
}

/// A packet of any octets: an accepted one is written again as it was.
pub fn parse(octets: &[u8]) {
    if let Ok(header) = packet::parse(octets) {
        assert_eq!(header.emit()[..], octets[..64]);
        assert_eq!(octets.len(), 68 + header.data_len());
        assert!(header.message_in_header().end <= 56);
    }
}

/// Runs the script.
pub fn script(octets: &[u8]) -> Reached {
    let mut run = Run::new(octets.first().is_some_and(|octet| octet & 1 == 1));
    for step in octets.chunks(5) {
        let at = |index: usize| step.get(index).copied().unwrap_or(0);
        run.step(at(0) % 14, [at(1), at(2), at(3), at(4)]);
        run.drain();
    }
    run.end();
    run.reached
}

/// The endpoint, and what its host knows.
struct Run {
    engine: Vmtp,
    now: Instant,
    /// Messages that are not released, and their lengths.
    outgoing: BTreeMap<OutgoingMessage, u64>,
    /// Messages that come in: their length, and what has come.
    incoming: BTreeMap<IncomingMessage, (u64, RangeSet)>,
    requests: Vec<TransactionId>,
    calls: Vec<TransactionId>,
    ended: BTreeSet<TransactionId>,
    sent: Vec<Vec<u8>>,
    messages: u64,
    /// A call that goes on after a reply was made.
    wants_many: bool,
    reached: Reached,
}

fn peer() -> Address {
    Address::Station(1)
}

impl Run {
    fn new(is_settled: bool) -> Run {
        let lifetime = if is_settled { 0 } else { 100 };
        let mut engine = Vmtp::new(VmtpConfig {
            packet_len: PACKET_LEN,
            message_max: MESSAGE_MAX,
            entity_base: BASE,
            packet_lifetime: Duration::from_millis(lifetime),
            retries_max: 3,
            entities_max: ENTITIES_MAX,
            records_max: RECORDS_MAX,
            ..VmtpConfig::default()
        });
        engine.create_entity(EntityId(0)).expect("room for one");
        engine.create_entity(SECOND).expect("room for two");
        engine.locate(EntityId(1), peer());
        engine.locate(GROUP, peer());
        let joined = engine.set_member(GROUP, EntityId(0), true);
        joined.expect("it is its own");
        Run {
            engine,
            now: Instant::from_nanos(0),
            outgoing: BTreeMap::new(),
            incoming: BTreeMap::new(),
            requests: Vec::new(),
            calls: Vec::new(),
            ended: BTreeSet::new(),
            sent: Vec::new(),
            messages: 0,
            wants_many: false,
            reached: Reached::default(),
        }
    }

    fn step(&mut self, code: u8, [a, b, c, d]: [u8; 4]) {
        match code {
            0 => self.arrive(&[a, b, c, d]),
            1..=3 => self.arrive(&request([a, b, c, d])),
            4 => self.call(u64::from(b) << (c & 7), a & 7 == 0),
            5 => self.reply(usize::from(a), u64::from(b) << (c & 7), d & 7 == 0),
            6 if a & 3 == 0 => self.abandon(usize::from(b)),
            6 | 7 => self.wait(u64::from(a) << (b & 15)),
            8 => self.transmit(usize::from(a & 3) + 1),
            10 => self.call_wishing([a, b, c, d]),
            11 => self.forward(usize::from(a), b, u64::from(c)),
            12 => self.arrive(&wishing_request([a, b, c, d])),
            13 => self.arrive(&management([a, b, c, d])),
            _ => self.send_back(usize::from(a), b, [c, d]),
        }
    }

    fn arrive(&mut self, octets: &[u8]) {
        let mut deliveries = Deliveries::default();
        let received = Received::new(peer(), octets);
        self.engine
            .handle_packet(self.now, received, &mut deliveries);
        assert!(deliveries.bytes.is_empty(), "there are no associations");
        for block in deliveries.blocks {
            assert!(block.message_len <= u64::from(MESSAGE_MAX));
            assert!(block.range.end <= octets.len());
            let end = block.offset + block.range.len() as u64;
            assert!(end <= block.message_len, "a block ends behind its message");
            let new = || (block.message_len, RangeSet::new());
            let (len, have) = self.incoming.entry(block.message).or_insert_with(new);
            assert_eq!(*len, block.message_len, "a message changed its length");
            let fresh = have.insert(block.offset..end);
            assert_eq!(fresh, end - block.offset, "octets come twice");
        }
        // Members of a group may each have sent a part of a reply. One message may replace another,
        // whose end is not told yet.
        assert!(
            self.wants_many || self.incoming.len() <= RECORDS_MAX + self.calls.len() + 1,
            "more messages than transactions"
        );
    }

    fn message(&mut self, len: u64) -> (OutgoingMessage, u64) {
        self.messages += 1;
        (OutgoingMessage(self.messages), len)
    }

    fn call(&mut self, len: u64, once: bool) {
        let request = self.message(len);
        let note = note(once);
        let (from, to) = (EntityId(0), EntityId(1));
        if let Ok(call) = self.engine.call(self.now, from, to, request, &note) {
            assert!(len <= u64::from(MESSAGE_MAX), "too long to be accepted");
            self.outgoing.insert(request.0, len);
            self.calls.push(call);
            let most = 2 * ENTITIES_MAX + 3 * RUN_MAX;
            assert!(self.calls.len() <= most, "more calls than may be");
        }
    }

    /// A call with wishes: of the peer, of the endpoint itself, of a group or in a stream.
    fn call_wishing(&mut self, [a, b, c, d]: [u8; 4]) {
        let len = u64::from(b) << (c & 7);
        let request = self.message(len);
        let to = match a & 3 {
            0 => SECOND,
            1 => GROUP,
            _ => EntityId(1),
        };
        let flags = CallFlags(u16::from(d) | u16::from(a >> 2 & 1) << 8);
        let note = Note {
            stream: u16::from(a >> 4 & 3),
            call: CallNote {
                flags,
                priority: c >> 4,
                tries: a >> 6,
                spacing_us: u32::from(b) << 10,
                co_resident: (a & 8 == 8).then_some(EntityId(u64::from(c & 3))),
                ..CallNote::default()
            },
            ..note(a >> 6 == 1)
        };
        let called = self.engine.call(self.now, EntityId(0), to, request, &note);
        if let Ok(call) = called {
            self.outgoing.insert(request.0, len);
            self.calls.push(call);
            self.wants_many |= flags.has(CallFlags::MANY_REPLIES);
        }
    }

    /// A request is passed on: to the peer, or to an entity of the endpoint.
    fn forward(&mut self, which: usize, to: u8, len: u64) {
        if self.requests.is_empty() {
            return;
        }
        let request = self.requests[which % self.requests.len()];
        let message = self.message(len);
        self.outgoing.insert(message.0, len);
        let to = EntityId(u64::from(to % 3));
        if self.engine.forward(self.now, request, to, message).is_err() {
            self.outgoing.remove(&message.0);
        }
    }

    fn reply(&mut self, which: usize, len: u64, once: bool) {
        if self.requests.is_empty() {
            return;
        }
        let at = which % self.requests.len();
        let reply = self.message(len);
        let request = self.requests[at];
        if self
            .engine
            .reply(self.now, request, reply, &note(once))
            .is_ok()
        {
            self.outgoing.insert(reply.0, len);
            self.requests.swap_remove(at);
        }
    }

    fn abandon(&mut self, which: usize) {
        let known: Vec<TransactionId> = [&self.requests[..], &self.calls[..]].concat();
        if let Some(&transaction) = known.get(which % known.len().max(1)) {
            self.engine.abandon(self.now, transaction);
        }
    }

    fn wait(&mut self, us: u64) {
        self.now = self.now + Duration::from_micros(us);
        if self.engine.poll_timeout().is_some_and(|at| at <= self.now) {
            self.engine.handle_timeout(self.now);
            let next = self.engine.poll_timeout();
            assert!(next.is_none_or(|at| at > self.now), "the timeout stays due");
        }
    }

    /// Takes packets of the endpoint, at most as many batches; what they name must be kept.
    fn transmit(&mut self, batches: usize) {
        for _ in 0..batches {
            let mut batch = Batch::new(3);
            self.engine.poll_transmit(self.now, &mut batch);
            for built in batch.packets() {
                assert!(built.len() <= PACKET_LEN);
                let mut octets = Vec::new();
                batch.write(built, &mut octets, |store, range, out| {
                    let Store::Message(message) = store else {
                        panic!("there are no associations");
                    };
                    let len = self.outgoing.get(&message).expect("a message that is kept");
                    assert!(range.start <= range.end && range.end <= *len);
                    out.extend(range.clone().map(|at| at as u8));
                });
                assert!(
                    packet::parse(&octets).is_ok(),
                    "a packet of its own is right"
                );
                self.sent.push(octets);
                self.reached.packets += 1;
            }
            if batch.is_empty() {
                return;
            }
        }
    }

    /// A packet of the endpoint comes back: as it is, changed in an octet of its header, or as the
    /// answer to it.
    fn send_back(&mut self, which: usize, kind: u8, [at, by]: [u8; 2]) {
        if self.sent.is_empty() {
            return;
        }
        let back = which % self.sent.len().min(8);
        let mut octets = self.sent.remove(self.sent.len() - 1 - back);
        let header = packet::parse(&octets).expect("it was checked");
        match kind % 4 {
            0 => {}
            1 => {
                octets[usize::from(at % 64)] ^= by;
                sign(&mut octets);
            }
            _ => {
                let len = usize::from(at % 20);
                let response = VmtpHeader {
                    control: Control::response(if by & 1 == 1 { Control::ACKNOWLEDGE } else { 0 }),
                    transaction: header.transaction.wrapping_add(u32::from(by >= 0xe0)),
                    flags: Flags(by & Flags::DATAGRAM),
                    code: u32::from(by & 2) << 22,
                    delivery: BlockMask::NONE,
                    data_words: 0,
                    segment_size: len as u32,
                    ..header
                };
                octets = packet::emit(&response, true).to_vec();
            }
        }
        self.arrive(&octets);
    }

    fn drain(&mut self) {
        while let Some(event) = self.engine.poll_event() {
            let Event::Transaction(event) = event else {
                panic!("there are no associations");
            };
            self.handle(event);
        }
        assert!(self.engine.records() <= RECORDS_MAX);
    }

    fn handle(&mut self, event: TransactionEvent) {
        match event {
            TransactionEvent::Requested {
                transaction,
                message,
                note,
                ..
            } => {
                self.take(message, &note);
                assert!(!self.requests.contains(&transaction), "told twice");
                assert!(!self.ended.contains(&transaction), "told when it was over");
                self.requests.push(transaction);
                self.reached.requests += 1;
            }
            TransactionEvent::Replied {
                transaction,
                message,
                note,
                ..
            } => {
                self.take(message, &note);
                assert!(self.calls.contains(&transaction), "a reply to no call");
                self.reached.replies += 1;
            }
            TransactionEvent::Copied { from, to } => {
                let len = *self.outgoing.get(&from).expect("a message that is kept");
                let mut have = RangeSet::new();
                have.insert(0..len);
                if len > 0 {
                    self.incoming.insert(to, (len, have));
                }
            }
            TransactionEvent::Duplicated { from, to } => {
                if let Some(copy) = self.incoming.get(&from).cloned() {
                    self.incoming.insert(to, copy);
                }
            }
            TransactionEvent::Released(message) => {
                assert!(self.outgoing.remove(&message).is_some(), "released twice");
            }
            TransactionEvent::Discarded(message) => drop(self.incoming.remove(&message)),
            TransactionEvent::Ended(transaction, _) => {
                assert!(self.ended.insert(transaction), "it ended twice");
                self.calls.retain(|known| *known != transaction);
                self.requests.retain(|known| *known != transaction);
            }
        }
    }

    /// A message that is told to the user is whole, or it may be delivered in part.
    fn take(&mut self, message: IncomingMessage, note: &Note) {
        let incoming = self.incoming.remove(&message);
        if note.call.delivered.is_some() {
            assert!(incoming.is_some(), "a part of nothing");
            assert!(note.call.flags.has(CallFlags::PARTIAL));
            return;
        }
        if let Some((len, have)) = incoming {
            let whole = have.first().unwrap_or(0..0);
            assert!(whole == (0..len), "{whole:?} of {len} octets");
        }
    }

    /// With everything given up, and time, nothing is left.
    fn end(&mut self) {
        for transaction in [&self.requests[..], &self.calls[..]].concat() {
            self.engine.abandon(self.now, transaction);
        }
        for _ in 0..10_000 {
            self.transmit(usize::MAX);
            self.drain();
            let Some(at) = self.engine.poll_timeout() else {
                break;
            };
            self.now = self.now.max(at);
            self.engine.handle_timeout(self.now);
        }
        self.drain();
        assert_eq!(
            self.engine.poll_timeout(),
            None,
            "its timers go on for ever"
        );
        assert_eq!(self.engine.transactions(), 0, "transactions are left");
        assert_eq!(self.engine.records(), 0, "records are left");
        assert!(self.outgoing.is_empty(), "messages were never released");
        assert!(
            self.incoming.is_empty(),
            "messages were never given or discarded"
        );
    }
}

fn note(once: bool) -> Note {
    Note {
        reliability: match once {
            true => Reliability::Retransmissions(0),
            false => Reliability::Full,
        },
        ..Note::default()
    }
}
