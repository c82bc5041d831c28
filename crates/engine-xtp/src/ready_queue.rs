//! Associations with something to send, by priority.

use std::collections::{BTreeMap, VecDeque};
use std::ops::Bound;

/// Slots in the order of service: lowest sort value first, slots without one last, round robin
/// among equals (0007, Priority). Peers choose sort values as well, so the others get a turn now and
/// then (0021).
#[derive(Debug, Default)]
pub(crate) struct ReadyQueue {
    without_sort: VecDeque<u32>,
    /// By sort value and order of arrival.
    with_sort: BTreeMap<(u16, u64), u32>,
    arrivals: u64,
    /// Times in a row that the most urgent were served while others waited.
    passed_over: u32,
    /// The sort value that had the last turn; None for those without.
    last_turn: Option<u16>,
}

/// Times that the most urgent are served before one of the others is: these have a 65th of the
/// batches at least.
const PASSED_OVER_MAX: u32 = 64;

impl ReadyQueue {
    /// Appends `slot` behind all others of its priority.
    #[inline]
    pub(crate) fn push(&mut self, slot: u32, sort: Option<u16>) {
        let Some(sort) = sort else {
            return self.without_sort.push_back(slot);
        };
        self.arrivals += 1;
        self.with_sort.insert((sort, self.arrivals), slot);
    }

    /// Removes the next slot.
    #[inline]
    pub(crate) fn pop(&mut self) -> Option<u32> {
        let Some((&(most_urgent, _), _)) = self.with_sort.first_key_value() else {
            return self.without_sort.pop_front();
        };
        let last = self.with_sort.last_key_value();
        let others_wait =
            !self.without_sort.is_empty() || last.is_some_and(|(key, _)| key.0 != most_urgent);
        self.passed_over = if others_wait { self.passed_over + 1 } else { 0 };
        if self.passed_over > PASSED_OVER_MAX {
            self.passed_over = 0;
            return self.pop_turn(most_urgent);
        }
        self.with_sort.pop_first().map(|(_, slot)| slot)
    }

    /// Serves the sort values behind the most urgent one in turn, then those without.
    fn pop_turn(&mut self, most_urgent: u16) -> Option<u32> {
        let after = self
            .last_turn
            .map_or(most_urgent, |last| last.max(most_urgent));
        let behind = |after: u16| (Bound::Excluded((after, u64::MAX)), Bound::Unbounded);
        let next = self.with_sort.range(behind(after)).next();
        let next = next.map(|(&key, _)| key);
        if next.is_none() {
            self.last_turn = None;
            if let Some(slot) = self.without_sort.pop_front() {
                return Some(slot);
            }
        }
        let first = || self.with_sort.range(behind(most_urgent)).next();
        let key = next.or_else(|| first().map(|(&key, _)| key))?;
        self.last_turn = Some(key.0);
        self.with_sort.remove(&key)
    }

    /// Number of slots.
    pub(crate) fn len(&self) -> usize {
        self.without_sort.len() + self.with_sort.len()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn lowest_sort_served_first_unsorted_last() {
        let mut ready = ReadyQueue::default();
        ready.push(1, None);
        ready.push(2, Some(7));
        ready.push(3, Some(3));
        ready.push(4, Some(7));
        ready.push(5, None);
        assert_eq!(ready.len(), 5);
        let order: Vec<u32> = std::iter::from_fn(|| ready.pop()).collect();
        assert_eq!(order, [3, 2, 4, 1, 5]);
    }

    #[test]
    fn busy_urgent_association_does_not_starve_the_others() {
        let mut ready = ReadyQueue::default();
        let all = [(0, Some(0)), (1, Some(9)), (2, None), (3, None)];
        for (slot, sort) in all {
            ready.push(slot, sort);
        }
        let mut served = [0; 4];
        for _ in 0..65 * 40 {
            let slot = ready.pop().expect("all are busy");
            served[slot as usize] += 1;
            ready.push(slot, all[slot as usize].1);
        }
        assert_eq!(served, [64 * 40, 20, 10, 10]);
    }
}
