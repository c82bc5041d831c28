//! State of an endpoint's streams, for users to inspect.

use super::config::{Member, MemberState};
use super::receiver::{Receiver, ReceiverPhase};
use super::sender::{GroupTracking, Sender, SenderTimer};
use super::{GroupContext, GroupEndpoint};
use crate::config::RateLimit;
use core::time::Duration;
use engine::{Address, AssociationId, Instant};

/// Snapshots of an endpoint's streams.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct GroupView {
    /// Streams that it sends.
    pub senders: Vec<SenderView>,
    /// Streams that it receives, those included that are not accepted yet.
    pub receivers: Vec<ReceiverView>,
}

/// A stream that an endpoint sends. Positions are byte numbers from 0.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct SenderView {
    /// Its number within the endpoint.
    pub association: AssociationId,
    /// Address of the group.
    pub group: Address,
    /// `opening` (fewer members than wanted), `active`, `finishing` or `ended`.
    pub state: &'static str,
    /// `counted`, `buckets` or `none`.
    pub reliability: &'static str,
    /// Its key.
    pub key: u64,
    /// End of the data that the user submitted.
    pub end: u64,
    /// The next byte to send for the first time.
    pub next: u64,
    /// Everything below was acknowledged by all, and released.
    pub acknowledged: u64,
    /// The least allocation: bytes below it may be sent.
    pub allocation: u64,
    /// Bytes in the retransmission queue.
    pub lost_bytes: u64,
    /// The rate limit in force, if there is one.
    pub rate: Option<RateLimit>,
    /// The last sync used.
    pub sync: u32,
    /// Status requests that not all members have answered, or buckets in use.
    pub outstanding_requests: usize,
    /// Smoothed RTT, once measured.
    pub rtt: Option<Duration>,
    /// RTT variation.
    pub rtt_variation: Duration,
    /// Time since the last control packet of a receiver.
    pub since_last_received: Duration,
    /// Armed timers by name, with the time left; zero when expired.
    pub timers: Vec<(&'static str, Duration)>,
    /// The members of a counted group: departed ones first, then the others by address.
    pub members: Vec<MemberView>,
}

/// A member of a counted group.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct MemberView {
    /// Its address, state and progress.
    pub member: Member,
    /// Its allocation: it accepts bytes below. None for one that departed.
    pub allocation: Option<u64>,
    /// WTIMER expiries since its last control packet.
    pub unanswered: u32,
    /// Bytes it lacked, each again when it still lacked it after a retransmission.
    pub lacked_bytes: u64,
}

/// A stream that an endpoint receives. Positions are byte numbers from 0.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ReceiverView {
    /// Its number within the endpoint.
    pub association: AssociationId,
    /// Address of the sender.
    pub sender: Address,
    /// `joining`, `active`, `complete` (all arrived, not yet ended) or `ended`.
    pub state: &'static str,
    /// The key of this receiver.
    pub key: u64,
    /// The sender's key.
    pub sender_key: u64,
    /// The sender is known to be at its address.
    pub is_validated: bool,
    /// It is a member of a counted group.
    pub is_counted: bool,
    /// JCNTL sent.
    pub joins_sent: u32,
    /// Everything below was received.
    pub next: u64,
    /// Bytes delivered that the user has not consumed.
    pub unread_bytes: u64,
    /// Bytes in the reassembly queue.
    pub reassembly_bytes: u64,
    /// The allocation last advertised.
    pub advertised_alloc: u64,
    /// The oldest byte that the sender can retransmit, as far as it said.
    pub sender_acknowledged: u64,
    /// Control packets that damping suppressed.
    pub damped: u64,
    /// Time since the last packet of the sender.
    pub since_last_received: Duration,
    /// Armed timers by name, with the time left; zero when expired.
    pub timers: Vec<(&'static str, Duration)>,
}

impl MemberState {
    /// Name for the user.
    pub fn name(self) -> &'static str {
        match self {
            MemberState::Member => "member",
            MemberState::Done => "done",
            MemberState::Left => "left",
            MemberState::Lost => "lost",
            MemberState::Silent => "silent",
            MemberState::Restarted => "restarted",
            MemberState::Excluded => "excluded",
        }
    }
}

impl GroupEndpoint {
    /// Snapshots of at most `max` streams, and of at most `max` members of each.
    pub fn streams(&self, now: Instant, max: usize) -> GroupView {
        let mut view = GroupView::default();
        for context in self.contexts.values().take(max) {
            match context {
                GroupContext::Sender(sender) => view.senders.push(view_sender(sender, now, max)),
                GroupContext::Receiver(receiver) => {
                    view.receivers.push(self.view_receiver(receiver, now));
                }
            }
        }
        view
    }

    fn view_receiver(&self, receiver: &Receiver, now: Instant) -> ReceiverView {
        let slot = receiver.scheduled_control.iter().map(|answer| answer.at);
        let timers = [
            ("WTIMER", receiver.join_at),
            ("slot", slot.min()),
            ("silence", receiver.silence_at(&self.ep.config)),
        ];
        ReceiverView {
            association: receiver.id,
            sender: receiver.sender,
            state: match receiver.phase {
                ReceiverPhase::Joining => "joining",
                ReceiverPhase::Active => "active",
                ReceiverPhase::Complete => "complete",
                ReceiverPhase::Ended => "ended",
            },
            key: receiver.key.field(),
            sender_key: receiver.sender_key.field(),
            is_validated: receiver.sender_address.is_validated(),
            is_counted: receiver.counted,
            joins_sent: receiver.joins_sent,
            next: receiver.rx.next_seq,
            unread_bytes: receiver.rx.unread_bytes,
            reassembly_bytes: receiver.rx.reassembly.bytes() as u64,
            advertised_alloc: receiver.rx.advertised_alloc,
            sender_acknowledged: receiver.sender_una,
            damped: receiver.damped,
            since_last_received: now.since(receiver.last_received_at),
            timers: armed(&timers, now),
        }
    }
}

fn view_sender(sender: &Sender, now: Instant, max: usize) -> SenderView {
    let timers = [
        ("FIRST", SenderTimer::First),
        ("status", SenderTimer::Request),
        ("WTIMER", SenderTimer::Wtimer),
        ("RTIMER", SenderTimer::Rate),
        ("linger", SenderTimer::Coalesce),
    ]
    .map(|(name, timer)| (name, sender.timers.deadline(timer)));
    let (reliability, outstanding_requests, members) = match &sender.tracking {
        GroupTracking::Counted(members) => ("counted", members.requests.len(), members.views(max)),
        GroupTracking::Buckets(ring) => ("buckets", ring.len(), Vec::new()),
        GroupTracking::None => ("none", 0, Vec::new()),
    };
    SenderView {
        association: sender.id,
        group: sender.group,
        state: match (sender.close_reason, sender.connected, sender.finishing) {
            (Some(_), ..) => "ended",
            (None, false, _) => "opening",
            (None, true, true) => "finishing",
            (None, true, false) => "active",
        },
        reliability,
        key: sender.key.field(),
        end: sender.queue.submitted,
        next: sender.queue.next_seq,
        acknowledged: sender.queue.acknowledged,
        allocation: sender.queue.alloc,
        lost_bytes: sender.queue.retransmission_queue.bytes(),
        rate: sender.rate_limits.effective(),
        sync: sender.sync.0,
        outstanding_requests,
        rtt: Some(sender.rtt.srtt()).filter(|rtt| !rtt.is_zero()),
        rtt_variation: sender.rtt.rttvar(),
        since_last_received: now.since(sender.last_received_at),
        timers: armed(&timers, now),
        members,
    }
}

fn armed(
    timers: &[(&'static str, Option<Instant>)],
    now: Instant,
) -> Vec<(&'static str, Duration)> {
    let left = |&(name, at): &(&'static str, Option<Instant>)| Some((name, at?.since(now)));
    timers.iter().filter_map(left).collect()
}
