//! Which context a responder has for an initiator's address and key.
//!
//! A table of slot numbers, each with its hash, in which a search goes on to the next place until
//! one is empty: mostly one read of memory among tens of thousands of contexts that wait out their
//! quarantine. What a slot is called stands there and not here. Peers choose addresses and keys,
//! so places are chosen with a secret of this endpoint, and nobody outside can make them collide.

use core::net::SocketAddr;
use engine::{Address, SplitMix64};

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

#[derive(Debug)]
pub(crate) struct Peers {
    secret: u64,
    /// A power of two, at least twice as many as are taken.
    places: Vec<Place>,
    len: usize,
}

impl Peers {
    pub(crate) fn new(secret: u64) -> Peers {
        Peers {
            secret,
            places: Vec::new(),
            len: 0,
        }
    }

    /// The slot of `key` from `peer`: one that `is_named` so.
    pub(crate) fn find(
        &self,
        key: u64,
        peer: Address,
        is_named: impl Fn(u32) -> bool,
    ) -> Option<u32> {
        let hash = self.hash(key, peer);
        self.search(hash, |place| place.hash == hash && is_named(place.slot))
            .map(|at| self.places[at].slot)
    }

    /// Names `slot`, which has no name yet.
    pub(crate) fn insert(&mut self, key: u64, peer: Address, slot: u32) {
        if self.len * 2 >= self.places.len() {
            self.grow();
        }
        let hash = self.hash(key, peer);
        self.put(Place { hash, slot });
        self.len += 1;
    }

    /// Takes its name from `slot`, if that is it.
    pub(crate) fn remove(&mut self, key: u64, peer: Address, slot: u32) {
        let hash = self.hash(key, peer);
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

    fn hash(&self, key: u64, peer: Address) -> u32 {
        SplitMix64::at(self.secret ^ key, folded(peer)) as u32
    }
}

/// An address in 64 bits.
fn folded(address: Address) -> u64 {
    match address {
        Address::Station(station) => u64::from(station),
        Address::Ether([a, b, c, d, e, f]) => u64::from_be_bytes([1, 0, a, b, c, d, e, f]),
        Address::Socket(SocketAddr::V4(socket)) => {
            u64::from(socket.ip().to_bits()) << 16 | u64::from(socket.port())
        }
        Address::Socket(SocketAddr::V6(socket)) => {
            let bits = socket.ip().to_bits();
            let mixed = SplitMix64::at((bits >> 64) as u64, bits as u64);
            mixed ^ u64::from(socket.port()) ^ u64::from(socket.scope_id()) << 16
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::collections::BTreeMap;

    fn peer(number: u64) -> Address {
        if number.is_multiple_of(2) {
            return Address::Station(number as u32 % 8);
        }
        let octet = (number % 5) as u8;
        Address::Socket(SocketAddr::from(([10, 0, 0, octet], number as u16 % 3)))
    }

    #[test]
    fn names_are_found_until_they_are_taken_away() {
        let mut random = SplitMix64::new(7);
        let mut peers = Peers::new(1);
        let mut model: BTreeMap<(u64, Address), u32> = BTreeMap::new();
        let mut names: Vec<Option<(u64, Address)>> = vec![None; 500];
        let mut free: Vec<u32> = (0..500).collect();
        for _ in 0..20_000 {
            let name = (random.below(60), peer(random.below(40)));
            let known = model.get(&name).copied();
            let is_named = |slot: u32| names[slot as usize] == Some(name);
            assert_eq!(peers.find(name.0, name.1, is_named), known);
            if let Some(slot) = known {
                peers.remove(name.0, name.1, slot);
                peers.remove(name.0, name.1, slot);
                names[slot as usize] = None;
                model.remove(&name);
                free.push(slot);
            } else if let Some(slot) = free.pop() {
                peers.insert(name.0, name.1, slot);
                names[slot as usize] = Some(name);
                model.insert(name, slot);
            }
        }
        assert!(model.len() > 100, "{}", model.len());
        assert_eq!(peers.len, model.len());
        for (name, slot) in model {
            let is_named = |slot: u32| names[slot as usize] == Some(name);
            assert_eq!(peers.find(name.0, name.1, is_named), Some(slot));
            peers.remove(name.0, name.1, slot);
        }
        assert!(peers.places.iter().all(|&place| place == EMPTY));
    }

    #[test]
    fn searches_stay_short() {
        let mut peers = Peers::new(0x5eed);
        let from = peer(1);
        for slot in 0..10_000 {
            // Keys as a peer might choose them to fall together.
            peers.insert(u64::from(slot) << 40, from, slot);
        }
        let taken = (0..peers.places.len()).filter(|&at| peers.places[at] != EMPTY);
        let steps = taken.map(|at| peers.steps(peers.place_of(peers.places[at].hash), at));
        let longest = steps.max();
        assert!(longest < Some(64), "{longest:?}");
    }
}
