//! An endpoint of `call`, driven by a script of packets, commands and time steps; any octets are one.
//!
//! The endpoint calls entities at a peer and is called. The script builds packets of the right form
//! from its octets, sends the endpoint's own packets back to it, and says what its users do. Its host
//! checks what a host relies on.

#![allow(dead_code, reason = "each target uses one of the functions")]

use engine::{
    Address, Batch, Deliveries, EntityId, Event, IncomingMessage, Instant, Note, OutgoingMessage,
    Protocol, RangeSet, Received, Store, TransactionEvent, TransactionId, Transactions,
};
use engine_call::pdu::{HEADER_LEN, Header, Kind};
use engine_call::{Call, CallConfig};
use std::collections::{BTreeMap, BTreeSet};
use std::time::Duration;

const PACKET_LEN: usize = 128;
const MESSAGE_MAX: u32 = 1000;
const TRANSACTIONS_MAX: usize = 6;

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

/// The header of any octets: an accepted packet is written again as it was, but for what is unused.
pub fn packet(octets: &[u8]) {
    if let Some(header) = Header::parse(octets) {
        let again = header.emit();
        let same = Header::parse(&again[..HEADER_LEN]).expect("a header is accepted");
        assert_eq!(same, header);
        let end = u64::from(header.offset) + (octets.len() - HEADER_LEN) as u64;
        assert!(end <= u64::from(header.message_len));
    }
}

/// Runs the script.
pub fn script(octets: &[u8]) -> Reached {
    let mut run = Run::new();
    let mut rest = octets;
    while let Some((&code, more)) = rest.split_first() {
        rest = more;
        let mut next = || match rest.split_first() {
            Some((&octet, more)) => {
                rest = more;
                octet
            }
            None => 0,
        };
        let arguments = [next(), next(), next(), next()];
        run.step(code % 10, arguments);
        run.drain();
    }
    run.end();
    run.reached
}

/// The endpoint, and what its host knows.
struct Run {
    engine: Call,
    now: Instant,
    /// Messages that are not released, and their lengths.
    outgoing: BTreeMap<OutgoingMessage, u64>,
    /// Messages that come in: their length, and what has come.
    incoming: BTreeMap<IncomingMessage, (u64, RangeSet)>,
    /// Requests that are not answered.
    requests: Vec<TransactionId>,
    calls: Vec<TransactionId>,
    ended: BTreeSet<TransactionId>,
    /// The last packets of the endpoint.
    sent: Vec<Vec<u8>>,
    messages: u64,
    reached: Reached,
}

fn peer() -> Address {
    Address::Station(1)
}

impl Run {
    fn new() -> Run {
        let mut engine = Call::new(CallConfig {
            packet_len: PACKET_LEN,
            message_max: MESSAGE_MAX,
            retry: Duration::from_millis(10),
            retries_max: 3,
            quarantine: Duration::from_millis(100),
            transactions_max: TRANSACTIONS_MAX,
            seed: 0,
        });
        engine.create_entity(EntityId(0)).expect("room for one");
        for entity in 0..4 {
            engine.locate(EntityId(entity), peer());
        }
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
            reached: Reached::default(),
        }
    }

    fn step(&mut self, code: u8, [a, b, c, d]: [u8; 4]) {
        match code {
            0 => self.arrive(&[a, b, c, d]),
            1..=3 => self.arrive(&built(code, [a, b, c, d])),
            // Most calls are made by the entity of this end, and are short enough.
            4 => self.call(
                u64::from(a & 7 == 7),
                u64::from(b & 3),
                u64::from(c) << (d & 3),
            ),
            5 => self.reply(usize::from(a), u64::from(b) * u64::from(c & 7)),
            6 => self.abandon(usize::from(a)),
            7 => self.wait(u64::from(a) << (b & 7)),
            8 => self.transmit(usize::from(a & 3) + 1),
            _ => self.send_back(usize::from(a), b, c),
        }
    }

    fn arrive(&mut self, octets: &[u8]) {
        let mut deliveries = Deliveries::default();
        let packet = Received::new(peer(), octets);
        self.engine.handle_packet(self.now, packet, &mut deliveries);
        assert!(deliveries.bytes.is_empty(), "there are no associations");
        for block in deliveries.blocks {
            assert!(block.message_len <= u64::from(MESSAGE_MAX));
            assert!(block.range.end <= octets.len());
            let end = block.offset + block.range.len() as u64;
            assert!(end <= block.message_len, "a block ends behind its message");
            let new = || (block.message_len, RangeSet::new());
            let (len, have) = self.incoming.entry(block.message).or_insert_with(new);
            assert_eq!(*len, block.message_len, "a message changed its length");
            assert!(have.insert(block.offset..end) > 0, "a block brings nothing");
        }
        let held = 2 * TRANSACTIONS_MAX;
        assert!(
            self.incoming.len() <= held,
            "more messages than transactions"
        );
    }

    fn message(&mut self, len: u64) -> (OutgoingMessage, u64) {
        self.messages += 1;
        (OutgoingMessage(self.messages), len)
    }

    fn call(&mut self, from: u64, to: u64, len: u64) {
        let request = self.message(len);
        let (from, to) = (EntityId(from), EntityId(to));
        let called = self
            .engine
            .call(self.now, from, to, request, &Note::default());
        if let Ok(transaction) = called {
            assert!(len <= u64::from(MESSAGE_MAX), "too long to be accepted");
            self.outgoing.insert(request.0, len);
            self.calls.push(transaction);
            assert!(
                self.calls.len() <= TRANSACTIONS_MAX,
                "more calls than there may be"
            );
        }
    }

    fn reply(&mut self, which: usize, len: u64) {
        if self.requests.is_empty() {
            return;
        }
        let at = which % self.requests.len();
        let reply = self.message(len);
        let done = self
            .engine
            .reply(self.now, self.requests[at], reply, &Note::default());
        if done.is_ok() {
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
            for packet in batch.packets() {
                assert!(packet.len() <= PACKET_LEN);
                let mut octets = Vec::new();
                batch.write(packet, &mut octets, |store, range, out| {
                    let Store::Message(message) = store else {
                        panic!("there are no associations");
                    };
                    let len = self.outgoing.get(&message).expect("a message that is kept");
                    assert!(range.start <= range.end && range.end <= *len);
                    out.extend(range.clone().map(|at| at as u8));
                });
                assert!(
                    Header::parse(&octets).is_some(),
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

    /// A packet of the endpoint comes back: as it is, or as its peer would answer.
    fn send_back(&mut self, which: usize, kind: u8, len: u8) {
        if self.sent.is_empty() {
            return;
        }
        // One of the last: its transaction may still live.
        let back = which % self.sent.len().min(8);
        let octets = self.sent.remove(self.sent.len() - 1 - back);
        let header = Header::parse(&octets).expect("it was checked");
        match kind % 4 {
            0 => self.arrive(&octets),
            1 => self.arrive(
                &Header {
                    kind: Kind::Ack,
                    message_len: 0,
                    offset: 0,
                    ..header
                }
                .emit(),
            ),
            2 => {
                let refused = Header {
                    kind: Kind::Reply,
                    refused: len.is_multiple_of(8),
                    message_len: 0,
                    offset: 0,
                    ..header
                };
                self.arrive(&refused.emit());
            }
            _ => {
                let len = len % 96;
                let head = Header {
                    kind: Kind::Reply,
                    message_len: u32::from(len) + u32::from(len % 3),
                    offset: 0,
                    ..header
                };
                self.arrive(&with_block(
                    &head,
                    usize::from(len).min(PACKET_LEN - HEADER_LEN),
                ));
            }
        }
    }

    fn drain(&mut self) {
        while let Some(event) = self.engine.poll_event() {
            let Event::Transaction(event) = event else {
                panic!("there are no associations");
            };
            self.handle(event);
        }
        assert!(self.engine.transactions() <= 2 * TRANSACTIONS_MAX);
    }

    fn handle(&mut self, event: TransactionEvent) {
        match event {
            TransactionEvent::Requested {
                transaction,
                message,
                ..
            } => {
                self.take_whole(message);
                assert!(!self.requests.contains(&transaction), "executed twice");
                assert!(
                    !self.ended.contains(&transaction),
                    "executed when it was over"
                );
                self.requests.push(transaction);
                self.reached.requests += 1;
            }
            TransactionEvent::Replied {
                transaction,
                message,
                ..
            } => {
                self.take_whole(message);
                assert!(self.calls.contains(&transaction), "a reply to no call");
                self.reached.replies += 1;
            }
            TransactionEvent::Released(message) => {
                assert!(self.outgoing.remove(&message).is_some(), "released twice");
            }
            TransactionEvent::Copied { .. } => panic!("nothing stays at this end"),
            TransactionEvent::Duplicated { .. } => panic!("there are no groups"),
            TransactionEvent::Discarded(message) => drop(self.incoming.remove(&message)),
            TransactionEvent::Ended(transaction, _) => {
                assert!(self.ended.insert(transaction), "it ended twice");
                self.calls.retain(|known| *known != transaction);
                self.requests.retain(|known| *known != transaction);
            }
        }
    }

    /// A message that is told to the user is whole.
    fn take_whole(&mut self, message: IncomingMessage) {
        if let Some((len, have)) = self.incoming.remove(&message) {
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
        assert!(self.outgoing.is_empty(), "messages were never released");
        assert!(
            self.incoming.is_empty(),
            "messages were never given or discarded"
        );
    }
}

/// A packet with a right checksum from octets of the script.
fn built(kind: u8, [a, b, c, d]: [u8; 4]) -> Vec<u8> {
    let kind = match kind {
        1 => Kind::Request,
        2 => Kind::Reply,
        _ => Kind::Ack,
    };
    let block = usize::from(c % 89);
    // Half of them are whole messages.
    let (message_len, offset) = match d & 0x80 {
        0 => (block as u32, 0),
        _ => (
            u32::from(b) * u32::from(d & 7),
            u32::from(c) * u32::from(d >> 3 & 7),
        ),
    };
    let header = Header {
        kind,
        refused: kind == Kind::Reply && d & 0x40 != 0,
        message_len,
        offset,
        transaction: u64::from(a >> 2),
        client: EntityId(u64::from(b & 3)),
        server: EntityId(u64::from(a & 3 == 3)),
    };
    with_block(&header, block)
}

/// The packet of `header` and a block of `len` octets.
fn with_block(header: &Header, len: usize) -> Vec<u8> {
    let mut packet = header.emit().to_vec();
    let block: Vec<u8> = (0..len).map(|at| at as u8).collect();
    let check = u16::from_be_bytes([packet[2], packet[3]]);
    let check = engine::checksum::extend(check, engine::checksum::sum(&block));
    packet[2..4].copy_from_slice(&check.to_be_bytes());
    packet.extend(block);
    packet
}
