//! Pending events in a total order.

use std::cmp::Ordering;
use std::collections::BinaryHeap;

/// Events ordered by (time, priority, order of insertion).
#[derive(Clone, Debug)]
pub struct EventQueue<T> {
    heap: BinaryHeap<Entry<T>>,
    next: u64,
}

#[derive(Clone, Debug)]
struct Entry<T> {
    at_ps: u64,
    /// Priority in the upper 8 bits, order of insertion below: 2^56 insertions are 456 years at
    /// five million a second.
    rank: u64,
    event: T,
}

impl<T> Entry<T> {
    fn key(&self) -> u128 {
        u128::from(self.at_ps) << 64 | u128::from(self.rank)
    }
}

impl<T> PartialEq for Entry<T> {
    fn eq(&self, other: &Self) -> bool {
        self.key() == other.key()
    }
}

impl<T> Eq for Entry<T> {}

impl<T> PartialOrd for Entry<T> {
    fn partial_cmp(&self, other: &Self) -> Option<Ordering> {
        Some(self.cmp(other))
    }
}

impl<T> Ord for Entry<T> {
    /// Reversed: the heap gives its greatest first.
    fn cmp(&self, other: &Self) -> Ordering {
        other.key().cmp(&self.key())
    }
}

impl<T> EventQueue<T> {
    /// A queue without events.
    pub fn new() -> Self {
        EventQueue {
            heap: BinaryHeap::new(),
            next: 0,
        }
    }

    /// Adds an event at `at_ps`. Of events at the same time, the lower `priority` comes first, then
    /// the one added first.
    pub fn push(&mut self, at_ps: u64, priority: u8, event: T) {
        let rank = u64::from(priority) << 56 | self.next;
        self.next += 1;
        self.heap.push(Entry { at_ps, rank, event });
    }

    /// Removes the next event and returns it with its time.
    pub fn pop(&mut self) -> Option<(u64, T)> {
        let entry = self.heap.pop()?;
        Some((entry.at_ps, entry.event))
    }

    /// The next event and its time.
    pub fn peek(&self) -> Option<(u64, &T)> {
        self.heap.peek().map(|entry| (entry.at_ps, &entry.event))
    }

    /// Time of the next event, ps.
    pub fn next_time(&self) -> Option<u64> {
        self.heap.peek().map(|entry| entry.at_ps)
    }

    /// Pending events.
    pub fn len(&self) -> usize {
        self.heap.len()
    }

    /// Whether no event is pending.
    pub fn is_empty(&self) -> bool {
        self.heap.is_empty()
    }
}

impl<T> Default for EventQueue<T> {
    fn default() -> Self {
        Self::new()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn events_pop_by_time_priority_and_insertion() {
        let mut queue = EventQueue::new();
        queue.push(5, 1, "c");
        queue.push(5, 0, "b");
        queue.push(1, 9, "a");
        queue.push(5, 1, "d");
        let order: Vec<_> = std::iter::from_fn(|| queue.pop()).map(|(_, e)| e).collect();
        assert_eq!(order, ["a", "b", "c", "d"]);
    }
}
