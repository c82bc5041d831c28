//! The header in front of each datagram in the socket pair.

use std::net::{IpAddr, Ipv4Addr, Ipv6Addr, SocketAddr, SocketAddrV6};

/// Octets of the header: kind, port, address, scope.
pub(crate) const HEADER_LEN: usize = 24;

/// The header of a datagram.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum DatagramHeader {
    /// A datagram, with its destination or source.
    Data(SocketAddr),
    /// No datagram: an error is pending.
    Error,
}

impl DatagramHeader {
    /// Encodes the header.
    pub(crate) fn encode(&self) -> [u8; HEADER_LEN] {
        let mut octets = [0; HEADER_LEN];
        let DatagramHeader::Data(address) = self else {
            return octets;
        };
        octets[2..4].copy_from_slice(&address.port().to_be_bytes());
        match address {
            SocketAddr::V4(v4) => {
                octets[0] = 4;
                octets[4..8].copy_from_slice(&v4.ip().octets());
            }
            SocketAddr::V6(v6) => {
                octets[0] = 6;
                octets[4..20].copy_from_slice(&v6.ip().octets());
                octets[20..24].copy_from_slice(&v6.scope_id().to_be_bytes());
            }
        }
        octets
    }

    /// Decodes a header; None if it is malformed.
    pub(crate) fn parse(octets: &[u8]) -> Option<DatagramHeader> {
        let octets: &[u8; HEADER_LEN] = octets.first_chunk()?;
        let port = u16::from_be_bytes([octets[2], octets[3]]);
        match octets[0] {
            0 => Some(DatagramHeader::Error),
            4 => {
                let ip = Ipv4Addr::from(*octets[4..].first_chunk::<4>()?);
                Some(DatagramHeader::Data((IpAddr::from(ip), port).into()))
            }
            6 => {
                let ip = Ipv6Addr::from(*octets[4..].first_chunk::<16>()?);
                let scope = u32::from_be_bytes(*octets[20..].first_chunk()?);
                Some(DatagramHeader::Data(
                    SocketAddrV6::new(ip, port, 0, scope).into(),
                ))
            }
            _ => None,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn datagram_header_round_trips() {
        let v6 = SocketAddrV6::new(Ipv6Addr::LOCALHOST, 9, 0, 7);
        let addresses = ["10.1.2.3:65535".parse().expect("an address"), v6.into()];
        for header in addresses
            .map(DatagramHeader::Data)
            .into_iter()
            .chain([DatagramHeader::Error])
        {
            assert_eq!(DatagramHeader::parse(&header.encode()), Some(header));
        }
        assert_eq!(DatagramHeader::parse(&[9; HEADER_LEN]), None);
        assert_eq!(DatagramHeader::parse(&[0; HEADER_LEN - 1]), None);
    }

    /// The program on the other end of the socket pair may write anything.
    #[test]
    fn any_octets_are_a_header_that_encodes_to_the_same_address_or_none() {
        let mut octets = [0; HEADER_LEN + 8];
        let (mut state, mut parsed) = (1_u32, 0);
        for _ in 0..100_000 {
            for octet in &mut octets {
                state = state.wrapping_mul(1_664_525).wrapping_add(1_013_904_223);
                *octet = (state >> 24) as u8;
            }
            octets[0] &= 7;
            let len = (state >> 8) as usize % (octets.len() + 1);
            if let Some(header) = DatagramHeader::parse(&octets[..len]) {
                parsed += 1;
                assert!(len >= HEADER_LEN);
                assert_eq!(DatagramHeader::parse(&header.encode()), Some(header));
            }
        }
        assert!(parsed > 1000, "only {parsed} headers were valid");
    }
}
