//! The header in front of a datagram: UDP's, or two ports alone.

use engine::checksum::{combine, sum};
use std::net::{IpAddr, SocketAddr};
use std::ops::Range;

/// Octets of the longest header.
pub(super) const HEADER_MAX: usize = UDP_LEN;

/// Octets of UDP's header: source port, destination port, length, checksum (RFC 768).
const UDP_LEN: usize = 8;

/// Octets of a header of source port and destination port.
const PORTS_LEN: usize = 4;

/// UDP's protocol number (IANA).
const UDP: u8 = 17;

/// A protocol number for experiments (RFC 3692).
const EXPERIMENT: u8 = 253;

/// Which header.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Header {
    /// UDP's, with its checksum.
    Udp,
    /// Two ports: what raw IP lacks to have several ends at an address. Nothing is summed.
    Ports,
}

impl Header {
    /// Octets of it.
    pub(super) fn len(self) -> usize {
        match self {
            Header::Udp => UDP_LEN,
            Header::Ports => PORTS_LEN,
        }
    }

    /// The number in the IP header.
    pub(crate) fn protocol(self) -> u8 {
        match self {
            Header::Udp => UDP,
            Header::Ports => EXPERIMENT,
        }
    }

    /// Name of the driver.
    pub(super) fn name(self) -> &'static str {
        match self {
            Header::Udp => "udp",
            Header::Ports => "rawip",
        }
    }

    /// The header of a datagram; what is behind [`Header::len`] means nothing.
    pub(super) fn write(self, from: SocketAddr, to: SocketAddr, octets: &[u8]) -> [u8; HEADER_MAX] {
        let mut header = [0; HEADER_MAX];
        header[..2].copy_from_slice(&from.port().to_be_bytes());
        header[2..4].copy_from_slice(&to.port().to_be_bytes());
        if self == Header::Udp {
            let len = (UDP_LEN + octets.len()) as u16;
            header[4..6].copy_from_slice(&len.to_be_bytes());
            let pseudo = pseudo_sum(from.ip(), to.ip(), len);
            let total = combine(combine(pseudo, 0, sum(&header)), 0, sum(octets));
            // Zero would say that there is no checksum.
            let check = if total == u16::MAX { total } else { !total };
            header[6..].copy_from_slice(&check.to_be_bytes());
        }
        header
    }

    /// The sender's port and where the octets are; None when it is no datagram to `local`.
    pub(super) fn read(
        self,
        packet: &[u8],
        from: IpAddr,
        local: SocketAddr,
    ) -> Option<(u16, Range<usize>)> {
        let word = |at: usize| Some(u16::from_be_bytes(packet.get(at..at + 2)?.try_into().ok()?));
        let (source, destination) = (word(0)?, word(2)?);
        // Nothing can be sent back to port 0.
        if destination != local.port() || source == 0 {
            return None;
        }
        match self {
            Header::Ports => Some((source, PORTS_LEN..packet.len())),
            Header::Udp => {
                let len = usize::from(word(4)?);
                let datagram = packet.get(..len).filter(|_| len >= UDP_LEN)?;
                let pseudo = pseudo_sum(from, local.ip(), len as u16);
                is_intact(word(6)?, pseudo, datagram, local.ip()).then_some((source, UDP_LEN..len))
            }
        }
    }
}

/// Whether a packet is to the port, whatever else it is.
pub(super) fn is_for(packet: &[u8], local: SocketAddr) -> bool {
    packet.get(2..4) == Some(&local.port().to_be_bytes()[..])
}

/// Whether the checksum is that of the datagram. IPv4 lets a sender do without (RFC 768), IPv6 does not (RFC 8200
/// section 8.1). The kernel of this host leaves the sum to a device that datagrams within the host never see:
/// they hold that of the pseudo-header alone.
fn is_intact(check: u16, pseudo: u16, datagram: &[u8], local: IpAddr) -> bool {
    match check {
        0 => local.is_ipv4(),
        check if check == pseudo => true,
        _ => combine(pseudo, 0, sum(datagram)) == u16::MAX,
    }
}

/// The sum of the pseudo-header: both addresses, the length, the protocol (RFC 768, RFC 8200 section 8.1).
fn pseudo_sum(from: IpAddr, to: IpAddr, len: u16) -> u16 {
    let of_address = |address: IpAddr| match address {
        IpAddr::V4(address) => sum(&address.octets()),
        IpAddr::V6(address) => sum(&address.octets()),
    };
    let [high, low] = len.to_be_bytes();
    let addresses = combine(of_address(from), 0, of_address(to));
    combine(addresses, 0, sum(&[0, UDP, high, low]))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn at(text: &str) -> SocketAddr {
        text.parse().expect("an address")
    }

    /// What `header` makes of octets, and their packet.
    fn packet(header: Header, from: SocketAddr, to: SocketAddr, octets: &[u8]) -> Vec<u8> {
        let made = header.write(from, to, octets);
        [&made[..header.len()], octets].concat()
    }

    #[test]
    fn udp_datagram_has_the_octets_of_the_rfc() {
        let made = packet(
            Header::Udp,
            at("10.0.0.1:1000"),
            at("10.0.0.2:2000"),
            &[0xab, 0xcd],
        );
        // The words of the pseudo-header, of the header and of the data; they do not overflow.
        let words = [0x0a00, 1, 0x0a00, 2, 17, 10, 1000, 2000, 10, 0xabcd];
        let total: u32 = words.iter().sum();
        let check = !(total as u16);
        let wanted = [
            [3, 0xe8],
            [7, 0xd0],
            [0, 10],
            check.to_be_bytes(),
            [0xab, 0xcd],
        ];
        assert_eq!(made, wanted.concat());
    }

    #[test]
    fn every_header_reads_what_it_wrote_and_refuses_another_port() {
        for (from, to) in [("10.1.2.3:7", "10.9.8.7:65535"), ("[fe80::1]:9", "[::1]:1")] {
            let (from, to) = (at(from), at(to));
            for header in [Header::Udp, Header::Ports] {
                for len in [0, 1, 2, 1471, 65_000] {
                    let octets: Vec<u8> = (0..len).map(|at| (at * 31) as u8).collect();
                    let made = packet(header, from, to, &octets);
                    let (port, range) = header.read(&made, from.ip(), to).expect("its own");
                    assert_eq!((port, &made[range]), (from.port(), &octets[..]));
                    let other = SocketAddr::new(to.ip(), to.port() ^ 4);
                    assert_eq!(header.read(&made, from.ip(), other), None);
                }
            }
        }
    }

    #[test]
    fn udp_refuses_each_changed_octet_and_each_wrong_length() {
        let (from, to) = (at("10.0.0.1:1000"), at("10.0.0.2:2000"));
        let made = packet(Header::Udp, from, to, b"octets of a user");
        for at in 0..made.len() {
            let mut changed = made.clone();
            changed[at] ^= 0x21;
            assert_eq!(
                Header::Udp.read(&changed, from.ip(), to),
                None,
                "octet {at}"
            );
            assert_eq!(
                Header::Udp.read(&made[..at], from.ip(), to),
                None,
                "{at} octets"
            );
        }
        for len in [0_u16, 7] {
            let mut short = made.clone();
            short[4..6].copy_from_slice(&len.to_be_bytes());
            short[6..8].fill(0);
            assert_eq!(Header::Udp.read(&short, from.ip(), to), None);
        }
    }

    #[test]
    fn no_checksum_is_for_ipv4_alone_and_that_of_this_hosts_kernel_is_taken() {
        for (from, to, without) in [
            ("10.0.0.1:1", "10.0.0.2:2", true),
            ("[::1]:1", "[::2]:2", false),
        ] {
            let (from, to) = (at(from), at(to));
            let mut made = packet(Header::Udp, from, to, b"data");
            made[6..8].fill(0);
            let read = Header::Udp.read(&made, from.ip(), to);
            assert_eq!(read.is_some(), without);
            let partial = pseudo_sum(from.ip(), to.ip(), made.len() as u16);
            made[6..8].copy_from_slice(&partial.to_be_bytes());
            assert!(Header::Udp.read(&made, from.ip(), to).is_some());
        }
    }

    #[test]
    fn octets_of_anybody_are_read_within_their_bounds_or_refused() {
        let local = at("10.0.0.2:258");
        let mut state = 7_u64;
        let mut octet = || {
            state = state.wrapping_mul(0x5851_f42d_4c95_7f2d).wrapping_add(1);
            (state >> 56) as u8
        };
        let (mut read, mut refused) = (0, 0);
        for _ in 0..20_000 {
            let mut packet: Vec<u8> = (0..octet() % 24).map(|_| octet()).collect();
            if packet.len() > 7 {
                // Often a packet to the port, with a length that may be right and no checksum.
                packet[2..8].copy_from_slice(&[1, 2, 0, octet() % 24, 0, 0]);
            }
            for header in [Header::Udp, Header::Ports] {
                match header.read(&packet, at("10.0.0.1:1").ip(), local) {
                    Some((_, range)) => {
                        assert!(packet.get(range).is_some());
                        read += 1;
                    }
                    None => refused += 1,
                }
            }
        }
        assert!(read > 1000 && refused > 1000, "{read} {refused}");
    }

    #[test]
    fn sum_of_all_ones_is_not_sent_as_no_checksum() {
        let (from, to) = (at("10.0.0.1:1000"), at("10.0.0.2:2000"));
        let found = (0..=u16::MAX).find(|word| {
            let made = packet(Header::Udp, from, to, &word.to_be_bytes());
            made[6..8] == [0xff, 0xff]
        });
        let word = found.expect("one word makes the sum all ones");
        let made = packet(Header::Udp, from, to, &word.to_be_bytes());
        assert!(Header::Udp.read(&made, from.ip(), to).is_some());
    }
}
