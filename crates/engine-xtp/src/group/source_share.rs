//! Room for streams that anybody may open, shared by source address (0018, Room).

use core::net::{IpAddr, Ipv4Addr};
use engine::{Address, Instant};
use std::collections::BTreeMap;

/// Parts that a room is divided into: no source has more than one of them.
pub(super) const SHARES: usize = 64;

/// The smallest share. In a room of less than 512, a few hosts with some streams each may fill it.
const SHARE_MIN: usize = 8;

/// The addresses that have one share together: those that one host may choose from.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) enum SourcePrefix {
    /// An IPv4 address with all its ports.
    V4(Ipv4Addr),
    /// The first 64 bits of an IPv6 address: a subnet (RFC 4291 s. 2.5.1).
    V6(u64),
    /// A station of the simulator.
    Station(u32),
    /// A hardware address.
    Ether([u8; 6]),
}

impl From<Address> for SourcePrefix {
    fn from(address: Address) -> SourcePrefix {
        match address {
            Address::Socket(socket) => match socket.ip().to_canonical() {
                IpAddr::V4(host) => SourcePrefix::V4(host),
                IpAddr::V6(host) => SourcePrefix::V6((host.to_bits() >> 64) as u64),
            },
            Address::Station(station) => SourcePrefix::Station(station),
            Address::Ether(octets) => SourcePrefix::Ether(octets),
        }
    }
}

/// The streams of each source prefix, by the name `N` that the owner of the room gives them.
#[derive(Clone, Debug)]
pub(super) struct SourceShares<N> {
    share_max: usize,
    by_prefix: BTreeMap<SourcePrefix, Vec<N>>,
}

impl<N: Copy + PartialEq> SourceShares<N> {
    /// The shares of a room for `room` streams.
    pub(super) fn new(room: usize) -> SourceShares<N> {
        SourceShares {
            share_max: (room / SHARES).max(SHARE_MIN),
            by_prefix: BTreeMap::new(),
        }
    }

    /// Adds stream `name` from `source`.
    pub(super) fn insert(&mut self, source: Address, name: N) {
        self.by_prefix.entry(source.into()).or_default().push(name);
    }

    /// Removes stream `name` from `source`.
    pub(super) fn remove(&mut self, source: Address, name: N) {
        let prefix = source.into();
        if let Some(names) = self.by_prefix.get_mut(&prefix) {
            names.retain(|known| *known != name);
            if names.is_empty() {
                self.by_prefix.remove(&prefix);
            }
        }
    }

    /// The streams in the share of `source`, if it is full.
    pub(super) fn full_share(&self, source: Address) -> Option<&[N]> {
        let names = self.by_prefix.get(&source.into())?;
        (names.len() >= self.share_max).then_some(names)
    }
}

/// The `count` of `candidates` that were silent longest, each with the time it was last heard.
pub(super) fn longest_silent<N: Copy + Ord>(
    candidates: impl Iterator<Item = (Instant, N)>,
    count: usize,
) -> Vec<N> {
    let mut all: Vec<(Instant, N)> = candidates.collect();
    if count < all.len() {
        all.select_nth_unstable(count);
        all.truncate(count);
    }
    all.into_iter().map(|(_, name)| name).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn socket(text: &str) -> Address {
        Address::Socket(text.parse().expect("an address"))
    }

    #[test]
    fn prefix_is_host_in_ipv4_and_subnet_in_ipv6() {
        let same =
            |a: &str, b: &str| SourcePrefix::from(socket(a)) == SourcePrefix::from(socket(b));
        assert!(same("10.0.0.1:1", "10.0.0.1:2"));
        assert!(same("10.0.0.1:1", "[::ffff:10.0.0.1]:2"));
        assert!(!same("10.0.0.1:1", "10.0.0.2:1"));
        assert!(same("[fd00::1:0:0:0:1]:1", "[fd00::1:ffff:0:0:9]:1"));
        assert!(!same("[fd00:0:0:1::1]:1", "[fd00:0:0:2::1]:1"));
    }

    #[test]
    fn share_full_at_its_part_of_the_room() {
        for (room, share) in [(4096, 64), (1024, 16), (16, 8)] {
            let mut shares = SourceShares::new(room);
            for name in 0..share {
                assert!(shares.full_share(socket("10.0.0.1:1")).is_none());
                shares.insert(socket("10.0.0.1:1"), name);
            }
            assert_eq!(
                shares.full_share(socket("10.0.0.1:9")).map(<[_]>::len),
                Some(share)
            );
            assert!(shares.full_share(socket("10.0.0.2:1")).is_none());
            shares.remove(socket("10.0.0.1:7"), 0);
            assert!(shares.full_share(socket("10.0.0.1:1")).is_none());
        }
    }

    #[test]
    fn longest_silent_are_the_oldest() {
        let at = Instant::from_nanos;
        let heard = [(at(5), 1), (at(2), 2), (at(9), 3), (at(2), 4)];
        let mut found = longest_silent(heard.into_iter(), 2);
        found.sort_unstable();
        assert_eq!(found, [2, 4]);
        assert_eq!(longest_silent(heard.into_iter(), 9).len(), 4);
    }
}
