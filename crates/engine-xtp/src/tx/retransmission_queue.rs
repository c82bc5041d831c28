//! The ranges that a sender has to retransmit.

use core::ops::Range;
use std::collections::VecDeque;

/// Ranges at most that [`RetransmissionQueue::add`] keeps. Beyond it the last two are merged, and the bytes between them
/// are sent again.
pub(crate) const RANGES_MAX: usize = 256;

/// Bytes to retransmit: ascending, disjoint ranges.
#[derive(Clone, Debug, Default)]
pub(crate) struct RetransmissionQueue(VecDeque<Range<u64>>);

impl RetransmissionQueue {
    /// These ranges, ascending and disjoint.
    pub(crate) fn of(ranges: VecDeque<Range<u64>>) -> RetransmissionQueue {
        RetransmissionQueue(ranges)
    }

    pub(crate) fn len(&self) -> usize {
        self.0.len()
    }

    pub(crate) fn is_empty(&self) -> bool {
        self.0.is_empty()
    }

    /// The lowest range.
    pub(crate) fn first(&self) -> Option<Range<u64>> {
        self.0.front().cloned()
    }

    /// Bytes that wait to be sent again.
    pub(crate) fn bytes(&self) -> u64 {
        self.0.iter().map(|range| range.end - range.start).sum()
    }

    /// Whether byte `position` waits to be sent again.
    pub(crate) fn contains(&self, position: u64) -> bool {
        let behind = self.0.partition_point(|range| range.end <= position);
        self.0
            .get(behind)
            .is_some_and(|range| range.start <= position)
    }

    /// Adds a range.
    pub(crate) fn add(&mut self, new: Range<u64>) {
        if new.is_empty() {
            return;
        }
        let from = self.0.partition_point(|old| old.end < new.start);
        let to = self.0.partition_point(|old| old.start <= new.end);
        let mut new = new;
        if from < to {
            new.start = new.start.min(self.0[from].start);
            new.end = new.end.max(self.0[to - 1].end);
            self.0.drain(from..to);
        }
        self.0.insert(from, new);
        if self.0.len() > RANGES_MAX
            && let Some(last) = self.0.pop_back()
            && let Some(before) = self.0.back_mut()
        {
            before.end = last.end;
        }
    }

    /// Removes the bytes below `position`: they were sent or released.
    pub(crate) fn advance(&mut self, position: u64) {
        while let Some(front) = self.0.front_mut() {
            if front.end > position {
                front.start = front.start.max(position);
                return;
            }
            self.0.pop_front();
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use engine::SplitMix64;

    #[test]
    fn retransmission_ranges_match_model() {
        let mut random = SplitMix64::new(5);
        for _ in 0..300 {
            let mut again = RetransmissionQueue::default();
            let mut bytes = [false; 100];
            for _ in 0..random.below(20) {
                let start = random.below(100);
                let end = (start + random.below(20)).min(100);
                again.add(start..end);
                bytes[start as usize..end as usize].fill(true);
            }
            let below = random.below(100);
            again.advance(below);
            bytes[..below as usize].fill(false);
            assert!(
                again
                    .0
                    .iter()
                    .zip(again.0.iter().skip(1))
                    .all(|(a, b)| a.end < b.start)
            );
            for (at, is_in) in bytes.iter().enumerate() {
                let found = again.0.iter().any(|range| range.contains(&(at as u64)));
                assert_eq!(found, *is_in);
            }
        }
    }

    #[test]
    fn range_count_bounded_without_losing_bytes() {
        let mut again = RetransmissionQueue::default();
        for at in 0..1000 {
            again.add(at * 10..at * 10 + 1);
        }
        assert_eq!(again.len(), RANGES_MAX);
        let last = again.0.back().cloned().unwrap_or(0..0);
        assert!(last.contains(&9990));
    }
}
