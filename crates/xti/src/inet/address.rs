//! Addresses as XTI carries them: `struct sockaddr_in` or `sockaddr_in6` in octets.

use std::net::{Ipv4Addr, Ipv6Addr, SocketAddr, SocketAddrV6};

const INET: u16 = 2;
const INET6: u16 = 10;

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
}
