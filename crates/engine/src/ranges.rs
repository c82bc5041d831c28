//! Sets of positions, as few ranges.

use core::ops::Range;
use std::collections::BTreeMap;

/// A set of positions: ranges that neither overlap nor touch, in ascending order. What TCP calls a
/// scoreboard (RFC 6675 section 2).
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct RangeSet {
    /// The end of each range by its start.
    ranges: BTreeMap<u64, u64>,
}

impl RangeSet {
    /// The empty set.
    pub fn new() -> RangeSet {
        RangeSet::default()
    }

    /// Adds `range`; how many of its positions were not there before.
    pub fn insert(&mut self, range: Range<u64>) -> u64 {
        if range.is_empty() {
            return 0;
        }
        let (mut start, mut end) = (range.start, range.end);
        let mut known = 0;
        // From the last range that begins at or before the end backwards, while they touch.
        while let Some((&from, &to)) = self.ranges.range(..=end).next_back() {
            if to < start {
                break;
            }
            let overlap = to.min(range.end).saturating_sub(from.max(range.start));
            known += overlap;
            start = start.min(from);
            end = end.max(to);
            self.ranges.remove(&from);
        }
        self.ranges.insert(start, end);
        range.end - range.start - known
    }

    /// Removes all positions below `position`.
    pub fn remove_below(&mut self, position: u64) {
        let kept = self.ranges.split_off(&position);
        let cut = self.ranges.pop_last().filter(|&(_, end)| end > position);
        self.ranges = kept;
        if let Some((_, end)) = cut {
            self.ranges.insert(position, end);
        }
    }

    /// The position up to which everything is done, given that all below `position` is: ranges that
    /// begin there, or before, are taken out of the set.
    pub fn advance(&mut self, position: u64) -> u64 {
        let mut position = position;
        while let Some(entry) = self.ranges.first_entry() {
            if *entry.key() > position {
                break;
            }
            position = position.max(entry.remove());
        }
        position
    }

    /// The first range.
    pub fn first(&self) -> Option<Range<u64>> {
        self.ranges
            .first_key_value()
            .map(|(&start, &end)| start..end)
    }

    /// All ranges, in ascending order.
    pub fn iter(&self) -> impl Iterator<Item = Range<u64>> + '_ {
        self.ranges.iter().map(|(&start, &end)| start..end)
    }

    /// Whether `position` is in the set.
    pub fn contains(&self, position: u64) -> bool {
        let before = self.ranges.range(..=position).next_back();
        before.is_some_and(|(_, &end)| position < end)
    }

    /// Number of ranges.
    pub fn len(&self) -> usize {
        self.ranges.len()
    }

    /// Whether there is no position in it.
    pub fn is_empty(&self) -> bool {
        self.ranges.is_empty()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::SplitMix64;

    #[test]
    fn inserted_and_removed_ranges_match_a_set_of_numbers() {
        let mut random = SplitMix64::new(5);
        for _ in 0..200 {
            let mut set = RangeSet::new();
            let mut model = std::collections::BTreeSet::new();
            for _ in 0..30 {
                let start = random.below(60);
                let end = start + random.below(12);
                let fresh = (start..end).filter(|at| model.insert(*at)).count() as u64;
                assert_eq!(set.insert(start..end), fresh);
                if random.below(8) == 0 {
                    let below = random.below(40);
                    set.remove_below(below);
                    model = model.split_off(&below);
                }
                let all: Vec<u64> = set.iter().flatten().collect();
                assert_eq!(all, model.iter().copied().collect::<Vec<_>>());
                let ranges: Vec<Range<u64>> = set.iter().collect();
                assert!(ranges.windows(2).all(|pair| pair[0].end < pair[1].start));
                let probe = random.below(80);
                assert_eq!(set.contains(probe), model.contains(&probe));
            }
        }
    }
}
