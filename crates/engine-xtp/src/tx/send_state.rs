//! State of the sending direction.

use super::{CongestionControl, PathMtu, RateLimits, SendQueue};
use crate::numbers::SyncNumber;
use congestion::{PacketState, RateCredit, RttEstimator};
use core::ops::Range;
use engine::Instant;
use std::collections::VecDeque;

/// An outstanding status request.
#[derive(Clone, Copy, Debug)]
pub(crate) struct StatusRequest {
    pub(crate) sync: SyncNumber,
    /// Everything below was sent before or with the request.
    pub(crate) highest_sent: u64,
    pub(crate) sent_at: Instant,
    /// A DREQ, answered when the peer's user consumed everything: no RTT sample.
    pub(crate) asks_delivery: bool,
    /// Where the user bytes begin that came with the request.
    pub(crate) data_start: Option<u64>,
    /// Everything below was acknowledged before the request was made.
    pub(crate) acknowledged: u64,
    /// What congestion control keeps with the request.
    pub(crate) state: PacketState,
}

/// The synchronizing handshake (0007, WTIMER).
#[derive(Clone, Copy, Debug)]
pub(crate) struct SyncHandshake {
    pub(crate) started_at: Instant,
    pub(crate) tries: u32,
    /// The sync that must be echoed to end it.
    pub(crate) sync: SyncNumber,
}

/// Limit of outstanding requests; beyond it the oldest is forgotten.
const REQUESTS_MAX: usize = 64;

#[derive(Clone, Debug, Default)]
pub(crate) struct SendState {
    /// The bytes on their way to the peer.
    pub(crate) queue: SendQueue,
    /// Everything below was released: acknowledged, or sent without error control.
    pub(crate) released: u64,
    /// The allocation came from the peer; before, it is the configured initial window.
    pub(crate) alloc_received: bool,
    /// Largest payload that the peer accepts and the path carries in one piece.
    pub(crate) payload_max: u64,
    pub(crate) path: PathMtu,
    /// Packets retransmitted.
    pub(crate) retransmissions: u64,
    /// The peer drops what arrives beyond a gap.
    pub(crate) peer_drops_beyond_gap: bool,
    /// The first sync, which no peer can guess.
    pub(crate) first_sync: SyncNumber,
    /// The last sync used.
    pub(crate) sync: SyncNumber,
    /// Syncs used besides the first one; counting stops at the limit of 32 bits.
    pub(crate) syncs_made: u32,
    /// Control packets that echo an older sync were sent before the last retransmission arrived; None, as long as no
    /// status request has followed it, for all of them (XTP 4.0 s. 6.6).
    pub(crate) saved_sync: Option<SyncNumber>,
    pub(crate) outstanding_requests: VecDeque<StatusRequest>,
    pub(crate) handshake: Option<SyncHandshake>,
    pub(crate) rtt: RttEstimator,
    pub(crate) limits: RateLimits,
    pub(crate) rate_credit: Option<Box<RateCredit>>,
    pub(crate) congestion: Option<Box<CongestionControl>>,
}

impl SendState {
    /// Applies the current rate limits.
    pub(crate) fn apply_rate_limits(&mut self, now: Instant) {
        match (self.limits.effective(), &mut self.rate_credit) {
            (Some(limit), Some(credit)) => credit.set_limit(limit, now),
            (Some(limit), credit) => *credit = Some(Box::new(RateCredit::new(limit, now))),
            (None, credit) => *credit = None,
        }
    }

    /// Records a new status request and returns its sync.
    pub(crate) fn new_status_request(&mut self, now: Instant, asks_delivery: bool) -> SyncNumber {
        self.sync = self.sync.next();
        self.syncs_made = self.syncs_made.saturating_add(1);
        if self.outstanding_requests.len() == REQUESTS_MAX {
            self.outstanding_requests.pop_front();
        }
        let app_limited = self.queue.next_seq >= self.queue.submitted;
        let control = self.congestion.as_ref();
        let state =
            control.map(|control| control.request_state(now, self.queue.next_seq, app_limited));
        self.outstanding_requests.push_back(StatusRequest {
            sync: self.sync,
            highest_sent: self.queue.next_seq,
            data_start: None,
            acknowledged: self.queue.acknowledged,
            sent_at: now,
            asks_delivery,
            state: state.unwrap_or_default(),
        });
        self.queue.note_request();
        if self.saved_sync.is_none() && self.queue.retransmission_queue.is_empty() {
            self.saved_sync = Some(self.sync);
        }
        self.sync
    }

    /// The last status request goes with the user bytes from `start` on.
    pub(crate) fn note_request_data(&mut self, start: u64) {
        if let Some(request) = self.outstanding_requests.back_mut() {
            request.data_start = Some(start);
        }
    }

    /// Whether `sync` is one of the last that were used here.
    pub(crate) fn has_used(&self, sync: SyncNumber) -> bool {
        sync.was_used(self.sync, self.syncs_made)
    }

    /// The bytes below `position` that the host does not know to be released; now it does.
    pub(crate) fn newly_released(&mut self, position: u64) -> Range<u64> {
        let start = self.released;
        self.released = start.max(position);
        start..self.released
    }
}
