//! Structures of C as octets: fields in the order and the places that `towpath_sctp.h` gives them.

use rustix::io::Errno;
use std::io;
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr, SocketAddr, SocketAddrV4, SocketAddrV6};

/// Octets of a struct sockaddr_storage.
pub(crate) const ADDRESS_LEN: usize = 128;

/// Reads fields one after another. EINVAL beyond the end.
pub(crate) struct Fields<'a>(pub(crate) &'a [u8]);

impl<'a> Fields<'a> {
    /// The next `len` octets.
    pub(crate) fn octets(&mut self, len: usize) -> io::Result<&'a [u8]> {
        let (these, rest) = self.0.split_at_checked(len).ok_or(Errno::INVAL)?;
        self.0 = rest;
        Ok(these)
    }

    fn array<const LEN: usize>(&mut self) -> io::Result<[u8; LEN]> {
        let (these, rest) = self.0.split_first_chunk::<LEN>().ok_or(Errno::INVAL)?;
        self.0 = rest;
        Ok(*these)
    }

    /// The next octet.
    pub(crate) fn u8(&mut self) -> io::Result<u8> {
        Ok(self.array::<1>()?[0])
    }

    /// The next 16 bits, in the host's order.
    pub(crate) fn u16(&mut self) -> io::Result<u16> {
        self.array().map(u16::from_ne_bytes)
    }

    /// The next 32 bits, in the host's order.
    pub(crate) fn u32(&mut self) -> io::Result<u32> {
        self.array().map(u32::from_ne_bytes)
    }

    /// The next 32 bits, in the host's order.
    pub(crate) fn i32(&mut self) -> io::Result<i32> {
        self.array().map(i32::from_ne_bytes)
    }

    /// The next struct sockaddr_storage; None if it is empty (its family is 0).
    pub(crate) fn address(&mut self) -> io::Result<Option<SocketAddr>> {
        let octets = self.octets(ADDRESS_LEN)?;
        if octets[..2] == [0, 0] {
            return Ok(None);
        }
        Ok(Some(read_address(octets)?.0))
    }
}

/// The address at the front of `octets`, and how many of them it takes. EINVAL for another family than
/// AF_INET and AF_INET6, or too few octets.
pub(crate) fn read_address(octets: &[u8]) -> io::Result<(SocketAddr, usize)> {
    let mut fields = Fields(octets);
    let family = i32::from(fields.u16()?);
    let port = u16::from_be_bytes(fields.array()?);
    match family {
        libc::AF_INET => {
            let ip = Ipv4Addr::from(fields.array::<4>()?);
            fields.octets(8)?;
            Ok((SocketAddrV4::new(ip, port).into(), 16))
        }
        libc::AF_INET6 => {
            let flow = fields.u32()?;
            let ip = Ipv6Addr::from(fields.array::<16>()?);
            let scope = fields.u32()?;
            Ok((SocketAddrV6::new(ip, port, flow, scope).into(), 28))
        }
        _ => Err(Errno::INVAL.into()),
    }
}

/// As many addresses as `octets` have, one behind the other.
pub(crate) fn read_addresses(mut octets: &[u8]) -> io::Result<Vec<SocketAddr>> {
    let mut addresses = Vec::new();
    while !octets.is_empty() {
        let (address, len) = read_address(octets)?;
        addresses.push(address);
        octets = &octets[len..];
    }
    Ok(addresses)
}

/// Writes fields one after another.
#[derive(Default)]
pub(crate) struct Octets(pub(crate) Vec<u8>);

impl Octets {
    pub(crate) fn u8(mut self, value: u8) -> Octets {
        self.0.push(value);
        self
    }

    pub(crate) fn u16(self, value: u16) -> Octets {
        self.octets(&value.to_ne_bytes())
    }

    pub(crate) fn u32(self, value: u32) -> Octets {
        self.octets(&value.to_ne_bytes())
    }

    pub(crate) fn i32(self, value: i32) -> Octets {
        self.octets(&value.to_ne_bytes())
    }

    pub(crate) fn octets(mut self, octets: &[u8]) -> Octets {
        self.0.extend_from_slice(octets);
        self
    }

    /// A struct sockaddr_storage.
    pub(crate) fn address(self, address: SocketAddr) -> Octets {
        let mut octets = packed_address(address);
        octets.resize(ADDRESS_LEN, 0);
        self.octets(&octets)
    }
}

/// A struct sockaddr_in or sockaddr_in6.
pub(crate) fn packed_address(address: SocketAddr) -> Vec<u8> {
    let octets = Octets::default();
    let octets = match address {
        SocketAddr::V4(v4) => octets
            .u16(libc::AF_INET as u16)
            .octets(&v4.port().to_be_bytes())
            .octets(&v4.ip().octets())
            .octets(&[0; 8]),
        SocketAddr::V6(v6) => octets
            .u16(libc::AF_INET6 as u16)
            .octets(&v6.port().to_be_bytes())
            .u32(v6.flowinfo())
            .octets(&v6.ip().octets())
            .u32(v6.scope_id()),
    };
    octets.0
}

/// Milliseconds in an option's 32 bits.
pub(crate) fn millis(time: std::time::Duration) -> u32 {
    u32::try_from(time.as_millis()).unwrap_or(u32::MAX)
}

/// Whether two addresses are of one host, whatever their ports.
pub(crate) fn same_ip(one: SocketAddr, ip: IpAddr) -> bool {
    one.ip() == ip
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn addresses_are_read_as_they_were_written() {
        let all: Vec<SocketAddr> = ["10.1.2.3:80", "[fe80::1%7]:65535", "0.0.0.0:0"]
            .iter()
            .map(|text| text.parse().expect("an address"))
            .collect();
        let packed: Vec<u8> = all.iter().copied().flat_map(packed_address).collect();
        assert_eq!(packed.len(), 16 + 28 + 16);
        assert_eq!(read_addresses(&packed).expect("as written"), all);
        assert!(read_addresses(&packed[..20]).is_err());
        let stored = Octets::default().address(all[1]).0;
        assert_eq!(stored.len(), ADDRESS_LEN);
        let read = Fields(&stored).address().expect("an address");
        assert_eq!(read, Some(all[1]));
    }

    #[test]
    fn any_octets_are_addresses_or_an_error() {
        let (mut state, mut parsed) = (1_u32, 0);
        let mut octets = [0; 64];
        for _ in 0..50_000 {
            for octet in &mut octets {
                state = state.wrapping_mul(1_664_525).wrapping_add(1_013_904_223);
                *octet = (state >> 24) as u8;
            }
            octets[..2].copy_from_slice(&((state >> 9) as u16 % 12).to_ne_bytes());
            let len = (state >> 8) as usize % octets.len();
            if let Ok((address, taken)) = read_address(&octets[..len]) {
                parsed += 1;
                assert!(taken <= len);
                let again = packed_address(address);
                assert_eq!(read_address(&again).expect("as written").0, address);
            }
        }
        assert!(parsed > 1000, "only {parsed} were addresses");
    }
}
