//! What the fuzz targets run: each function takes any octets and panics when a promise is broken.
//!
//! * [`header`], [`first`], [`cntl`], [`ecntl`], [`tcntl`], [`jcntl`], [`diag`], [`data`] - the
//!   decoders of XTP: what they accept is written again octet for octet.
//! * [`sequence`] - an XTP endpoint under a script of packets, commands and passing time.
//!
//! The tests of `engine-xtp` call the same functions with octets of their own making.
#![forbid(unsafe_code)]

mod script;

use engine_xtp::pdu::{Body, Format, HEADER_LEN, Header, Options, Packet};
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
