//! What a sender remembers. Positions of the send store are sequence numbers.

use super::{Bucket, Controller, Limits, MessageEnds, RoundTrip, Tags};
use core::ops::Range;
use engine::Instant;
use std::collections::VecDeque;

/// A status request on its way.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Request {
    pub(crate) sync: u32,
    /// Everything below was sent before it or with it.
    pub(crate) sent: u64,
    pub(crate) at: Instant,
    /// It is answered when the peer's user took everything, which is no round trip.
    pub(crate) delivered: bool,
}

/// The synchronizing handshake.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Handshake {
    pub(crate) since: Instant,
    pub(crate) tries: u32,
    /// The sync its end must echo.
    pub(crate) sync: u32,
}

/// Requests remembered at most: of more than that, the oldest are not needed any longer.
const REQUESTS_MAX: usize = 64;

#[derive(Clone, Debug, Default)]
pub(crate) struct Sending {
    /// The store holds bytes below this.
    pub(crate) end: u64,
    /// Bytes below this leave even in a part-filled packet.
    pub(crate) pushed: u64,
    /// The next byte to send for the first time.
    pub(crate) next: u64,
    /// Where the slot last cut from ends.
    pub(crate) border: u64,
    /// Everything below was acknowledged, or given up.
    pub(crate) acknowledged: u64,
    /// The peer's allocation.
    pub(crate) alloc: u64,
    /// The peer said it; before, it is what this side takes for granted.
    pub(crate) alloc_heard: bool,
    /// Longest payload the peer accepts.
    pub(crate) payload_max: u64,
    /// Ranges to send again, ascending.
    pub(crate) lost: VecDeque<Range<u64>>,
    /// Something of `lost` was sent since a request last went with it.
    pub(crate) resent: bool,
    /// Packets sent again.
    pub(crate) retransmissions: u64,
    pub(crate) ends: MessageEnds,
    pub(crate) tags: Tags,
    /// Where messages end with a tag.
    pub(crate) end_tags: Tags,
    /// The user will add no more.
    pub(crate) finishing: bool,
    /// The last sync used.
    pub(crate) sync: u32,
    /// Reports that echo less were made before the last retransmission arrived.
    pub(crate) saved_sync: u32,
    pub(crate) requests: VecDeque<Request>,
    /// The next DATA packet is to make a request.
    pub(crate) ask_next: bool,
    /// Bytes sent since the last request.
    pub(crate) unasked: u64,
    pub(crate) handshake: Option<Handshake>,
    pub(crate) rtt: RoundTrip,
    pub(crate) limits: Limits,
    pub(crate) bucket: Option<Box<Bucket>>,
    pub(crate) congestion: Option<Controller>,
}

impl Sending {
    /// Bytes sent and not acknowledged.
    pub(crate) fn in_flight(&self) -> u64 {
        self.next - self.acknowledged.min(self.next)
    }

    /// Keeps to the limits as they are now.
    pub(crate) fn limit(&mut self, now: Instant) {
        match (self.limits.all(), &mut self.bucket) {
            (Some(limit), Some(bucket)) => bucket.change(limit, now),
            (Some(limit), bucket) => *bucket = Some(Box::new(Bucket::new(limit, now))),
            (None, bucket) => *bucket = None,
        }
    }

    /// A new status request, remembered: its sync.
    pub(crate) fn ask(&mut self, now: Instant, delivered: bool) -> u32 {
        self.sync = self.sync.wrapping_add(1);
        if self.requests.len() == REQUESTS_MAX {
            self.requests.pop_front();
        }
        let idle = self.next >= self.end;
        if let Some(control) = &mut self.congestion {
            control.on_request(now, self.sync, idle);
        }
        self.requests.push_back(Request {
            sync: self.sync,
            sent: self.next,
            at: now,
            delivered,
        });
        self.unasked = 0;
        self.ask_next = false;
        if self.resent && self.lost.is_empty() {
            self.resent = false;
            self.saved_sync = self.sync;
        }
        self.sync
    }

    /// Forgets what lies below `position`.
    pub(crate) fn release(&mut self, position: u64) {
        self.acknowledged = position;
        self.ends.release(position);
        self.tags.release(position);
        self.end_tags.release(position);
        while let Some(front) = self.lost.front_mut() {
            if front.end > position {
                front.start = front.start.max(position);
                break;
            }
            self.lost.pop_front();
        }
    }
}
