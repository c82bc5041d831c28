//! What the fuzz targets run: each function takes any octets and panics when a promise is broken.
//!
//! * [`header`], [`first`], [`cntl`], [`ecntl`], [`tcntl`], [`jcntl`], [`diag`], [`data`] - the
//!   decoders of XTP: what they accept is written again octet for octet.
//! * [`three`] - the same for the third revision.
//! * [`sequence`] - an XTP endpoint under a script of packets, commands and passing time.
//! * [`group()`] - an endpoint of groups likewise.
//!
//! The tests of `engine-xtp` call the same functions with octets of their own making.
#![forbid(unsafe_code)]

mod group;
mod script;

use engine_xtp::pdu::v3::PacketV3;
use engine_xtp::pdu::{Body, Format, HEADER_LEN, Header, Options, Packet, Version};
pub use group::group;
pub use script::{Summary, sequence};

/// Any octets as a packet.
pub fn header(octets: &[u8]) {
    if let Ok(packet) = Packet::parse(octets) {
        assert_eq!(packet.emit(), octets, "not written as it was read");
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

/// The body of an ECNTL: a report with spans.
pub fn ecntl(octets: &[u8]) {
    if let Some(Body::Ecntl(_, spans)) = body(Format::Ecntl, Options::NONE, octets) {
        assert_eq!(spans.iter().count(), spans.len());
    }
}

/// The body of a TCNTL: a report, a key, a traffic specifier.
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

/// The body of a DATA, with the options of its first octet.
pub fn data(octets: &[u8]) {
    let Some((first, rest)) = octets.split_first() else {
        return;
    };
    let options = Options::NONE
        .with(Options::BTAG, first & 1 != 0)
        .with(Options::NOCHECK, first & 2 != 0);
    body(Format::Data, options, rest);
}

/// A packet of the third revision: the first octet says which. Its length and checks are made right
/// if the top bit says so, so that most octets reach the body.
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
        let read = PacketV3::parse(version, &again).expect("what was accepted once is good");
        assert_eq!(read.body, parsed.body);
        assert_eq!(again.len(), whole, "as long as it was");
    }
}

/// Makes version, length and checks right, as an attacker would; false for too few octets.
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

/// Reads a body and, if it is accepted, writes the packet and reads it again.
fn body(format: Format, options: Options, octets: &[u8]) -> Option<Body<'_>> {
    let header = Header {
        key: 5,
        options,
        format,
        dlen: octets.len() as u32,
        check: 0,
        sort: 0,
        sync: 1,
        seq: 0,
    };
    let body = Body::parse(&header, octets)?;
    let packet = Packet { header, body };
    let mut encoded = Vec::new();
    packet.emit_with_checksum(&mut encoded);
    assert_eq!(&encoded[HEADER_LEN..], octets, "not written as it was read");
    let again = Packet::parse(&encoded).expect("what was accepted once is a good packet");
    assert_eq!(again.body, body);
    Some(body)
}
