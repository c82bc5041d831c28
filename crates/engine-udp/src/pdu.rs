//! Headers of IPv4 and UDP.

use engine::checksum;

/// Octets of a header of IPv4 without options.
pub const IP_LEN: usize = 20;

/// Octets of a header of UDP.
pub const UDP_LEN: usize = 8;

/// Offset of IP's checksum.
pub(crate) const CHECK_AT: usize = 10;

/// Version 4, five words of header.
const VERSION: u8 = 0x45;

/// Time to live, of which a medium without routers takes nothing.
const TTL: u8 = 64;

/// The number of UDP.
const PROTOCOL: u8 = 17;

/// More fragments follow.
const MORE_FRAGMENTS: u16 = 0x2000;

/// Offsets count these octets.
const OFFSET_UNIT: u16 = 8;

/// A header of IPv4, as far as it says anything here.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct IpHeader {
    /// Octets of the packet.
    pub len: u16,
    /// Number of the datagram.
    pub id: u16,
    /// Where in the datagram its octets belong, a multiple of eight.
    pub offset: u16,
    /// Further fragments follow.
    pub more: bool,
    /// In the octets of the addresses: the number of the message.
    pub tag: u64,
}

impl IpHeader {
    /// Its octets, with the sum of them.
    pub fn octets(&self) -> [u8; IP_LEN] {
        let mut octets = [0; IP_LEN];
        octets[0] = VERSION;
        octets[2..4].copy_from_slice(&self.len.to_be_bytes());
        octets[4..6].copy_from_slice(&self.id.to_be_bytes());
        let more = if self.more { MORE_FRAGMENTS } else { 0 };
        octets[6..8].copy_from_slice(&(more | (self.offset / OFFSET_UNIT)).to_be_bytes());
        (octets[8], octets[9]) = (TTL, PROTOCOL);
        octets[12..20].copy_from_slice(&self.tag.to_be_bytes());
        let check = checksum::checksum(&octets);
        octets[CHECK_AT..CHECK_AT + 2].copy_from_slice(&check.to_be_bytes());
        octets
    }

    /// The header of a packet; None if it is none, or its sum is wrong. With `whole` the sum covers all of the packet.
    pub fn parse(packet: &[u8], whole: bool) -> Option<IpHeader> {
        let header: &[u8; IP_LEN] = packet.first_chunk()?;
        let word = |at: usize| u16::from_be_bytes([header[at], header[at + 1]]);
        let summed = if whole { packet } else { &header[..] };
        let is_ours = header[0] == VERSION && header[9] == PROTOCOL;
        if !is_ours || usize::from(word(2)) != packet.len() || checksum::sum(summed) != u16::MAX {
            return None;
        }
        Some(IpHeader {
            len: word(2),
            id: word(4),
            // Thirteen bits times eight fit into sixteen.
            offset: (word(6) & (MORE_FRAGMENTS - 1)) * OFFSET_UNIT,
            more: word(6) & MORE_FRAGMENTS != 0,
            tag: u64::from_be_bytes(*header.last_chunk()?),
        })
    }
}

/// A header of UDP. Its checksum is left out, as RFC 768 allows: see the crate.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct UdpHeader {
    /// The sender's port.
    pub from: u16,
    /// The receiver's port.
    pub to: u16,
    /// Octets of the datagram, header included.
    pub len: u16,
}

impl UdpHeader {
    /// Its octets.
    pub fn octets(&self) -> [u8; UDP_LEN] {
        let mut octets = [0; UDP_LEN];
        for (at, word) in [self.from, self.to, self.len].into_iter().enumerate() {
            octets[2 * at..2 * at + 2].copy_from_slice(&word.to_be_bytes());
        }
        octets
    }

    /// The header of a whole datagram; None if its length is another.
    pub fn parse(datagram: &[u8]) -> Option<UdpHeader> {
        let header: &[u8; UDP_LEN] = datagram.first_chunk()?;
        let word = |at: usize| u16::from_be_bytes([header[at], header[at + 1]]);
        let is_whole = usize::from(word(4)) == datagram.len();
        is_whole.then(|| UdpHeader {
            from: word(0),
            to: word(2),
            len: word(4),
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const HEADER: IpHeader = IpHeader {
        len: 23,
        id: 7,
        offset: 1480,
        more: true,
        tag: 0x0123_4567_89ab_cdef,
    };

    #[test]
    fn headers_are_read_as_they_are_written() {
        let packet = [&HEADER.octets()[..], &[1, 2, 3]].concat();
        assert_eq!(IpHeader::parse(&packet, false), Some(HEADER));
        let udp = UdpHeader {
            from: 1025,
            to: 7,
            len: 8,
        };
        assert_eq!(UdpHeader::parse(&udp.octets()), Some(udp));
        assert_eq!(UdpHeader::parse(&udp.octets()[..7]), None);
        assert_eq!(UdpHeader::parse(&[&udp.octets()[..], &[0]].concat()), None);
    }

    #[test]
    fn any_wrong_bit_of_a_header_is_found() {
        let packet = [&HEADER.octets()[..], &[1, 2, 3]].concat();
        for bit in 0..IP_LEN * 8 {
            let mut wrong = packet.clone();
            wrong[bit / 8] ^= 1 << (bit % 8);
            assert_eq!(IpHeader::parse(&wrong, false), None, "bit {bit}");
        }
        for len in 0..packet.len() {
            assert_eq!(IpHeader::parse(&packet[..len], false), None, "{len} octets");
        }
    }
}
