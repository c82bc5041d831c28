//! Slots by a hash of what they are called.
//!
//! A table of slot numbers, each with its hash, in which a search goes on to the next place until
//! one is empty: mostly one read of memory among tens of thousands of contexts that wait out their
//! quarantine.

/// Places of a table that holds something, at least.
const ENTRIES_MIN: usize = 32;

/// A place without a slot.
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
    /// A power of two, at least twice as many as are taken.
    entries: Vec<Entry>,
    len: usize,
}

impl SlotIndex {
    /// A slot of this hash that `is_meant`.
    pub(crate) fn find(&self, hash: u32, is_meant: impl Fn(u32) -> bool) -> Option<u32> {
        self.probe(hash, |entry| entry.hash == hash && is_meant(entry.slot))
            .map(|at| self.entries[at].slot)
    }

    /// Adds `slot`, which is not there.
    pub(crate) fn insert(&mut self, hash: u32, slot: u32) {
        if self.len * 2 >= self.entries.len() {
            self.grow();
        }
        self.insert_entry(Entry { hash, slot });
        self.len += 1;
    }

    /// Takes `slot` away, if it is there.
    pub(crate) fn remove(&mut self, hash: u32, slot: u32) {
        let named = Entry { hash, slot };
        let Some(mut hole) = self.probe(hash, |entry| entry == named) else {
            return;
        };
        self.len -= 1;
        // Those behind whose search passes the hole move up into it.
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

    /// Where the search for `hash` meets what is `wanted`.
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

    /// Puts `entry` into the first place of its search that is empty.
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

    /// Where the search for `hash` begins.
    fn probe_start(&self, hash: u32) -> usize {
        hash as usize & (self.entries.len() - 1)
    }

    /// How far a search that begins at `from` has come at `to`.
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
