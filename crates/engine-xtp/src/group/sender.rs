//! A stream to a group: the sender's state, its timers and status requests.

use super::buckets::{BucketRing, BucketSummary};
use super::config::{Config, Holdings, MemberState, Reliability};
use super::endpoint_state::GroupEndpointState;
use super::members::{GroupMinimum, Members, StatusRequest};
use super::retransmission_log::RetransmissionLog;
use crate::numbers::{Key, SyncNumber};
use crate::timer_set::{NEVER, TimerName, TimerSet};
use crate::tx::{RateLimits, SendQueue, WaterMarks, wtimer};
use congestion::{RateCredit, RttEstimator};
use core::time::Duration;
use engine::{Address, AssociationId, CloseReason, Event, Framing, Instant};

/// How the sender tracks its receivers.
#[derive(Clone, Debug)]
pub(super) enum GroupTracking {
    Counted(Members),
    Buckets(BucketRing),
    None,
}

/// The timers of a stream to a group, in the order in which they are handled.
#[derive(Clone, Copy, Debug)]
pub(super) enum SenderTimer {
    /// FIRST is repeated.
    First,
    /// Small data waited long enough to be coalesced.
    Coalesce,
    /// The next status request is due, alone or with data.
    Request,
    /// WTIMER: no answer to a status request.
    Wtimer,
    /// RTIMER: rate credit is refilled.
    Rate,
}

/// All of them.
pub(super) const SENDER_TIMERS: [SenderTimer; 5] = [
    SenderTimer::First,
    SenderTimer::Coalesce,
    SenderTimer::Request,
    SenderTimer::Wtimer,
    SenderTimer::Rate,
];

impl TimerName for SenderTimer {
    fn index(self) -> usize {
        self as usize
    }
}

#[derive(Clone, Debug)]
pub(super) struct Sender {
    pub(super) id: AssociationId,
    pub(super) key: Key,
    pub(super) group: Address,
    /// The bytes on their way to the members.
    pub(super) queue: SendQueue,
    /// The user has finished its stream.
    pub(super) finishing: bool,
    /// `members_min` receivers have joined.
    pub(super) connected: bool,
    /// Why the stream ended, once it has.
    pub(super) close_reason: Option<CloseReason>,
    pub(super) sync: SyncNumber,
    pub(super) retransmission_log: RetransmissionLog,
    pub(super) tracking: GroupTracking,
    pub(super) rtt: RttEstimator,
    pub(super) rate_credit: Option<RateCredit>,
    /// The sender's own limit, and the lowest of all members.
    pub(super) rate_limits: RateLimits,
    pub(super) first_due: bool,
    /// CNTL follows FIRST, so that both are at least as long as the JCNTL that answers them.
    pub(super) first_follow_up_due: bool,
    pub(super) request_due: bool,
    /// When the last control packet of a receiver arrived.
    pub(super) last_received_at: Instant,
    /// WTIMER expiries in a row.
    pub(super) timeouts: u32,
    /// Status requests in a row without new data: window probes, or for the end of the stream.
    pub(super) probes: u32,
    pub(super) timers: TimerSet<SenderTimer, { SENDER_TIMERS.len() }>,
}

impl Sender {
    pub(super) fn new(
        id: AssociationId,
        key: Key,
        group: Address,
        ep: &mut GroupEndpointState,
        now: Instant,
    ) -> Sender {
        let tracking = match ep.config.reliability {
            Reliability::Counted => GroupTracking::Counted(Members::default()),
            Reliability::Buckets(config) => GroupTracking::Buckets(BucketRing::new(config)),
            Reliability::None => GroupTracking::None,
        };
        let counted = matches!(tracking, GroupTracking::Counted(_));
        let bucketed = matches!(tracking, GroupTracking::Buckets(_));
        Sender {
            id,
            key,
            group,
            queue: SendQueue::with_alloc(if counted { 0 } else { ep.config.initial_window }),
            finishing: false,
            connected: !counted,
            close_reason: None,
            sync: SyncNumber(ep.rng.next_u64() as u32),
            retransmission_log: RetransmissionLog::default(),
            tracking,
            rtt: RttEstimator::default(),
            rate_limits: RateLimits {
                own: ep.config.rate,
                peer: None,
            },
            rate_credit: ep.config.rate.map(|limit| RateCredit::new(limit, now)),
            first_due: true,
            first_follow_up_due: false,
            request_due: bucketed,
            last_received_at: now,
            timeouts: 0,
            probes: 0,
            timers: TimerSet::new(),
        }
    }

    /// Acts on the member table: connect, window, release, end of the stream, WTIMER.
    pub(super) fn update_from_members(&mut self, ep: &mut GroupEndpointState, now: Instant) {
        let GroupTracking::Counted(members) = &mut self.tracking else {
            return;
        };
        if !self.connected {
            if members.len() >= ep.config.members_min {
                self.connected = true;
                self.timers.disarm(SenderTimer::First);
                self.first_due = false;
                ep.events.push_back(Event::Connected(self.id));
            }
        } else if members.len() < ep.config.members_keep && self.close_reason.is_none() {
            return self.terminate(ep, CloseReason::Aborted);
        }
        if members.len() == 0 {
            members.requests.clear();
        }
        let answered = members.take_answered();
        if let Some(request) = answered {
            self.rtt.sample(now.since(request.at));
            self.timeouts = 0;
        }
        if answered.is_some() || members.requests.is_empty() {
            let wait =
                wtimer(&self.rtt, &ep.wtimer_config, members.unanswered_max()) + ep.slot_max();
            let oldest = members.requests.front();
            match oldest {
                Some(oldest) => {
                    let at = (oldest.at + wait).max(now);
                    self.timers.arm(SenderTimer::Wtimer, at);
                }
                None => self.timers.disarm(SenderTimer::Wtimer),
            }
        }
        let no_members = GroupMinimum {
            rseq: self.queue.next_seq,
            alloc: self.queue.submitted,
            done: self.finishing && self.queue.has_sent_all(),
        };
        let minimum = members.minimum().unwrap_or(no_members);
        if minimum.alloc > self.queue.alloc || minimum.rseq > self.queue.acknowledged {
            self.probes = 0;
        }
        self.queue.alloc = minimum.alloc;
        self.release(ep, minimum.rseq);
        if self.connected
            && minimum.done
            && self.queue.acknowledged == self.queue.submitted
            && self.finishing
        {
            self.terminate(ep, CloseReason::Graceful);
        }
    }

    /// Acts on the summary of all buckets (0009, Buckets).
    pub(super) fn update_from_buckets(
        &mut self,
        ep: &mut GroupEndpointState,
        summary: BucketSummary,
    ) {
        let usual = wtimer(&self.rtt, &ep.wtimer_config, 0);
        if let Some(rtt) = summary.rtt {
            self.rtt.sample(rtt);
            let wanted = wtimer(&self.rtt, &ep.wtimer_config, 0);
            if let GroupTracking::Buckets(ring) = &mut self.tracking {
                ring.lower_wtimer(wanted, usual);
            }
        }
        if let Some(alloc) = summary.alloc {
            self.queue.alloc = self.queue.alloc.max(alloc);
        }
        let (Some(rseq), Some(dseq)) = (summary.rseq, summary.dseq) else {
            return;
        };
        self.release(ep, dseq);
        if summary.lossy {
            self.queue
                .retransmission_queue
                .add(rseq.max(self.queue.acknowledged)..self.queue.next_seq);
            // The request being sent precedes the retransmissions, so it has the first fresh sync.
            let sync = self.sync.next();
            if let GroupTracking::Buckets(ring) = &mut self.tracking {
                ring.record_go_back(sync);
            }
        }
        if summary.done && self.finishing && self.queue.acknowledged == self.queue.submitted {
            self.terminate(ep, CloseReason::Graceful);
        }
    }

    /// Releases the bytes below `position`.
    pub(super) fn release(&mut self, ep: &mut GroupEndpointState, position: u64) {
        if position > self.queue.acknowledged {
            let released = self.queue.acknowledged..position;
            self.queue.release(position);
            self.retransmission_log.release(position);
            ep.events.push_back(Event::Released(self.id, released));
        }
    }

    pub(super) fn terminate(&mut self, ep: &mut GroupEndpointState, reason: CloseReason) {
        if self.close_reason.is_none() {
            self.close_reason = Some(reason);
            ep.events.push_back(Event::Closed(self.id, reason));
        }
    }

    /// All bytes below were sent and do not wait for retransmission.
    pub(super) fn sent_below(&self) -> u64 {
        self.queue
            .retransmission_queue
            .first()
            .map_or(self.queue.next_seq, |range| range.start)
    }

    /// Records the packet with the current sync as a status request and starts WTIMER.
    pub(super) fn record_request(&mut self, ep: &GroupEndpointState, now: Instant) {
        self.queue.note_request();
        self.timers.disarm(SenderTimer::Request);
        let (sync, sent) = (self.sync, self.sent_below());
        if let GroupTracking::Counted(members) = &mut self.tracking {
            members.record_request(StatusRequest {
                sync,
                sent,
                at: now,
            });
            if !self.timers.is_armed(SenderTimer::Wtimer) {
                let tries = members.unanswered_max().max(self.timeouts);
                let at = now + wtimer(&self.rtt, &ep.wtimer_config, tries) + ep.slot_max();
                self.timers.arm(SenderTimer::Wtimer, at);
            }
        }
    }

    /// The send buffer has all bytes below `end`; `push` sends them without coalescing.
    pub(super) fn submit(&mut self, ep: &GroupEndpointState, end: u64, push: bool) {
        if self.finishing || self.close_reason.is_some() {
            return;
        }
        let payload = ep.payload_max();
        let marks = WaterMarks {
            low: 0,
            high: payload,
            multiple: Some(payload).filter(|_| ep.config.framing != Framing::Messages),
        };
        let push = push || ep.config.coalesce_delay.is_zero();
        self.queue.submit(end, push, &marks);
    }

    /// The user waits until all members have acknowledged what it submitted. The packet with its last byte
    /// asks them, or a request of its own where that has left unasked. Without members nobody answers for all.
    pub(super) fn request_ack(&mut self) {
        let GroupTracking::Counted(members) = &self.tracking else {
            return;
        };
        self.queue.request_at = self.queue.submitted;
        let has_left = self.queue.has_sent_all() && self.queue.acknowledged < self.queue.next_seq;
        self.request_due |= self.connected && has_left && members.requests.is_empty();
    }

    /// The earliest deadline.
    pub(super) fn deadline(&self, config: &Config) -> Option<Instant> {
        if self.close_reason.is_some() {
            return None;
        }
        let silence = match self.expects_control() {
            true => self.last_received_at + config.silence_max,
            false => NEVER,
        };
        Some(self.timers.earliest().min(silence)).filter(|&at| at != NEVER)
    }

    /// Whether silence of all receivers times the stream out. Counted members have WTIMER instead.
    fn expects_control(&self) -> bool {
        let asks = matches!(self.tracking, GroupTracking::Buckets(_));
        asks && (self.queue.next_seq > self.queue.acknowledged || self.finishing)
    }

    /// Handles expired deadlines.
    pub(super) fn handle_timeout(&mut self, ep: &mut GroupEndpointState, now: Instant) {
        for timer in SENDER_TIMERS {
            if !self.timers.take_expired(timer, now) {
                continue;
            }
            match timer {
                SenderTimer::First => {
                    self.first_due = true;
                    ep.counters.retransmissions += 1;
                }
                SenderTimer::Coalesce => self.queue.pushed = self.queue.submitted,
                SenderTimer::Request => self.handle_request_timer(ep, now),
                SenderTimer::Wtimer => self.handle_wtimer(ep, now),
                SenderTimer::Rate => {}
            }
        }
        if self.expects_control() && now >= self.last_received_at + ep.config.silence_max {
            self.terminate(ep, CloseReason::TimedOut);
        }
    }

    /// A status request is due: in the next DATA packet of a counted group, or in a CNTL if none
    /// follows within `status_delay`. With buckets it is always a CNTL.
    fn handle_request_timer(&mut self, ep: &GroupEndpointState, now: Instant) {
        let more = self.queue.next_seq
            < self
                .queue
                .submitted
                .min(self.queue.alloc)
                .min(self.queue.pushed);
        if matches!(self.tracking, GroupTracking::Counted(_))
            && more
            && !self.queue.request_with_next_data
        {
            self.queue.request_with_next_data = true;
            self.timers
                .arm(SenderTimer::Request, now + ep.config.status_delay);
        } else {
            self.probes += u32::from(self.queue.bytes_since_request == 0);
            self.request_due = true;
        }
    }

    /// WTIMER expired: counts it for each silent member, drops those beyond `retries_max` and
    /// repeats the status request (0009, Counted groups).
    fn handle_wtimer(&mut self, ep: &mut GroupEndpointState, now: Instant) {
        let GroupTracking::Counted(members) = &mut self.tracking else {
            return;
        };
        let (silent, _late) = members.count_unanswered(ep.config.retries_max);
        for address in silent {
            if let Some(member) = members.remove(address, MemberState::Silent, &mut ep.sender_keys)
            {
                ep.push_member_event(self.id, member);
            }
        }
        self.timeouts += 1;
        self.request_due = true;
        self.update_from_members(ep, now);
    }

    /// Whether the window is closed while data wait.
    pub(super) fn is_send_blocked(&self) -> bool {
        self.queue.next_seq < self.queue.submitted && self.queue.alloc <= self.queue.next_seq
    }

    /// Arms the timer of the next status request: for data in flight, the end of the stream, a
    /// closed window, or as a keepalive.
    pub(super) fn arm_request_timer(&mut self, ep: &GroupEndpointState, now: Instant) {
        let GroupTracking::Counted(members) = &self.tracking else {
            return;
        };
        let quiet = members.requests.is_empty() && !self.timers.is_armed(SenderTimer::Wtimer);
        if !self.connected || !quiet || self.request_due || self.close_reason.is_some() {
            return;
        }
        let delay = if self.queue.next_seq > self.queue.acknowledged || self.finishing {
            let delay = match self.queue.bytes_since_request {
                0 => wtimer(&self.rtt, &ep.wtimer_config, self.probes),
                _ => ep.config.status_delay,
            };
            Some(delay)
        } else if self.is_send_blocked() {
            Some(wtimer(&self.rtt, &ep.wtimer_config, self.probes))
        } else {
            Some(ep.config.keepalive).filter(|span| !span.is_zero())
        };
        if let Some(delay) = delay {
            let at = now + delay.max(Duration::from_micros(1));
            let known = self.timers.deadline(SenderTimer::Request);
            self.timers.arm(
                SenderTimer::Request,
                known.map_or(at, |known| known.min(at)),
            );
        }
    }

    /// Bytes not released; an unacknowledged end of the stream counts as one.
    pub(super) fn bytes_in_flight(&self) -> u64 {
        let ending = self.finishing && self.close_reason.is_none();
        (self.queue.next_seq - self.queue.acknowledged).max(u64::from(ending))
    }

    /// The keys granted to members, present and departed.
    pub(super) fn granted_keys(&self) -> impl Iterator<Item = Key> {
        let members = match &self.tracking {
            GroupTracking::Counted(members) => Some(members),
            _ => None,
        };
        members.into_iter().flat_map(Members::granted_keys)
    }

    pub(super) fn add_to(&self, holdings: &mut Holdings) {
        holdings.unreleased += self.queue.next_seq - self.queue.acknowledged;
        holdings.entries += self.queue.retransmission_queue.len() + self.retransmission_log.len();
        match &self.tracking {
            GroupTracking::Counted(members) => {
                holdings.members += members.len();
                holdings.entries += members.requests.len();
            }
            GroupTracking::Buckets(ring) => holdings.entries += ring.len(),
            GroupTracking::None => {}
        }
    }
}
