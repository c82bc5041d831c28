//! Addresses as XTI carries them: `struct sockaddr_in`, `sockaddr_in6` or `sockaddr_un` in octets.

use socket2::SockAddr;
use std::ffi::OsStr;
use std::io;
use std::net::{Ipv4Addr, Ipv6Addr, SocketAddr, SocketAddrV6};
use std::os::unix::ffi::OsStrExt;

const UNIX: u16 = 1;
const INET: u16 = 2;
const INET6: u16 = 10;

/// Octets of a name in `sun_path` of Linux.
const NAME_MAX: usize = 108;

/// An address of a socket of the kernel.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum SocketAddress {
    /// Of the Internet.
    Internet(SocketAddr),
    /// Of this host (AF_UNIX).
    Unix(UnixName),
}

/// The name of a socket of this host: a path, without the octet 0 behind it; 0 and a name that no file has (abstract);
/// or nothing.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct UnixName {
    octets: [u8; NAME_MAX],
    len: u8,
}

impl UnixName {
    /// No name: a socket that is bound to it gets an abstract one of the kernel.
    pub const NONE: UnixName = UnixName {
        octets: [0; NAME_MAX],
        len: 0,
    };

    /// A name of these octets; None for more than 108, of a path 107.
    pub fn new(octets: &[u8]) -> Option<UnixName> {
        let path_end = usize::from(octets.first().is_some_and(|first| *first != 0));
        if octets.len() + path_end > NAME_MAX {
            return None;
        }
        let mut name = UnixName::NONE;
        name.octets[..octets.len()].copy_from_slice(octets);
        name.len = octets.len() as u8;
        Some(name)
    }

    /// Its octets.
    pub fn octets(&self) -> &[u8] {
        &self.octets[..usize::from(self.len)]
    }
}

impl From<SocketAddr> for SocketAddress {
    fn from(address: SocketAddr) -> SocketAddress {
        SocketAddress::Internet(address)
    }
}

impl SocketAddress {
    /// The address of the Internet.
    ///
    /// # Errors
    ///
    /// `InvalidInput` for another.
    pub fn internet(self) -> io::Result<SocketAddr> {
        match self {
            SocketAddress::Internet(address) => Ok(address),
            SocketAddress::Unix(_) => Err(io::ErrorKind::InvalidInput.into()),
        }
    }

    /// Its octets, as in C; behind a path is an octet 0.
    pub fn encode(&self) -> Vec<u8> {
        match self {
            SocketAddress::Internet(address) => encode(*address),
            SocketAddress::Unix(name) => {
                let is_path = name.octets().first().is_some_and(|first| *first != 0);
                let end = if is_path { &[0][..] } else { &[] };
                [&UNIX.to_ne_bytes()[..], name.octets(), end].concat()
            }
        }
    }

    /// The address in octets; None when they are none.
    pub fn decode(octets: &[u8]) -> Option<SocketAddress> {
        let (family, name) = octets.split_first_chunk::<2>()?;
        if u16::from_ne_bytes(*family) != UNIX {
            return decode(octets).map(SocketAddress::Internet);
        }
        let name = match name.first() {
            Some(0) | None => name,
            Some(_) => name.split(|octet| *octet == 0).next().unwrap_or_default(),
        };
        UnixName::new(name).map(SocketAddress::Unix)
    }

    /// For the calls of the kernel.
    pub(crate) fn for_kernel(&self) -> io::Result<SockAddr> {
        match self {
            SocketAddress::Internet(address) => Ok(SockAddr::from(*address)),
            SocketAddress::Unix(name) => SockAddr::unix(OsStr::from_bytes(name.octets())),
        }
    }

    /// What the kernel says; None for an address of another family.
    pub(crate) fn of_kernel(address: &SockAddr) -> Option<SocketAddress> {
        if !address.is_unix() {
            return address.as_socket().map(SocketAddress::Internet);
        }
        let name = match (address.as_pathname(), address.as_abstract_namespace()) {
            (Some(path), _) => UnixName::new(path.as_os_str().as_bytes()),
            (_, Some(name)) => UnixName::new(&[&[0], name].concat()),
            _ => Some(UnixName::NONE),
        };
        name.map(SocketAddress::Unix)
    }
}

/// Octets of an address, as in C.
pub fn encode(address: SocketAddr) -> Vec<u8> {
    let port = address.port().to_be_bytes();
    match address {
        SocketAddr::V4(address) => {
            let mut octets = [&INET.to_ne_bytes()[..], &port, &address.ip().octets()].concat();
            octets.resize(16, 0);
            octets
        }
        SocketAddr::V6(address) => [
            &INET6.to_ne_bytes()[..],
            &port,
            &address.flowinfo().to_be_bytes(),
            &address.ip().octets(),
            &address.scope_id().to_ne_bytes(),
        ]
        .concat(),
    }
}

/// The address in octets; None when they are none.
pub fn decode(octets: &[u8]) -> Option<SocketAddr> {
    let family = u16::from_ne_bytes(octets.get(..2)?.try_into().ok()?);
    let port = u16::from_be_bytes(octets.get(2..4)?.try_into().ok()?);
    match family {
        INET if octets.len() >= 8 => {
            let ip: [u8; 4] = octets[4..8].try_into().ok()?;
            Some((Ipv4Addr::from(ip), port).into())
        }
        INET6 if octets.len() >= 28 => {
            let flow = u32::from_be_bytes(octets[4..8].try_into().ok()?);
            let ip: [u8; 16] = octets[8..24].try_into().ok()?;
            let scope = u32::from_ne_bytes(octets[24..28].try_into().ok()?);
            Some(SocketAddrV6::new(Ipv6Addr::from(ip), port, flow, scope).into())
        }
        _ => None,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn address_survives_its_octets_and_short_ones_are_none() {
        for text in ["10.1.2.3:4567", "[fe80::1%3]:80", "[::]:0"] {
            let address: SocketAddr = text.parse().unwrap();
            let octets = encode(address);
            assert_eq!(decode(&octets), Some(address));
            assert_eq!(decode(&octets[..7]), None);
        }
        assert_eq!(decode(&[9; 28]), None);
    }
    #[test]
    fn names_of_this_host_survive_their_octets_and_long_ones_are_none() {
        for name in [
            &b""[..],
            b"/tmp/a name",
            b"\0abstract\0with zeros\0",
            &[0; 108],
        ] {
            let address = SocketAddress::Unix(UnixName::new(name).unwrap());
            let octets = address.encode();
            assert_eq!(SocketAddress::decode(&octets), Some(address));
            let kernel = address.for_kernel().unwrap();
            if name != [0; 108] {
                assert_eq!(SocketAddress::of_kernel(&kernel), Some(address));
            }
        }
        let padded = [&UNIX.to_ne_bytes()[..], b"/p\0\0\0"].concat();
        let path = UnixName::new(b"/p").map(SocketAddress::Unix);
        assert_eq!(SocketAddress::decode(&padded), path);
        assert_eq!(UnixName::new(&[b'/'; 108]), None);
        assert_eq!(UnixName::new(&[0; 109]), None);
        assert_eq!(SocketAddress::decode(&[1]), None);
    }
}
