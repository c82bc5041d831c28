//! The context of one association: its state, its pending packets and its timers.

use crate::closing::Closing;
use crate::codec::HeaderContext;
use crate::config::RateLimit;
use crate::endpoint_state::EndpointState;
use crate::numbers::Key;
use crate::opening::{ContextState, FirstPacket, LimitsReport, OpenReport};
use crate::pdu::{Options, Service};
use crate::route_values::RouteId;
use crate::rx::ReceiveState;
use crate::timer_set::{NEVER, TimerName, TimerSet};
use crate::tx::SendState;
use engine::{Address, AssociationId, CloseReason, Event, Instant};

/// Where the context is in the ready queue.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum ReadyPlace {
    Absent,
    Queued,
    /// Queued again behind others, to which it has given way since it sent last.
    GaveWay,
}

/// Pending control packets.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct PendingControl {
    /// A control packet answers the peer or reports a change.
    pub(crate) control: bool,
    /// A status request of this side (SREQ).
    pub(crate) status_request: bool,
    /// A DREQ can be answered: the user consumed everything up to it. In 3.x data answer it too.
    pub(crate) delivery_report: bool,
    /// The control packet did not fit behind the data and goes first in the next batch.
    pub(crate) deferred: bool,
}

impl PendingControl {
    /// Whether there is one, whatever it is for.
    #[inline]
    pub(crate) fn is_any(&self) -> bool {
        self.control || self.status_request || self.delivery_report
    }
}

/// An address that is not validated: no more octets go out to it than came in
/// (0007, Address validation; RFC 9000 s. 8).
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct AmplificationLimit {
    pub(crate) received_octets: u64,
    pub(crate) sent_octets: u64,
    /// User data wait for address validation.
    pub(crate) is_blocked: bool,
    /// XTP 3.x: the peer returned this side's key without echoing a sync yet, so control packets ask
    /// for one that does (0021).
    pub(crate) awaits_echo: bool,
}

/// The timers of an association.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) enum Timer {
    /// WTIMER: no answer to a status request.
    Wtimer,
    /// Bytes are in flight without an outstanding status request.
    Status,
    /// CTIMER (keepalive), and the lifetime of an association whose peer is not validated.
    Ctimer,
    /// RTIMER: rate credit is refilled.
    Rtimer,
    /// The control packet that waits for the reply of a transaction is sent without it.
    Reply,
    /// Small data waited long enough to be coalesced.
    Coalesce,
}

impl Timer {
    /// Name for the user, and key of a report.
    pub(crate) fn name(self) -> &'static str {
        match self {
            Timer::Wtimer => "WTIMER",
            Timer::Status => "status",
            Timer::Ctimer => "CTIMER",
            Timer::Rtimer => "RTIMER",
            Timer::Reply => "reply",
            Timer::Coalesce => "linger",
        }
    }
}

pub(crate) const TIMERS: [Timer; 6] = [
    Timer::Wtimer,
    Timer::Status,
    Timer::Ctimer,
    Timer::Rtimer,
    Timer::Reply,
    Timer::Coalesce,
];

impl TimerName for Timer {
    #[inline]
    fn index(self) -> usize {
        self as usize
    }
}

#[derive(Clone, Debug)]
pub(crate) struct Context {
    pub(crate) id: AssociationId,
    pub(crate) slot: u32,
    pub(crate) key: Key,
    /// The peer's key, once known.
    pub(crate) remote_key: Option<Key>,
    pub(crate) peer: Address,
    /// Wire number of the first byte of both directions (XTP 3.x).
    pub(crate) seq_base: u32,
    /// This side's value of the route (XTP 3.x); 0 for none.
    pub(crate) route: Option<RouteId>,
    pub(crate) initiator: bool,
    pub(crate) service: Service,
    pub(crate) state: ContextState,
    pub(crate) open_report: OpenReport,
    pub(crate) tx: SendState,
    pub(crate) rx: ReceiveState,
    pub(crate) closing: Closing,
    pub(crate) pending: PendingControl,
    /// None once the peer returned this side's key, which validates its address (0007, Keys), and for a peer that this
    /// side called.
    pub(crate) amplification_limit: Option<AmplificationLimit>,
    /// The responder keeps no state yet: each control packet states this side's key and service, and
    /// carries the cookie back (0021).
    pub(crate) returns_cookie: bool,
    pub(crate) limits_report: LimitsReport,
    /// The rate that this side accepts.
    pub(crate) accepted_rate: Option<RateLimit>,
    /// Priority: the lowest value is served first, None last (0007, Priority).
    pub(crate) sort: Option<u16>,
    pub(crate) last_received_at: Instant,
    /// Option bits of every packet.
    pub(crate) options: Options,
    pub(crate) ready_place: ReadyPlace,
    /// Status requests in a row while the peer blocks progress, as window probes do.
    pub(crate) unanswered_probes: u32,
    pub(crate) timers: TimerSet<Timer, { TIMERS.len() }>,
    /// Earliest entry in the endpoint's timer queue. May fire early: moving a timer later does not
    /// update the entry (lazy re-arm).
    scheduled_at: Instant,
}

impl Context {
    pub(crate) fn new(
        id: AssociationId,
        slot: u32,
        key: Key,
        peer: Address,
        now: Instant,
    ) -> Context {
        Context {
            id,
            slot,
            key,
            remote_key: None,
            peer,
            seq_base: 0,
            route: None,
            initiator: false,
            service: Service::Stream,
            state: ContextState::Active,
            open_report: OpenReport::Pending,
            tx: SendState::default(),
            rx: ReceiveState::default(),
            closing: Closing::default(),
            pending: PendingControl::default(),
            amplification_limit: None,
            returns_cookie: false,
            limits_report: LimitsReport::Done,
            accepted_rate: None,
            sort: None,
            last_received_at: now,
            options: Options::NONE,
            ready_place: ReadyPlace::Absent,
            unanswered_probes: 0,
            timers: TimerSet::new(),
            scheduled_at: NEVER,
        }
    }

    /// The key that packets to the peer carry: its own with RTN if known, else ours.
    pub(crate) fn outgoing_key(&self) -> u64 {
        self.remote_key.map_or(self.key.field(), Key::returned)
    }

    /// What 3.x has in the header and the control segment of its packets besides.
    pub(crate) fn header_context(&self, ep: &EndpointState) -> HeaderContext {
        HeaderContext {
            seq_base: self.seq_base,
            route: ep.routes.header_field(self.route),
            dseq: self.rx.dseq(),
            key: self.key.field(),
            returned_sync: self.rx.highest_sync.unwrap_or(self.tx.sync),
            accepted_rate: self.accepted_rate,
            fixed_pairs: ep.config.fixed_pairs && self.is_validated(),
        }
    }

    pub(crate) fn is_closed(&self) -> bool {
        matches!(self.state, ContextState::Closed { .. })
    }

    /// The user finished, and every byte was sent at least once.
    pub(crate) fn is_all_sent(&self) -> bool {
        self.closing.is_finishing() && self.tx.queue.has_sent_all()
    }

    /// Transactions and datagrams are sent as a whole, once the user finished (0007, Services).
    pub(crate) fn waits_for_finish(&self) -> bool {
        let whole = matches!(
            self.service,
            Service::Transaction | Service::AckedDatagram | Service::Datagram
        );
        whole && !self.closing.is_finishing()
    }

    /// The service has no fixed length.
    pub(crate) fn is_stream(&self) -> bool {
        matches!(
            self.service,
            Service::Stream | Service::Isochronous | Service::Bulk
        )
    }

    pub(crate) fn is_opening(&self) -> bool {
        matches!(self.state, ContextState::Opening { .. })
    }

    /// FIRST of an implicit opening waits for user data.
    pub(crate) fn waits_for_first_data(&self) -> bool {
        let waits = |first| first == FirstPacket::AwaitsData;
        self.state.first().is_some_and(waits) && self.is_stream()
    }

    /// FIRST, or its retransmission, is to be sent.
    pub(crate) fn is_first_due(&self) -> bool {
        self.state.first().is_some_and(FirstPacket::is_due)
    }

    /// FIRST was sent or received.
    pub(crate) fn is_announced(&self) -> bool {
        self.state.first().is_none_or(FirstPacket::is_sent)
    }

    /// Schedules FIRST, or its retransmission. Whether there is one to send.
    pub(crate) fn schedule_first(&mut self) -> bool {
        if let ContextState::Opening { first, .. } = &mut self.state {
            first.schedule();
        }
        self.is_opening()
    }

    /// User data and WCLOSE wait for FIRST or, in an explicit open, for its answer.
    pub(crate) fn waits_for_setup_answer(&self) -> bool {
        match self.state {
            ContextState::Opening { first, explicit } => explicit || !first.is_sent(),
            ContextState::Active | ContextState::Closed { .. } => false,
        }
    }

    /// Only the initiator sends.
    pub(crate) fn is_one_way(&self) -> bool {
        matches!(self.service, Service::AckedDatagram | Service::Datagram)
    }

    /// A peer opened the association, and the host does not know of it yet (0021).
    pub(crate) fn waits_for_validation(&self) -> bool {
        !self.initiator && self.open_report == OpenReport::Pending
    }

    /// The peer is known to be at its address.
    #[inline]
    pub(crate) fn is_validated(&self) -> bool {
        self.amplification_limit.is_none()
    }

    /// User data wait for address validation.
    pub(crate) fn is_amplification_blocked(&self) -> bool {
        self.amplification_limit
            .is_some_and(|limit| limit.is_blocked)
    }

    /// Whether the amplification limit allows `octets` more.
    pub(crate) fn within_amplification_limit(&self, octets: usize) -> bool {
        self.amplification_limit
            .is_none_or(|limit| limit.sent_octets + octets as u64 <= limit.received_octets)
    }

    /// A packet of `octets` with `user_bytes` was sent.
    pub(crate) fn on_packet_sent(&mut self, octets: usize, user_bytes: u64) {
        if let Some(limit) = &mut self.amplification_limit {
            limit.sent_octets += octets as u64;
        }
        if let Some(credit) = &mut self.tx.rate_credit {
            credit.spend(octets);
        }
        if let Some(congestion) = &mut self.tx.congestion {
            congestion.on_packet_sent(user_bytes);
        }
    }

    /// Enters the context into the ready queue.
    pub(crate) fn mark_ready(&mut self, ep: &mut EndpointState) {
        if self.ready_place == ReadyPlace::Absent {
            self.ready_place = ReadyPlace::Queued;
            ep.ready_queue.push(self.slot, self.sort);
        }
    }

    /// Enters the context, which was first, behind the others that are ready, once: all that is left of a transaction
    /// opened here is to tell the peer that its reply came. The user has it, and may wait for what the others send.
    #[inline]
    pub(crate) fn gives_way(&mut self, ep: &mut EndpointState) -> bool {
        let owes_rest = self.initiator && self.closing.rclose_received() && self.rx.is_complete();
        let is_over = owes_rest && self.service == Service::Transaction;
        let is_first_time = self.ready_place != ReadyPlace::GaveWay;
        let gives_way = is_over && is_first_time && ep.ready_queue.len() > 0;
        if gives_way {
            self.ready_place = ReadyPlace::GaveWay;
            ep.ready_queue.push(self.slot, self.sort);
        }
        gives_way
    }

    pub(crate) fn arm(&mut self, ep: &mut EndpointState, timer: Timer, at: Instant) {
        self.timers.arm(timer, at);
        if at < self.scheduled_at {
            self.scheduled_at = at;
            ep.timers.set(self.id, at);
            ep.counters.timers_set += 1;
        }
    }

    /// Disarms and returns a timer that expired, if there is one.
    pub(crate) fn take_expired(&mut self, now: Instant) -> Option<Timer> {
        let is_expired = |timer: &Timer| self.timers.take_expired(*timer, now);
        TIMERS.into_iter().find(is_expired)
    }

    /// Enters the next deadline into the endpoint's timer queue.
    pub(crate) fn reschedule(&mut self, ep: &mut EndpointState) {
        self.unschedule(ep);
        let next = self.timers.earliest();
        if next != NEVER {
            self.scheduled_at = next;
            ep.timers.set(self.id, next);
        }
    }

    pub(crate) fn unschedule(&mut self, ep: &mut EndpointState) {
        if self.scheduled_at != NEVER {
            ep.timers.cancel(self.id);
            self.scheduled_at = NEVER;
        }
    }

    /// Closes the association and reports the reason to the host, if it knows of the association.
    pub(crate) fn terminate(
        &mut self,
        ep: &mut EndpointState,
        reason: CloseReason,
        quarantine: bool,
    ) {
        if self.is_closed() {
            return;
        }
        self.state = ContextState::Closed { quarantine };
        if self.initiator || self.open_report != OpenReport::Pending {
            ep.events.push_back(Event::Closed(self.id, reason));
        }
    }
}
