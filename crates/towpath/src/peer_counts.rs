//! Shares of peers.

use std::collections::HashMap;
use std::net::{IpAddr, Ipv6Addr};

/// What each peer has of something shared, such as connections: an IPv4 address, or the 64 bits of an IPv6 network that one host may
/// choose addresses in.
#[derive(Debug, Default)]
pub(crate) struct PeerCounts {
    counts: HashMap<IpAddr, usize>,
    /// Of a peer at most; None for no limit.
    pub(crate) max: Option<usize>,
}

impl PeerCounts {
    /// Nobody has anything, and a peer may have `max`.
    pub(crate) fn new(max: usize) -> PeerCounts {
        PeerCounts {
            counts: HashMap::new(),
            max: Some(max),
        }
    }

    /// Counts one more of `peer`; false if it has as many as it may.
    pub(crate) fn add(&mut self, peer: IpAddr) -> bool {
        let count = self.counts.entry(network(peer)).or_default();
        let admitted = self.max.is_none_or(|max| *count < max);
        *count += usize::from(admitted);
        admitted
    }

    /// Forgets one of `peer`.
    pub(crate) fn remove(&mut self, peer: IpAddr) {
        let network = network(peer);
        if let Some(count) = self.counts.get_mut(&network) {
            *count -= 1;
            if *count == 0 {
                self.counts.remove(&network);
            }
        }
    }
}

fn network(peer: IpAddr) -> IpAddr {
    match peer.to_canonical() {
        IpAddr::V6(v6) => Ipv6Addr::from_bits(v6.to_bits() >> 64 << 64).into(),
        v4 => v4,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn add_refuses_peer_beyond_its_share() {
        let address = |text: &str| text.parse::<IpAddr>().expect("an address");
        let mut peers = PeerCounts::new(2);
        assert!(peers.add(address("10.0.0.1")) && peers.add(address("::ffff:10.0.0.1")));
        assert!(!peers.add(address("10.0.0.1")) && peers.add(address("10.0.0.2")));
        peers.remove(address("10.0.0.1"));
        assert!(peers.add(address("10.0.0.1")));
        // Hosts of one network may choose any of its addresses.
        assert!(peers.add(address("fd00::1")) && peers.add(address("fd00::2")));
        assert!(!peers.add(address("fd00::3")) && peers.add(address("fd00:0:0:1::3")));
        for gone in ["fd00::1", "fd00::2", "fd00:0:0:1::3"] {
            peers.remove(address(gone));
        }
        assert_eq!(peers.counts.len(), 2);
    }
}
