//! Copies ranges of a store that mostly follow each other, as the chunks of a packet do: only the first
//! of a slot is looked up.

use super::ring::Consumer;
use std::ops::Range;

/// Where the last copy ended.
pub struct CopyCursor<'a> {
    store: &'a Consumer,
    /// The next position.
    position: u64,
    /// Octets from there on that the store holds in one piece.
    ahead: Range<usize>,
}

impl Consumer {
    /// A cursor for copies of a batch. The first copy sets it.
    pub fn cursor(&self) -> CopyCursor<'_> {
        CopyCursor {
            store: self,
            position: u64::MAX,
            ahead: 0..0,
        }
    }
}

impl CopyCursor<'_> {
    /// Appends the bytes of `payload` to `octets`.
    ///
    /// # Panics
    ///
    /// As [`Consumer::gather`].
    #[inline]
    pub fn copy(&mut self, payload: &Range<u64>, octets: &mut Vec<u8>) {
        let len = payload.end.saturating_sub(payload.start) as usize;
        if payload.start == self.position && len <= self.ahead.len() {
            let end = self.ahead.start + len;
            octets.extend_from_slice(&self.store.io_slice(self.ahead.start..end));
            self.ahead.start = end;
            self.position = payload.end;
        } else {
            self.store.copy(payload, octets);
            self.seek(payload.end);
        }
    }

    /// Goes to `position`, up to which the store was just copied. Lent and withdrawn bytes are always
    /// looked up.
    fn seek(&mut self, position: u64) {
        let held = self.store.head().saturating_sub(position);
        let is_plain = self.store.loans.is_empty() && self.store.withdrawn.is_empty();
        let payload = self.store.ring.layout.payload as u64;
        let in_slot = payload - position % payload;
        let len = if is_plain { held.min(in_slot) } else { 0 };
        self.position = position;
        self.ahead = match len {
            0 => 0..0,
            len => {
                let start = self.store.ring.offset(position);
                start..start + len as usize
            }
        };
    }
}
