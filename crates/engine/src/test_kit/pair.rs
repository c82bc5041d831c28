//! Two endpoints of transactions in virtual time, and the path between them.

use super::{InFlight, MessageStores, expire, give_packet, take_packets, transaction_event};
use crate::{
    Address, EntityId, Instant, Note, OutgoingMessage, SplitMix64, TransactionEvent, TransactionId,
    Transactions,
};
use core::time::Duration;

/// The entity of the first endpoint, as its host numbers it.
pub const CLIENT: EntityId = EntityId(100);
/// That of the second.
pub const SERVER: EntityId = EntityId(200);

/// An endpoint and what its host keeps.
#[derive(Debug)]
pub struct End<E> {
    /// The engine.
    pub engine: E,
    /// Its messages.
    pub stores: MessageStores,
    /// All its events so far.
    pub events: Vec<TransactionEvent>,
}

/// How the user of the second endpoint answers.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ReplyPolicy {
    /// With the octets of the request, reversed.
    Reversed,
    /// With nothing.
    Empty,
    /// With so many octets.
    Octets(usize),
    /// Not at all.
    Never,
}

/// A packet that an endpoint sent.
#[derive(Clone, Debug)]
pub struct Sent<H> {
    /// The endpoint, 0 or 1.
    pub from: usize,
    /// The packet's header.
    pub header: H,
    /// The packet's length, octets.
    pub len: usize,
}

/// Whether a packet is lost.
type Drops<H> = Box<dyn FnMut(&Sent<H>) -> bool>;

/// The two endpoints; packets have headers `H`.
#[expect(missing_debug_implementations, reason = "it has a function")]
pub struct TransactionPair<E, H> {
    /// [`CLIENT`]'s and [`SERVER`]'s.
    pub ends: [End<E>; 2],
    /// The virtual time.
    pub now: Instant,
    /// To which end, and the packet.
    flying: InFlight<(usize, Vec<u8>)>,
    random: SplitMix64,
    parse: fn(&[u8]) -> H,
    /// Packets that are lost; half as many are doubled.
    pub loss_percent: u64,
    /// The time of a packet on its way, at least.
    pub delay: Duration,
    /// Of a packet's way, beyond the least.
    pub jitter: Duration,
    /// How each request is answered.
    pub answer: ReplyPolicy,
    /// The note of replies.
    pub reply_note: Note,
    /// Packets that are lost, besides those by chance.
    pub drops: Option<Drops<H>>,
    /// Packets sent, in their order.
    pub sent: Vec<Sent<H>>,
    /// Replies that the engine did not take.
    pub refused_replies: u64,
    messages: u64,
}

impl<E: Transactions, H> TransactionPair<E, H> {
    /// Endpoints with the engines that `make` gives for stations 0 and 1; `parse` reads a packet's header.
    ///
    /// # Panics
    ///
    /// When an engine has no room for an entity.
    pub fn new(seed: u64, parse: fn(&[u8]) -> H, make: impl Fn(u32) -> E) -> TransactionPair<E, H> {
        let end = |station: u32| {
            let mut engine = make(station);
            let own = [CLIENT, SERVER][station as usize];
            engine.create_entity(own).expect("room");
            engine.locate(SERVER, Address::Station(1));
            End {
                engine,
                stores: MessageStores::default(),
                events: Vec::new(),
            }
        };
        TransactionPair {
            ends: [end(0), end(1)],
            now: Instant::from_nanos(0),
            flying: InFlight::default(),
            random: SplitMix64::new(seed),
            parse,
            loss_percent: 0,
            delay: Duration::from_millis(1),
            jitter: Duration::ZERO,
            answer: ReplyPolicy::Reversed,
            reply_note: Note::default(),
            drops: None,
            sent: Vec::new(),
            refused_replies: 0,
            messages: 0,
        }
    }

    /// Keeps a message to send at `end`: what its engine is given of it.
    pub fn message(&mut self, end: usize, octets: Vec<u8>) -> (OutgoingMessage, u64) {
        self.messages += 1;
        self.ends[end].stores.keep_outgoing(self.messages, octets)
    }

    /// Calls [`SERVER`].
    pub fn call(&mut self, octets: Vec<u8>) -> TransactionId {
        self.call_noted(octets, &Note::default())
    }

    /// Calls [`SERVER`] with octets that it reverses: the call, and the reply that is wanted.
    pub fn call_to_reverse(&mut self, octets: Vec<u8>) -> (TransactionId, Vec<u8>) {
        let mut reply = octets.clone();
        reply.reverse();
        (self.call(octets), reply)
    }

    /// Calls [`SERVER`] with a note.
    ///
    /// # Panics
    ///
    /// When the engine refuses the call.
    pub fn call_noted(&mut self, octets: Vec<u8>, note: &Note) -> TransactionId {
        let request = self.message(0, octets);
        let engine = &mut self.ends[0].engine;
        let called = engine.call(self.now, CLIENT, SERVER, request, note);
        called.expect("a call")
    }

    /// Puts all that `end` sends now on its way.
    pub fn transmit(&mut self, end: usize) {
        let End { engine, stores, .. } = &mut self.ends[end];
        let copy = |store, range: &_, out: &mut _| stores.copy(store, range, out);
        for (_, octets) in take_packets(engine, self.now, 8, copy) {
            let sent = Sent {
                from: end,
                header: (self.parse)(&octets),
                len: octets.len(),
            };
            let is_dropped = self.drops.as_mut().is_some_and(|drops| drops(&sent));
            self.sent.push(sent);
            if !is_dropped {
                self.fly(1 - end, octets);
            }
        }
    }

    /// Puts a packet on its way, unless it is lost by chance.
    pub fn fly(&mut self, to: usize, octets: Vec<u8>) {
        let copies = 1 + u64::from(self.random.below(100) < self.loss_percent / 2);
        for _ in 0..copies {
            if self.random.below(100) >= self.loss_percent {
                let jitter = self.random.below(self.jitter.as_nanos() as u64 + 1);
                let at = self.now + self.delay + Duration::from_nanos(jitter);
                self.flying.send(at, (to, octets.clone()));
            }
        }
    }

    /// Goes on to the next arrival or time-out; false when there is none.
    pub fn step(&mut self) -> bool {
        for end in [0, 1] {
            self.transmit(end);
            self.drain(end);
        }
        self.transmit(1);
        let timers = self.ends.iter().filter_map(|end| end.engine.poll_timeout());
        let Some(at) = timers.chain(self.flying.next_at()).min() else {
            return false;
        };
        self.now = self.now.max(at);
        while let Some((to, octets)) = self.flying.arrived(self.now) {
            let from = Address::Station(1 - to as u32);
            let End { engine, stores, .. } = &mut self.ends[to];
            let deliveries = give_packet(engine, self.now, from, &octets);
            stores.keep(&octets, deliveries.blocks);
        }
        for end in [0, 1] {
            expire(&mut self.ends[end].engine, self.now);
            self.drain(end);
        }
        true
    }

    /// Runs until nothing is left to do.
    ///
    /// # Panics
    ///
    /// When that takes too many steps.
    pub fn finish(&mut self) {
        let mut steps = 0;
        while self.step() {
            steps += 1;
            assert!(steps < 200_000, "the run does not end");
        }
    }

    /// Runs until this call has ended.
    ///
    /// # Panics
    ///
    /// When it does not end.
    pub fn finish_call(&mut self, call: TransactionId) {
        let is_over = |event: &TransactionEvent| matches!(event, TransactionEvent::Ended(id, _) if *id == call);
        while !self.ends[0].events.iter().any(is_over) {
            assert!(self.step(), "the call does not end");
        }
    }

    fn drain(&mut self, end: usize) {
        while let Some(event) = transaction_event(&mut self.ends[end].engine) {
            self.ends[end].stores.apply(&event);
            if let TransactionEvent::Requested {
                transaction,
                message,
                ..
            } = event
            {
                let octets = self.ends[end].stores.take_incoming(message);
                self.reply(transaction, octets);
            }
            self.ends[end].events.push(event);
        }
    }

    fn reply(&mut self, transaction: TransactionId, mut request: Vec<u8>) {
        let octets = match self.answer {
            ReplyPolicy::Never => return,
            ReplyPolicy::Empty => Vec::new(),
            ReplyPolicy::Octets(len) => vec![7; len],
            ReplyPolicy::Reversed => {
                request.reverse();
                request
            }
        };
        let reply = self.message(1, octets);
        let End { engine, stores, .. } = &mut self.ends[1];
        let done = engine.reply(self.now, transaction, reply, &self.reply_note);
        if done.is_err() {
            stores.outgoing.remove(&reply.0);
            self.refused_replies += 1;
        }
    }

    /// How often the second endpoint's user had a request.
    pub fn requests(&self) -> usize {
        let is_request =
            |event: &&TransactionEvent| matches!(event, TransactionEvent::Requested { .. });
        self.ends[1].events.iter().filter(is_request).count()
    }

    /// The octets of the reply to `call`, if it came; they are not kept any longer.
    pub fn reply_to(&mut self, call: TransactionId) -> Option<Vec<u8>> {
        let End { stores, events, .. } = &mut self.ends[0];
        let found = events.iter().find_map(|event| match event {
            TransactionEvent::Replied {
                transaction,
                message,
                ..
            } if *transaction == call => Some(*message),
            _ => None,
        })?;
        Some(stores.take_incoming(found))
    }
}
