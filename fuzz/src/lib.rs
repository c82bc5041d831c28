//! What the fuzz targets run: each function takes any octets and panics when an invariant breaks.
//!
//! * [`header`], [`first`], [`cntl`], [`ecntl`], [`tcntl`], [`jcntl`], [`diag`], [`data`] - the XTP
//!   decoders: an accepted packet is encoded again octet for octet.
//! * [`v3`] - the same for XTP 3.x.
//! * [`sequence`] - an XTP endpoint driven by a script of packets, commands and time steps.
//! * [`group()`] - the same for a group endpoint.
//!
//! The tests of `engine-xtp` call the same functions with mutated packets.
#![forbid(unsafe_code)]

mod group;
mod host;
mod script;

use engine_xtp::pdu::v3::PacketV3;
use engine_xtp::pdu::{Body, Format, HEADER_LEN, Header, Options, Packet, SyncNumber, Version};
pub use group::group;
pub use host::{Summary, completed};
pub use script::sequence;

/// Any octets as a packet.
pub fn header(octets: &[u8]) {
    if let Ok(packet) = Packet::parse(octets) {
        assert_eq!(packet.emit(), octets, "encoded differently than parsed");
        assert_eq!(packet.header.dlen as usize, octets.len() - HEADER_LEN);
        assert_eq!(packet.body.format(), packet.header.format);
    }
}

/// The body of a FIRST: address segment, traffic specifier, user bytes.
pub fn first(octets: &[u8]) {
    body(Format::First, Options::NONE, octets);
}

/// The body of a CNTL.
pub fn cntl(octets: &[u8]) {
    body(Format::Cntl, Options::NONE, octets);
}

/// The body of an ECNTL: common control segment and spans.
pub fn ecntl(octets: &[u8]) {
    if let Some(Body::Ecntl(_, spans)) = body(Format::Ecntl, Options::NONE, octets) {
        assert_eq!(spans.iter().count(), spans.len());
    }
}

/// The body of a TCNTL: common control segment, key, traffic specifier.
pub fn tcntl(octets: &[u8]) {
    body(Format::Tcntl, Options::NONE, octets);
}

/// The body of a JCNTL.
pub fn jcntl(octets: &[u8]) {
    body(Format::Jcntl, Options::NONE, octets);
}

/// The body of a DIAG.
pub fn diag(octets: &[u8]) {
    body(Format::Diag, Options::NONE, octets);
}

/// The body of a DATA, with options chosen by the first octet.
pub fn data(octets: &[u8]) {
    let Some((first, rest)) = octets.split_first() else {
        return;
    };
    let options = Options::NONE
        .with(Options::BTAG, first & 1 != 0)
        .with(Options::NOCHECK, first & 2 != 0);
    body(Format::Data, options, rest);
}

/// A 3.x packet; the first octet chooses the version. With its top bit set, length and checks are
/// fixed up, so that most inputs reach the body.
pub fn v3(octets: &[u8]) {
    let Some((first, rest)) = octets.split_first() else {
        return;
    };
    let version = [Version::V33, Version::V35, Version::V36][usize::from(first % 3)];
    let mut packet = rest.to_vec();
    if first & 0x80 != 0 && !fix_checksums(version, &mut packet) {
        return;
    }
    if let Ok(parsed) = PacketV3::parse(version, &packet) {
        let whole = version.overhead() + parsed.header.dlen as usize;
        let again = parsed.emit(version);
        let read = PacketV3::parse(version, &again).expect("an encoded packet is accepted");
        assert_eq!(read.body, parsed.body);
        assert_eq!(again.len(), whole, "the length changed");
    }
}

/// Fixes up version, length and checks, as an attacker would; false for too few octets.
pub fn fix_checksums(version: Version, packet: &mut Vec<u8>) -> bool {
    let head = version.header_len();
    let segment_len = packet.len().saturating_sub(head) / 4 * 4;
    if segment_len < 4 {
        return false;
    }
    packet.truncate(head + segment_len);
    let (version_number, length_at, check_at) = match version {
        Version::V33 => (3, 24, 26),
        Version::V35 => (5, 24, 32),
        _ => (6, 24, 36),
    };
    packet[0] &= 0x7f;
    packet[3] = version_number << 5 | packet[3] & 0x0f;
    packet[2] &= 0x33;
    let summed = packet[0] & 0x40 == 0;
    let check = if summed {
        engine::checksum::cxor(&packet[head..])
    } else {
        0
    };
    packet.extend_from_slice(&check.to_be_bytes());
    if version == Version::V33 {
        packet[length_at..length_at + 2].copy_from_slice(&(segment_len as u16).to_be_bytes());
        let check = engine::checksum::cxor(&packet[..check_at]) as u16;
        packet[check_at..check_at + 2].copy_from_slice(&check.to_be_bytes());
    } else {
        packet[length_at..length_at + 4].copy_from_slice(&(segment_len as u32).to_be_bytes());
        let check = engine::checksum::cxor(&packet[..check_at]);
        packet[check_at..check_at + 4].copy_from_slice(&check.to_be_bytes());
    }
    true
}

/// Parses a body and, if accepted, encodes the packet and parses it again.
fn body(format: Format, options: Options, octets: &[u8]) -> Option<Body<'_>> {
    let header = Header {
        key: 5,
        options,
        format,
        dlen: octets.len() as u32,
        check: 0,
        sort: 0,
        sync: SyncNumber(1),
        seq: 0,
    };
    let body = Body::parse(&header, octets)?;
    let packet = Packet { header, body };
    let mut encoded = Vec::new();
    packet.emit_with_checksum(&mut encoded);
    assert_eq!(
        &encoded[HEADER_LEN..],
        octets,
        "encoded differently than parsed"
    );
    let again = Packet::parse(&encoded).expect("an encoded packet is accepted");
    assert_eq!(again.body, body);
    Some(body)
}
