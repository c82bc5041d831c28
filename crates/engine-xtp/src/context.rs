//! What one association remembers, and the states of its life.

use crate::config::RateLimit;
use crate::endpoint_state::EndpointState;
use crate::pdu::{Options, RTN, Service};
use crate::rx::ReceiveState;
use crate::tx::SendState;
use engine::{Address, AssociationId, CloseReason, Event, Instant};

/// A context in use. Listening is a property of the endpoint, the inactive state is
/// [`crate::table::Inactive`].
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum ContextState {
    /// FIRST is to be sent, or was sent and nothing came back.
    Opening,
    /// The peer was heard.
    Active,
    /// Over; the dispatcher puts its key into quarantine, if it had ever been seen.
    Closed {
        /// Whether late packets are to be answered with END.
        quarantine: bool,
    },
}

/// The close bits that are not told by [`Sending`] and [`Receiving`]. That the peer's WCLOSE
/// arrived is `rx.last`.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct CloseBits {
    pub(crate) wclose_sent: bool,
    pub(crate) rclose_received: bool,
    pub(crate) rclose_sent: bool,
    /// The end of the peer's stream was reported to the host.
    pub(crate) finish_reported: bool,
}

/// The opening packet.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct FirstPacket {
    /// It is to be sent, again if `sent`.
    pub(crate) due: bool,
    pub(crate) sent: bool,
    /// It goes without user bytes, and they wait for its answer.
    pub(crate) explicit: bool,
    /// User bytes it carries, the same each time.
    pub(crate) data_len: u64,
}

/// Control packets to send.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct PendingControl {
    /// The peer is owed a control packet.
    pub(crate) control: bool,
    /// A status request of our own.
    pub(crate) status_request: bool,
    /// The peer asked to be told that the user took everything, and it did. Data may tell it.
    pub(crate) delivery_report: bool,
    /// It gave way to data once.
    pub(crate) deferred: bool,
}

/// What an unproven address sent and got.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct AmplificationLimit {
    pub(crate) received_octets: u64,
    pub(crate) sent_octets: u64,
}

/// Which timer of an association.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) enum Timer {
    /// WTIMER: a status request was not answered.
    Wtimer,
    /// Bytes are on their way that no request asks about.
    Status,
    /// CTIMER, and the life of an association whose peer is not proven.
    Ctimer,
    /// RTIMER: the bucket is full again.
    Rtimer,
    /// The reply of a transaction is not there yet.
    Reply,
    /// Bytes wait for others to share a packet with.
    Coalesce,
}

impl Timer {
    /// What people call it.
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

/// The due time of a timer that is not armed.
const NEVER: Instant = Instant::from_nanos(u64::MAX);

#[derive(Clone, Debug)]
pub(crate) struct Context {
    pub(crate) id: AssociationId,
    pub(crate) slot: u32,
    pub(crate) key: u64,
    /// The peer's key, once known.
    pub(crate) remote_key: Option<u64>,
    pub(crate) peer: Address,
    /// The number of the first byte of both directions, in the third revision.
    pub(crate) seq_base: u32,
    /// The own value of the route, in the third revision; 0 for none.
    pub(crate) route: u32,
    pub(crate) initiator: bool,
    pub(crate) service: Service,
    pub(crate) state: ContextState,
    /// Connected or Accepted was reported.
    pub(crate) open_reported: bool,
    /// The user did not yet admit it.
    pub(crate) awaiting_admission: bool,
    pub(crate) first: FirstPacket,
    pub(crate) tx: SendState,
    pub(crate) rx: ReceiveState,
    pub(crate) close: CloseBits,
    pub(crate) pending: PendingControl,
    /// None once the peer has shown that it gets what is sent to it.
    pub(crate) amplification_limit: Option<AmplificationLimit>,
    /// The peer used the key it was offered.
    pub(crate) key_returned: bool,
    /// User bytes wait for the peer's address to be proven.
    pub(crate) amplification_blocked: bool,
    /// The peer is still to be told what this side accepts.
    pub(crate) limits_pending: bool,
    /// The sync of the packet that told it, as long as nothing shows that it arrived.
    pub(crate) limits_sync: Option<u32>,
    /// The rate this side accepts.
    pub(crate) accepted_rate: Option<RateLimit>,
    /// Priority: the lowest value is served first, None last.
    pub(crate) sort: Option<u16>,
    pub(crate) last_received_at: Instant,
    /// Options of every packet.
    pub(crate) options: Options,
    /// Waits in the queue of those with something to send.
    pub(crate) in_ready_queue: bool,
    /// Status requests in a row into a closed window.
    pub(crate) unanswered_probes: u32,
    /// When each timer is due.
    deadlines: [Instant; TIMERS.len()],
    /// When the endpoint looks after them. It looks too early when a timer was moved on, which is
    /// cheaper than moving its entry with each packet.
    scheduled_at: Instant,
}

impl Context {
    pub(crate) fn new(
        id: AssociationId,
        slot: u32,
        key: u64,
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
            route: 0,
            initiator: false,
            service: Service::Stream,
            state: ContextState::Active,
            open_reported: false,
            awaiting_admission: false,
            first: FirstPacket::default(),
            tx: SendState::default(),
            rx: ReceiveState::default(),
            close: CloseBits::default(),
            pending: PendingControl::default(),
            amplification_limit: None,
            key_returned: false,
            amplification_blocked: false,
            limits_pending: false,
            limits_sync: None,
            accepted_rate: None,
            sort: None,
            last_received_at: now,
            options: Options::NONE,
            in_ready_queue: false,
            unanswered_probes: 0,
            deadlines: [NEVER; TIMERS.len()],
            scheduled_at: NEVER,
        }
    }

    /// The key packets to the peer carry: its own if known, else ours.
    pub(crate) fn outgoing_key(&self) -> u64 {
        self.remote_key.map_or(self.key, |key| key | RTN)
    }

    pub(crate) fn is_closed(&self) -> bool {
        matches!(self.state, ContextState::Closed { .. })
    }

    /// All bytes of a stream that is at its end left at least once.
    pub(crate) fn is_all_sent(&self) -> bool {
        self.tx.finishing && self.tx.next_seq == self.tx.submitted
    }

    /// Requests and datagrams are sent when they are whole.
    pub(crate) fn waits_for_finish(&self) -> bool {
        let whole = matches!(
            self.service,
            Service::Transaction | Service::AckedDatagram | Service::Datagram
        );
        whole && !self.tx.finishing
    }

    /// Bytes flow for as long as their users like.
    pub(crate) fn is_stream(&self) -> bool {
        matches!(
            self.service,
            Service::Stream | Service::Isochronous | Service::Bulk
        )
    }

    /// User bytes and WCLOSE wait for the answer to FIRST, or for FIRST itself.
    pub(crate) fn waits_for_setup_answer(&self) -> bool {
        self.state == ContextState::Opening && (self.first.explicit || !self.first.sent)
    }

    /// Only the initiator sends.
    pub(crate) fn is_one_way(&self) -> bool {
        matches!(self.service, Service::AckedDatagram | Service::Datagram)
    }

    /// Whether the address may be sent `octets` more.
    pub(crate) fn within_amplification_limit(&self, octets: usize) -> bool {
        self.amplification_limit
            .is_none_or(|limit| limit.sent_octets + octets as u64 <= limit.received_octets)
    }

    pub(crate) fn on_packet_sent(&mut self, octets: usize) {
        if let Some(limit) = &mut self.amplification_limit {
            limit.sent_octets += octets as u64;
        }
        if let Some(credit) = &mut self.tx.rate_credit {
            credit.spend(octets);
        }
        if let Some(congestion) = &mut self.tx.congestion {
            congestion.on_packet_sent(octets);
        }
    }

    /// Puts the context into the queue of those with something to send.
    pub(crate) fn mark_ready(&mut self, ep: &mut EndpointState) {
        if !self.in_ready_queue {
            self.in_ready_queue = true;
            ep.ready_queue.push(self.slot, self.sort);
        }
    }

    /// When the timer is due, if it is armed.
    pub(crate) fn deadline(&self, timer: Timer) -> Option<Instant> {
        Some(self.deadlines[timer as usize]).filter(|&at| at != NEVER)
    }

    pub(crate) fn is_armed(&self, timer: Timer) -> bool {
        self.deadlines[timer as usize] != NEVER
    }

    /// Whether the timer is armed and due later than `at`.
    pub(crate) fn is_armed_after(&self, timer: Timer, at: Instant) -> bool {
        self.is_armed(timer) && self.deadlines[timer as usize] > at
    }

    pub(crate) fn arm(&mut self, ep: &mut EndpointState, timer: Timer, at: Instant) {
        self.deadlines[timer as usize] = at;
        if at < self.scheduled_at {
            self.unschedule(ep);
            self.scheduled_at = at;
            ep.timers.insert((at, self.id));
            ep.counters.timers_set += 1;
        }
    }

    pub(crate) fn disarm(&mut self, timer: Timer) {
        self.deadlines[timer as usize] = NEVER;
    }

    /// The endpoint looks: disarms a timer that is due, if there is one.
    pub(crate) fn take_expired(&mut self, now: Instant) -> Option<Timer> {
        let expired = |timer: &&Timer| self.deadlines[**timer as usize] <= now;
        let timer = *TIMERS.iter().find(expired)?;
        self.disarm(timer);
        Some(timer)
    }

    /// Has the endpoint look when the next timer is due.
    pub(crate) fn reschedule(&mut self, ep: &mut EndpointState) {
        self.unschedule(ep);
        let next = self.deadlines.iter().min().copied().unwrap_or(NEVER);
        if next != NEVER {
            self.scheduled_at = next;
            ep.timers.insert((next, self.id));
        }
    }

    pub(crate) fn unschedule(&mut self, ep: &mut EndpointState) {
        if self.scheduled_at != NEVER {
            ep.timers.remove(&(self.scheduled_at, self.id));
            self.scheduled_at = NEVER;
        }
    }

    /// Ends the association and tells the host why.
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
        ep.events.push_back(Event::Closed(self.id, reason));
    }
}
