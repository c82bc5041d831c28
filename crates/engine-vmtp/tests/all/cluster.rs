//! Several endpoints in virtual time, at stations from 0 on; no packet is lost unless a test says so.

use crate::network::engine_at;
use engine::test_kit::{
    InFlight, MessageStores, expire, give_packet, take_packets, transaction_event,
};
use engine::{
    Address, CallNote, EntityId, Instant, Note, OutgoingMessage, Protocol, TransactionEnd,
    TransactionEvent, TransactionId, Transactions,
};
use engine_vmtp::pdu::{VmtpHeader, packet};
use engine_vmtp::{Vmtp, VmtpConfig};
use std::time::Duration;

/// The group's station: what is sent there comes to all others.
pub const ALL: Address = Address::Station(1000);

/// A group of entities, as hosts number it.
pub const GROUP: EntityId = EntityId(1 << 62 | 5 << 32);

/// How the user of an endpoint answers a request.
#[derive(Clone, Debug)]
pub enum User {
    /// With these octets before those of the request.
    Echo(&'static str),
    /// Passes it to another entity, with these octets before it.
    Forward(EntityId, &'static str),
    Refuse,
    Silent,
}

pub struct Host {
    pub engine: Vmtp,
    pub stores: MessageStores,
    /// Requests that were told, and what came with them.
    pub requests: Vec<(EntityId, Vec<u8>, Note)>,
    pub replies: Vec<(TransactionId, EntityId, Vec<u8>, Note)>,
    pub ends: Vec<(TransactionId, TransactionEnd)>,
    pub user: User,
    pub reply_note: Note,
}

/// Loses packets by their sender, receiver and header.
pub type Loses = Box<dyn FnMut(usize, usize, &VmtpHeader) -> bool>;

pub struct Cluster {
    pub hosts: Vec<Host>,
    pub now: Instant,
    /// From where, to where, and the packet.
    flying: InFlight<(usize, usize, Vec<u8>)>,
    pub sent: Vec<(usize, VmtpHeader)>,
    pub loses: Option<Loses>,
    messages: u64,
}

/// The entity of a station.
pub fn entity(station: usize) -> EntityId {
    EntityId(10 + station as u64)
}

impl Cluster {
    /// Stations that know where each other's entities are, and have been there for long.
    pub fn new(stations: usize, config: &VmtpConfig) -> Cluster {
        let config = VmtpConfig {
            packet_lifetime: Duration::ZERO,
            ..config.clone()
        };
        Cluster::young(stations, &config)
    }

    /// The same, which were started just now: packets of a life before may be in the network.
    pub fn young(stations: usize, config: &VmtpConfig) -> Cluster {
        let mut cluster = Cluster::make(stations, config);
        for at in 0..stations {
            for other in (0..stations).filter(|other| *other != at) {
                cluster.locate(at, other);
            }
        }
        cluster
    }

    /// A station loses all it knows; nobody tells it where others are.
    pub fn restart(&mut self, at: usize, config: &VmtpConfig) {
        self.hosts[at] = Cluster::host(at, config, at as u64 + 1000);
    }

    fn host(station: usize, config: &VmtpConfig, seed: u64) -> Host {
        let mut engine = engine_at(station as u32, seed, seed, config);
        engine.create_entity(entity(station)).expect("room");
        engine.locate(GROUP, ALL);
        Host {
            engine,
            stores: MessageStores::default(),
            requests: Vec::new(),
            replies: Vec::new(),
            ends: Vec::new(),
            user: User::Echo(""),
            reply_note: Note::default(),
        }
    }

    fn make(stations: usize, config: &VmtpConfig) -> Cluster {
        let host = |station| Cluster::host(station, config, station as u64);
        Cluster {
            hosts: (0..stations).map(host).collect(),
            now: Instant::from_nanos(0),
            flying: InFlight::default(),
            sent: Vec::new(),
            loses: None,
            messages: 0,
        }
    }

    /// Stations that know nobody.
    pub fn strangers(stations: usize) -> Cluster {
        let config = VmtpConfig {
            packet_lifetime: Duration::ZERO,
            ..VmtpConfig::default()
        };
        Cluster::make(stations, &config)
    }

    pub fn locate(&mut self, at: usize, other: usize) {
        let place = Address::Station(other as u32);
        self.hosts[at].engine.locate(entity(other), place);
    }

    pub fn message(&mut self, at: usize, octets: Vec<u8>) -> (OutgoingMessage, u64) {
        self.messages += 1;
        self.hosts[at].stores.keep_outgoing(self.messages, octets)
    }

    pub fn call(&mut self, at: usize, to: EntityId, octets: &[u8]) -> TransactionId {
        self.call_noted(at, to, octets, &Note::default())
    }

    pub fn call_noted(
        &mut self,
        at: usize,
        to: EntityId,
        octets: &[u8],
        note: &Note,
    ) -> TransactionId {
        let request = self.message(at, octets.to_vec());
        let (now, from) = (self.now, entity(at));
        let engine = &mut self.hosts[at].engine;
        engine.call(now, from, to, request, note).expect("a call")
    }

    fn transmit(&mut self, at: usize) {
        let Host { engine, stores, .. } = &mut self.hosts[at];
        let copy = |store, range: &_, out: &mut _| stores.copy(store, range, out);
        for (to, octets) in take_packets(engine, self.now, 8, copy) {
            self.send(at, to, octets);
        }
    }

    fn send(&mut self, from: usize, to: Address, octets: Vec<u8>) {
        let header = packet::parse(&octets).expect("its own packets are right");
        self.sent.push((from, header));
        let all = self.hosts.len();
        let receivers: Vec<usize> = match to {
            ALL => (0..all).filter(|other| *other != from).collect(),
            Address::Station(number) => vec![number as usize],
            _ => panic!("no other addresses here"),
        };
        for receiver in receivers {
            let loses = self.loses.as_mut();
            if loses.is_some_and(|loses| loses(from, receiver, &header)) {
                continue;
            }
            let at = self.now + Duration::from_millis(1);
            self.flying.send(at, (from, receiver, octets.clone()));
        }
    }

    /// A packet without data arrives at once.
    pub fn inject(&mut self, from: usize, to: usize, header: &VmtpHeader) {
        let octets = packet::emit(header, true);
        self.arrive(from, to, &octets);
    }

    /// A notification to a client arrives at once.
    pub fn notify(
        &mut self,
        from: usize,
        to: usize,
        notification: &engine_vmtp::pdu::NotifyClient,
    ) {
        let header = notification.header(EntityId(0xffff_f000_0001), 1, 1);
        self.inject(from, to, &header);
    }

    fn arrive(&mut self, from: usize, to: usize, octets: &[u8]) {
        let from = Address::Station(from as u32);
        let host = &mut self.hosts[to];
        let deliveries = give_packet(&mut host.engine, self.now, from, octets);
        host.stores.keep(octets, deliveries.blocks);
    }

    /// Goes on to the next arrival or time-out before `until`; false when there is none.
    pub fn step(&mut self, until: Instant) -> bool {
        for at in 0..self.hosts.len() {
            self.drain(at);
            self.transmit(at);
            self.drain(at);
            self.transmit(at);
        }
        let timers = self
            .hosts
            .iter()
            .filter_map(|host| host.engine.poll_timeout());
        let Some(at) = timers
            .chain(self.flying.next_at())
            .min()
            .filter(|at| *at <= until)
        else {
            return false;
        };
        self.now = self.now.max(at);
        while let Some((from, to, octets)) = self.flying.arrived(self.now) {
            self.arrive(from, to, &octets);
        }
        for host in &mut self.hosts {
            expire(&mut host.engine, self.now);
        }
        true
    }

    /// Runs for so long.
    pub fn run(&mut self, time: Duration) {
        let until = self.now + time;
        let mut steps = 0;
        while self.step(until) {
            steps += 1;
            assert!(steps < 100_000, "the run does not end");
        }
        self.now = self.now.max(until);
    }

    fn drain(&mut self, at: usize) {
        while let Some(event) = transaction_event(&mut self.hosts[at].engine) {
            self.handle(at, event);
        }
    }

    fn handle(&mut self, at: usize, event: TransactionEvent) {
        let host = &mut self.hosts[at];
        host.stores.apply(&event);
        match event {
            TransactionEvent::Replied {
                transaction,
                message,
                from,
                note,
            } => {
                let octets = host.stores.take_incoming(message);
                host.replies.push((transaction, from, octets, note));
            }
            TransactionEvent::Ended(transaction, how) => host.ends.push((transaction, how)),
            TransactionEvent::Requested {
                transaction,
                message,
                to,
                note,
                ..
            } => {
                let octets = host.stores.take_incoming(message);
                host.requests.push((to, octets.clone(), note));
                self.serve(at, to, transaction, octets);
            }
            _ => {}
        }
    }

    fn serve(&mut self, at: usize, to: EntityId, transaction: TransactionId, octets: Vec<u8>) {
        let now = self.now;
        let prefixed = |prefix: &str| [prefix.as_bytes(), &octets].concat();
        match self.hosts[at].user.clone() {
            User::Silent => {}
            User::Refuse => self.hosts[at].engine.abandon(now, transaction),
            // The entity that it is passed to answers it.
            User::Forward(other, _) if other == to => self.reply(at, transaction, octets),
            User::Echo(prefix) => self.reply(at, transaction, prefixed(prefix)),
            User::Forward(other, prefix) => {
                let request = self.message(at, prefixed(prefix));
                let engine = &mut self.hosts[at].engine;
                let forwarded = engine.forward(now, transaction, other, request);
                forwarded.expect("it is forwarded");
            }
        }
    }

    pub fn reply(&mut self, at: usize, transaction: TransactionId, octets: Vec<u8>) {
        let reply = self.message(at, octets);
        let host = &mut self.hosts[at];
        let note = host.reply_note;
        let taken = host.engine.reply(self.now, transaction, reply, &note);
        if taken.is_err() {
            host.stores.outgoing.remove(&reply.0);
        }
    }

    /// The octets that a call of `at` was answered with.
    pub fn replies_to(&self, at: usize, call: TransactionId) -> Vec<String> {
        let replies = self.hosts[at].replies.iter();
        let of_call = replies.filter(|reply| reply.0 == call);
        of_call
            .map(|reply| String::from_utf8_lossy(&reply.2).into_owned())
            .collect()
    }

    /// Nothing is left at any host but records that are over.
    pub fn assert_settled(&self) {
        for (at, host) in self.hosts.iter().enumerate() {
            assert!(
                host.stores.outgoing.is_empty(),
                "{at}: {:?}",
                host.stores.outgoing.keys()
            );
            assert!(host.stores.incoming.is_empty(), "{at}");
            assert_eq!(host.engine.transactions(), 0, "{at}");
        }
    }
}

/// A note with these wishes.
pub fn wishing(call: CallNote) -> Note {
    Note {
        call,
        ..Note::default()
    }
}
