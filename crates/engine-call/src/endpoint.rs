//! An endpoint: dispatch, and what both ends of a transaction share.

use crate::client::ClientCall;
use crate::incoming::Incoming;
use crate::pdu::{HEADER_LEN, Header, Kind};
use crate::server::{ServerCall, ServerKey, State};
use crate::transmission::{NEVER, Transmission};
use core::time::Duration;
use engine::{
    Address, Batch, CommandError, Counters, Deliveries, EntityId, Event, Framing, IncomingMessage,
    Instant, Note, NoteFields, OutgoingMessage, Path, PathFault, Properties, Protocol, Received,
    TimerTable, TransactionEnd, TransactionEvent, TransactionId, Transactions,
};
use std::collections::{BTreeMap, BTreeSet, VecDeque};

/// How an endpoint behaves.
#[derive(Clone, Debug)]
pub struct CallConfig {
    /// Octets of a full packet.
    pub packet_len: usize,
    /// Octets of the longest message.
    pub message_max: u32,
    /// Time until a request, or a reply, is sent again for the first time. It doubles.
    pub retry: Duration,
    /// Times a message is sent again before the transaction is given up. With 200 ms, 8 are 102 s.
    pub retries_max: u32,
    /// How long a server remembers what it has executed. Longer than a packet lives.
    pub quarantine: Duration,
    /// Transactions at each end, at most.
    pub transactions_max: usize,
    /// The number of the first call.
    pub seed: u64,
}

impl Default for CallConfig {
    fn default() -> CallConfig {
        CallConfig {
            packet_len: 1472,
            message_max: 1 << 20,
            retry: Duration::from_millis(200),
            retries_max: 8,
            quarantine: Duration::from_secs(30),
            transactions_max: 4096,
            seed: 0,
        }
    }
}

/// What both ends of all transactions share.
#[derive(Debug)]
pub(crate) struct Shared {
    pub(crate) config: CallConfig,
    pub(crate) events: VecDeque<Event>,
    control: VecDeque<(Path, [u8; HEADER_LEN])>,
    incoming: u64,
    pub(crate) counters: Counters,
}

/// Control packets that wait, at most: beyond it they are lost, as on a path.
const CONTROL_MAX: usize = 1024;

impl Shared {
    pub(crate) fn next_incoming(&mut self) -> IncomingMessage {
        self.incoming += 1;
        IncomingMessage(self.incoming)
    }

    pub(crate) fn tell(&mut self, event: TransactionEvent) {
        self.events.push_back(Event::Transaction(event));
    }

    pub(crate) fn send_control(&mut self, path: Path, header: &Header) {
        if self.control.len() < CONTROL_MAX {
            self.control.push_back((path, header.emit()));
        }
    }
}

/// An endpoint of the protocol: entities that call and are called, over one wire.
#[derive(Debug)]
pub struct Call {
    sh: Shared,
    entities: BTreeSet<EntityId>,
    places: BTreeMap<EntityId, Address>,
    calls: BTreeMap<TransactionId, ClientCall>,
    served: BTreeMap<TransactionId, ServerCall>,
    keys: BTreeMap<ServerKey, TransactionId>,
    /// Transactions with blocks to send, served in turn.
    ready: VecDeque<TransactionId>,
    timers: TimerTable<TransactionId>,
    last: u64,
}

/// A packet that arrived: whence, its header, where its block lies, and where what it brings goes.
pub(crate) struct Arrival<'a> {
    pub(crate) now: Instant,
    pub(crate) path: Path,
    pub(crate) header: Header,
    pub(crate) block: std::ops::Range<usize>,
    pub(crate) deliveries: &'a mut Deliveries,
}

impl Call {
    /// An endpoint without entities.
    ///
    /// # Panics
    ///
    /// When packets are to be shorter than 128 octets or longer than 65,535.
    pub fn new(config: CallConfig) -> Call {
        let range = 128..=usize::from(u16::MAX);
        assert!(
            range.contains(&config.packet_len),
            "packet_len is out of range"
        );
        Call {
            last: config.seed,
            sh: Shared {
                config,
                events: VecDeque::new(),
                control: VecDeque::new(),
                incoming: 0,
                counters: Counters::default(),
            },
            entities: BTreeSet::new(),
            places: BTreeMap::new(),
            calls: BTreeMap::new(),
            served: BTreeMap::new(),
            keys: BTreeMap::new(),
            ready: VecDeque::new(),
            timers: TimerTable::new(),
        }
    }

    /// Transactions that this endpoint remembers, those in quarantine included.
    pub fn transactions(&self) -> usize {
        self.calls.len() + self.served.len()
    }

    fn next_id(&mut self) -> TransactionId {
        self.last = self.last.wrapping_add(1);
        TransactionId(self.last)
    }

    fn dispatch(
        &mut self,
        now: Instant,
        packet: Received<'_>,
        deliveries: &mut Deliveries,
    ) -> Option<()> {
        let header = Header::parse(packet.octets)?;
        let arrival = Arrival {
            now,
            path: packet.path,
            header,
            block: HEADER_LEN..packet.octets.len(),
            deliveries,
        };
        match header.kind {
            Kind::Request => self.handle_request(arrival),
            Kind::Reply => self.handle_reply(arrival),
            Kind::Ack => {
                let key = (packet.path, header.client, header.transaction);
                let id = *self.keys.get(&key)?;
                self.served.get_mut(&id)?.handle_ack(&mut self.sh, now);
                self.arm(id);
                Some(())
            }
        }
    }

    fn handle_request(&mut self, packet: Arrival<'_>) -> Option<()> {
        let (now, header) = (packet.now, &packet.header);
        let key = (packet.path, header.client, header.transaction);
        let id = match self.keys.get(&key) {
            Some(&id) => id,
            None => self.accept(now, key, header)?,
        };
        let call = self.served.get_mut(&id)?;
        call.handle_request(&mut self.sh, packet);
        self.note_ready(id);
        Some(())
    }

    /// A place for a new transaction of a peer, or a refusal.
    fn accept(&mut self, now: Instant, key: ServerKey, header: &Header) -> Option<TransactionId> {
        let known = self.entities.contains(&header.server);
        let full = self.served.len() >= self.sh.config.transactions_max;
        if !known || full || header.message_len > self.sh.config.message_max {
            let refusal = Header {
                kind: Kind::Reply,
                refused: true,
                message_len: 0,
                offset: 0,
                ..*header
            };
            self.sh.send_control(key.0, &refusal);
            return None;
        }
        let id = self.next_id();
        let request = Incoming::new(self.sh.next_incoming(), header.message_len);
        let call = ServerCall {
            id,
            key,
            server: header.server,
            state: State::Receiving(request, now + self.sh.config.quarantine),
        };
        self.served.insert(id, call);
        self.keys.insert(key, id);
        Some(id)
    }

    fn handle_reply(&mut self, packet: Arrival<'_>) -> Option<()> {
        let (path, header) = (packet.path, &packet.header);
        let id = TransactionId(header.transaction);
        let known = |call: &&mut ClientCall| {
            call.path == path && call.client == header.client && call.server == header.server
        };
        let Some(call) = self.calls.get_mut(&id).filter(known) else {
            // A duplicate: the server need not repeat it.
            if !header.refused {
                let ack = Header {
                    kind: Kind::Ack,
                    message_len: 0,
                    offset: 0,
                    ..*header
                };
                self.sh.send_control(path, &ack);
            }
            return None;
        };
        if header.message_len > self.sh.config.message_max {
            return None;
        }
        if call.handle_reply(&mut self.sh, packet) {
            self.calls.remove(&id);
            self.timers.cancel(id);
        } else {
            self.arm(id);
        }
        Some(())
    }

    /// Puts a transaction in line if it has blocks to send, and sets its timer.
    fn note_ready(&mut self, id: TransactionId) {
        let call = self.calls.get_mut(&id).map(|call| &mut call.request);
        let sends = call.or_else(
            || match self.served.get_mut(&id).map(|call| &mut call.state) {
                Some(State::Replying(reply)) => Some(reply),
                _ => None,
            },
        );
        if let Some(sends) = sends.filter(|sends| sends.next.is_some() && !sends.queued) {
            sends.queued = true;
            self.ready.push_back(id);
        }
        self.arm(id);
    }

    fn arm(&mut self, id: TransactionId) {
        let call = self.calls.get(&id).map(|call| call.request.timeout());
        let at = call.or_else(|| self.served.get(&id)?.timeout());
        match at.filter(|at| *at < NEVER) {
            Some(at) => self.timers.set(id, at),
            None => self.timers.cancel(id),
        }
    }

    fn expire(&mut self, now: Instant, id: TransactionId) {
        let max = self.sh.config.retries_max;
        if let Some(call) = self.calls.get_mut(&id) {
            if call.request.sent > max {
                call.end(&mut self.sh, TransactionEnd::TimedOut);
                self.calls.remove(&id);
                return;
            }
            call.request.restart(&mut self.sh);
        } else if let Some(call) = self.served.get_mut(&id) {
            match &mut call.state {
                State::Replying(reply) if reply.sent <= max => reply.restart(&mut self.sh),
                State::Replying(_) | State::Receiving(..) => {
                    call.end(&mut self.sh, now, TransactionEnd::TimedOut);
                }
                State::Executing => {}
                State::Quarantined(_) => {
                    self.keys.remove(&call.key);
                    self.served.remove(&id);
                    return;
                }
            }
        }
        self.note_ready(id);
    }

    fn transmit_of(&mut self, now: Instant, id: TransactionId, batch: &mut Batch) {
        let more = if let Some(call) = self.calls.get_mut(&id) {
            batch.set_path(call.path, None);
            let header = call.header(Kind::Request);
            call.request.transmit(&mut self.sh, now, header, batch)
        } else if let Some(call) = self.served.get_mut(&id) {
            let header = call.header(Kind::Reply);
            let State::Replying(reply) = &mut call.state else {
                return;
            };
            batch.set_path(call.key.0, None);
            reply.transmit(&mut self.sh, now, header, batch)
        } else {
            return;
        };
        if more {
            self.ready.push_back(id);
        }
        self.arm(id);
    }
}

impl Protocol for Call {
    fn properties(&self) -> Properties {
        Properties {
            packet_max: self.sh.config.packet_len,
            packet_len: None,
            framing: Framing::Messages,
            notes: NoteFields::NONE,
            coalesce_delay: Duration::ZERO,
        }
    }

    fn handle_packet(&mut self, now: Instant, packet: Received<'_>, deliveries: &mut Deliveries) {
        let before = deliveries.blocks.len();
        let is_handled = self.dispatch(now, packet, deliveries).is_some();
        let blocks = &deliveries.blocks[before..];
        (self.sh.counters).count_packet(&packet, is_handled, blocks);
    }

    fn handle_timeout(&mut self, now: Instant) {
        while let Some(id) = self.timers.pop_due(now) {
            self.expire(now, id);
        }
    }

    /// An unreachable server is found out by the retries: a report can be forged.
    fn handle_path_error(&mut self, _now: Instant, _fault: PathFault<'_>) {}

    fn poll_transmit(&mut self, now: Instant, batch: &mut Batch) {
        if let Some((path, octets)) = self.sh.control.pop_front() {
            batch.set_path(path, None);
            batch.push_own(&octets);
            self.sh.counters.packets_built += 1;
            return;
        }
        while let Some(id) = self.ready.pop_front() {
            self.transmit_of(now, id, batch);
            if !batch.is_empty() {
                return;
            }
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

impl Transactions for Call {
    fn message_max(&self) -> u64 {
        u64::from(self.sh.config.message_max)
    }

    fn has_packets(&self) -> bool {
        !self.sh.control.is_empty() || !self.ready.is_empty()
    }

    fn create_entity(&mut self, entity: EntityId) -> Result<(), CommandError> {
        if self.entities.len() >= self.sh.config.transactions_max {
            return Err(CommandError::TooManyAssociations);
        }
        self.entities.insert(entity);
        Ok(())
    }

    fn remove_entity(&mut self, _now: Instant, entity: EntityId) {
        self.entities.remove(&entity);
    }

    fn set_member(&mut self, _: EntityId, _: EntityId, _: bool) -> Result<(), CommandError> {
        Err(CommandError::Unsupported)
    }

    fn locate(&mut self, entity: EntityId, at: Address) {
        let known = self.places.contains_key(&entity);
        if known || self.places.len() < self.sh.config.transactions_max {
            self.places.insert(entity, at);
        }
    }

    fn call(
        &mut self,
        _now: Instant,
        from: EntityId,
        to: EntityId,
        request: (OutgoingMessage, u64),
        note: &Note,
    ) -> Result<TransactionId, CommandError> {
        if !note.is_plain() || request.1 > self.message_max() {
            return Err(CommandError::Unsupported);
        }
        let place = self
            .places
            .get(&to)
            .filter(|_| self.entities.contains(&from));
        let path = Path::to(*place.ok_or(CommandError::UnknownAssociation)?);
        if self.calls.len() >= self.sh.config.transactions_max {
            return Err(CommandError::TooManyAssociations);
        }
        let id = self.next_id();
        self.calls
            .insert(id, ClientCall::new(id, (from, to), path, request));
        self.note_ready(id);
        Ok(id)
    }

    fn reply(
        &mut self,
        _now: Instant,
        transaction: TransactionId,
        reply: (OutgoingMessage, u64),
        note: &Note,
    ) -> Result<(), CommandError> {
        if !note.is_plain() || reply.1 > self.message_max() {
            return Err(CommandError::Unsupported);
        }
        let call = self.served.get_mut(&transaction);
        let executing = |call: &&mut ServerCall| matches!(call.state, State::Executing);
        let call = call
            .filter(executing)
            .ok_or(CommandError::UnknownAssociation)?;
        call.state = State::Replying(Transmission::new(reply));
        self.note_ready(transaction);
        Ok(())
    }

    fn forward(
        &mut self,
        _now: Instant,
        _transaction: TransactionId,
        _to: EntityId,
        _request: (OutgoingMessage, u64),
    ) -> Result<(), CommandError> {
        Err(CommandError::Unsupported)
    }

    fn abandon(&mut self, now: Instant, transaction: TransactionId) {
        if let Some(mut call) = self.calls.remove(&transaction) {
            call.end(&mut self.sh, TransactionEnd::Abandoned);
            self.timers.cancel(transaction);
        } else if let Some(call) = self.served.get_mut(&transaction) {
            if matches!(call.state, State::Executing) {
                let refusal = Header {
                    refused: true,
                    ..call.header(Kind::Reply)
                };
                self.sh.send_control(call.key.0, &refusal);
            }
            call.end(&mut self.sh, now, TransactionEnd::Abandoned);
            self.arm(transaction);
        }
    }
}
