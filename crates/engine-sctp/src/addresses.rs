//! The addresses of an endpoint, those that a peer lists, and the paths between them.

use engine::{Address, LocalAddress, Path};
use std::net::{IpAddr, Ipv4Addr, SocketAddr};

/// The addresses of an endpoint, in the order of its wires: the index is that of [`LocalAddress`].
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub enum LocalAddresses {
    /// One, which peers see on its packets. Only the addresses that its user named are used; those
    /// that a peer lists are not.
    #[default]
    One,
    /// Internet addresses. Two or more are listed in the handshake.
    Internet(Vec<IpAddr>),
    /// A station of the simulator that is joined to so many media: it has an address on each.
    Stations(u16),
}

/// Paths of an association: a host has few interfaces, and each path costs HEARTBEATs, two timers and at
/// most 1 KiB, 8 KiB for all.
pub(crate) const PATHS_MAX: usize = 8;

/// Addresses of an endpoint: as many as wires can be joined.
const LOCAL_ADDRESSES_MAX: usize = 64;

/// In the simulator a station has no Internet address: its address on medium `n` is listed as 240.0.0.n,
/// of a block that no host has.
pub(crate) fn station_address(medium: u16) -> IpAddr {
    IpAddr::V4(Ipv4Addr::from(0xf000_0000 | u32::from(medium)))
}

impl LocalAddresses {
    /// What an INIT or INIT-ACK to `remote` lists (RFC 9260 section 5.1.2): nothing with one address,
    /// and loopback addresses for peers on this host alone. None of the own addresses in `excluded`.
    pub(crate) fn listed(&self, remote: Address, excluded: &[LocalAddress]) -> Vec<IpAddr> {
        let all: Vec<IpAddr> = match (self, remote) {
            (LocalAddresses::Internet(own), Address::Socket(peer)) => {
                let fits = |own: &IpAddr| !own.is_loopback() || peer.ip().is_loopback();
                let usable = self.known(excluded, own.len());
                usable
                    .map(|index| own[index])
                    .filter(fits)
                    .take(PATHS_MAX)
                    .collect()
            }
            (LocalAddresses::Stations(media), Address::Station(_)) => self
                .known(excluded, usize::from(*media))
                .map(|medium| station_address(medium as u16))
                .take(PATHS_MAX)
                .collect(),
            _ => Vec::new(),
        };
        match self.count() > 1 {
            true => all,
            false => Vec::new(),
        }
    }

    /// The indices below `count` that are not in `excluded`.
    fn known<'a>(
        &self,
        excluded: &'a [LocalAddress],
        count: usize,
    ) -> impl Iterator<Item = usize> + use<'a> {
        (0..count).filter(|index| !excluded.contains(&LocalAddress(*index as u16)))
    }

    /// How many there are.
    pub(crate) fn count(&self) -> usize {
        match self {
            LocalAddresses::One => 1,
            LocalAddresses::Internet(own) => own.len(),
            LocalAddresses::Stations(media) => usize::from(*media),
        }
    }

    /// The index of an address; that of a new one if it was not there. None where addresses are not known
    /// to this end, for an address that stands for all of a host, or beyond 64.
    pub(crate) fn index_or_add(&mut self, address: IpAddr) -> Option<LocalAddress> {
        let count = self.count();
        let known =
            (0..count as u16).find(|index| self.ip_at(LocalAddress(*index)) == Some(address));
        if let Some(index) = known {
            return Some(LocalAddress(index));
        }
        let is_known_by_name = self.ip_at(LocalAddress(0)).is_some();
        if !is_known_by_name || address.is_unspecified() || count >= LOCAL_ADDRESSES_MAX {
            return None;
        }
        match self {
            LocalAddresses::One => return None,
            LocalAddresses::Internet(own) => own.push(address),
            LocalAddresses::Stations(media) if address == station_address(*media) => *media += 1,
            LocalAddresses::Stations(_) => return None,
        }
        Some(LocalAddress(count as u16))
    }

    /// Whether the own address that leads to `address` is one in `excluded`, or may still come: stations
    /// meet on a medium that both have.
    pub(crate) fn may_lead_to(&self, address: IpAddr, excluded: &[LocalAddress]) -> bool {
        let LocalAddresses::Stations(media) = self else {
            return false;
        };
        let known = self.known(excluded, usize::from(*media));
        !known
            .into_iter()
            .any(|medium| station_address(medium as u16) == address)
    }

    /// The address of a wire, as peers know it; None if this end does not know it itself.
    pub(crate) fn ip_at(&self, index: LocalAddress) -> Option<IpAddr> {
        match self {
            LocalAddresses::One => None,
            LocalAddresses::Internet(own) => {
                let address = own.get(usize::from(index.0)).copied();
                address.filter(|address| !address.is_unspecified())
            }
            LocalAddresses::Stations(media) => (index.0 < *media).then(|| station_address(index.0)),
        }
    }

    /// The paths to the addresses that a user named, from own ones that are not in `excluded`.
    pub(crate) fn paths_to(&self, named: &[Address], excluded: &[LocalAddress]) -> Vec<Path> {
        let mut paths = Vec::new();
        for &remote in named {
            match (self, remote) {
                (LocalAddresses::Stations(media), Address::Station(_)) => {
                    let path = |medium| Path {
                        local: LocalAddress(medium),
                        remote,
                    };
                    let media = self.known(excluded, usize::from((*media).max(1)));
                    paths.extend(media.map(|medium| path(medium as u16)));
                }
                _ => paths.extend(self.path_to(remote, &paths, excluded)),
            }
        }
        paths.truncate(PATHS_MAX);
        paths
    }

    /// All paths to a peer that was met by `known`, the first of which carries the handshake, and that
    /// lists `listed`. Each of its addresses and each own one is in a path.
    /// None is from an own address in `excluded`.
    pub(crate) fn all_paths(
        &self,
        known: &[Path],
        listed: &[IpAddr],
        excluded: &[LocalAddress],
    ) -> Vec<Path> {
        let mut paths = known.to_vec();
        let Some(&first) = known.first() else {
            return paths;
        };
        match self {
            LocalAddresses::One => {}
            LocalAddresses::Stations(media) => {
                let media = (0..*media).filter(|medium| listed.contains(&station_address(*medium)));
                let path = |medium| Path {
                    local: LocalAddress(medium),
                    ..first
                };
                let is_new = |path: &Path| !known.contains(path) && !excluded.contains(&path.local);
                paths.extend(media.map(path).filter(is_new));
            }
            LocalAddresses::Internet(own) => {
                let Address::Socket(met) = first.remote else {
                    return paths;
                };
                for &ip in listed {
                    let has_it = paths.iter().any(|path| ip_of(path.remote) == Some(ip));
                    // A peer elsewhere must not make this end probe this host.
                    if has_it || ip.is_loopback() && !met.ip().is_loopback() {
                        continue;
                    }
                    // RFC 6951 knows the port of the first address alone until another one is learnt.
                    let remote = Address::Socket(SocketAddr::new(ip, met.port()));
                    paths.extend(self.path_to(remote, &paths, excluded));
                }
                add_unused(own, &mut paths, excluded);
            }
        }
        paths.truncate(PATHS_MAX);
        paths
    }

    /// The path to an address: from the own one that shares the longest prefix with it (RFC 6724 section
    /// 5, rule 8), and of those the one that fewest of `others` use. None without one of its family.
    /// Never from one in `excluded`.
    pub(crate) fn path_to(
        &self,
        remote: Address,
        others: &[Path],
        excluded: &[LocalAddress],
    ) -> Option<Path> {
        let (LocalAddresses::Internet(own), Some(ip)) = (self, ip_of(remote)) else {
            return Some(Path::to(remote)).filter(|path| !excluded.contains(&path.local));
        };
        let uses = |local: LocalAddress| others.iter().filter(|path| path.local == local).count();
        let usable = own.iter().enumerate().filter(|(index, own)| {
            let is_excluded = excluded.contains(&LocalAddress(*index as u16));
            own.is_ipv4() == ip.is_ipv4() && !is_excluded
        });
        let best = usable.max_by_key(|(index, own)| {
            let used = uses(LocalAddress(*index as u16));
            (common_prefix(**own, ip), core::cmp::Reverse((used, *index)))
        });
        best.map(|(index, _)| Path {
            local: LocalAddress(index as u16),
            remote,
        })
    }
}

/// Adds a path from each own address that has none, to the peer's address nearest to it.
fn add_unused(own: &[IpAddr], paths: &mut Vec<Path>, excluded: &[LocalAddress]) {
    for (index, ip) in own.iter().enumerate() {
        let local = LocalAddress(index as u16);
        if excluded.contains(&local) || paths.iter().any(|path| path.local == local) {
            continue;
        }
        let remotes = paths
            .iter()
            .filter_map(|path| Some((path.remote, ip_of(path.remote)?)));
        let usable = remotes.filter(|(_, remote)| {
            remote.is_ipv4() == ip.is_ipv4() && remote.is_loopback() == ip.is_loopback()
        });
        let nearest = usable.max_by_key(|(_, remote)| common_prefix(*ip, *remote));
        if let Some((remote, _)) = nearest {
            paths.push(Path { local, remote });
        }
    }
}

/// The Internet address of an address.
pub(crate) fn ip_of(address: Address) -> Option<IpAddr> {
    match address {
        Address::Socket(socket) => Some(socket.ip()),
        Address::Station(_) | Address::Ether(_) => None,
    }
}

/// The address of a path's remote end as a peer lists it.
pub(crate) fn listed_address(path: Path) -> Option<IpAddr> {
    match path.remote {
        Address::Station(_) => Some(station_address(path.local.0)),
        other => ip_of(other),
    }
}

/// Leading bits that two addresses of one family share.
fn common_prefix(a: IpAddr, b: IpAddr) -> u32 {
    match (a, b) {
        (IpAddr::V4(a), IpAddr::V4(b)) => (a.to_bits() ^ b.to_bits()).leading_zeros(),
        (IpAddr::V6(a), IpAddr::V6(b)) => (a.to_bits() ^ b.to_bits()).leading_zeros(),
        _ => 0,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn ips(texts: &[&str]) -> Vec<IpAddr> {
        let parse = |text: &&str| text.parse().expect("an address");
        texts.iter().map(parse).collect()
    }

    fn socket(text: &str) -> Address {
        Address::Socket(text.parse().expect("an address with its port"))
    }

    fn paths(paths: &[Path]) -> Vec<(u16, String)> {
        let text = |remote| match remote {
            Address::Socket(socket) => socket.to_string(),
            other => format!("{other:?}"),
        };
        let all = paths.iter();
        all.map(|path| (path.local.0, text(path.remote))).collect()
    }

    #[test]
    fn addresses_of_one_link_make_a_path() {
        let own = LocalAddresses::Internet(ips(&["10.77.0.1", "10.78.0.1"]));
        let named = own.paths_to(&[socket("10.78.0.2:9899")], &[]);
        assert_eq!(paths(&named), [(1, "10.78.0.2:9899".into())]);
        let all = own.all_paths(&named, &ips(&["10.77.0.2", "10.78.0.2", "fd77::2"]), &[]);
        let expected = [(1, "10.78.0.2:9899".into()), (0, "10.77.0.2:9899".into())];
        assert_eq!(paths(&all), expected, "the family of fd77::2 is not here");
    }

    #[test]
    fn each_address_of_either_end_is_in_a_path() {
        let own = LocalAddresses::Internet(ips(&["10.77.0.1", "192.168.1.4"]));
        let all = own.all_paths(&own.paths_to(&[socket("10.9.0.2:1")], &[]), &[], &[]);
        let expected = [(0, "10.9.0.2:1".into()), (1, "10.9.0.2:1".into())];
        assert_eq!(paths(&all), expected);
        let one = LocalAddresses::Internet(ips(&["10.77.0.1"]));
        let all = one.all_paths(
            &one.paths_to(&[socket("10.9.0.2:1")], &[]),
            &ips(&["10.8.0.2"]),
            &[],
        );
        let expected = [(0, "10.9.0.2:1".into()), (0, "10.8.0.2:1".into())];
        assert_eq!(paths(&all), expected);
    }

    #[test]
    fn loopback_addresses_stay_on_their_host() {
        let own = LocalAddresses::Internet(ips(&["127.0.0.1", "10.77.0.1"]));
        assert_eq!(own.listed(socket("10.77.0.2:1"), &[]), ips(&["10.77.0.1"]));
        assert_eq!(own.listed(socket("127.0.0.1:1"), &[]).len(), 2);
        let met = own.paths_to(&[socket("10.77.0.2:1")], &[]);
        let all = own.all_paths(&met, &ips(&["127.0.0.1"]), &[]);
        assert_eq!(paths(&all), [(1, "10.77.0.2:1".into())]);
    }

    #[test]
    fn stations_have_an_address_on_each_medium() {
        let own = LocalAddresses::Stations(3);
        let listed = own.listed(Address::Station(7), &[]);
        assert_eq!(listed.len(), 3);
        let met = [Path {
            local: LocalAddress(1),
            remote: Address::Station(7),
        }];
        let all = own.all_paths(&met, &listed, &[]);
        assert_eq!(
            all.iter().map(|path| path.local.0).collect::<Vec<_>>(),
            [1, 0, 2]
        );
        let two = LocalAddresses::Stations(2).listed(Address::Station(7), &[]);
        assert_eq!(
            own.all_paths(&met, &two, &[]).len(),
            2,
            "only what the peer lists"
        );
    }

    #[test]
    fn excluded_addresses_are_no_source() {
        let own = LocalAddresses::Internet(ips(&["10.77.0.1", "10.78.0.1"]));
        let met = own.paths_to(&[socket("10.78.0.2:1")], &[]);
        let without = [LocalAddress(0)];
        let all = own.all_paths(&met, &ips(&["10.77.0.2"]), &without);
        let expected = [(1, "10.78.0.2:1".into()), (1, "10.77.0.2:1".into())];
        assert_eq!(paths(&all), expected);
        let both = [LocalAddress(0), LocalAddress(1)];
        assert_eq!(own.path_to(socket("10.77.0.2:1"), &[], &both), None);
    }

    #[test]
    fn one_address_uses_no_listed_one() {
        let own = LocalAddresses::One;
        let met = own.paths_to(&[socket("127.0.0.1:1")], &[]);
        assert!(own.listed(socket("127.0.0.1:1"), &[]).is_empty());
        assert_eq!(own.all_paths(&met, &ips(&["127.0.0.2"]), &[]), met);
    }

    #[test]
    fn paths_have_a_limit() {
        let many: Vec<IpAddr> = (1..60).map(|last| IpAddr::from([10, 0, 0, last])).collect();
        let own = LocalAddresses::Internet(many.clone());
        assert_eq!(
            own.all_paths(&own.paths_to(&[socket("10.1.0.1:1")], &[]), &many, &[])
                .len(),
            8
        );
        assert_eq!(own.listed(socket("10.1.0.1:1"), &[]).len(), 8);
    }
}
