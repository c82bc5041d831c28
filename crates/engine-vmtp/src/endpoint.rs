//! An endpoint: its tables, and dispatch.

use crate::blocks::MESSAGE_MAX;
use crate::client::{Client, ClientCall, Current};
use crate::config::VmtpConfig;
use crate::pdu::packet;
use crate::procedure::probe::Probes;
use crate::procedure::stream::Stream;
use crate::procedure::{LastGroup, LocalCall};
use crate::ready::Ready;
use crate::records::{ClientRecords, OverRecords, RecordId, Records};
use crate::server::State;
use crate::shared::{NEVER, Shared};
use engine::{
    Address, Batch, CommandError, Counters, Deliveries, EntityId, Event, FewMap, Framing, Instant,
    Note, NoteFields, OutgoingMessage, PathFault, Properties, Protocol, Received, TimerTable,
    TransactionId, Transactions,
};
use std::collections::{BTreeMap, BTreeSet, VecDeque};

/// What has a timer, or packets to send.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) enum Key {
    Client(EntityId),
    Server(RecordId),
    Probe(u16),
    /// A call within the host, by the server's number: of its server, and of its client.
    LocalServer(TransactionId),
    LocalClient(TransactionId),
}

/// An entity of the host: it calls through clients of its own.
#[derive(Debug, Default)]
pub(crate) struct Entity {
    /// Clients without a transaction, the one that was used last at the end.
    pub(crate) idle: Vec<EntityId>,
    /// Clients so far.
    pub(crate) clients: u16,
    /// The number of the first. It differs from the one before a restart, so that servers do not take
    /// new transactions for old ones.
    pub(crate) first: u16,
}

/// An endpoint of VMTP: entities that call and are called, over one wire.
#[derive(Debug)]
pub struct Vmtp {
    pub(crate) sh: Shared,
    pub(crate) entities: BTreeMap<EntityId, Entity>,
    pub(crate) places: BTreeMap<EntityId, Address>,
    /// Where other hosts say that entities are, and these entities in the order of their arrival.
    pub(crate) introduced: BTreeMap<EntityId, Address>,
    pub(crate) introductions: VecDeque<EntityId>,
    /// Entities that were of this host, and where they are.
    pub(crate) moved: BTreeMap<EntityId, Address>,
    /// Groups that entities of this host are members of.
    pub(crate) members: BTreeMap<EntityId, BTreeSet<EntityId>>,
    /// Calls within the host, by the server's number.
    pub(crate) locals: BTreeMap<TransactionId, LocalCall>,
    /// Streams by their clients, and these by the two entities and the stream's number.
    pub(crate) streams: BTreeMap<EntityId, Stream>,
    pub(crate) stream_names: BTreeMap<(EntityId, EntityId, u16), EntityId>,
    /// Records of Requests that were forwarded, by their clients.
    pub(crate) forwards: BTreeMap<EntityId, RecordId>,
    /// By their identifiers.
    pub(crate) clients: FewMap<EntityId, Client>,
    /// Memory of calls that are over.
    #[expect(clippy::vec_box, reason = "the boxes are what is kept")]
    pub(crate) spare_calls: Vec<Box<ClientCall>>,
    pub(crate) records: Records,
    /// The newest of each client.
    pub(crate) keys: ClientRecords,
    /// Records that may be forgotten, the oldest first.
    pub(crate) over: OverRecords,
    /// Who has the transactions that the host knows.
    pub(crate) transactions: FewMap<TransactionId, Key>,
    pub(crate) probes: Probes,
    /// The group that the last packet was of, while its Request is received.
    pub(crate) last_group: Option<LastGroup>,
    /// Transactions with packets to send, served in turn.
    pub(crate) ready: Ready,
    pub(crate) timers: TimerTable<Key>,
    #[cfg(test)]
    pub(crate) predictions: crate::procedure::prediction::Predictions,
    last: u64,
    /// When the endpoint was first called.
    started_at: Option<Instant>,
    /// When it was called last.
    last_now: Instant,
}

impl Vmtp {
    /// An endpoint without entities.
    ///
    /// # Panics
    ///
    /// When packets are to be shorter than 580 octets, which every implementation must take, or longer
    /// than 65,535, or messages longer than 4 MiB.
    pub fn new(config: VmtpConfig) -> Vmtp {
        let range = 580..=usize::from(u16::MAX);
        assert!(
            range.contains(&config.packet_len),
            "packet_len is out of range"
        );
        assert!(
            u64::from(config.message_max) <= MESSAGE_MAX,
            "message_max is out of range"
        );
        Vmtp {
            last: config.seed,
            sh: Shared::new(config),
            entities: BTreeMap::new(),
            places: BTreeMap::new(),
            introduced: BTreeMap::new(),
            introductions: VecDeque::new(),
            moved: BTreeMap::new(),
            members: BTreeMap::new(),
            locals: BTreeMap::new(),
            streams: BTreeMap::new(),
            stream_names: BTreeMap::new(),
            forwards: BTreeMap::new(),
            clients: FewMap::new(),
            spare_calls: Vec::new(),
            records: Records::default(),
            keys: ClientRecords::default(),
            over: OverRecords::default(),
            transactions: FewMap::new(),
            probes: Probes::default(),
            last_group: None,
            ready: Ready::default(),
            timers: TimerTable::new(),
            #[cfg(test)]
            predictions: Default::default(),
            started_at: None,
            last_now: Instant::from_nanos(0),
        }
    }

    /// Transactions that the host knows of.
    pub fn transactions(&self) -> usize {
        self.transactions.len()
    }

    /// Whether entities of this end are members of a group.
    pub fn has_members(&self, group: EntityId) -> bool {
        self.members.contains_key(&group)
    }

    /// Whether this end has an entity.
    pub fn has_entity(&self, entity: EntityId) -> bool {
        self.entities.contains_key(&entity)
    }

    /// Their numbers.
    pub fn transaction_ids(&self) -> Vec<TransactionId> {
        let all = self.transactions.sorted().into_iter();
        all.map(|(id, _)| *id).collect()
    }

    /// Records of clients, those of transactions that are over included.
    pub fn records(&self) -> usize {
        self.records.len()
    }

    pub(crate) fn next_number(&mut self) -> u64 {
        self.last = self.last.wrapping_add(1);
        self.last
    }

    /// Whether the endpoint has not been there for four packet lifetimes: it may have forgotten what
    /// it executed before it was restarted.
    pub(crate) fn is_young(&self, now: Instant) -> bool {
        let lifetime = self.sh.config.packet_lifetime;
        self.started_at.is_none_or(|at| now < at + 4 * lifetime)
    }

    /// Puts what has packets to send in line, and sets its timer.
    pub(crate) fn note_ready(&mut self, key: Key) {
        let outgoing = match key {
            Key::Client(id) => match self.clients.get_mut(&id).map(|client| &mut client.current) {
                Some(Current::Call(call)) => Some(&mut call.request),
                _ => None,
            },
            Key::Server(id) => match self.records.get_mut(&id).map(|record| &mut record.state) {
                Some(State::Responding(response)) => Some(&mut response.outgoing),
                Some(State::Forwarded(forwarded)) => Some(&mut forwarded.outgoing),
                _ => None,
            },
            Key::Probe(_) | Key::LocalServer(_) | Key::LocalClient(_) => None,
        };
        if let Some(outgoing) = outgoing.filter(|outgoing| outgoing.wants_to_send())
            && !outgoing.queued
        {
            outgoing.queued = true;
            self.ready.push(&outgoing.asked, key);
        }
        self.arm(key);
    }

    /// Sets the timer of `key` for no later than its record says. One that expires earlier stays, and is
    /// set again then: in each call the time-out moves on, and none expires.
    pub(crate) fn arm(&mut self, key: Key) {
        let (at, armed) = match key {
            Key::Client(id) => match self.clients.get_mut(&id) {
                Some(client) => (client.current.timeout(), &mut client.armed),
                None => return,
            },
            Key::Server(id) => match self.records.get_mut(&id) {
                Some(record) => (record.timeout, &mut record.armed),
                None => return,
            },
            Key::Probe(slot) => return self.arm_probe(slot),
            Key::LocalServer(_) | Key::LocalClient(_) => return,
        };
        if at < *armed {
            *armed = at;
            self.timers.set(key, at);
        }
    }

    fn arm_probe(&mut self, slot: u16) {
        let at = self.probes.get(slot).map_or(NEVER, |probe| probe.timeout);
        match at < NEVER {
            true => self.timers.set(Key::Probe(slot), at),
            false => self.timers.cancel(Key::Probe(slot)),
        }
    }

    /// The timer of `key` has expired; whether its record's time-out has come.
    fn take_due(&mut self, now: Instant, key: Key) -> bool {
        let (at, armed) = match key {
            Key::Client(id) => match self.clients.get_mut(&id) {
                Some(client) => (client.current.timeout(), &mut client.armed),
                None => return false,
            },
            Key::Server(id) => match self.records.get_mut(&id) {
                Some(record) => (record.timeout, &mut record.armed),
                None => return false,
            },
            _ => return true,
        };
        *armed = NEVER;
        at <= now
    }

    fn note_time(&mut self, now: Instant) {
        self.started_at.get_or_insert(now);
        self.last_now = now;
    }

    /// When it was called last.
    pub(crate) fn now(&self) -> Instant {
        self.last_now
    }
}

/// Members of a group at one endpoint, at most: so many records a Request to it takes.
pub(crate) const MEMBERS_MAX: usize = 64;

/// Whether an identifier is that of a group (RFC 1045 section 2.1).
pub fn is_group(entity: EntityId) -> bool {
    entity.0 >> 62 & 1 == 1
}

impl Protocol for Vmtp {
    fn properties(&self) -> Properties {
        Properties {
            packet_max: self.sh.config.packet_len,
            packet_len: Some(packet::stated_len),
            framing: Framing::Messages,
            notes: NoteFields {
                tag: true,
                reliability: true,
                call: true,
                stream: true,
                ..NoteFields::NONE
            },
            coalesce_delay: core::time::Duration::ZERO,
        }
    }

    fn handle_packet(&mut self, now: Instant, packet: Received<'_>, deliveries: &mut Deliveries) {
        self.note_time(now);
        let before = deliveries.blocks.len();
        let is_handled = self.dispatch(now, packet, deliveries).is_some();
        let blocks = &deliveries.blocks[before..];
        (self.sh.counters).count_packet(&packet, is_handled, blocks);
    }

    fn handle_timeout(&mut self, now: Instant) {
        self.note_time(now);
        while let Some(key) = self.timers.pop_due(now) {
            if !self.take_due(now, key) {
                self.arm(key);
                continue;
            }
            self.sh.counters.timers_set += 1;
            match key {
                Key::Client(id) => self.expire_client(now, id),
                Key::Server(id) => self.expire_record(now, id),
                Key::Probe(slot) => self.expire_probe(now, slot),
                Key::LocalServer(_) | Key::LocalClient(_) => {}
            }
        }
    }

    /// A server that is away is found out by retransmission: a report can be forged.
    fn handle_path_error(&mut self, now: Instant, _fault: PathFault<'_>) {
        self.note_time(now);
    }

    fn poll_transmit(&mut self, now: Instant, batch: &mut Batch) {
        self.note_time(now);
        if let Some((path, octets)) = self.sh.control.pop_front() {
            batch.set_path(path, None);
            batch.push_own(&octets);
            self.sh.counters.packets_built += 1;
            return;
        }
        while let Some(key) = self.ready.pop() {
            match key {
                Key::Client(id) => self.transmit_request(now, id, batch),
                Key::Server(id) => self.transmit_response(now, id, batch),
                Key::Probe(_) | Key::LocalServer(_) | Key::LocalClient(_) => {}
            }
            if !batch.is_empty() && !self.next_joins(batch) {
                return;
            }
        }
        if let Some((path, octets)) = self.sh.lists.pop_front() {
            batch.set_path(path, None);
            batch.push_own(&octets);
            self.sh.counters.packets_built += 1;
        }
    }

    fn poll_event(&mut self) -> Option<Event> {
        self.sh.events.pop_front()
    }

    fn poll_timeout(&self) -> Option<Instant> {
        self.timers.deadline()
    }

    fn counters(&self) -> Counters {
        self.sh.counters
    }
}

impl Transactions for Vmtp {
    fn message_max(&self) -> u64 {
        u64::from(self.sh.config.message_max)
    }

    #[inline]
    fn has_packets(&self) -> bool {
        !(self.ready.is_empty() && self.sh.control.is_empty() && self.sh.lists.is_empty())
    }

    fn create_entity(&mut self, entity: EntityId) -> Result<(), CommandError> {
        if self.entities.len() >= self.sh.config.entities_max {
            return Err(CommandError::TooManyAssociations);
        }
        let first = self.sh.random.next_u64() as u16;
        self.entities.entry(entity).or_insert_with(|| Entity {
            first,
            ..Entity::default()
        });
        Ok(())
    }

    fn remove_entity(&mut self, now: Instant, entity: EntityId) {
        self.note_time(now);
        self.forget_entity(entity);
    }

    fn set_member(
        &mut self,
        group: EntityId,
        entity: EntityId,
        is_member: bool,
    ) -> Result<(), CommandError> {
        if !is_group(self.sh.config.identifier(group)) {
            return Err(CommandError::Unsupported);
        }
        if !self.entities.contains_key(&entity) {
            return Err(CommandError::UnknownAssociation);
        }
        if !is_member {
            self.leave_group(group, entity);
            return Ok(());
        }
        let count: usize = self.members.values().map(BTreeSet::len).sum();
        let members = self.members.get(&group);
        let is_known = members.is_some_and(|members| members.contains(&entity));
        let fits = members.map_or(0, BTreeSet::len) < MEMBERS_MAX;
        if !is_known && (count >= self.sh.config.entities_max || !fits) {
            return Err(CommandError::TooManyAssociations);
        }
        self.members.entry(group).or_default().insert(entity);
        Ok(())
    }

    fn locate(&mut self, entity: EntityId, at: Address) {
        let known = self.places.contains_key(&entity);
        if known || self.places.len() < self.sh.config.entities_max {
            self.places.insert(entity, at);
        }
    }

    fn call(
        &mut self,
        now: Instant,
        from: EntityId,
        to: EntityId,
        request: (OutgoingMessage, u64),
        note: &Note,
    ) -> Result<TransactionId, CommandError> {
        self.note_time(now);
        self.begin_call(now, (from, to), request, note)
    }

    fn reply(
        &mut self,
        now: Instant,
        transaction: TransactionId,
        reply: (OutgoingMessage, u64),
        note: &Note,
    ) -> Result<(), CommandError> {
        self.note_time(now);
        match self.transactions.get(&transaction) {
            Some(Key::LocalServer(served)) => self.reply_local(*served, reply, note),
            _ => self.begin_response(transaction, reply, note),
        }
    }

    fn forward(
        &mut self,
        now: Instant,
        transaction: TransactionId,
        to: EntityId,
        request: (OutgoingMessage, u64),
    ) -> Result<(), CommandError> {
        self.note_time(now);
        self.begin_forward(transaction, to, request)
    }

    fn abandon(&mut self, now: Instant, transaction: TransactionId) {
        self.note_time(now);
        match self.transactions.get(&transaction) {
            Some(Key::Client(id)) => self.abandon_call(*id),
            Some(Key::Server(id)) => self.refuse_request(now, *id),
            Some(Key::LocalClient(served)) => self.abandon_local(*served),
            Some(Key::LocalServer(served)) => self.refuse_local(*served),
            Some(Key::Probe(_)) | None => {}
        }
    }
}
