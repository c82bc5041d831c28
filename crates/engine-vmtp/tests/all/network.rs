//! Endpoints in virtual time, and the path between them.

use engine::test_kit::{MessageStores, give_packet, take_packets};
use engine::{
    Address, EntityId, Event, Instant, Note, OutgoingMessage, Protocol, SplitMix64,
    TransactionEvent, TransactionId, Transactions,
};
use engine_vmtp::pdu::{VmtpHeader, packet};
use engine_vmtp::{Vmtp, VmtpConfig};
use std::collections::BTreeMap;
use std::time::Duration;

/// The entity of the first endpoint, as its host numbers it.
pub const CLIENT: EntityId = EntityId(100);
/// That of the second.
pub const SERVER: EntityId = EntityId(200);

/// Makes small numbers identifiers.
pub const BASE: u64 = 0x0000_0001_f000_0000;

/// The time of a packet on its way.
pub const DELAY: Duration = Duration::from_millis(1);

/// An endpoint and what its host keeps.
pub struct End {
    pub engine: Vmtp,
    pub stores: MessageStores,
    pub events: Vec<TransactionEvent>,
}

/// How the user of the second endpoint answers.
#[derive(Clone, Copy, PartialEq, Eq)]
pub enum Answer {
    /// With the octets of the request, reversed.
    Reversed,
    /// With nothing.
    Empty,
    /// With so many octets.
    Octets(usize),
    /// Not at all.
    Never,
}

type Dropper = Box<dyn FnMut(&Sent) -> bool>;

pub struct Pair {
    pub ends: [End; 2],
    pub now: Instant,
    /// When, to which end, and the packet.
    flying: BTreeMap<(Instant, u64), (usize, Vec<u8>)>,
    random: SplitMix64,
    pub loss_percent: u64,
    /// The time of a packet on its way, at least.
    pub delay: Duration,
    /// Of a packet's way, beyond the least.
    pub jitter: Duration,
    pub answer: Answer,
    pub reply_note: Note,
    /// Packets that are lost, besides those by chance.
    pub drops: Option<Dropper>,
    /// Packets sent, by end.
    pub sent: Vec<Sent>,
    messages: u64,
}

/// A packet that an endpoint sent.
#[derive(Clone, Debug)]
pub struct Sent {
    pub from: usize,
    pub header: VmtpHeader,
    pub len: usize,
}

impl Pair {
    pub fn new(seed: u64, config: &VmtpConfig) -> Pair {
        let end = |station: u32| {
            let mut engine = Vmtp::new(VmtpConfig {
                entity_base: BASE,
                host: 0xf000_0000 | station,
                seed,
                secret: engine::Secret::from_seed(seed << 1 | u64::from(station)),
                ..config.clone()
            });
            engine
                .create_entity([CLIENT, SERVER][station as usize])
                .expect("room");
            engine.locate(SERVER, Address::Station(1));
            End {
                engine,
                stores: MessageStores::default(),
                events: Vec::new(),
            }
        };
        Pair {
            ends: [end(0), end(1)],
            now: Instant::from_nanos(0),
            flying: BTreeMap::new(),
            random: SplitMix64::new(seed),
            loss_percent: 0,
            delay: DELAY,
            jitter: Duration::ZERO,
            answer: Answer::Reversed,
            reply_note: Note::default(),
            drops: None,
            sent: Vec::new(),
            messages: 0,
        }
    }

    /// Two endpoints that do not probe at their start.
    pub fn settled(seed: u64) -> Pair {
        Pair::new(
            seed,
            &VmtpConfig {
                packet_lifetime: Duration::ZERO,
                ..VmtpConfig::default()
            },
        )
    }

    pub fn message(&mut self, end: usize, octets: Vec<u8>) -> (OutgoingMessage, u64) {
        self.messages += 1;
        let id = OutgoingMessage(self.messages);
        let len = octets.len() as u64;
        self.ends[end].stores.outgoing.insert(id, octets);
        (id, len)
    }

    pub fn call(&mut self, octets: Vec<u8>) -> TransactionId {
        self.call_noted(octets, &Note::default())
    }

    pub fn call_noted(&mut self, octets: Vec<u8>, note: &Note) -> TransactionId {
        let request = self.message(0, octets);
        let engine = &mut self.ends[0].engine;
        engine
            .call(self.now, CLIENT, SERVER, request, note)
            .expect("a call")
    }

    pub fn transmit(&mut self, end: usize) {
        let End { engine, stores, .. } = &mut self.ends[end];
        let copy = |store, range: &_, out: &mut _| stores.copy(store, range, out);
        for (_, octets) in take_packets(engine, self.now, 8, copy) {
            let header = packet::parse(&octets).expect("its own packets are right");
            let sent = Sent {
                from: end,
                header,
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
            self.messages += 1;
            if self.random.below(100) >= self.loss_percent {
                let jitter = self.random.below(self.jitter.as_nanos() as u64 + 1);
                let at = self.now + self.delay + Duration::from_nanos(jitter);
                self.flying
                    .insert((at, self.messages), (to, octets.clone()));
            }
        }
    }

    fn arrive(&mut self, to: usize, octets: &[u8]) {
        let from = Address::Station(1 - to as u32);
        let end = &mut self.ends[to];
        let deliveries = give_packet(&mut end.engine, self.now, from, octets);
        end.stores.keep(octets, deliveries.blocks);
    }

    /// Goes on to the next arrival or time-out; false when there is none.
    pub fn step(&mut self) -> bool {
        for end in [0, 1] {
            self.transmit(end);
            self.drain(end);
        }
        self.transmit(1);
        let timers = self.ends.iter().filter_map(|end| end.engine.poll_timeout());
        let arrival = self.flying.keys().next().map(|(at, _)| *at);
        let Some(at) = timers.chain(arrival).min() else {
            return false;
        };
        self.now = self.now.max(at);
        while let Some(entry) = self
            .flying
            .first_entry()
            .filter(|entry| entry.key().0 <= self.now)
        {
            let (to, octets) = entry.remove();
            self.arrive(to, &octets);
        }
        for end in &mut self.ends {
            if end.engine.poll_timeout().is_some_and(|at| at <= self.now) {
                end.engine.handle_timeout(self.now);
                let next = end.engine.poll_timeout();
                assert!(next.is_none_or(|at| at > self.now), "the timeout stays due");
            }
        }
        for end in [0, 1] {
            self.drain(end);
        }
        true
    }

    /// Runs until nothing is left to do.
    pub fn finish(&mut self) {
        let mut steps = 0;
        while self.step() {
            steps += 1;
            assert!(steps < 200_000, "the run does not end");
        }
    }

    /// Runs until this call has ended.
    pub fn finish_call(&mut self, call: TransactionId) {
        let is_over = |event: &TransactionEvent| matches!(event, TransactionEvent::Ended(id, _) if *id == call);
        while !self.ends[0].events.iter().any(is_over) {
            assert!(self.step(), "the call does not end");
        }
    }

    fn drain(&mut self, end: usize) {
        while let Some(event) = self.ends[end].engine.poll_event() {
            let Event::Transaction(event) = event else {
                panic!("no association here")
            };
            match &event {
                TransactionEvent::Released(id) => {
                    assert!(
                        self.ends[end].stores.outgoing.remove(id).is_some(),
                        "released twice"
                    );
                }
                TransactionEvent::Requested {
                    transaction,
                    message,
                    ..
                } => {
                    let octets = self.ends[end]
                        .stores
                        .incoming
                        .remove(message)
                        .unwrap_or_default();
                    self.reply(*transaction, octets);
                }
                TransactionEvent::Copied { from, to } => {
                    let copy = self.ends[end].stores.outgoing[from].clone();
                    self.ends[end].stores.incoming.insert(*to, copy);
                }
                TransactionEvent::Discarded(id) => drop(self.ends[end].stores.incoming.remove(id)),
                _ => {}
            }
            self.ends[end].events.push(event);
        }
    }

    fn reply(&mut self, transaction: TransactionId, mut request: Vec<u8>) {
        let octets = match self.answer {
            Answer::Never => return,
            Answer::Empty => Vec::new(),
            Answer::Octets(len) => vec![7; len],
            Answer::Reversed => {
                request.reverse();
                request
            }
        };
        let reply = self.message(1, octets);
        let engine = &mut self.ends[1].engine;
        if engine
            .reply(self.now, transaction, reply, &self.reply_note)
            .is_err()
        {
            self.ends[1].stores.outgoing.remove(&reply.0);
        }
    }

    pub fn requests(&self) -> usize {
        let events = self.ends[1].events.iter();
        events
            .filter(|event| matches!(event, TransactionEvent::Requested { .. }))
            .count()
    }

    /// The reply to `call`, if it came.
    pub fn reply_to(&mut self, call: TransactionId) -> Option<Vec<u8>> {
        let found = self.ends[0].events.iter().find_map(|event| match event {
            TransactionEvent::Replied {
                transaction,
                message,
                ..
            } if *transaction == call => Some(*message),
            _ => None,
        })?;
        Some(
            self.ends[0]
                .stores
                .incoming
                .remove(&found)
                .unwrap_or_default(),
        )
    }

    /// Packets that carry segment data.
    pub fn data_packets(&self) -> usize {
        let with_data = self
            .sent
            .iter()
            .filter(|sent| !sent.header.delivery.is_empty());
        with_data.count()
    }
}
