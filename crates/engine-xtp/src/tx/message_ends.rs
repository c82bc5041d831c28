//! Ends of messages in the send buffer.

use std::collections::VecDeque;

/// Ends of messages not yet acknowledged, ascending. The host's send buffer bounds their number:
/// each message has at least one byte.
#[derive(Clone, Debug, Default)]
pub(crate) struct MessageEnds {
    ends: VecDeque<u64>,
    /// Index of the first end beyond the new data sent so far, the usual lookup.
    next: usize,
}

impl MessageEnds {
    /// Adds the end of a message. An empty message has no byte to be sent with and is left out
    /// (0007, Sequence numbers).
    pub(crate) fn push(&mut self, end: u64) {
        if self.ends.back().is_none_or(|&last| last < end) {
            self.ends.push_back(end);
        }
    }

    /// The first end.
    pub(crate) fn first(&self) -> Option<u64> {
        self.ends.front().copied()
    }

    /// The first end beyond `position`.
    #[inline]
    pub(crate) fn next_after(&mut self, position: u64) -> Option<u64> {
        let mut at = self.next;
        let behind = at == 0 || self.ends.get(at - 1).is_some_and(|&end| end <= position);
        if !behind {
            at = self.ends.partition_point(|&end| end <= position);
            return self.ends.get(at).copied();
        }
        while self.ends.get(at).is_some_and(|&end| end <= position) {
            at += 1;
        }
        self.next = at;
        self.ends.get(at).copied()
    }

    /// Releases ends at or below `position`.
    pub(crate) fn release(&mut self, position: u64) {
        while self.ends.front().is_some_and(|&end| end <= position) {
            self.ends.pop_front();
            self.next = self.next.saturating_sub(1);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn message_ends_found_and_released() {
        let mut ends = MessageEnds::default();
        [10, 10, 20, 30].into_iter().for_each(|end| ends.push(end));
        assert_eq!(ends.next_after(0), Some(10));
        assert_eq!(ends.next_after(20), Some(30));
        assert_eq!(ends.next_after(5), Some(10));
        ends.release(20);
        assert_eq!(ends.next_after(20), Some(30));
        assert_eq!(ends.next_after(30), None);
        ends.push(40);
        assert_eq!(ends.next_after(30), Some(40));
    }
}
