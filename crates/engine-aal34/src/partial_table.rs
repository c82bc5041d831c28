//! Packets that are being put together: by key, each with a deadline, bounded in octets.

use engine::Instant;
use std::collections::{BTreeMap, VecDeque};

/// Octets that all packets being put together may pin. Of 1,500 octets each they are 2,796 packets, of
/// 64 KiB 64.
pub(crate) const PINNED_MAX: usize = 4 << 20;

/// Packets being put together, at most: with the shortest, the table itself takes about 1 MiB.
pub(crate) const PARTIALS_MAX: usize = 4096;

/// What a packet without octets counts for: its entry.
const ENTRY_OCTETS: usize = 256;

#[derive(Debug)]
struct Entry<P> {
    serial: u64,
    until: Instant,
    pinned: usize,
    partial: P,
}

/// Packets under way. All wait equally long, so the oldest is the next to expire, and it gives way when
/// there are too many.
#[derive(Debug)]
pub(crate) struct PartialTable<K, P> {
    entries: BTreeMap<K, Entry<P>>,
    /// Oldest first; the front is always in `entries`, those behind it may be gone.
    order: VecDeque<(u64, K)>,
    serial: u64,
    pinned: usize,
}

impl<K: Copy + Ord, P> PartialTable<K, P> {
    pub(crate) fn new() -> PartialTable<K, P> {
        PartialTable {
            entries: BTreeMap::new(),
            order: VecDeque::new(),
            serial: 0,
            pinned: 0,
        }
    }

    /// Adds a packet that may pin `octets`, in place of one with the same key; how many others gave way.
    pub(crate) fn insert(&mut self, key: K, until: Instant, octets: usize, partial: P) -> u64 {
        self.remove(&key);
        let pinned = octets + ENTRY_OCTETS;
        let mut evicted = 0;
        while self.pinned + pinned > PINNED_MAX || self.entries.len() >= PARTIALS_MAX {
            let Some(&(_, oldest)) = self.order.front() else {
                break;
            };
            self.remove(&oldest);
            evicted += 1;
        }
        self.serial += 1;
        self.pinned += pinned;
        self.order.push_back((self.serial, key));
        let entry = Entry {
            serial: self.serial,
            until,
            pinned,
            partial,
        };
        self.entries.insert(key, entry);
        evicted
    }

    pub(crate) fn get_mut(&mut self, key: &K) -> Option<&mut P> {
        self.entries.get_mut(key).map(|entry| &mut entry.partial)
    }

    pub(crate) fn remove(&mut self, key: &K) -> Option<P> {
        let entry = self.entries.remove(key)?;
        self.pinned -= entry.pinned;
        self.forget_removed();
        Some(entry.partial)
    }

    /// The next deadline.
    pub(crate) fn poll_timeout(&self) -> Option<Instant> {
        let (_, oldest) = self.order.front()?;
        self.entries.get(oldest).map(|entry| entry.until)
    }

    /// Gives up the packets whose time is over: how many.
    pub(crate) fn expire(&mut self, now: Instant) -> u64 {
        std::iter::from_fn(|| self.take_expired(now)).count() as u64
    }

    /// Takes the oldest packet if its time is over.
    fn take_expired(&mut self, now: Instant) -> Option<(K, P)> {
        let &(_, oldest) = self.order.front()?;
        if self.poll_timeout()? > now {
            return None;
        }
        self.remove(&oldest).map(|partial| (oldest, partial))
    }

    pub(crate) fn len(&self) -> usize {
        self.entries.len()
    }

    /// Keeps the front alive, and the list not much longer than the table.
    fn forget_removed(&mut self) {
        let entries = &self.entries;
        let lives = |(serial, key): &(u64, K)| {
            entries
                .get(key)
                .is_some_and(|entry| entry.serial == *serial)
        };
        while self.order.front().is_some_and(|front| !lives(front)) {
            self.order.pop_front();
        }
        if self.order.len() > 2 * entries.len() + 64 {
            self.order.retain(lives);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn at(nanos: u64) -> Instant {
        Instant::from_nanos(nanos)
    }

    #[test]
    fn oldest_gives_way_when_octets_or_packets_are_too_many() {
        let mut table = PartialTable::new();
        let each = PINNED_MAX / 4 - ENTRY_OCTETS;
        for key in 0..4 {
            assert_eq!(table.insert(key, at(key), each, ()), 0);
        }
        assert_eq!(table.insert(4, at(4), 1, ()), 1);
        assert!(table.get_mut(&0).is_none() && table.get_mut(&1).is_some());
        let mut table = PartialTable::new();
        for key in 0..3 * PARTIALS_MAX as u64 {
            table.insert(key, at(key), 0, ());
        }
        assert_eq!(table.len(), PARTIALS_MAX);
    }

    #[test]
    fn deadlines_come_in_order_and_removed_packets_have_none() {
        let mut table = PartialTable::new();
        for key in 0..1000 {
            table.insert(key, at(key), 10, key);
        }
        for key in 1..999 {
            assert_eq!(table.remove(&key), Some(key));
        }
        assert!(table.order.len() < 100, "the list shrinks with the table");
        assert_eq!(table.poll_timeout(), Some(at(0)));
        assert_eq!(table.take_expired(at(500)), Some((0, 0)));
        assert_eq!(table.take_expired(at(500)), None);
        assert_eq!(table.poll_timeout(), Some(at(999)));
        table.insert(999, at(2000), 10, 5);
        assert_eq!(table.poll_timeout(), Some(at(2000)), "begun again");
        assert_eq!(table.take_expired(at(2000)), Some((999, 5)));
        assert_eq!((table.poll_timeout(), table.pinned), (None, 0));
    }
}
