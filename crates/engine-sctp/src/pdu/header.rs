//! The common header of every packet (RFC 9260 section 3.1).

use super::{u16_at, u32_at};
use crate::numbers::{Port, Tag};
use engine::checksum::Crc32c;

/// Octets of the common header.
pub const COMMON_HEADER_LEN: usize = 12;

/// Where the checksum lies: the host completes it ([`engine::Integrity::Crc32c`]).
pub const CHECKSUM_AT: usize = 8;

/// The common header, without its checksum.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct CommonHeader {
    /// The sender's port.
    pub source: Port,
    /// The receiver's port.
    pub destination: Port,
    /// The verification tag.
    pub tag: Tag,
}

impl CommonHeader {
    /// The header of `packet`; None for fewer octets than it has.
    pub fn parse(packet: &[u8]) -> Option<CommonHeader> {
        if packet.len() < COMMON_HEADER_LEN {
            return None;
        }
        Some(CommonHeader {
            source: Port(u16_at(packet, 0)?),
            destination: Port(u16_at(packet, 2)?),
            tag: Tag(u32_at(packet, 4)?),
        })
    }

    /// Its octets, with zeros for the checksum.
    pub fn emit(&self) -> [u8; COMMON_HEADER_LEN] {
        let mut octets = [0; COMMON_HEADER_LEN];
        octets[..2].copy_from_slice(&self.source.0.to_be_bytes());
        octets[2..4].copy_from_slice(&self.destination.0.to_be_bytes());
        octets[4..8].copy_from_slice(&self.tag.0.to_be_bytes());
        octets
    }

    /// The header of an answer to a packet with this one.
    pub fn reversed(&self, tag: Tag) -> CommonHeader {
        CommonHeader {
            source: self.destination,
            destination: self.source,
            tag,
        }
    }
}

/// What the checksum field of a packet says.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum PacketCheck {
    /// It is right.
    Right,
    /// It is zero, and wrong: good only between ends that agreed on it (RFC 9653).
    Zero,
    /// It is wrong.
    Wrong,
}

/// Whether the checksum field of `packet` is zero.
pub fn has_zero_checksum(packet: &[u8]) -> bool {
    let field = packet.get(CHECKSUM_AT..COMMON_HEADER_LEN);
    field.is_some_and(|field| field == [0; 4])
}

/// The CRC-32c of `packet` with zeros for its checksum field (RFC 9260 section 6.8), as a number; on
/// the wire its least octet comes first.
pub fn packet_crc(packet: &[u8]) -> u32 {
    let split = COMMON_HEADER_LEN.min(packet.len());
    let (mut front, before) = ([0; COMMON_HEADER_LEN], CHECKSUM_AT.min(split));
    front[..before].copy_from_slice(&packet[..before]);
    let mut crc = Crc32c::new();
    crc.update(&front[..before + 4]);
    crc.update(&packet[split..]);
    crc.finish()
}

/// Compares the checksum of `packet` with its octets. A field of zeros is compared only if
/// `zero_is_agreed` is false.
pub fn check_packet(packet: &[u8], zero_is_agreed: bool) -> PacketCheck {
    let Some(field) = packet.get(CHECKSUM_AT..COMMON_HEADER_LEN) else {
        return PacketCheck::Wrong;
    };
    let is_zero = has_zero_checksum(packet);
    if is_zero && zero_is_agreed {
        return PacketCheck::Zero;
    }
    match (packet_crc(packet).to_le_bytes() == field, is_zero) {
        (true, _) => PacketCheck::Right,
        (false, true) => PacketCheck::Zero,
        (false, false) => PacketCheck::Wrong,
    }
}

/// Completes the checksum of a whole packet.
pub fn complete_checksum(packet: &mut [u8]) {
    let crc = packet_crc(packet);
    if let Some(field) = packet.get_mut(CHECKSUM_AT..COMMON_HEADER_LEN) {
        field.copy_from_slice(&crc.to_le_bytes());
    }
}
