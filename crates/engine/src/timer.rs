//! A table of timers, one a key, that expire in a total and repeatable order.

use crate::Instant;
use std::collections::{BTreeMap, BTreeSet};

/// Timers that are kept in a list: a few are found faster there than in a tree, and the trees' code is
/// left out of the caches.
const FEW: usize = 16;

/// Deadlines by key. Timers with equal deadlines expire in the order of their keys.
///
/// Setting, cancelling and popping cost O(log n). The table has one entry a key, so its size is
/// bounded by the number of its owner's keys.
#[derive(Debug)]
pub struct TimerTable<K> {
    timers: Timers<K>,
    /// The earliest deadline: it is asked for several times a packet, and most timers are set again only when they
    /// expire.
    earliest: Option<Instant>,
}

#[derive(Debug)]
enum Timers<K> {
    /// [`FEW`] at most, in no order: a message sets and cancels two of them, and the earliest is asked for
    /// about as often.
    Few(Vec<(Instant, K)>),
    /// As soon as they were more, until none is left.
    Many {
        by_key: BTreeMap<K, Instant>,
        by_time: BTreeSet<(Instant, K)>,
    },
}

impl<K: Ord + Copy> TimerTable<K> {
    /// A table without timers.
    pub fn new() -> Self {
        TimerTable {
            timers: Timers::Few(Vec::new()),
            earliest: None,
        }
    }

    /// Arms the timer of `key`, replacing the deadline it had.
    #[inline]
    pub fn set(&mut self, key: K, at: Instant) {
        let replaced = match &mut self.timers {
            Timers::Few(few) => match few.iter().position(|timer| timer.1 == key) {
                Some(index) => Some(core::mem::replace(&mut few[index].0, at)),
                None if few.len() == FEW => {
                    self.set_beyond_few(key, at);
                    None
                }
                None => {
                    few.push((at, key));
                    None
                }
            },
            Timers::Many { by_key, by_time } => {
                let replaced = by_key.insert(key, at);
                if let Some(old) = replaced {
                    by_time.remove(&(old, key));
                }
                by_time.insert((at, key));
                replaced
            }
        };
        match self.earliest {
            Some(earliest) if earliest <= at && replaced != Some(earliest) => {}
            Some(earliest) if earliest < at => self.find_earliest(),
            _ => self.earliest = Some(at),
        }
    }

    /// The timer that expires first has changed.
    fn find_earliest(&mut self) {
        self.earliest = match &self.timers {
            Timers::Few(few) => few.iter().map(|timer| timer.0).min(),
            Timers::Many { by_time, .. } => by_time.first().map(|timer| timer.0),
        };
    }

    #[cold]
    fn set_beyond_few(&mut self, key: K, at: Instant) {
        if let Timers::Few(few) = &mut self.timers {
            few.push((at, key));
            self.timers = Timers::Many {
                by_key: few.iter().map(|&(at, key)| (key, at)).collect(),
                by_time: few.drain(..).collect(),
            };
        }
    }

    /// Disarms the timer of `key`, if it is armed.
    #[inline]
    pub fn cancel(&mut self, key: K) {
        let removed = match &mut self.timers {
            Timers::Few(few) => {
                let index = few.iter().position(|timer| timer.1 == key);
                index.map(|index| few.swap_remove(index).0)
            }
            Timers::Many { by_key, by_time } => {
                let removed = by_key.remove(&key);
                if let Some(old) = removed {
                    by_time.remove(&(old, key));
                }
                if by_key.is_empty() {
                    self.timers = Timers::Few(Vec::new());
                }
                removed
            }
        };
        if removed.is_some() && removed == self.earliest {
            self.find_earliest();
        }
    }

    /// Whether the timer of `key` is armed.
    pub fn is_set(&self, key: K) -> bool {
        match &self.timers {
            Timers::Few(few) => few.iter().any(|timer| timer.1 == key),
            Timers::Many { by_key, .. } => by_key.contains_key(&key),
        }
    }

    fn first(&self) -> Option<(Instant, K)> {
        match &self.timers {
            Timers::Few(few) => few.iter().min().copied(),
            Timers::Many { by_time, .. } => by_time.first().copied(),
        }
    }

    /// The earliest deadline.
    #[inline]
    pub fn deadline(&self) -> Option<Instant> {
        self.earliest
    }

    /// Removes and returns the earliest timer that has expired at `now`.
    pub fn pop_due(&mut self, now: Instant) -> Option<K> {
        self.earliest.filter(|at| *at <= now)?;
        let (_, key) = self.first()?;
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

    /// As few and as many, set, moved and cancelled, they expire like a list that is sorted anew each time.
    #[test]
    fn any_number_of_timers_expires_in_order() {
        let (mut table, mut model) = (TimerTable::new(), Vec::new());
        let mut random = crate::SplitMix64::new(7);
        for step in 0..20_000 {
            // Up and down: more keys for a while than are kept in a list.
            let keys = if step / 500 % 2 == 0 {
                4 * FEW
            } else {
                FEW / 2
            };
            let key = random.below(keys as u64);
            let at = Instant::from_nanos(step + random.below(100));
            match random.below(4) {
                0 => {
                    table.cancel(key);
                    model.retain(|timer: &(Instant, u64)| timer.1 != key);
                }
                1 => {
                    let first = model.iter().min().copied();
                    let due = first.filter(|(due, _)| *due <= at);
                    assert_eq!(table.pop_due(at), due.map(|(_, key)| key));
                    model.retain(|timer| Some(*timer) != due);
                }
                _ => {
                    table.set(key, at);
                    model.retain(|timer| timer.1 != key);
                    model.push((at, key));
                }
            }
            assert_eq!(table.deadline(), model.iter().min().map(|(at, _)| *at));
            assert_eq!(table.is_set(key), model.iter().any(|timer| timer.1 == key));
        }
    }
}
