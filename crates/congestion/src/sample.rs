//! What an engine reports to its congestion controller.
//!
//! Bytes are counted by the engine, as its protocol numbers them: positions of a byte stream, or
//! running totals. All counts of one path are counted in the same way.

use core::time::Duration;
use engine::Instant;

/// State of the path when a packet was sent: the per-packet state of draft-ietf-ccwg-bbr (`P.`). The
/// engine keeps it with each packet whose acknowledgement gives an RTT sample, and returns it in
/// [`RttSample`].
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct PacketState {
    /// Bytes sent before and with the packet.
    pub sent_bytes: u64,
    /// Bytes that the peer had (`P.delivered`).
    pub delivered_bytes: u64,
    /// When they were delivered (`P.delivered_time`).
    pub delivered_at: Instant,
    /// The user had nothing more to send (`P.is_app_limited`).
    pub app_limited: bool,
}

/// An RTT sample, and the packet it was taken from.
#[derive(Clone, Copy, Debug)]
pub struct RttSample {
    /// The round-trip time (`RS.rtt`).
    pub rtt: Duration,
    /// State when the packet was sent.
    pub packet: PacketState,
}

/// What a packet of the peer acknowledges: the rate sample of draft-ietf-ccwg-bbr (`RS.`), before the
/// controller computes its delivery rate.
#[derive(Clone, Copy, Debug)]
pub struct AckSample {
    /// Bytes that left the flight cumulatively with this packet (SND.UNA advanced by them).
    pub acked_bytes: u64,
    /// Bytes that the peer has in all, those beyond gaps included (`C.delivered`).
    pub delivered_bytes: u64,
    /// Bytes sent in all.
    pub sent_bytes: u64,
    /// Bytes on their way after this acknowledgement: neither acknowledged nor, where the engine knows
    /// losses one by one, lost (`C.inflight`).
    pub inflight_bytes: u64,
    /// An RTT sample, if the packet gives one.
    pub rtt: Option<RttSample>,
}

/// A loss that the engine detected.
#[derive(Clone, Copy, Debug)]
pub struct LossSample {
    /// Bytes newly found lost.
    pub lost_bytes: u64,
    /// The loss starts a recovery episode: it is not of the flight that an earlier reaction was
    /// for. [`crate::RecoveryPoint`] says so to engines that detect losses packet by packet.
    pub starts_recovery: bool,
}
