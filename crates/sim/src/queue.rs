//! Pending events in a total order.

use std::cmp::Reverse;
use std::collections::BTreeMap;
use std::collections::BinaryHeap;

/// Events ordered by (time, priority, order of insertion).
#[derive(Debug)]
pub struct EventQueue<T> {
    heap: BinaryHeap<Reverse<(u64, u8, u64)>>,
    events: BTreeMap<u64, T>,
    next: u64,
}

impl<T> EventQueue<T> {
    /// A queue without events.
    pub fn new() -> Self {
        EventQueue {
            heap: BinaryHeap::new(),
            events: BTreeMap::new(),
            next: 0,
        }
    }

    /// Adds an event at `at_ps`. Of those at the same time, a lower `priority` comes first, then
    /// the one added first.
    pub fn push(&mut self, at_ps: u64, priority: u8, event: T) {
        let sequence = self.next;
        self.next += 1;
        self.heap.push(Reverse((at_ps, priority, sequence)));
        self.events.insert(sequence, event);
    }

    /// Takes the next event and its time.
    pub fn pop(&mut self) -> Option<(u64, T)> {
        let Reverse((at_ps, _, sequence)) = self.heap.pop()?;
        let event = self.events.remove(&sequence)?;
        Some((at_ps, event))
    }

    /// When the next event is, ps.
    pub fn next_time(&self) -> Option<u64> {
        self.heap.peek().map(|Reverse((at_ps, _, _))| *at_ps)
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
    fn events_come_by_time_then_priority_then_insertion() {
        let mut queue = EventQueue::new();
        queue.push(5, 1, "c");
        queue.push(5, 0, "b");
        queue.push(1, 9, "a");
        queue.push(5, 1, "d");
        let order: Vec<_> = std::iter::from_fn(|| queue.pop()).map(|(_, e)| e).collect();
        assert_eq!(order, ["a", "b", "c", "d"]);
    }
}
