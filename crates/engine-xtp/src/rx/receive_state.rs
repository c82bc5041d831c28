//! What a receiver remembers, in the peer's sequence numbers.

use super::ReassemblyQueue;
use crate::numbers::sync_before;
use engine::Instant;

#[derive(Clone, Debug, Default)]
pub(crate) struct ReceiveState {
    /// Everything below arrived, or is given up.
    pub(crate) next_seq: u64,
    /// Bytes delivered that the user has not taken.
    pub(crate) unread_bytes: u64,
    /// The allocation last told; it never goes back.
    pub(crate) advertised_alloc: u64,
    /// Bytes beyond `next` that came early.
    pub(crate) reassembly: ReassemblyQueue,
    /// The end of the peer's stream, once known.
    pub(crate) final_seq: Option<u64>,
    /// Bytes the user posted, in reservation mode.
    pub(crate) posted_alloc: u64,
    /// The user posts its buffers.
    pub(crate) user_posts: bool,
    /// The sender wants no more allocated than what the user posted (RES).
    pub(crate) res_requested: bool,
    /// The highest sync seen.
    pub(crate) highest_sync: Option<u32>,
    /// A control packet is due when the user took everything below.
    pub(crate) delivery_report_at: Option<u64>,
    /// When a gap was last reported unasked.
    pub(crate) last_fastnak_at: Option<Instant>,
    /// The packet before asked for a report (EDGE).
    pub(crate) previous_had_sreq: bool,
    /// Bytes were lost since the last delivery.
    pub(crate) gap_pending: bool,
    /// Bytes were lost, and where a message begins is known only behind the next end of one.
    pub(crate) discarding_partial_message: bool,
    /// The sender forbids asking again (NOERR).
    pub(crate) error_control_off: bool,
}

impl ReceiveState {
    /// Whether everything the peer ever sends is here.
    pub(crate) fn is_complete(&self) -> bool {
        self.final_seq.is_some_and(|last| self.next_seq >= last)
    }

    /// One beyond the last byte the user took.
    pub(crate) fn dseq(&self) -> u64 {
        self.next_seq - self.unread_bytes.min(self.next_seq)
    }

    pub(crate) fn record_sync(&mut self, sync: u32) {
        if self.highest_sync.is_none_or(|seen| sync_before(seen, sync)) {
            self.highest_sync = Some(sync);
        }
    }
}
