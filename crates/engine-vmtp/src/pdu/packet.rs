//! A whole packet: header, segment data padded to eight octets, and the check (RFC 1045 section 2.4).

use super::header::DATA_WORDS;
use super::{Flags, HEADER_LEN, VmtpHeader};
use crate::blocks::Segment;
use engine::checksum;

/// Octets of the check behind the data.
pub const CHECK_LEN: usize = 4;

/// Octets of a packet without segment data.
pub const PACKET_MIN: usize = HEADER_LEN + CHECK_LEN;

/// Why octets are no packet.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum PacketFault {
    /// Fewer than 68 octets.
    Short,
    /// A version other than 0.
    Version,
    /// The length in the header is not that of the packet, whose check is right: its sender is wrong.
    Size(VmtpHeader),
    /// The check is wrong: it was damaged on the way.
    Check,
}

/// The header of `packet`, whose length and check are right. A check of zeros stands for none; where
/// the header says so, it covers the header alone.
///
/// # Errors
///
/// What is wrong with the packet.
pub fn parse(packet: &[u8]) -> Result<VmtpHeader, PacketFault> {
    let octets = packet.first_chunk().ok_or(PacketFault::Short)?;
    let end = packet.len().saturating_sub(CHECK_LEN);
    if end < HEADER_LEN {
        return Err(PacketFault::Short);
    }
    let header = VmtpHeader::parse(octets).ok_or(PacketFault::Version)?;
    let covered = if header.checks_header_only {
        HEADER_LEN
    } else {
        end
    };
    if !is_right(packet, covered) {
        return Err(PacketFault::Check);
    }
    match end == HEADER_LEN + header.data_len() {
        true => Ok(header),
        false => Err(PacketFault::Size(header)),
    }
}

/// Whether the last four octets are the check of the first `covered` ones, or of none.
fn is_right(packet: &[u8], covered: usize) -> bool {
    let check = super::word_at(packet, packet.len() - CHECK_LEN);
    check == 0 || check == checksum::vmtp(&packet[..covered])
}

/// Whether the check of a packet of 68 octets or more, which covers all of it, is right or says that there is none.
pub(crate) fn is_check_right(packet: &[u8]) -> bool {
    is_right(packet, packet.len() - CHECK_LEN)
}

/// Octets of the packet that begins with these, as its header says: for wires that give several packets
/// in a row.
pub fn stated_len(octets: &[u8]) -> Option<usize> {
    let words = octets.get(10..12)?;
    let words = usize::from(u16::from_be_bytes([words[0], words[1]]) & DATA_WORDS);
    Some(PACKET_MIN + 4 * words)
}

/// The packet of `header` and the only segment data of its message, with its check or with zeros in its
/// place.
pub fn emit_with(header: &VmtpHeader, segment: &[u8], with_check: bool) -> Vec<u8> {
    let padded = segment.len().next_multiple_of(8);
    let header = VmtpHeader {
        flags: Flags(header.flags.0 | Flags::SEGMENT),
        data_words: (padded / 4) as u16,
        delivery: Segment::new(segment.len() as u64).blocks(0),
        segment_size: segment.len() as u32,
        ..*header
    };
    let mut packet = header.emit().to_vec();
    packet.extend_from_slice(segment);
    packet.resize(HEADER_LEN + padded, 0);
    let check = match with_check {
        true => checksum::vmtp(&packet),
        false => 0,
    };
    packet.extend_from_slice(&check.to_be_bytes());
    packet
}

/// The packet of `header` without segment data, with its check or with zeros in its place.
pub fn emit(header: &VmtpHeader, with_check: bool) -> [u8; PACKET_MIN] {
    let mut packet = [0; PACKET_MIN];
    packet[..HEADER_LEN].copy_from_slice(&header.emit());
    if with_check {
        let check = checksum::vmtp(&packet[..HEADER_LEN]);
        packet[HEADER_LEN..].copy_from_slice(&check.to_be_bytes());
    }
    packet
}
