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

use engine_xtp::pdu::three::Packet3;
use engine_xtp::pdu::{Body, Dialect, Format, HEADER_LEN, Header, Options, Packet};
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
pub fn three(octets: &[u8]) {
    let Some((first, rest)) = octets.split_first() else {
        return;
    };
    let dialect = [Dialect::V33, Dialect::V35, Dialect::V36][usize::from(first % 3)];
    let mut packet = rest.to_vec();
    if first & 0x80 != 0 && !mend(dialect, &mut packet) {
        return;
    }
    if let Ok(parsed) = Packet3::parse(dialect, &packet) {
        let whole = dialect.overhead() + parsed.header.dlen as usize;
        let again = parsed.emit(dialect);
        let read = Packet3::parse(dialect, &again).expect("what was accepted once is good");
        assert_eq!(read.body, parsed.body);
        assert_eq!(again.len(), whole, "as long as it was");
    }
}

/// Makes version, length and checks right, as an attacker would; false for too few octets.
pub fn mend(dialect: Dialect, packet: &mut Vec<u8>) -> bool {
    let head = dialect.header_len();
    let middle = packet.len().saturating_sub(head) / 4 * 4;
    if middle < 4 {
        return false;
    }
    packet.truncate(head + middle);
    let (revision, length_at, check_at) = match dialect {
        Dialect::V33 => (3, 24, 26),
        Dialect::V35 => (5, 24, 32),
        _ => (6, 24, 36),
    };
    packet[0] &= 0x7f;
    packet[3] = revision << 5 | packet[3] & 0x0f;
    packet[2] &= 0x33;
    let summed = packet[0] & 0x40 == 0;
    let check = if summed {
        engine::checksum::cxor(&packet[head..])
    } else {
        0
    };
    packet.extend_from_slice(&check.to_be_bytes());
    if dialect == Dialect::V33 {
        packet[length_at..length_at + 2].copy_from_slice(&(middle as u16).to_be_bytes());
        let check = engine::checksum::cxor(&packet[..check_at]) as u16;
        packet[check_at..check_at + 2].copy_from_slice(&check.to_be_bytes());
    } else {
        packet[length_at..length_at + 4].copy_from_slice(&(middle as u32).to_be_bytes());
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
    let mut summed = Vec::new();
    packet.emit_summed(&mut summed);
    assert_eq!(&summed[HEADER_LEN..], octets, "not written as it was read");
    let again = Packet::parse(&summed).expect("what was accepted once is a good packet");
    assert_eq!(again.body, body);
    Some(body)
}
