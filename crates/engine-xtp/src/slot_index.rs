//! A hash index of slots: open addressing with linear probing, deletion by backward shift
//! (Knuth, The Art of Computer Programming, 6.4).
//!
//! The key is stored with the slot, not here. A lookup is mostly one memory read, even with tens
//! of thousands of contexts in quarantine.

/// Smallest capacity of an index that is not empty.
const ENTRIES_MIN: usize = 32;

/// An entry without a slot.
const EMPTY: Entry = Entry {
    hash: 0,
    slot: u32::MAX,
};

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct Entry {
    hash: u32,
    slot: u32,
}

#[derive(Debug, Default)]
pub(crate) struct SlotIndex {
    /// Length is a power of two, at least twice the number of slots.
    entries: Vec<Entry>,
    len: usize,
}

impl SlotIndex {
    /// The slot with this hash for which `is_meant` holds.
    pub(crate) fn find(&self, hash: u32, is_meant: impl Fn(u32) -> bool) -> Option<u32> {
        self.probe(hash, |entry| entry.hash == hash && is_meant(entry.slot))
            .map(|at| self.entries[at].slot)
    }

    /// Asks for the memory in which the slot with this hash lies, or will lie.
    #[inline]
    pub(crate) fn prefetch(&self, hash: u32) {
        if !self.entries.is_empty() {
            engine::prefetch(&self.entries[self.probe_start(hash)]);
        }
    }

    /// Adds `slot`, which must not be there yet.
    pub(crate) fn insert(&mut self, hash: u32, slot: u32) {
        if self.len * 2 >= self.entries.len() {
            self.grow();
        }
        self.insert_entry(Entry { hash, slot });
        self.len += 1;
    }

    /// Removes `slot`, if it is there.
    pub(crate) fn remove(&mut self, hash: u32, slot: u32) {
        let named = Entry { hash, slot };
        let Some(mut hole) = self.probe(hash, |entry| entry == named) else {
            return;
        };
        self.len -= 1;
        // Backward shift: entries whose probe sequence passes the hole move into it.
        let mut at = hole;
        loop {
            at = self.probe_start(at as u32 + 1);
            let entry = self.entries[at];
            if entry == EMPTY {
                break;
            }
            if self.probe_distance(self.probe_start(entry.hash), at)
                >= self.probe_distance(hole, at)
            {
                self.entries[hole] = entry;
                hole = at;
            }
        }
        self.entries[hole] = EMPTY;
    }

    #[cfg(test)]
    pub(crate) fn is_empty(&self) -> bool {
        self.entries.iter().all(|&entry| entry == EMPTY)
    }

    /// Position of the first entry in the probe sequence of `hash` that is `wanted`.
    fn probe(&self, hash: u32, wanted: impl Fn(Entry) -> bool) -> Option<usize> {
        if self.entries.is_empty() {
            return None;
        }
        let mut at = self.probe_start(hash);
        loop {
            match self.entries[at] {
                EMPTY => return None,
                entry if wanted(entry) => return Some(at),
                _ => at = self.probe_start(at as u32 + 1),
            }
        }
    }

    /// Puts `entry` into the first empty position of its probe sequence.
    fn insert_entry(&mut self, entry: Entry) {
        let mut at = self.probe_start(entry.hash);
        while self.entries[at] != EMPTY {
            at = self.probe_start(at as u32 + 1);
        }
        self.entries[at] = entry;
    }

    fn grow(&mut self) {
        let count = (self.entries.len() * 2).max(ENTRIES_MIN);
        let old = std::mem::replace(&mut self.entries, vec![EMPTY; count]);
        for entry in old.into_iter().filter(|&entry| entry != EMPTY) {
            self.insert_entry(entry);
        }
    }

    /// First position of the probe sequence of `hash`.
    fn probe_start(&self, hash: u32) -> usize {
        hash as usize & (self.entries.len() - 1)
    }

    /// Steps of a probe sequence from position `from` to position `to`.
    fn probe_distance(&self, from: usize, to: usize) -> usize {
        to.wrapping_sub(from) & (self.entries.len() - 1)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use engine::SplitMix64;

    #[test]
    fn probe_sequences_stay_short() {
        let mut index = SlotIndex::default();
        for slot in 0..10_000 {
            index.insert(SplitMix64::at(0x5eed, u64::from(slot)) as u32, slot);
        }
        let taken = (0..index.entries.len()).filter(|&at| index.entries[at] != EMPTY);
        let steps =
            taken.map(|at| index.probe_distance(index.probe_start(index.entries[at].hash), at));
        let longest = steps.max();
        assert!(longest < Some(64), "{longest:?}");
    }
}
