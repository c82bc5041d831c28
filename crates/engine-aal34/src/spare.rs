//! Memory of packets that was given back, for others.

use crate::partial_table;

/// Octets that it pins at most: a quarter of what packets under way may.
const PINNED_MAX: usize = partial_table::PINNED_MAX / 4;

/// Buffers at most: of packets of Ethernet as many as their octets allow.
const BUFFERS_MAX: usize = 1024;

/// Buffers that wait for a packet.
#[derive(Debug, Default)]
pub(crate) struct SpareBuffers {
    buffers: Vec<Vec<u8>>,
    pinned: usize,
}

impl SpareBuffers {
    /// An empty buffer with room for `len` octets.
    pub(crate) fn take(&mut self, len: usize) -> Vec<u8> {
        let mut buffer = self.buffers.pop().unwrap_or_default();
        self.pinned -= buffer.capacity();
        buffer.reserve_exact(len);
        buffer
    }

    /// Keeps a buffer, unless there are enough.
    pub(crate) fn give(&mut self, mut buffer: Vec<u8>) {
        let pinned = self.pinned + buffer.capacity();
        let fits = pinned <= PINNED_MAX && self.buffers.len() < BUFFERS_MAX;
        if buffer.capacity() > 0 && fits {
            buffer.clear();
            self.pinned = pinned;
            self.buffers.push(buffer);
        }
    }

    pub(crate) fn is_empty(&self) -> bool {
        self.buffers.is_empty()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn buffers_come_back_empty_and_are_bounded_in_octets_and_number() {
        let mut spare = SpareBuffers::default();
        spare.give(vec![7; 100]);
        let buffer = spare.take(10);
        assert!(buffer.is_empty() && buffer.capacity() >= 100 && spare.is_empty());
        assert_eq!(spare.pinned, 0);
        spare.give(Vec::new());
        assert!(spare.is_empty(), "it has no memory");
        for _ in 0..20 {
            spare.give(Vec::with_capacity(PINNED_MAX / 10));
        }
        assert_eq!(spare.buffers.len(), 10);
        let mut spare = SpareBuffers::default();
        for _ in 0..2 * BUFFERS_MAX {
            spare.give(vec![0]);
        }
        assert_eq!(spare.buffers.len(), BUFFERS_MAX);
    }
}
