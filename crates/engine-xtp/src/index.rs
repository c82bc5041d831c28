//! Slots by a hash of what they are called.
//!
//! A table of slot numbers, each with its hash, in which a search goes on to the next place until
//! one is empty: mostly one read of memory among tens of thousands of contexts that wait out their
//! quarantine.

/// Places of a table that holds something, at least.
const PLACES_MIN: usize = 32;

/// A place without a slot.
const EMPTY: Place = Place {
    hash: 0,
    slot: u32::MAX,
};

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct Place {
    hash: u32,
    slot: u32,
}

#[derive(Debug, Default)]
pub(crate) struct Index {
    /// A power of two, at least twice as many as are taken.
    places: Vec<Place>,
    len: usize,
}

impl Index {
    /// A slot of this hash that `is_meant`.
    pub(crate) fn find(&self, hash: u32, is_meant: impl Fn(u32) -> bool) -> Option<u32> {
        self.search(hash, |place| place.hash == hash && is_meant(place.slot))
            .map(|at| self.places[at].slot)
    }

    /// Adds `slot`, which is not there.
    pub(crate) fn insert(&mut self, hash: u32, slot: u32) {
        if self.len * 2 >= self.places.len() {
            self.grow();
        }
        self.put(Place { hash, slot });
        self.len += 1;
    }

    /// Takes `slot` away, if it is there.
    pub(crate) fn remove(&mut self, hash: u32, slot: u32) {
        let named = Place { hash, slot };
        let Some(mut hole) = self.search(hash, |place| place == named) else {
            return;
        };
        self.len -= 1;
        // Those behind whose search passes the hole move up into it.
        let mut at = hole;
        loop {
            at = self.place_of(at as u32 + 1);
            let place = self.places[at];
            if place == EMPTY {
                break;
            }
            if self.steps(self.place_of(place.hash), at) >= self.steps(hole, at) {
                self.places[hole] = place;
                hole = at;
            }
        }
        self.places[hole] = EMPTY;
    }

    #[cfg(test)]
    pub(crate) fn is_empty(&self) -> bool {
        self.places.iter().all(|&place| place == EMPTY)
    }

    /// Where the search for `hash` meets what is `wanted`.
    fn search(&self, hash: u32, wanted: impl Fn(Place) -> bool) -> Option<usize> {
        if self.places.is_empty() {
            return None;
        }
        let mut at = self.place_of(hash);
        loop {
            match self.places[at] {
                EMPTY => return None,
                place if wanted(place) => return Some(at),
                _ => at = self.place_of(at as u32 + 1),
            }
        }
    }

    /// Puts `entry` into the first place of its search that is empty.
    fn put(&mut self, entry: Place) {
        let mut at = self.place_of(entry.hash);
        while self.places[at] != EMPTY {
            at = self.place_of(at as u32 + 1);
        }
        self.places[at] = entry;
    }

    fn grow(&mut self) {
        let count = (self.places.len() * 2).max(PLACES_MIN);
        let old = std::mem::replace(&mut self.places, vec![EMPTY; count]);
        for entry in old.into_iter().filter(|&place| place != EMPTY) {
            self.put(entry);
        }
    }

    /// Where the search for `hash` begins.
    fn place_of(&self, hash: u32) -> usize {
        hash as usize & (self.places.len() - 1)
    }

    /// How far a search that begins at `from` has come at `to`.
    fn steps(&self, from: usize, to: usize) -> usize {
        to.wrapping_sub(from) & (self.places.len() - 1)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use engine::SplitMix64;

    #[test]
    fn searches_stay_short() {
        let mut index = Index::default();
        for slot in 0..10_000 {
            index.insert(SplitMix64::at(0x5eed, u64::from(slot)) as u32, slot);
        }
        let taken = (0..index.places.len()).filter(|&at| index.places[at] != EMPTY);
        let steps = taken.map(|at| index.steps(index.place_of(index.places[at].hash), at));
        let longest = steps.max();
        assert!(longest < Some(64), "{longest:?}");
    }
}
