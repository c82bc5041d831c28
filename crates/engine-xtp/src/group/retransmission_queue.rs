//! The ranges a sender has to retransmit, and those it retransmitted.

use crate::numbers::SyncNumber;
use core::ops::Range;
use std::collections::VecDeque;

/// Ranges at most. Beyond it the last two are merged, and the bytes between them are sent again.
pub(super) const RANGES_MAX: usize = 256;

/// Bytes to retransmit: ascending, disjoint ranges.
#[derive(Clone, Debug, Default)]
pub(super) struct RetransmissionQueue(VecDeque<Range<u64>>);

impl RetransmissionQueue {
    pub(super) fn len(&self) -> usize {
        self.0.len()
    }

    pub(super) fn is_empty(&self) -> bool {
        self.0.is_empty()
    }

    /// The lowest range.
    pub(super) fn first(&self) -> Option<Range<u64>> {
        self.0.front().cloned()
    }

    /// Bytes that wait to be sent again.
    pub(super) fn bytes(&self) -> u64 {
        self.0.iter().map(|range| range.end - range.start).sum()
    }

    /// Whether byte `position` waits to be sent again.
    pub(super) fn contains(&self, position: u64) -> bool {
        let behind = self.0.partition_point(|range| range.end <= position);
        self.0
            .get(behind)
            .is_some_and(|range| range.start <= position)
    }

    /// Adds a range.
    pub(super) fn add(&mut self, new: Range<u64>) {
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
    pub(super) fn advance(&mut self, position: u64) {
        while let Some(front) = self.0.front_mut() {
            if front.end > position {
                front.start = front.start.max(position);
                return;
            }
            self.0.pop_front();
        }
    }
}

/// Retransmitted ranges, each with the sync of its packet.
#[derive(Clone, Debug, Default)]
pub(super) struct RetransmissionLog(VecDeque<(Range<u64>, SyncNumber)>);

impl RetransmissionLog {
    pub(super) fn len(&self) -> usize {
        self.0.len()
    }

    /// Records that `range` was retransmitted with `sync`.
    pub(super) fn record(&mut self, range: Range<u64>, sync: SyncNumber) {
        if let Some((last, at)) = self.0.back_mut()
            && last.end == range.start
        {
            last.end = range.end;
            *at = sync;
            return;
        }
        if self.0.len() == RANGES_MAX {
            self.0.pop_front();
        }
        self.0.push_back((range, sync));
    }

    /// The parts of `lacking`, ascending and disjoint, that were not retransmitted since request
    /// `echo`. A control packet reports losses as of that request (0009, Counted groups).
    pub(super) fn not_resent_since(
        &self,
        echo: SyncNumber,
        lacking: &[Range<u64>],
    ) -> Vec<Range<u64>> {
        let since = self.0.iter().filter(|(_, sync)| echo.is_before(*sync));
        let mut resent: Vec<Range<u64>> = since.map(|(range, _)| range.clone()).collect();
        resent.sort_unstable_by_key(|range| range.start);
        let mut resent = resent.into_iter().peekable();
        let mut left = Vec::new();
        for part in lacking {
            let mut start = part.start;
            while let Some(hole) = resent.next_if(|hole| hole.end <= part.end) {
                if hole.start > start {
                    left.push(start..hole.start);
                }
                start = start.max(hole.end);
            }
            let end = resent
                .peek()
                .map_or(part.end, |hole| hole.start.min(part.end));
            if end > start {
                left.push(start..end);
            }
        }
        left
    }

    /// Forgets the ranges below `position`.
    pub(super) fn release(&mut self, position: u64) {
        self.0.retain(|(range, _)| range.end > position);
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

    #[test]
    fn unsent_parts_match_model() {
        let mut random = SplitMix64::new(6);
        for _ in 0..300 {
            let mut log = RetransmissionLog::default();
            let mut bytes = [false; 100];
            for sync in 0..random.below(12) as u32 {
                let start = random.below(90);
                let end = start + 1 + random.below(10);
                log.record(start..end, SyncNumber(sync));
                bytes[start as usize..end as usize].fill(true);
            }
            let cuts = [0, 5, 20, 21, 40, 47, 60, 99].map(|cut| cut + random.below(1));
            let lacking: Vec<_> = cuts.chunks(2).map(|pair| pair[0]..pair[1]).collect();
            let found = log.not_resent_since(SyncNumber(u32::MAX), &lacking);
            assert!(found.iter().all(|range| range.start < range.end));
            for at in 0..100 {
                let expected = lacking.iter().any(|part| part.contains(&at)) && !bytes[at as usize];
                let is_found = found.iter().any(|range| range.contains(&at));
                assert_eq!(is_found, expected, "{at}: {found:?} of {log:?}");
            }
        }
    }

    #[test]
    fn resent_ranges_excluded_since_request() {
        let mut repeated = RetransmissionLog::default();
        repeated.record(10..20, SyncNumber(5));
        repeated.record(20..30, SyncNumber(6));
        repeated.record(50..60, SyncNumber(9));
        let lacking =
            |echo| repeated.not_resent_since(SyncNumber(echo), std::slice::from_ref(&(0..70)));
        assert_eq!(lacking(4), [0..10, 30..50, 60..70]);
        assert_eq!(lacking(6), [0..50, 60..70]);
        assert_eq!(lacking(9), vec![0..70]);
    }
}
