//! What lies between a frame's addresses and its packet.

use engine::{Address, PacketLen};

/// Octets of the two addresses of a frame.
const ADDRESSES_LEN: usize = 12;

/// LLC's header for SNAP, unnumbered information, and an organization of zeros: what follows is an EtherType (RFC 1042).
const SNAP: [u8; 6] = [0xaa, 0xaa, 0x03, 0, 0, 0];

/// Octets of LLC and SNAP with the EtherType; they count against an interface's MTU.
const SNAP_LEN: usize = 8;

/// EtherType by which the kernel hands over frames with a length in its place (ETH_P_802_2).
const WITH_LENGTH: u16 = 4;

/// Shortest payload of an Ethernet frame; shorter packets are padded to it.
const PADDED_LEN: usize = 46;

/// Octets of the longest header in front of a packet.
pub(crate) const HEADER_MAX: usize = 22;

/// How a frame says which protocol its packet is of.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Encapsulation {
    /// By its EtherType (DIX Ethernet).
    #[default]
    EtherType,
    /// By a header of LLC and SNAP behind the frame's length (IEEE 802.3, RFC 1042).
    Llc,
}

impl Encapsulation {
    /// Octets in front of a packet.
    pub(crate) fn header_len(self) -> usize {
        ADDRESSES_LEN + 2 + self.overhead()
    }

    /// Octets of it that count against an interface's MTU.
    pub fn overhead(self) -> usize {
        match self {
            Encapsulation::EtherType => 0,
            Encapsulation::Llc => SNAP_LEN,
        }
    }

    /// The EtherType to receive.
    pub(crate) fn received_type(self, ethertype: u16) -> u16 {
        match self {
            Encapsulation::EtherType => ethertype,
            Encapsulation::Llc => WITH_LENGTH,
        }
    }

    /// Writes what follows the addresses in front of a packet of `len` octets.
    pub(crate) fn emit(self, ethertype: u16, len: usize, header: &mut [u8]) {
        let (first, rest) = header[ADDRESSES_LEN..].split_at_mut(2);
        match self {
            Encapsulation::EtherType => first.copy_from_slice(&ethertype.to_be_bytes()),
            Encapsulation::Llc => {
                let len = (SNAP_LEN + len) as u16;
                first.copy_from_slice(&len.to_be_bytes());
                rest[..SNAP.len()].copy_from_slice(&SNAP);
                rest[SNAP.len()..SNAP_LEN].copy_from_slice(&ethertype.to_be_bytes());
            }
        }
    }

    /// The packet of a frame, with padding where the frame does not say how long it is; None for a frame of another
    /// protocol, or one that is shorter than it says.
    pub(crate) fn packet(self, ethertype: u16, frame: &[u8]) -> Option<&[u8]> {
        let (header, packet) = frame.split_at_checked(self.header_len())?;
        let Encapsulation::Llc = self else {
            return Some(packet);
        };
        let (len, snap) = header[ADDRESSES_LEN..].split_first_chunk::<2>()?;
        let is_ours = snap[..SNAP.len()] == SNAP && snap[SNAP.len()..] == ethertype.to_be_bytes();
        let len = usize::from(u16::from_be_bytes(*len)).checked_sub(SNAP_LEN)?;
        packet.get(..len).filter(|_| is_ours)
    }
}

/// How frames are read.
#[derive(Clone, Copy)]
pub(crate) struct Reading {
    pub(crate) encapsulation: Encapsulation,
    pub(crate) ethertype: u16,
    /// Reads the length of a packet in a frame of the minimum length, which may be padded.
    pub(crate) packet_len: Option<PacketLen>,
}

impl Reading {
    /// The sender of a frame and its packet without padding; None for an empty frame, and one of another protocol.
    pub(crate) fn parse(self, frame: &[u8]) -> Option<(Address, &[u8])> {
        let packet = self.encapsulation.packet(self.ethertype, frame)?;
        let mut from = [0; 6];
        from.copy_from_slice(&frame[6..12]);
        let len = match packet.len() {
            len @ ..=PADDED_LEN => {
                let said = self.packet_len.and_then(|packet_len| packet_len(packet));
                said.map_or(len, |said| said.min(len))
            }
            len => len,
        };
        (len > 0).then(|| (Address::Ether(from), &packet[..len]))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn padding_is_removed_from_short_frames_only() {
        const HEADER_LEN: usize = 14;
        let reading = |packet_len: PacketLen| Reading {
            encapsulation: Encapsulation::EtherType,
            ethertype: 0x88b5,
            packet_len: Some(packet_len),
        };
        let said = reading(|packet| Some(usize::from(packet[0])));
        let mut frame = vec![0; HEADER_LEN];
        frame[6..12].copy_from_slice(&[2, 0, 0, 0, 0, 9]);
        assert_eq!(said.parse(&frame[..13]), None);
        assert_eq!(reading(|_| Some(0)).parse(&frame), None);
        let from = Address::Ether([2, 0, 0, 0, 0, 9]);
        frame.extend([3, 7, 7, 0, 0]);
        assert_eq!(said.parse(&frame), Some((from, &[3, 7, 7][..])));
        frame[HEADER_LEN] = 200;
        assert_eq!(said.parse(&frame).map(|(_, packet)| packet.len()), Some(5));
        frame.resize(HEADER_LEN + 100, 0);
        frame[HEADER_LEN] = 3;
        assert_eq!(
            said.parse(&frame).map(|(_, packet)| packet.len()),
            Some(100)
        );
    }

    #[test]
    fn frame_with_llc_has_its_length_and_the_ethertype_behind_snap() {
        let mut frame = [0xff; 30];
        Encapsulation::Llc.emit(0x817d, 5, &mut frame[..22]);
        let header = [0, 13, 0xaa, 0xaa, 3, 0, 0, 0, 0x81, 0x7d];
        assert_eq!(frame[ADDRESSES_LEN..22], header);
        fn packet(ethertype: u16, frame: &[u8]) -> Option<&[u8]> {
            Encapsulation::Llc.packet(ethertype, frame)
        }
        assert_eq!(
            packet(0x817d, &frame[..]),
            Some(&[0xff; 5][..]),
            "padding is cut off"
        );
        assert_eq!(packet(0x805b, &frame), None, "another protocol");
        assert_eq!(packet(0x817d, &frame[..26]), None, "shorter than it says");
        assert_eq!(packet(0x817d, &frame[..21]), None);
        frame[13] = 7;
        assert_eq!(packet(0x817d, &frame), None, "shorter than SNAP");
        frame[13] = 13;
        frame[14] = 0x42;
        assert_eq!(packet(0x817d, &frame), None, "spanning tree");
    }
}
