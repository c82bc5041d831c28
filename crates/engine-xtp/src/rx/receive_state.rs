//! State of the receiving direction, in the peer's sequence numbers.

use super::ReassemblyQueue;
use crate::numbers::SyncNumber;
use engine::{Framing, Instant};

/// Bytes that were given up (0007, Repair).
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) enum Gap {
    /// None since the last delivery.
    #[default]
    None,
    /// The next delivery states it.
    Unreported,
    /// As before, and everything up to the next end of a message is discarded.
    DiscardingMessage,
}

impl Gap {
    /// The state after bytes were given up. The whole message is dropped: XTP marks only the ends of
    /// messages, so everything up to the next EOM may belong to the damaged one (0007, Repair).
    pub(crate) fn opened(framing: Framing) -> Gap {
        match framing {
            Framing::Messages => Gap::DiscardingMessage,
            Framing::Stream | Framing::Records => Gap::Unreported,
        }
    }

    /// Bytes of the damaged message were discarded, the last ones of it at its end.
    pub(crate) fn record_discarded(&mut self, end_of_message: bool) {
        if end_of_message {
            *self = Gap::Unreported;
        }
    }
}

#[derive(Clone, Debug, Default)]
pub(crate) struct ReceiveState {
    /// Everything below was received, or given up (RCV.NXT).
    pub(crate) next_seq: u64,
    /// Bytes delivered that the user has not consumed.
    pub(crate) unread_bytes: u64,
    /// The allocation last advertised. It never shrinks.
    pub(crate) advertised_alloc: u64,
    /// Out-of-order bytes beyond `next_seq`.
    pub(crate) reassembly: ReassemblyQueue,
    /// End of the peer's stream, once WCLOSE was received.
    pub(crate) final_seq: Option<u64>,
    /// Allocation from posted buffers (reservation mode).
    pub(crate) posted_alloc: u64,
    /// The user has posted a buffer.
    pub(crate) user_posts: bool,
    /// The sender requests allocation of posted buffers only (RES).
    pub(crate) res_requested: bool,
    /// The highest sync received, to be echoed.
    pub(crate) highest_sync: Option<SyncNumber>,
    /// DREQ: a control packet is due when the user consumed everything below.
    pub(crate) delivery_report_at: Option<u64>,
    /// When a gap was last reported for FASTNAK.
    pub(crate) last_fastnak_at: Option<Instant>,
    /// The previous packet had SREQ (EDGE).
    pub(crate) previous_had_sreq: bool,
    pub(crate) gap: Gap,
    /// The sender does not retransmit (NOERR).
    pub(crate) error_control_off: bool,
    /// Long reports of gaps sent since user bytes arrived.
    pub(crate) reports_without_data: u32,
    /// The host has no room: user bytes are dropped as if they had been lost.
    pub(crate) is_full: bool,
}

impl ReceiveState {
    /// Whether the peer's stream was received completely.
    pub(crate) fn is_complete(&self) -> bool {
        self.final_seq.is_some_and(|last| self.next_seq >= last)
    }

    /// Delivered sequence number: everything below was consumed by the user.
    pub(crate) fn dseq(&self) -> u64 {
        self.next_seq - self.unread_bytes.min(self.next_seq)
    }

    pub(crate) fn record_sync(&mut self, sync: SyncNumber) {
        if self.highest_sync.is_none_or(|seen| seen.is_before(sync)) {
            self.highest_sync = Some(sync);
        }
    }
}
