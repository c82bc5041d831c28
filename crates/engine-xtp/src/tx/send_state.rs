//! What a sender remembers. Positions of the send store are sequence numbers.

use super::{
    CongestionController, MessageEnds, RateCredit, RateLimits, RttEstimator, TagPositions,
};
use core::ops::Range;
use engine::Instant;
use std::collections::VecDeque;

/// A status request on its way.
#[derive(Clone, Copy, Debug)]
pub(crate) struct StatusRequest {
    pub(crate) sync: u32,
    /// Everything below was sent before it or with it.
    pub(crate) highest_sent: u64,
    pub(crate) sent_at: Instant,
    /// It is answered when the peer's user took everything, which is no round trip.
    pub(crate) asks_delivery: bool,
}

/// The synchronizing handshake.
#[derive(Clone, Copy, Debug)]
pub(crate) struct SyncHandshake {
    pub(crate) started_at: Instant,
    pub(crate) tries: u32,
    /// The sync its end must echo.
    pub(crate) sync: u32,
}

/// Requests remembered at most: of more than that, the oldest are not needed any longer.
const REQUESTS_MAX: usize = 64;

#[derive(Clone, Debug, Default)]
pub(crate) struct SendState {
    /// The store holds bytes below this.
    pub(crate) submitted: u64,
    /// Bytes below this leave even in a part-filled packet.
    pub(crate) pushed: u64,
    /// The next byte to send for the first time.
    pub(crate) next_seq: u64,
    /// Where the slot last cut from ends.
    pub(crate) slot_boundary: u64,
    /// Everything below was acknowledged, or given up.
    pub(crate) acknowledged: u64,
    /// The peer's allocation.
    pub(crate) alloc: u64,
    /// The peer said it; before, it is what this side takes for granted.
    pub(crate) alloc_received: bool,
    /// Longest payload the peer accepts.
    pub(crate) payload_max: u64,
    /// Ranges to send again, ascending.
    pub(crate) retransmission_queue: VecDeque<Range<u64>>,
    /// Something of `lost` was sent since a request last went with it.
    pub(crate) retransmitted_since_request: bool,
    /// Packets sent again.
    pub(crate) retransmissions: u64,
    pub(crate) message_ends: MessageEnds,
    pub(crate) begin_tags: TagPositions,
    /// Where messages end with a tag.
    pub(crate) end_tags: TagPositions,
    /// The user will add no more.
    pub(crate) finishing: bool,
    /// The last sync used.
    pub(crate) sync: u32,
    /// Reports that echo less were made before the last retransmission arrived.
    pub(crate) saved_sync: u32,
    pub(crate) outstanding_requests: VecDeque<StatusRequest>,
    /// The next DATA packet is to make a request.
    pub(crate) request_with_next_data: bool,
    /// Bytes sent since the last request.
    pub(crate) bytes_since_request: u64,
    pub(crate) handshake: Option<SyncHandshake>,
    pub(crate) rtt: RttEstimator,
    pub(crate) limits: RateLimits,
    pub(crate) rate_credit: Option<Box<RateCredit>>,
    pub(crate) congestion: Option<CongestionController>,
}

impl SendState {
    /// Bytes sent and not acknowledged.
    pub(crate) fn bytes_in_flight(&self) -> u64 {
        self.next_seq - self.acknowledged.min(self.next_seq)
    }

    /// Keeps to the limits as they are now.
    pub(crate) fn apply_rate_limits(&mut self, now: Instant) {
        match (self.limits.effective(), &mut self.rate_credit) {
            (Some(limit), Some(credit)) => credit.set_limit(limit, now),
            (Some(limit), credit) => *credit = Some(Box::new(RateCredit::new(limit, now))),
            (None, credit) => *credit = None,
        }
    }

    /// A new status request, remembered: its sync.
    pub(crate) fn new_status_request(&mut self, now: Instant, asks_delivery: bool) -> u32 {
        self.sync = self.sync.wrapping_add(1);
        if self.outstanding_requests.len() == REQUESTS_MAX {
            self.outstanding_requests.pop_front();
        }
        let app_limited = self.next_seq >= self.submitted;
        if let Some(control) = &mut self.congestion {
            control.on_status_request(now, self.sync, app_limited);
        }
        self.outstanding_requests.push_back(StatusRequest {
            sync: self.sync,
            highest_sent: self.next_seq,
            sent_at: now,
            asks_delivery,
        });
        self.bytes_since_request = 0;
        self.request_with_next_data = false;
        if self.retransmitted_since_request && self.retransmission_queue.is_empty() {
            self.retransmitted_since_request = false;
            self.saved_sync = self.sync;
        }
        self.sync
    }

    /// Forgets what lies below `position`.
    pub(crate) fn release(&mut self, position: u64) {
        self.acknowledged = position;
        self.message_ends.release(position);
        self.begin_tags.release(position);
        self.end_tags.release(position);
        while let Some(front) = self.retransmission_queue.front_mut() {
            if front.end > position {
                front.start = front.start.max(position);
                break;
            }
            self.retransmission_queue.pop_front();
        }
    }
}
