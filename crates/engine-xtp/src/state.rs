//! What one association remembers, and the states of its life.

use crate::api::RateLimit;
use crate::pdu::{Options, RTN, Service};
use crate::rx::Receiving;
use crate::shared::Shared;
use crate::tx::Sending;
use engine::{Address, AssociationId, CloseReason, Event, Instant};

/// A context in use. Listening is a property of the endpoint, the inactive state is
/// [`crate::table::Inactive`].
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Phase {
    /// FIRST is to be sent, or was sent and nothing came back.
    Opening,
    /// The peer was heard.
    Active,
    /// Over; the dispatcher puts its key into quarantine, if it had ever been seen.
    Ended {
        /// Whether late packets are to be answered with END.
        quarantine: bool,
    },
}

/// The close bits that are not told by [`Sending`] and [`Receiving`]. That the peer's WCLOSE
/// arrived is `rx.last`.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct Closing {
    pub(crate) wclose_sent: bool,
    pub(crate) rclose_received: bool,
    pub(crate) rclose_sent: bool,
    /// The end of the peer's stream was reported to the host.
    pub(crate) finished: bool,
}

/// The opening packet.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct First {
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
pub(crate) struct Due {
    /// The peer is owed a control packet.
    pub(crate) reply: bool,
    /// A status request of our own.
    pub(crate) probe: bool,
    /// The peer asked to be told that the user took everything, and it did. Data may tell it.
    pub(crate) delivered: bool,
    /// It gave way to data once.
    pub(crate) deferred: bool,
}

/// What an unproven address sent and got.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct Budget {
    pub(crate) received: u64,
    pub(crate) sent: u64,
}

/// Which timer of an association.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) enum Timer {
    /// WTIMER: a status request was not answered.
    Wait,
    /// Bytes are on their way that no request asks about.
    Status,
    /// CTIMER, and the life of an association whose peer is not proven.
    Idle,
    /// RTIMER: the bucket is full again.
    Rate,
    /// The reply of a transaction is not there yet.
    Reply,
    /// Bytes wait for others to share a packet with.
    Linger,
}

impl Timer {
    /// What people call it.
    pub(crate) fn name(self) -> &'static str {
        match self {
            Timer::Wait => "WTIMER",
            Timer::Status => "status",
            Timer::Idle => "CTIMER",
            Timer::Rate => "RTIMER",
            Timer::Reply => "reply",
            Timer::Linger => "linger",
        }
    }
}

pub(crate) const TIMERS: [Timer; 6] = [
    Timer::Wait,
    Timer::Status,
    Timer::Idle,
    Timer::Rate,
    Timer::Reply,
    Timer::Linger,
];

/// The due time of a timer that is not armed.
const NEVER: Instant = Instant::from_nanos(u64::MAX);

#[derive(Clone, Debug)]
pub(crate) struct Context {
    pub(crate) id: AssociationId,
    pub(crate) slot: u32,
    pub(crate) key: u64,
    /// The peer's key, once known.
    pub(crate) remote: Option<u64>,
    pub(crate) peer: Address,
    /// The number of the first byte of both directions, in the third revision.
    pub(crate) base: u32,
    /// The own value of the route, in the third revision; 0 for none.
    pub(crate) route: u32,
    pub(crate) initiator: bool,
    pub(crate) service: Service,
    pub(crate) phase: Phase,
    /// Connected or Accepted was reported.
    pub(crate) connected: bool,
    /// The user did not yet admit it.
    pub(crate) supervised: bool,
    pub(crate) first: First,
    pub(crate) tx: Sending,
    pub(crate) rx: Receiving,
    pub(crate) close: Closing,
    pub(crate) due: Due,
    /// None once the peer has shown that it gets what is sent to it.
    pub(crate) budget: Option<Budget>,
    /// The peer used the key it was offered.
    pub(crate) key_used: bool,
    /// User bytes wait for the peer's address to be proven.
    pub(crate) starved: bool,
    /// The peer is still to be told what this side accepts.
    pub(crate) limits_due: bool,
    /// The sync of the packet that told it, as long as nothing shows that it arrived.
    pub(crate) limits_sync: Option<u32>,
    /// The rate this side accepts.
    pub(crate) accepts: Option<RateLimit>,
    /// Priority: the lowest value is served first, None last.
    pub(crate) sort: Option<u16>,
    pub(crate) heard: Instant,
    /// Options of every packet.
    pub(crate) options: Options,
    /// Waits in the queue of those with something to send.
    pub(crate) queued: bool,
    /// Status requests in a row into a closed window.
    pub(crate) probes: u32,
    /// When each timer is due.
    due_at: [Instant; TIMERS.len()],
    /// When the endpoint looks after them. It looks too early when a timer was moved on, which is
    /// cheaper than moving its entry with each packet.
    look_at: Instant,
}

impl Context {
    pub(crate) fn new(id: AssociationId, slot: u32, key: u64, peer: Address, now: Instant) -> Context {
        Context {
            id,
            slot,
            key,
            remote: None,
            peer,
            base: 0,
            route: 0,
            initiator: false,
            service: Service::Stream,
            phase: Phase::Active,
            connected: false,
            supervised: false,
            first: First::default(),
            tx: Sending::default(),
            rx: Receiving::default(),
            close: Closing::default(),
            due: Due::default(),
            budget: None,
            key_used: false,
            starved: false,
            limits_due: false,
            limits_sync: None,
            accepts: None,
            sort: None,
            heard: now,
            options: Options::NONE,
            queued: false,
            probes: 0,
            due_at: [NEVER; TIMERS.len()],
            look_at: NEVER,
        }
    }

    /// The key packets to the peer carry: its own if known, else ours.
    pub(crate) fn wire_key(&self) -> u64 {
        self.remote.map_or(self.key, |key| key | RTN)
    }

    pub(crate) fn is_ended(&self) -> bool {
        matches!(self.phase, Phase::Ended { .. })
    }

    /// All bytes of a stream that is at its end left at least once.
    pub(crate) fn is_all_sent(&self) -> bool {
        self.tx.finishing && self.tx.next == self.tx.end
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
    pub(crate) fn waits_for_answer(&self) -> bool {
        self.phase == Phase::Opening && (self.first.explicit || !self.first.sent)
    }

    /// Only the initiator sends.
    pub(crate) fn is_one_way(&self) -> bool {
        matches!(self.service, Service::AckedDatagram | Service::Datagram)
    }

    /// Whether the address may be sent `octets` more.
    pub(crate) fn may_send(&self, octets: usize) -> bool {
        self.budget
            .is_none_or(|budget| budget.sent + octets as u64 <= budget.received)
    }

    pub(crate) fn spend(&mut self, octets: usize) {
        if let Some(budget) = &mut self.budget {
            budget.sent += octets as u64;
        }
        if let Some(bucket) = &mut self.tx.bucket {
            bucket.spend(octets);
        }
        if let Some(congestion) = &mut self.tx.congestion {
            congestion.spend(octets);
        }
    }

    /// Puts the context into the queue of those with something to send.
    pub(crate) fn wake(&mut self, shared: &mut Shared) {
        if !self.queued {
            self.queued = true;
            shared.ready.push(self.slot, self.sort);
        }
    }

    /// When the timer is due, if it is armed.
    pub(crate) fn due_at(&self, timer: Timer) -> Option<Instant> {
        Some(self.due_at[timer as usize]).filter(|&at| at != NEVER)
    }

    pub(crate) fn is_armed(&self, timer: Timer) -> bool {
        self.due_at[timer as usize] != NEVER
    }

    /// Whether the timer is armed and due later than `at`.
    pub(crate) fn is_armed_beyond(&self, timer: Timer, at: Instant) -> bool {
        self.is_armed(timer) && self.due_at[timer as usize] > at
    }

    pub(crate) fn arm(&mut self, shared: &mut Shared, timer: Timer, at: Instant) {
        self.due_at[timer as usize] = at;
        if at < self.look_at {
            self.look_no_more(shared);
            self.look_at = at;
            shared.timers.insert((at, self.id));
            shared.counters.timers_set += 1;
        }
    }

    pub(crate) fn disarm(&mut self, timer: Timer) {
        self.due_at[timer as usize] = NEVER;
    }

    /// The endpoint looks: disarms a timer that is due, if there is one.
    pub(crate) fn take_due(&mut self, now: Instant) -> Option<Timer> {
        let due = |timer: &&Timer| self.due_at[**timer as usize] <= now;
        let timer = *TIMERS.iter().find(due)?;
        self.disarm(timer);
        Some(timer)
    }

    /// Has the endpoint look when the next timer is due.
    pub(crate) fn look_again(&mut self, shared: &mut Shared) {
        self.look_no_more(shared);
        let next = self.due_at.iter().min().copied().unwrap_or(NEVER);
        if next != NEVER {
            self.look_at = next;
            shared.timers.insert((next, self.id));
        }
    }

    pub(crate) fn look_no_more(&mut self, shared: &mut Shared) {
        if self.look_at != NEVER {
            shared.timers.remove(&(self.look_at, self.id));
            self.look_at = NEVER;
        }
    }

    /// Ends the association and tells the host why.
    pub(crate) fn end(&mut self, shared: &mut Shared, reason: CloseReason, quarantine: bool) {
        if self.is_ended() {
            return;
        }
        self.phase = Phase::Ended { quarantine };
        shared.events.push_back(Event::Closed(self.id, reason));
    }
}
