//! The engine; it only dispatches.

use crate::config::BareConfig;
use crate::pdu::{BareHeader, HEADER_LEN, PacketType};
use crate::procedure::{acknowledge, data, finish, open};
use crate::state::{Association, Timer};
use core::ops::Range;
use core::time::Duration;
use engine::{
    Address, AssociationId, Associations, Batch, Close, CloseReason, CommandError, Counters,
    Deliveries, Delivery, Event, Framing, Instant, KeyedStream, Layout, Note, NoteFields,
    PathFault, Properties, Protocol, Purpose, Received, SendFlags, Status, TimerTable,
};
use std::collections::{BTreeMap, BTreeSet, VecDeque};

/// An endpoint of `bare`: any number of associations over one wire.
#[derive(Debug)]
pub struct Bare {
    pub(crate) config: BareConfig,
    pub(crate) associations: BTreeMap<AssociationId, Association>,
    /// Associations opened by peers, by address and token: 0002, Opening.
    pub(crate) accepted: BTreeMap<(Address, u64), AssociationId>,
    pub(crate) timers: TimerTable<(AssociationId, Timer)>,
    /// Associations that may have packets to send, each once, served round-robin.
    pub(crate) ready: VecDeque<AssociationId>,
    pub(crate) ready_set: BTreeSet<AssociationId>,
    /// Handshake packets that wait for the wire.
    pub(crate) control_queue: VecDeque<(AssociationId, Address, BareHeader)>,
    pub(crate) events: VecDeque<Event>,
    pub(crate) counters: Counters,
    pub(crate) tokens: KeyedStream,
    pub(crate) listening: bool,
    next_id: u32,
}

/// How long the host may keep a short message back.
const COALESCE_DELAY: Duration = Duration::from_millis(1);

/// Longest queue of handshake packets. Beyond it they are dropped, as if lost.
const CONTROL_QUEUE_MAX: usize = 1024;

impl Bare {
    /// An endpoint without associations. It refuses Opens until [`Associations::listen`].
    pub fn new(config: BareConfig) -> Self {
        Bare {
            tokens: KeyedStream::new(&config.secret, Purpose::Keys, config.seed),
            config,
            associations: BTreeMap::new(),
            accepted: BTreeMap::new(),
            timers: TimerTable::new(),
            ready: VecDeque::new(),
            ready_set: BTreeSet::new(),
            control_queue: VecDeque::new(),
            events: VecDeque::new(),
            counters: Counters::default(),
            listening: false,
            next_id: 1,
        }
    }

    pub(crate) fn add(&mut self, association: Association) -> Result<AssociationId, CommandError> {
        if self.associations.len() >= self.config.associations_max {
            return Err(CommandError::TooManyAssociations);
        }
        // Numbers go round, past those in use. 0 names no association.
        let mut id = AssociationId(self.next_id);
        while id.0 == 0 || self.associations.contains_key(&id) {
            id = AssociationId(id.0.wrapping_add(1));
        }
        self.next_id = id.0.wrapping_add(1);
        self.associations.insert(id, association);
        Ok(id)
    }

    pub(crate) fn remove(&mut self, id: AssociationId, reason: CloseReason) {
        let Some(association) = self.associations.remove(&id) else {
            return;
        };
        self.accepted.remove(&(association.peer, association.token));
        for timer in [
            Timer::Open,
            Timer::Ack,
            Timer::Loss,
            Timer::Final,
            Timer::TimeWait,
        ] {
            self.timers.cancel((id, timer));
        }
        if association.closed {
            return;
        }
        self.events.push_back(Event::Closed(id, reason));
    }

    pub(crate) fn set_timer(&mut self, id: AssociationId, timer: Timer, at: Instant) {
        self.timers.set((id, timer), at);
        self.counters.timers_set += 1;
    }

    pub(crate) fn mark_ready(&mut self, id: AssociationId) {
        if self.ready_set.insert(id) {
            self.ready.push_back(id);
        }
    }

    pub(crate) fn queue_control(&mut self, id: AssociationId, to: Address, header: BareHeader) {
        if self.control_queue.len() < CONTROL_QUEUE_MAX {
            self.control_queue.push_back((id, to, header));
        }
    }

    pub(crate) fn count_built(&mut self, payload: Range<u64>) {
        self.counters.packets_built += 1;
        self.counters.bytes_sent += payload.end - payload.start;
    }

    fn dispatch(
        &mut self,
        now: Instant,
        from: Address,
        packet: &[u8],
        deliveries: &mut Vec<Delivery>,
    ) -> Option<()> {
        let header = BareHeader::parse(packet)?;
        match header.packet_type {
            PacketType::Open => open::handle_open(self, now, from, &header),
            PacketType::Opened => open::handle_opened(self, now, from, &header),
            PacketType::Refused => open::handle_refused(self, from, &header),
            PacketType::Data | PacketType::Final => {
                acknowledge::handle_acknowledged(self, now, from, &header)?;
                data::handle_data(self, now, &header, packet.len() - HEADER_LEN, deliveries)
            }
        }
    }
}

impl Protocol for Bare {
    fn properties(&self) -> Properties {
        Properties {
            packet_max: self.config.packet_len,
            packet_len: None,
            framing: Framing::Records,
            notes: NoteFields::NONE,
            coalesce_delay: COALESCE_DELAY,
        }
    }

    fn handle_packet(&mut self, now: Instant, packet: Received<'_>, deliveries: &mut Deliveries) {
        self.counters.packets_parsed += 1;
        let deliveries = &mut deliveries.bytes;
        let from = packet.path.remote;
        if self
            .dispatch(now, from, packet.octets, deliveries)
            .is_none()
        {
            self.counters.packets_discarded += 1;
        }
    }

    fn handle_timeout(&mut self, now: Instant) {
        while let Some((id, timer)) = self.timers.pop_due(now) {
            match timer {
                Timer::Open => open::handle_open_timeout(self, now, id),
                Timer::Ack => acknowledge::handle_ack_timeout(self, id),
                Timer::Loss => data::handle_loss_timeout(self, now, id),
                Timer::Final => finish::handle_final_timeout(self, id),
                Timer::TimeWait => self.remove(id, CloseReason::Graceful),
            }
        }
    }

    /// A lost packet stays lost, whatever the reason.
    fn handle_path_error(&mut self, _now: Instant, _fault: PathFault<'_>) {}

    fn poll_transmit(&mut self, now: Instant, batch: &mut Batch) {
        if let Some((id, to, header)) = self.control_queue.pop_front() {
            batch.set_path(to, Some(id));
            batch.push_own(&header.emit());
            self.counters.packets_built += 1;
            return;
        }
        while let Some(id) = self.ready.pop_front() {
            self.ready_set.remove(&id);
            data::do_transmit(self, now, id, batch);
            if !batch.is_empty() {
                return;
            }
        }
    }

    fn poll_event(&mut self) -> Option<Event> {
        self.events.pop_front()
    }

    fn poll_timeout(&self) -> Option<Instant> {
        self.timers.deadline()
    }

    fn counters(&self) -> Counters {
        self.counters
    }
}

impl Associations for Bare {
    fn layout(&self, _id: Option<AssociationId>) -> Layout {
        Layout {
            header: HEADER_LEN,
            payload: self.config.packet_len - HEADER_LEN,
            trailer: 0,
        }
    }

    fn connect(&mut self, now: Instant, to: &[Address]) -> Result<AssociationId, CommandError> {
        match *to {
            [to] => open::do_open(self, now, to),
            _ => Err(CommandError::Unsupported),
        }
    }

    fn listen(&mut self, accept: bool) {
        self.listening = accept;
    }

    fn submit(&mut self, _: Instant, id: AssociationId, end: u64, flags: SendFlags, _: &Note) {
        if flags == SendFlags::REQUEST_ACK {
            // Every packet carries an acknowledgement already.
            return;
        }
        if let Some(association) = self.associations.get_mut(&id) {
            association.tx.end = association.tx.end.max(end);
            association.tx.finishing |= flags.fin;
            if flags.push || flags.fin {
                association.tx.pushed = association.tx.end;
            }
            self.mark_ready(id);
        }
    }

    fn submit_all(&mut self, now: Instant, id: AssociationId, ends: &[u64]) {
        engine::submit_each(self, now, id, ends);
    }

    fn consume(&mut self, now: Instant, id: AssociationId, bytes: u64) {
        acknowledge::do_consume(self, now, id, bytes);
    }

    fn close(&mut self, now: Instant, id: AssociationId, how: Close) {
        match how {
            Close::Graceful => self.submit(now, id, 0, SendFlags::FIN, &Note::default()),
            Close::Abort => self.remove(id, CloseReason::Aborted),
        }
    }

    fn status(&self, id: AssociationId) -> Status {
        let association = self.associations.get(&id);
        Status {
            bytes_in_flight: association.map_or(0, |known| known.tx.bytes_in_flight()),
        }
    }

    fn receive_window(&self) -> u64 {
        self.config.window
    }

    fn set_receive_full(&mut self, id: AssociationId, is_full: bool) {
        if let Some(association) = self.associations.get_mut(&id) {
            association.rx.is_full = is_full;
        }
    }

    /// Packets are cut when the endpoint is made; longer ones than the path carries go in fragments.
    fn set_path_mtu(&mut self, _: Instant, _: AssociationId, _: usize) {}

    /// All are equal.
    fn sort_by_priority(&self, _ids: &mut [AssociationId]) {}
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn association_numbers_wrap_and_skip_those_in_use() {
        let mut bare = Bare::new(BareConfig::default());
        let now = Instant::from_nanos(0);
        let open = |bare: &mut Bare| bare.connect(now, &[Address::Station(1)]).expect("room");
        let first = open(&mut bare);
        bare.next_id = u32::MAX - 1;
        let ids: Vec<u32> = (0..4).map(|_| open(&mut bare).0).collect();
        assert_eq!(first, AssociationId(1), "it is still in use");
        assert_eq!(ids, [u32::MAX - 1, u32::MAX, 2, 3]);
    }
}
