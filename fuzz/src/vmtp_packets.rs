//! Packets of VMTP from octets of a script.

use super::{BASE, GROUP};
use engine::EntityId;
use engine_vmtp::blocks::BlockMask;
use engine_vmtp::pdu::{Control, Flags, VmtpHeader, packet};

/// A packet of a Request with a right check from octets of the script.
pub(crate) fn request([a, b, c, d]: [u8; 4]) -> Vec<u8> {
    let blocks = BlockMask(u32::from(c & 3));
    let is_short = d & 7 < 4;
    let size = match d & 7 {
        0..4 => u32::from(c % 24),
        4 => 512 + u32::from(b),
        5 => 1024,
        6 => 16_384 + u32::from(b),
        _ => u32::from(b) << 9,
    };
    let run = match size > 16_384 {
        true if a & 0x80 == 0 => Control::NOT_END | Control::CONTINUED,
        true => Control::NOT_START,
        false => 0,
    };
    let asks = if d & 8 == 8 { Control::ACKNOWLEDGE } else { 0 };
    let data = match (is_short, blocks.0) {
        (true, _) | (_, 0) => 0,
        (_, 3) => 1024.min(size as usize),
        (_, 1) => 512,
        _ => 512.min((size as usize).saturating_sub(512)),
    };
    let data = data.next_multiple_of(8);
    let header = VmtpHeader {
        client: EntityId(0x7_f000_0002 + u64::from(b & 7)),
        domain: 1,
        control: Control::request(run | asks).with_retransmit_count(u32::from(d >> 5)),
        transaction: u32::from(a >> 2 & 15),
        delivery: if data == 0 { BlockMask::NONE } else { blocks },
        data_words: (data / 4) as u16,
        server: EntityId(BASE + u64::from(a & 3 == 3)),
        flags: Flags(
            if is_short { 0 } else { Flags::SEGMENT }
                | if d & 16 == 16 { Flags::DATAGRAM } else { 0 },
        ),
        segment_size: size,
        ..VmtpHeader::default()
    };
    let mut octets = header.emit().to_vec();
    octets.extend((0..data).map(|at| at as u8));
    octets.extend([0; 4]);
    sign(&mut octets);
    octets
}

/// A Request that asks for more than [`request`]: of a run, forwarded, to a group, conditional.
pub(crate) fn wishing_request([a, b, c, d]: [u8; 4]) -> Vec<u8> {
    let mut octets = request([a & 0x7f, b, c, d & 0xf7]);
    let mut control = u32::from_be_bytes([octets[12], octets[13], octets[14], octets[15]]);
    control |= u32::from(a & 7) << 27 | u32::from(b >> 6) << 16 | u32::from(b >> 4 & 3) << 23;
    octets[12..16].copy_from_slice(&control.to_be_bytes());
    octets[32] |= c & (Flags::CONDITIONAL | Flags::PARTIAL | Flags::CO_RESIDENT);
    if a & 0x60 == 0x60 {
        octets[24..32].copy_from_slice(&(GROUP.0 + BASE).to_be_bytes());
    }
    sign(&mut octets);
    octets
}

/// A request to the managers, or an introduction.
pub(crate) fn management([a, b, c, d]: [u8; 4]) -> Vec<u8> {
    let word = match a & 7 {
        0 => 0x4480_0001,
        1 => 0x4100_0111,
        2 => 0x4500_010f,
        3 => 0x4500_0110,
        _ => 0x0500_0100 | u32::from(b & 15),
    };
    let mut header = VmtpHeader {
        client: EntityId(0x9_f000_0000),
        domain: 1,
        transaction: u32::from(d),
        multicast: a & 0x80 == 0x80,
        server: engine_vmtp::pdu::MANAGER_GROUP,
        flags: Flags((word >> 24) as u8),
        code: word & 0x00ff_ffff,
        segment_size: u32::from(c & 31),
        ..VmtpHeader::default()
    };
    let first = (BASE + u64::from(c & 3)) | (u64::from(d & 7) << 32);
    header.user_data[..8].copy_from_slice(&first.to_be_bytes());
    header.user_data[8] = b & 7;
    header.user_data[19] = d & 15;
    packet::emit(&header, true).to_vec()
}

/// Makes the check of a packet right.
pub(crate) fn sign(octets: &mut [u8]) {
    let end = octets.len() - 4;
    let covered = if octets[10] & 0x80 == 0 { end } else { 64 };
    let check = engine::checksum::vmtp(&octets[..covered]);
    octets[end..].copy_from_slice(&check.to_be_bytes());
}
