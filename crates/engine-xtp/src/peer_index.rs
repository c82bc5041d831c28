//! A responder's contexts by the initiator's address and key.
//!
//! Address and key are stored with the slot, not here. Peers choose both, so the hash is keyed with
//! a secret of this endpoint, and an attacker cannot force collisions.

use crate::slot_index::SlotIndex;
use core::net::SocketAddr;
use engine::{Address, SplitMix64};

#[derive(Debug)]
pub(crate) struct PeerIndex {
    secret: u64,
    index: SlotIndex,
}

impl PeerIndex {
    pub(crate) fn new(secret: u64) -> PeerIndex {
        PeerIndex {
            secret,
            index: SlotIndex::default(),
        }
    }

    /// The slot for the key field `key` from `peer`; `is_named` compares the stored address and key.
    pub(crate) fn find(
        &self,
        key: u64,
        peer: Address,
        is_named: impl Fn(u32) -> bool,
    ) -> Option<u32> {
        self.index.find(self.hash(key, peer), is_named)
    }

    /// Asks for the memory in which the slot for this key from `peer` lies, or will lie.
    #[inline]
    pub(crate) fn prefetch(&self, key: u64, peer: Address) {
        self.index.prefetch(self.hash(key, peer));
    }

    /// Adds `slot`, which must not be indexed yet.
    pub(crate) fn insert(&mut self, key: u64, peer: Address, slot: u32) {
        self.index.insert(self.hash(key, peer), slot);
    }

    /// Removes `slot`, if it is indexed by this key and peer.
    pub(crate) fn remove(&mut self, key: u64, peer: Address, slot: u32) {
        self.index.remove(self.hash(key, peer), slot);
    }

    fn hash(&self, key: u64, peer: Address) -> u32 {
        SplitMix64::at(self.secret ^ key, address_bits(peer)) as u32
    }
}

/// An address folded to 64 bits.
fn address_bits(address: Address) -> u64 {
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
    fn peer_index_matches_map_model() {
        let mut random = SplitMix64::new(7);
        let mut peers = PeerIndex::new(1);
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
        for (name, slot) in model {
            let is_named = |slot: u32| names[slot as usize] == Some(name);
            assert_eq!(peers.find(name.0, name.1, is_named), Some(slot));
            peers.remove(name.0, name.1, slot);
        }
        assert!(peers.index.is_empty());
    }
}
