//! What a receiver remembers, in the peer's sequence numbers.

use super::Held;
use crate::types::is_before;
use engine::Instant;

#[derive(Clone, Debug, Default)]
pub(crate) struct Receiving {
    /// Everything below arrived, or is given up.
    pub(crate) next: u64,
    /// Bytes delivered that the user has not taken.
    pub(crate) unread: u64,
    /// The allocation last told; it never goes back.
    pub(crate) told: u64,
    /// Bytes beyond `next` that came early.
    pub(crate) held: Held,
    /// The end of the peer's stream, once known.
    pub(crate) last: Option<u64>,
    /// Bytes the user posted, in reservation mode.
    pub(crate) posted: u64,
    /// The user posts its buffers.
    pub(crate) posts: bool,
    /// The sender wants no more allocated than what the user posted (RES).
    pub(crate) reserved: bool,
    /// The highest sync seen.
    pub(crate) sync: Option<u32>,
    /// A control packet is due when the user took everything below.
    pub(crate) report_at: Option<u64>,
    /// When a gap was last reported unasked.
    pub(crate) nak_at: Option<Instant>,
    /// The packet before asked for a report (EDGE).
    pub(crate) asked: bool,
    /// Bytes were lost since the last delivery.
    pub(crate) gap: bool,
    /// Bytes were lost, and where a message begins is known only behind the next end of one.
    pub(crate) torn: bool,
    /// The sender forbids asking again (NOERR).
    pub(crate) noerr: bool,
}

impl Receiving {
    /// Whether everything the peer ever sends is here.
    pub(crate) fn is_complete(&self) -> bool {
        self.last.is_some_and(|last| self.next >= last)
    }

    /// One beyond the last byte the user took.
    pub(crate) fn taken(&self) -> u64 {
        self.next - self.unread.min(self.next)
    }

    pub(crate) fn see_sync(&mut self, sync: u32) {
        if self.sync.is_none_or(|seen| is_before(seen, sync)) {
            self.sync = Some(sync);
        }
    }
}
