//! Addresses, and the paths between them.

use std::net::{IpAddr, SocketAddr};

/// An address of a medium.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Address {
    /// An Internet address and port (UDP; raw IP with port 0).
    Socket(SocketAddr),
    /// A station of the simulator.
    Station(u32),
    /// The hardware address of an Ethernet interface, or of a group of them.
    Ether([u8; 6]),
}

impl From<SocketAddr> for Address {
    fn from(socket: SocketAddr) -> Address {
        Address::Socket(socket)
    }
}

impl From<IpAddr> for Address {
    /// A host on raw IP, which has no ports.
    fn from(host: IpAddr) -> Address {
        Address::Socket(SocketAddr::new(host, 0))
    }
}

/// One of the host's own addresses, by its index in the host's list. A host with one address has
/// index 0 alone.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct LocalAddress(pub u16);

/// A pair of addresses that packets travel between (RFC 9000 section 9, RFC 9260 section 1.3). Two
/// paths of one association differ in at least one of them.
#[expect(
    clippy::derived_hash_with_manual_eq,
    reason = "equal as a derived comparison says"
)]
#[derive(Clone, Copy, Debug, Eq, PartialOrd, Ord, Hash)]
pub struct Path {
    /// This side.
    pub local: LocalAddress,
    /// The peer.
    pub remote: Address,
}

impl PartialEq for Path {
    /// As a derived one, with the most frequent addresses first: several are compared for each packet.
    #[inline]
    fn eq(&self, other: &Path) -> bool {
        let are_equal = match (&self.remote, &other.remote) {
            (Address::Socket(SocketAddr::V4(own)), Address::Socket(SocketAddr::V4(other))) => {
                own.ip().to_bits() == other.ip().to_bits() && own.port() == other.port()
            }
            (own, other) => own == other,
        };
        are_equal && self.local == other.local
    }
}

impl Path {
    /// The path from the host's first address to `remote`.
    pub fn to(remote: Address) -> Path {
        Path {
            local: LocalAddress(0),
            remote,
        }
    }
}

impl From<Address> for Path {
    fn from(remote: Address) -> Path {
        Path::to(remote)
    }
}

/// Explicit congestion notification of a packet (RFC 3168 section 5).
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Ecn {
    /// The transport does not take part, or the medium does not say.
    #[default]
    NotEct,
    /// ECT(1), as L4S senders mark (RFC 9331).
    Ect1,
    /// ECT(0).
    Ect0,
    /// A router on the path was congested.
    Ce,
}

/// A packet as it arrived. It is hostile until shown otherwise.
#[derive(Clone, Copy, Debug)]
pub struct Received<'a> {
    /// The path it came by.
    pub path: Path,
    /// Its congestion mark.
    pub ecn: Ecn,
    /// All of its octets.
    pub octets: &'a [u8],
}

impl<'a> Received<'a> {
    /// A packet without a congestion mark.
    pub fn new(path: impl Into<Path>, octets: &'a [u8]) -> Received<'a> {
        Received {
            path: path.into(),
            ecn: Ecn::NotEct,
            octets,
        }
    }
}

/// What a path said about a packet that it did not carry.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum PathError {
    /// The packet is longer than the path carries: at most this many octets (RFC 1191, RFC 8201).
    TooBig(u16),
    /// Nobody is there: host, port or protocol unreachable.
    Unreachable,
    /// The local host refused to send it, with this error number of POSIX.
    Local(i32),
}

/// An error of a path, with what is known of the packet that caused it.
///
/// Anybody can forge one that came from the network: an engine acts on it only if `quoted` matches
/// something it has sent, and never on more than a hint (RFC 9000 section 14.2.1).
#[derive(Clone, Copy, Debug)]
pub struct PathFault<'a> {
    /// The path.
    pub path: Path,
    /// What it said.
    pub error: PathError,
    /// The first octets of the packet, as far as they came back; empty for local errors.
    pub quoted: &'a [u8],
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn paths_are_equal_if_nothing_of_them_differs() {
        let socket = |text: &str| Address::Socket(text.parse().expect("an address"));
        let all = [
            socket("10.0.0.1:7"),
            socket("10.0.0.1:8"),
            socket("10.0.0.2:7"),
            socket("[::1]:7"),
            socket("[::1]:8"),
            socket("[fe80::1%2]:7"),
            socket("[fe80::1%3]:7"),
            Address::Station(7),
            Address::Station(8),
            Address::Ether([0, 0, 0, 0, 0, 7]),
            Address::Ether([0, 0, 0, 0, 0, 8]),
        ];
        let path = |local| {
            move |remote: &Address| Path {
                local: LocalAddress(local),
                remote: *remote,
            }
        };
        let all: Vec<Path> = all
            .iter()
            .map(path(0))
            .chain(all.iter().map(path(1)))
            .collect();
        for (at, one) in all.iter().enumerate() {
            for (other_at, other) in all.iter().enumerate() {
                assert_eq!(one == other, at == other_at, "{one:?} {other:?}");
                assert_eq!(one.cmp(other).is_eq(), one == other, "{one:?} {other:?}");
            }
        }
    }
}
