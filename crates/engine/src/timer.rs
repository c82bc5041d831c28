//! A table of timers, one a key, that expire in a total and repeatable order.

use crate::Instant;
use std::collections::{BTreeMap, BTreeSet};

/// Deadlines by key. Timers with equal deadlines expire in the order of their keys.
///
/// Setting, cancelling and popping cost O(log n). The table has one entry a key, so its size is
/// bounded by the number of its owner's keys.
#[derive(Debug)]
pub struct TimerTable<K> {
    by_key: BTreeMap<K, Instant>,
    by_time: BTreeSet<(Instant, K)>,
}

impl<K: Ord + Copy> TimerTable<K> {
    /// A table without timers.
    pub fn new() -> Self {
        TimerTable {
            by_key: BTreeMap::new(),
            by_time: BTreeSet::new(),
        }
    }

    /// Arms the timer of `key`, replacing the deadline it had.
    pub fn set(&mut self, key: K, at: Instant) {
        match self.by_key.insert(key, at) {
            // The usual case for packets that arrived together.
            Some(old) if old == at => return,
            Some(old) => {
                self.by_time.remove(&(old, key));
            }
            None => {}
        }
        self.by_time.insert((at, key));
    }

    /// Disarms the timer of `key`, if it is armed.
    pub fn cancel(&mut self, key: K) {
        if let Some(old) = self.by_key.remove(&key) {
            self.by_time.remove(&(old, key));
        }
    }

    /// Whether the timer of `key` is armed.
    pub fn is_set(&self, key: K) -> bool {
        self.by_key.contains_key(&key)
    }

    /// The earliest deadline.
    pub fn deadline(&self) -> Option<Instant> {
        self.by_time.first().map(|&(at, _)| at)
    }

    /// Removes and returns the earliest timer that has expired at `now`.
    pub fn pop_due(&mut self, now: Instant) -> Option<K> {
        let &(at, key) = self.by_time.first()?;
        if at > now {
            return None;
        }
        self.cancel(key);
        Some(key)
    }
}

impl<K: Ord + Copy> Default for TimerTable<K> {
    fn default() -> Self {
        Self::new()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn timers_expire_once_by_time_then_key() {
        let at = Instant::from_nanos;
        let mut table = TimerTable::new();
        table.set(2, at(10));
        table.set(1, at(10));
        table.set(3, at(5));
        table.set(3, at(20));
        assert_eq!(table.deadline(), Some(at(10)));
        assert_eq!(table.pop_due(at(9)), None);
        assert_eq!(table.pop_due(at(15)), Some(1));
        assert_eq!(table.pop_due(at(15)), Some(2));
        assert_eq!(table.pop_due(at(15)), None);
        table.cancel(3);
        assert_eq!(table.deadline(), None);
    }
}
