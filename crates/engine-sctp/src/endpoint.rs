//! The engine; it only dispatches.

use crate::association::{Association, State, Timer};
use crate::association_table::AssociationTable;
use crate::config::SctpConfig;
use crate::discard::{DiscardReason, Discards};
use crate::endpoint_state::EndpointState;
use crate::numbers::Tag;
use crate::pdu::chunk::FLAG_T;
use crate::pdu::header::{self, PacketCheck, check_packet};
use crate::pdu::{Chunk, ChunkType, Chunks, CommonHeader};
use crate::procedure::{
    abandon, abort, asconf, association_setup, cookie_echo, data_send, heartbeat, init,
    out_of_the_blue, path_management, path_mtu, prediction, reconfiguration, retransmission,
    shutdown, submission, window_probe,
};
use engine::{
    Address, AssociationId, Associations, Batch, Close, CommandError, Counters, Deliveries, Event,
    Framing, Instant, Layout, Note, NoteFields, PathError, PathFault, Properties, Protocol,
    Received, SendFlags, Status,
};

/// An endpoint: any number of associations over one wire.
#[derive(Debug)]
pub struct Sctp {
    pub(crate) associations: AssociationTable,
    pub(crate) shared: EndpointState,
    next_id: u32,
}

impl Sctp {
    /// An endpoint without associations. It refuses INITs until [`Associations::listen`].
    pub fn new(config: SctpConfig) -> Sctp {
        Sctp {
            associations: AssociationTable::default(),
            shared: EndpointState::new(config),
            next_id: 1,
        }
    }

    /// Packets and chunks dropped so far, by reason.
    pub fn discards(&self) -> Discards {
        self.shared.discards
    }

    /// Associations, those in the handshake included.
    pub fn associations_len(&self) -> usize {
        self.associations.len()
    }

    /// Adds an association and indexes it by its tag and its peer.
    pub(crate) fn add(
        &mut self,
        mut association: Association,
    ) -> Result<AssociationId, CommandError> {
        if self.associations.len() >= self.shared.config.associations_max {
            return Err(CommandError::TooManyAssociations);
        }
        // Numbers go round, past those in use. 0 names no association.
        let mut id = AssociationId(self.next_id);
        while id.0 == 0 || self.associations.contains_key(&id) {
            id = AssociationId(id.0.wrapping_add(1));
        }
        self.next_id = id.0.wrapping_add(1);
        association.id = id;
        self.shared.by_tag.insert(association.local_tag, id);
        self.shared.index_paths(&association);
        self.associations.insert(association);
        Ok(id)
    }

    /// Removes an association that ended, and tells its user.
    pub(crate) fn remove_if_gone(&mut self, id: AssociationId) {
        let Some(State::Gone(reason)) = self.associations.get(&id).map(|known| &known.state) else {
            return;
        };
        let reason = *reason;
        let Some(mut association) = self.associations.remove(&id) else {
            return;
        };
        let shared = &mut self.shared;
        if shared.config.report_unacknowledged {
            abandon::report_unacknowledged(&mut association, shared);
        }
        shared.by_tag.remove(&association.local_tag);
        shared.unindex_paths(&association);
        shared.cancel_timers(id, association.paths.len());
        shared.events.push_back(Event::Closed(id, reason));
    }

    #[inline(never)]
    fn dispatch(
        &mut self,
        now: Instant,
        received: Received<'_>,
        deliveries: &mut Deliveries,
    ) -> Result<(), DiscardReason> {
        let packet = received.octets;
        let header = CommonHeader::parse(packet).ok_or(DiscardReason::Malformed)?;
        let last = self.associations.last();
        let known = match last.filter(|last| last.local_tag == header.tag) {
            Some(last) => Some(last.id),
            None => self.shared.by_tag.get(&header.tag).copied(),
        };
        let agrees = |id| {
            let association = self.associations.get(&id);
            association.is_some_and(|a| a.accepts_zero_checksum(&self.shared.config))
        };
        let zero_is_agreed = header::has_zero_checksum(packet) && known.is_some_and(agrees);
        match check_packet(packet, zero_is_agreed) {
            PacketCheck::Right => self.shared.counters.bytes_summed += packet.len() as u64,
            PacketCheck::Zero if zero_is_agreed => {}
            PacketCheck::Zero | PacketCheck::Wrong => return Err(DiscardReason::Checksum),
        }
        let mut chunks = Chunks::new(packet);
        let first = chunks.next().ok_or(DiscardReason::Malformed)?;
        let is_alone = || chunks.clone().next().is_none() && !chunks.is_broken();
        match first.kind {
            // Section 8.5.1: a packet with an INIT has tag 0 and nothing else.
            ChunkType::INIT if header.tag == Tag::NONE && is_alone() => {
                return init::handle_init(self, now, &header, received.path, &first);
            }
            ChunkType::INIT => return Err(DiscardReason::Malformed),
            _ if header.tag == Tag::NONE => return Err(DiscardReason::Tag),
            ChunkType::INIT_ACK | ChunkType::SHUTDOWN_COMPLETE if !is_alone() => {
                return Err(DiscardReason::Malformed);
            }
            _ => {}
        }
        // A cookie opens an association, and may be authenticated itself.
        let second = match first.kind {
            ChunkType::AUTH => chunks.next(),
            _ => None,
        };
        let second = second.filter(|chunk| chunk.kind == ChunkType::COOKIE_ECHO);
        let (id, skipped) = if let Some(cookie) = second {
            let chunks = (Some(&first), &cookie);
            let id = cookie_echo::handle_cookie_echo(self, now, (&header, received), chunks)?;
            (id, 2)
        } else if first.kind == ChunkType::COOKIE_ECHO {
            let chunks = (None, &first);
            let id = cookie_echo::handle_cookie_echo(self, now, (&header, received), chunks)?;
            (id, 1)
        } else if let Some(id) = self.owner(known, &header, received.path.remote, &first) {
            (id, 0)
        } else if self.contradicts_tag(&header, received.path.remote, &first) {
            return Err(DiscardReason::Tag);
        } else {
            return out_of_the_blue::handle(self, &header, received);
        };
        let chunks = Chunks::behind(packet, skipped);
        self.handle_chunks(now, id, (&header, received), (chunks, skipped), deliveries)
    }

    /// The association that a packet belongs to: `known` by its tag, or the one whose peer sent an
    /// ABORT or SHUTDOWN-COMPLETE with the peer's own tag in it, reflected (RFC 9260 section 8.5.1).
    fn owner(
        &self,
        known: Option<AssociationId>,
        header: &CommonHeader,
        from: Address,
        first: &Chunk<'_>,
    ) -> Option<AssociationId> {
        let may = [ChunkType::ABORT, ChunkType::SHUTDOWN_COMPLETE].contains(&first.kind);
        if !may || first.flags & FLAG_T == 0 {
            return known;
        }
        let key = (from, header.source, header.destination);
        let id = *self.shared.by_peer.get(&key)?;
        let association = self.associations.get(&id)?;
        (association.peer_tag == header.tag).then_some(id)
    }

    /// Whether an association has the packet's addresses and ports, and another tag: then it is dropped in
    /// silence (RFC 9260 section 8.5), but for a SHUTDOWN-ACK in the handshake (section 8.5.1, E).
    fn contradicts_tag(&self, header: &CommonHeader, from: Address, first: &Chunk<'_>) -> bool {
        let key = (from, header.source, header.destination);
        let known = self.shared.by_peer.get(&key);
        let known = known.and_then(|id| self.associations.get(id));
        known.is_some_and(|association| {
            let is_opening = matches!(
                association.state,
                State::CookieWait { .. } | State::CookieEchoed { .. }
            );
            !(is_opening && first.kind == ChunkType::SHUTDOWN_ACK)
        })
    }
}

impl Protocol for Sctp {
    fn properties(&self) -> Properties {
        let framing = self.shared.config.framing;
        let has_messages = framing == Framing::Messages;
        Properties {
            packet_max: self.shared.config.packet_len,
            packet_len: None,
            framing,
            notes: NoteFields {
                stream: has_messages,
                tag: has_messages,
                unordered: has_messages,
                context: has_messages,
                reliability: has_messages && self.shared.config.partial_reliability,
                ..NoteFields::NONE
            },
            coalesce_delay: self.shared.config.coalesce_delay,
        }
    }

    fn handle_packet(&mut self, now: Instant, packet: Received<'_>, deliveries: &mut Deliveries) {
        self.shared.counters.packets_parsed += 1;
        if let Some(a) = self.associations.last_mut()
            && prediction::handle_packet(a, &mut self.shared, now, &packet, deliveries)
        {
            return;
        }
        if let Err(reason) = self.dispatch(now, packet, deliveries) {
            self.shared.counters.packets_discarded += 1;
            self.shared.discard(reason);
        }
    }

    fn handle_timeout(&mut self, now: Instant) {
        while let Some((id, timer)) = self.shared.timers.pop_due(now) {
            let Some(a) = self.associations.get_mut(&id) else {
                continue;
            };
            let ep = &mut self.shared;
            match timer {
                Timer::Handshake => association_setup::handle_timeout(a, ep, now),
                Timer::Shutdown => shutdown::handle_timeout(a, ep, now),
                Timer::ShutdownGuard => abort::do_abort_timed_out(a, ep),
                Timer::Retransmission(path) => {
                    retransmission::handle_timeout(a, ep, now, usize::from(path));
                }
                Timer::Heartbeat(path) => heartbeat::handle_timeout(a, ep, now, usize::from(path)),
                Timer::PathMtu(path) => path_mtu::handle_timeout(a, ep, now, usize::from(path)),
                Timer::Sack => a.rx.sack_due = true,
                Timer::WindowProbe => window_probe::handle_timeout(a),
                Timer::Reconfigure => reconfiguration::handle_timeout(a, ep, now),
                Timer::StreamReset => reconfiguration::handle_interval(a, ep, now),
                Timer::Asconf => asconf::handle_timeout(a, ep, now),
                Timer::AddressChange => self.handle_address_interval(id, now),
                Timer::ForwardTsn => abandon::handle_timeout(a, ep, now),
                Timer::Pacing | Timer::Lifetime => {}
            }
            self.shared.mark_ready(id);
            self.remove_if_gone(id);
        }
    }

    /// What this host cannot send leaves by another path. A port that nobody listens on refuses an
    /// INIT. Anybody can forge such a report, so it counts only when it quotes the tag of the INIT, and
    /// changes nothing later (RFC 9260 section 10).
    fn handle_path_error(&mut self, now: Instant, fault: PathFault<'_>) {
        if let PathError::Local(error) = fault.error {
            path_management::handle_local_error(self, now, fault.path, error);
        }
        if let PathError::TooBig(octets) = fault.error {
            path_mtu::handle_too_big(self, &fault, usize::from(octets));
        }
        if fault.error == PathError::Unreachable
            && let Some(id) = association_setup::handle_refused(self, now, &fault)
        {
            self.remove_if_gone(id);
        }
    }

    fn poll_transmit(&mut self, now: Instant, batch: &mut Batch) {
        if self.shared.transmit_reply(batch) {
            return;
        }
        while let Some(id) = self.shared.next_ready() {
            if let Some(a) = self.associations.get_mut(&id) {
                data_send::do_transmit(a, &mut self.shared, now, batch);
                if a.is_gone() {
                    self.remove_if_gone(id);
                }
            }
            if !batch.is_empty() {
                return;
            }
        }
    }

    fn poll_event(&mut self) -> Option<Event> {
        self.shared.events.pop_front()
    }

    fn poll_timeout(&self) -> Option<Instant> {
        self.shared.timers.deadline()
    }

    fn counters(&self) -> Counters {
        self.shared.counters
    }
}

impl Associations for Sctp {
    fn layout(&self, _id: Option<AssociationId>) -> Layout {
        let config = &self.shared.config;
        let header_len = match config.has_interleave() {
            true => crate::pdu::I_DATA_HEADER_LEN,
            false => crate::pdu::DATA_HEADER_LEN,
        };
        Layout {
            header: crate::pdu::COMMON_HEADER_LEN + header_len,
            payload: config.pmdcs() - header_len,
            trailer: 0,
        }
    }

    fn connect(&mut self, now: Instant, to: &[Address]) -> Result<AssociationId, CommandError> {
        association_setup::do_connect(self, now, to)
    }

    fn listen(&mut self, accept: bool) {
        self.shared.is_listening = accept;
    }

    fn submit(&mut self, now: Instant, id: AssociationId, end: u64, flags: SendFlags, note: &Note) {
        let Some(a) = self.associations.get_mut(&id) else {
            return;
        };
        submission::do_submit(a, &mut self.shared, now, (end, flags), note);
        if !flags.more {
            self.shared.mark_ready(id);
        }
        if a.is_gone() {
            self.remove_if_gone(id);
        }
    }

    fn submit_all(&mut self, now: Instant, id: AssociationId, ends: &[u64]) {
        if let Some(a) = self.associations.get_mut(&id) {
            submission::do_submit_all(a, &self.shared, now, ends);
        }
    }

    fn consume(&mut self, _now: Instant, id: AssociationId, bytes: u64) {
        if let Some(a) = self.associations.get_mut(&id)
            && a.rx.consume(bytes)
        {
            a.rx.sack_due = true;
            self.shared.mark_ready(id);
        }
    }

    fn receive_window(&self) -> u64 {
        self.shared.config.receive_buffer
    }

    fn set_receive_full(&mut self, id: AssociationId, is_full: bool) {
        if let Some(a) = self.associations.get_mut(&id) {
            a.rx.is_full = is_full;
            // The peer learns that there is room again.
            a.rx.sack_due |= !is_full;
            self.shared.mark_ready(id);
        }
    }

    /// What the host knows of the first path is asked first; what is cut stays as it is.
    fn set_path_mtu(&mut self, _now: Instant, id: AssociationId, octets: usize) {
        if let Some(a) = self.associations.get_mut(&id) {
            path_mtu::suggest(a, a.primary, octets);
            self.shared.mark_ready(id);
        }
    }

    fn close(&mut self, now: Instant, id: AssociationId, how: Close) {
        let Some(a) = self.associations.get_mut(&id) else {
            return;
        };
        match how {
            Close::Graceful => shutdown::do_shutdown(a, &mut self.shared, now),
            Close::Abort => abort::do_abort(a, &mut self.shared),
        }
        self.shared.mark_ready(id);
        self.remove_if_gone(id);
    }

    fn status(&self, id: AssociationId) -> Status {
        let association = self.associations.get(&id);
        Status {
            bytes_in_flight: association.map_or(0, shutdown::bytes_in_flight),
        }
    }

    /// All are equal.
    fn sort_by_priority(&self, _ids: &mut [AssociationId]) {}
}
