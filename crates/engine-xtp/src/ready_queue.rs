//! Associations with something to send, by priority.

use std::collections::{BTreeMap, VecDeque};

/// Slots in the order of service: lowest sort value first, slots without one last, round robin
/// among equals (0007, Priority).
#[derive(Debug, Default)]
pub(crate) struct ReadyQueue {
    without_sort: VecDeque<u32>,
    /// By sort value and order of arrival.
    with_sort: BTreeMap<(u16, u64), u32>,
    arrivals: u64,
}

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
        if self.with_sort.is_empty() {
            return self.without_sort.pop_front();
        }
        self.with_sort.pop_first().map(|(_, slot)| slot)
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
}
