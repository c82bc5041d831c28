//! Which context a responder has for an initiator's address and key.
//!
//! A table of chains through the slots: two reads of memory find a context among tens of thousands
//! that wait out their quarantine. Peers choose addresses and keys, so the chain is chosen with a
//! secret of this endpoint, and nobody outside can make one long.

use core::net::SocketAddr;
use engine::{Address, SplitMix64};

/// Chains of a table that holds something, at least.
const CHAINS_MIN: usize = 16;

/// The end of a chain.
const NONE: u32 = u32::MAX;

#[derive(Debug)]
struct Named {
    name: (u64, Address),
    next: u32,
}

#[derive(Debug)]
pub(crate) struct Peers {
    secret: u64,
    chains: Vec<u32>,
    /// By slot; None for slots without a name.
    named: Vec<Option<Named>>,
    len: usize,
}

impl Peers {
    pub(crate) fn new(secret: u64) -> Peers {
        Peers {
            secret,
            chains: Vec::new(),
            named: Vec::new(),
            len: 0,
        }
    }

    /// The slot of `key` from `peer`.
    pub(crate) fn find(&self, key: u64, peer: Address) -> Option<u32> {
        let mut slot = *self.chains.get(self.chain(key, peer))?;
        while let Some(Some(named)) = self.named.get(slot as usize) {
            if named.name == (key, peer) {
                return Some(slot);
            }
            slot = named.next;
        }
        None
    }

    /// Names `slot`, which has no name yet.
    pub(crate) fn insert(&mut self, key: u64, peer: Address, slot: u32) {
        if self.len >= self.chains.len() {
            self.grow();
        }
        let wanted = slot as usize + 1;
        if self.named.len() < wanted {
            self.named.resize_with(wanted, || None);
        }
        let name = (key, peer);
        self.named[slot as usize] = Some(Named { name, next: NONE });
        self.link(slot);
        self.len += 1;
    }

    /// Takes the name from `slot`, if it has one.
    pub(crate) fn remove(&mut self, slot: u32) {
        let Some(named) = self.named.get_mut(slot as usize).and_then(Option::take) else {
            return;
        };
        self.len -= 1;
        let chain = self.chain(named.name.0, named.name.1);
        let mut at = self.chains[chain];
        if at == slot {
            self.chains[chain] = named.next;
            return;
        }
        while let Some(Some(before)) = self.named.get_mut(at as usize) {
            if before.next == slot {
                before.next = named.next;
                return;
            }
            at = before.next;
        }
    }

    fn link(&mut self, slot: u32) {
        let Some(Some(Named { name, .. })) = self.named.get(slot as usize) else {
            return;
        };
        let chain = self.chain(name.0, name.1);
        let head = std::mem::replace(&mut self.chains[chain], slot);
        if let Some(Some(named)) = self.named.get_mut(slot as usize) {
            named.next = head;
        }
    }

    fn grow(&mut self) {
        let count = (self.chains.len() * 2).max(CHAINS_MIN);
        self.chains = vec![NONE; count];
        for slot in 0..self.named.len() as u32 {
            self.link(slot);
        }
    }

    fn chain(&self, key: u64, peer: Address) -> usize {
        let hash = SplitMix64::at(self.secret ^ key, folded(peer));
        hash as usize & self.chains.len().wrapping_sub(1)
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
        let mut free: Vec<u32> = (0..500).collect();
        for _ in 0..20_000 {
            let (key, peer) = (random.below(60), peer(random.below(40)));
            let known = model.get(&(key, peer)).copied();
            assert_eq!(peers.find(key, peer), known);
            if let Some(slot) = known {
                peers.remove(slot);
                peers.remove(slot);
                model.remove(&(key, peer));
                free.push(slot);
            } else if let Some(slot) = free.pop() {
                peers.insert(key, peer, slot);
                model.insert((key, peer), slot);
            }
        }
        assert!(model.len() > 100, "{}", model.len());
        assert_eq!(peers.len, model.len());
    }

    #[test]
    fn chains_stay_short() {
        let mut peers = Peers::new(0x5eed);
        let from = peer(1);
        for slot in 0..10_000 {
            // Keys as a peer might choose them to fall together.
            peers.insert(u64::from(slot) << 40, from, slot);
        }
        let longest = (0..peers.chains.len())
            .map(|chain| {
                let mut at = peers.chains[chain];
                let mut count = 0;
                while let Some(Some(named)) = peers.named.get(at as usize) {
                    at = named.next;
                    count += 1;
                }
                count
            })
            .max();
        assert!(longest < Some(12), "{longest:?}");
    }
}
