//! Synthetic IP headers for packets that travelled without one, or in another protocol.

use engine::{Address, checksum};
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr, SocketAddr};

/// IP protocol number of XTP (IANA).
pub const XTP: u8 = 36;

/// IP protocol number of UDP (IANA).
pub const UDP: u8 = 17;

/// IP protocol number for experiments (RFC 3692), for protocols without one.
pub const EXPERIMENT: u8 = 253;

/// Octets of an IPv4 header without options (RFC 791), and of an IPv6 header (RFC 8200).
const V4_LEN: usize = 20;
const V6_LEN: usize = 40;

/// Octets of a UDP header (RFC 768).
const UDP_LEN: usize = 8;

/// TTL and hop limit: the usual default of hosts.
const HOPS: u8 = 64;

/// Longest payload that fits the length field of either version.
pub const PAYLOAD_MAX: usize = 65_535 - V4_LEN;

/// The IP address that stands for `address`. A station of the simulator is 10.x.y.z with its number
/// in three octets; so is an Ethernet interface, with the last three octets of its hardware
/// address.
pub fn ip_of(address: Address) -> IpAddr {
    match address {
        Address::Socket(socket) => socket.ip(),
        Address::Station(number) => {
            let [_, high, middle, low] = number.to_be_bytes();
            Ipv4Addr::new(10, high, middle, low).into()
        }
        Address::Ether([.., high, middle, low]) => Ipv4Addr::new(10, high, middle, low).into(),
    }
}

/// A header for `payload_len` octets (at most [`PAYLOAD_MAX`]) of `protocol`. IPv6 when either
/// address is.
pub fn header(from: IpAddr, to: IpAddr, protocol: u8, payload_len: usize) -> Vec<u8> {
    match (from, to) {
        (IpAddr::V4(from), IpAddr::V4(to)) => v4(from, to, protocol, payload_len),
        (from, to) => v6(to_v6(from), to_v6(to), protocol, payload_len),
    }
}

/// Headers of IP and UDP for `payload_len` octets. The checksum of UDP is 0: none was made.
pub fn udp_headers(from: SocketAddr, to: SocketAddr, payload_len: usize) -> Vec<u8> {
    let len = (UDP_LEN + payload_len).min(PAYLOAD_MAX);
    let mut headers = header(from.ip(), to.ip(), UDP, len);
    headers.extend(from.port().to_be_bytes());
    headers.extend(to.port().to_be_bytes());
    headers.extend((len as u16).to_be_bytes());
    headers.extend([0; 2]);
    headers
}

fn v4(from: Ipv4Addr, to: Ipv4Addr, protocol: u8, payload_len: usize) -> Vec<u8> {
    let total = (V4_LEN + payload_len.min(PAYLOAD_MAX)) as u16;
    let mut header = vec![0; V4_LEN];
    header[0] = 0x45;
    header[2..4].copy_from_slice(&total.to_be_bytes());
    // Do not fragment.
    header[6] = 0x40;
    header[8] = HOPS;
    header[9] = protocol;
    header[12..16].copy_from_slice(&from.octets());
    header[16..20].copy_from_slice(&to.octets());
    let check = checksum::checksum(&header);
    header[10..12].copy_from_slice(&check.to_be_bytes());
    header
}

fn v6(from: Ipv6Addr, to: Ipv6Addr, protocol: u8, payload_len: usize) -> Vec<u8> {
    let mut header = vec![0; V6_LEN];
    header[0] = 0x60;
    let len = payload_len.min(PAYLOAD_MAX) as u16;
    header[4..6].copy_from_slice(&len.to_be_bytes());
    header[6] = protocol;
    header[7] = HOPS;
    header[8..24].copy_from_slice(&from.octets());
    header[24..40].copy_from_slice(&to.octets());
    header
}

fn to_v6(address: IpAddr) -> Ipv6Addr {
    match address {
        IpAddr::V4(address) => address.to_ipv6_mapped(),
        IpAddr::V6(address) => address,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn ipv4_header_checksum_is_valid() {
        let from = ip_of(Address::Station(1));
        let to = ip_of(Address::Station(0x0002_0304));
        assert_eq!(from.to_string(), "10.0.0.1");
        assert_eq!(to.to_string(), "10.2.3.4");
        let header = header(from, to, XTP, 1000);
        assert_eq!(checksum::checksum(&header), 0);
        assert_eq!(header.len(), V4_LEN);
        assert_eq!(header[2..4], 1020_u16.to_be_bytes());
    }

    #[test]
    fn headers_of_udp_have_ports_and_both_lengths() {
        let [from, to] = [7, 0x0102].map(|port| SocketAddr::from(([127, 0, 0, 1], port)));
        let headers = udp_headers(from, to, 100);
        assert_eq!(headers[2..4], 128_u16.to_be_bytes());
        assert_eq!(headers[9], UDP);
        assert_eq!(headers[V4_LEN..], [0, 7, 1, 2, 0, 108, 0, 0]);
    }

    #[test]
    fn one_ipv6_address_makes_an_ipv6_header() {
        let header = header(
            Ipv6Addr::LOCALHOST.into(),
            Ipv4Addr::LOCALHOST.into(),
            XTP,
            7,
        );
        assert_eq!(header.len(), V6_LEN);
        assert_eq!(header[4..8], [0, 7, XTP, HOPS]);
        assert_eq!(header[34..], [0xff, 0xff, 127, 0, 0, 1]);
    }
}
