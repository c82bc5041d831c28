//! An introduction: where an entity is. RFC 1045 has none, since its identifiers contain an Internet
//! address; over UDP, Ethernet and the simulator's links they do not say where a host is reached.
//! It is a datagram to the managers' group with a code of users.

use super::{VmtpHeader, entity_at, management, operation};
use engine::{Address, EntityId};
use std::net::{IpAddr, Ipv6Addr, SocketAddr};

/// DGM and CRE, and the first code of users.
const INTRODUCE: u32 = 0x4480_0001;

/// Kinds of addresses.
const SOCKET_V4: u8 = 4;
const SOCKET_V6: u8 = 6;
const STATION: u8 = 1;
const ETHER: u8 = 2;

/// Where an entity is.
///
/// | octets | |
/// | --- | --- |
/// | 36..44 | the entity, as CoResidentEntity |
/// | 44 | kind of address |
/// | 46..48 | port |
/// | 48..64 | address; one of four octets lies in the last of them |
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Introduction {
    /// The entity.
    pub entity: EntityId,
    /// Where it is.
    pub at: Address,
}

impl Introduction {
    /// The header of the datagram, the message `transaction` of `manager`.
    pub fn header(&self, manager: EntityId, domain: u16, transaction: u32) -> VmtpHeader {
        let (kind, port, address) = match self.at {
            Address::Socket(SocketAddr::V4(at)) => {
                (SOCKET_V4, at.port(), u128::from(u32::from(*at.ip())))
            }
            Address::Socket(SocketAddr::V6(at)) => (SOCKET_V6, at.port(), u128::from(*at.ip())),
            Address::Station(number) => (STATION, 0, u128::from(number)),
            Address::Ether([a, b, c, d, e, f]) => {
                let octets = [0, 0, a, b, c, d, e, f];
                (ETHER, 0, u128::from(u64::from_be_bytes(octets)))
            }
        };
        let mut header = management(manager, domain, transaction, INTRODUCE);
        header.user_data[..8].copy_from_slice(&self.entity.0.to_be_bytes());
        header.user_data[8] = kind;
        header.user_data[10..12].copy_from_slice(&port.to_be_bytes());
        header.user_data[12..20].copy_from_slice(&((address >> 64) as u64).to_be_bytes());
        header.message_delivery = (address >> 32) as u32;
        header.segment_size = address as u32;
        header
    }

    /// What `header` says; None if it is no introduction.
    pub fn parse(header: &VmtpHeader) -> Option<Introduction> {
        if operation(header) != INTRODUCE {
            return None;
        }
        let data = &header.user_data;
        let port = u16::from_be_bytes([data[10], data[11]]);
        let address = u128::from(entity_at(data, 12).0) << 64
            | u128::from(header.message_delivery) << 32
            | u128::from(header.segment_size);
        let low = header.segment_size.to_be_bytes();
        let at = match data[8] {
            SOCKET_V4 => Address::Socket(SocketAddr::new(IpAddr::from(low), port)),
            SOCKET_V6 => {
                let ip = IpAddr::V6(Ipv6Addr::from(address));
                Address::Socket(SocketAddr::new(ip, port))
            }
            STATION => Address::Station(header.segment_size),
            ETHER => {
                let high = header.message_delivery.to_be_bytes();
                Address::Ether([high[2], high[3], low[0], low[1], low[2], low[3]])
            }
            _ => return None,
        };
        Some(Introduction {
            entity: entity_at(data, 0),
            at,
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn introductions_of_all_kinds_of_addresses_are_read_as_written() {
        let socket = |text: &str| Address::Socket(text.parse().expect("an address"));
        for at in [
            socket("10.1.2.3:81"),
            socket("[2001:db8::1:2]:65535"),
            Address::Station(7),
            Address::Ether([1, 2, 3, 4, 5, 6]),
        ] {
            let written = Introduction {
                entity: EntityId(0x1_0a01_0203),
                at,
            };
            let header = written.header(EntityId(9), 1, 5);
            let octets = header.emit();
            let read = VmtpHeader::parse(&octets).expect("version 0");
            assert_eq!(Introduction::parse(&read), Some(written));
        }
    }
}
