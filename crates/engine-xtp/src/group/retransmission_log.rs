//! The ranges that a sender retransmitted.

use crate::numbers::SyncNumber;
use crate::tx::RANGES_MAX;
use core::ops::Range;
use std::collections::VecDeque;

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
