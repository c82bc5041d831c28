//! A host of an engine of transactions for scripts of fuzzers: it does what the script says, and checks what a
//! host relies on.

use super::{expire, give_packet, transaction_event, written};
use crate::{
    Address, Batch, CallFlags, EntityId, IncomingMessage, Instant, Note, OutgoingMessage, RangeSet,
    Store, TransactionEvent, TransactionId, Transactions,
};
use core::time::Duration;
use std::collections::{BTreeMap, BTreeSet};

/// What a script reached, so that a test can tell that it reached anything.
#[derive(Clone, Copy, Debug, Default)]
pub struct Reached {
    /// Requests that the user had.
    pub requests: u64,
    /// Replies that the caller had.
    pub replies: u64,
    /// Packets that the endpoint built.
    pub packets: u64,
}

impl core::ops::AddAssign for Reached {
    fn add_assign(&mut self, more: Reached) {
        self.requests += more.requests;
        self.replies += more.replies;
        self.packets += more.packets;
    }
}

/// What the host checks that differs between protocols.
#[derive(Clone, Copy, Debug)]
pub struct ScriptRules {
    /// The longest packet, octets.
    pub packet_len: usize,
    /// The longest message, octets.
    pub message_max: u32,
    /// Whether octets are a packet.
    pub is_packet: fn(&[u8]) -> bool,
    /// Whether a block may have octets that came before, beside new ones.
    pub blocks_overlap: bool,
    /// Whether messages are copied at this end.
    pub copies: bool,
}

/// The engine, and what its host knows.
#[derive(Debug)]
pub struct ScriptHost<E> {
    /// The engine.
    pub engine: E,
    /// The virtual time.
    pub now: Instant,
    /// What is checked.
    pub rules: ScriptRules,
    /// Messages that are not released, and their lengths.
    pub outgoing: BTreeMap<OutgoingMessage, u64>,
    /// Messages that come in: their length, and what has come.
    pub incoming: BTreeMap<IncomingMessage, (u64, RangeSet)>,
    /// Requests that are not answered.
    pub requests: Vec<TransactionId>,
    /// Calls that have not ended.
    pub calls: Vec<TransactionId>,
    ended: BTreeSet<TransactionId>,
    /// The last packets of the endpoint.
    sent: Vec<Vec<u8>>,
    messages: u64,
    /// What the script reached.
    pub reached: Reached,
}

impl<E: Transactions> ScriptHost<E> {
    /// The station that sends all packets, and gets them.
    pub const PEER: Address = Address::Station(1);

    /// A host of `engine` at time 0.
    pub fn new(engine: E, rules: ScriptRules) -> ScriptHost<E> {
        ScriptHost {
            engine,
            now: Instant::from_nanos(0),
            rules,
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

    /// A packet arrives from the peer.
    ///
    /// # Panics
    ///
    /// When a block is none of its message, or brings nothing.
    pub fn arrive(&mut self, octets: &[u8]) {
        let deliveries = give_packet(&mut self.engine, self.now, Self::PEER, octets);
        assert!(deliveries.bytes.is_empty(), "there are no associations");
        for block in deliveries.blocks {
            assert!(block.message_len <= u64::from(self.rules.message_max));
            assert!(block.range.end <= octets.len());
            let end = block.offset + block.range.len() as u64;
            assert!(end <= block.message_len, "a block ends behind its message");
            let new = || (block.message_len, RangeSet::new());
            let (len, have) = self.incoming.entry(block.message).or_insert_with(new);
            assert_eq!(*len, block.message_len, "a message changed its length");
            let fresh = have.insert(block.offset..end);
            match self.rules.blocks_overlap {
                true => assert!(fresh > 0, "a block brings nothing"),
                false => assert_eq!(fresh, end - block.offset, "octets come twice"),
            }
        }
    }

    /// A message of `len` octets, which the host does not keep yet.
    pub fn message(&mut self, len: u64) -> (OutgoingMessage, u64) {
        self.messages += 1;
        (OutgoingMessage(self.messages), len)
    }

    /// Calls `to` with `len` octets; false when the engine refuses.
    ///
    /// # Panics
    ///
    /// When the engine takes a request that is too long.
    pub fn call(&mut self, from: EntityId, to: EntityId, len: u64, note: &Note) -> bool {
        let request = self.message(len);
        let Ok(transaction) = self.engine.call(self.now, from, to, request, note) else {
            return false;
        };
        let most = u64::from(self.rules.message_max);
        assert!(len <= most, "too long to be accepted");
        self.outgoing.insert(request.0, len);
        self.calls.push(transaction);
        true
    }

    /// Answers one of the requests.
    pub fn reply(&mut self, which: usize, len: u64, note: &Note) {
        if self.requests.is_empty() {
            return;
        }
        let at = which % self.requests.len();
        let reply = self.message(len);
        let request = self.requests[at];
        let done = self.engine.reply(self.now, request, reply, note);
        if done.is_ok() {
            self.outgoing.insert(reply.0, len);
            self.requests.swap_remove(at);
        }
    }

    /// Abandons one of the transactions.
    pub fn abandon(&mut self, which: usize) {
        let known = [&self.requests[..], &self.calls[..]].concat();
        if let Some(&transaction) = known.get(which % known.len().max(1)) {
            self.engine.abandon(self.now, transaction);
        }
    }

    /// Goes on by `us` microseconds.
    pub fn wait(&mut self, us: u64) {
        self.now = self.now + Duration::from_micros(us);
        expire(&mut self.engine, self.now);
    }

    /// Takes packets of the endpoint, at most as many batches.
    ///
    /// # Panics
    ///
    /// When one is no packet, too long, or names octets of a message that is not kept.
    pub fn transmit(&mut self, batches: usize) {
        for _ in 0..batches {
            let mut batch = Batch::new(3);
            self.engine.poll_transmit(self.now, &mut batch);
            let packets = written(&batch, |store, range, out| {
                let Store::Message(message) = store else {
                    panic!("there are no associations");
                };
                let len = self.outgoing.get(&message).expect("a message that is kept");
                assert!(range.start <= range.end && range.end <= *len);
                out.extend(range.clone().map(|at| at as u8));
            });
            for octets in packets {
                assert!(octets.len() <= self.rules.packet_len);
                assert!((self.rules.is_packet)(&octets), "its own packet is right");
                self.sent.push(octets);
                self.reached.packets += 1;
            }
            if batch.is_empty() {
                return;
            }
        }
    }

    /// One of the last packets of the endpoint: its transaction may still live.
    pub fn take_sent(&mut self, which: usize) -> Option<Vec<u8>> {
        let back = which % self.sent.len().clamp(1, 8);
        let at = self.sent.len().checked_sub(1 + back)?;
        Some(self.sent.remove(at))
    }

    /// Takes the events of the engine.
    ///
    /// # Panics
    ///
    /// When one cannot be true.
    pub fn drain(&mut self) {
        while let Some(event) = transaction_event(&mut self.engine) {
            self.handle(event);
        }
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
                assert!(!self.requests.contains(&transaction), "executed twice");
                let is_over = self.ended.contains(&transaction);
                assert!(!is_over, "executed when it was over");
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
            TransactionEvent::Released(message) => {
                assert!(self.outgoing.remove(&message).is_some(), "released twice");
            }
            TransactionEvent::Discarded(message) => drop(self.incoming.remove(&message)),
            TransactionEvent::Ended(transaction, _) => {
                assert!(self.ended.insert(transaction), "it ended twice");
                self.calls.retain(|known| *known != transaction);
                self.requests.retain(|known| *known != transaction);
            }
            TransactionEvent::Copied { .. } | TransactionEvent::Duplicated { .. } => {
                assert!(self.rules.copies, "nothing stays at this end");
                self.copy(&event);
            }
        }
    }

    fn copy(&mut self, event: &TransactionEvent) {
        match event {
            TransactionEvent::Copied { from, to } => {
                let len = *self.outgoing.get(from).expect("a message that is kept");
                let mut have = RangeSet::new();
                have.insert(0..len);
                if len > 0 {
                    self.incoming.insert(*to, (len, have));
                }
            }
            TransactionEvent::Duplicated { from, to } => {
                if let Some(copy) = self.incoming.get(from).cloned() {
                    self.incoming.insert(*to, copy);
                }
            }
            _ => {}
        }
    }

    /// A message that the user gets is whole, or it may be delivered in part.
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
    ///
    /// # Panics
    ///
    /// When a timer or a message is left.
    pub fn end(&mut self) {
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
        let next = self.engine.poll_timeout();
        assert_eq!(next, None, "its timers go on for ever");
        let (outgoing, incoming) = (&self.outgoing, &self.incoming);
        assert!(outgoing.is_empty(), "messages were never released");
        assert!(incoming.is_empty(), "messages were never used or discarded");
    }
}
