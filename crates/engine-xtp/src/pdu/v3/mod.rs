//! The packet codec of XTP 3.3, 3.5 and 3.6.
//!
//! The texts of these versions are lost. Lengths of headers, trailers and control segments, 32-bit
//! sequence numbers, two checks, padding, routes and kinds of packet are as the studies state
//! them; the places of the fields are decided in `docs/decisions/0008-xtp-3x.md`. A packet is a
//! [`HeaderV3`], a middle segment ([`BodyV3`]) and a trailer of four octets, a check over the
//! middle segment including padding.

mod body;
mod header;

pub use body::{
    BodyV3, ControlSegmentV3, InformationSegment, OP_EXPIRED, OP_REQUEST, OP_RESPONSE, PAIRS_MAX,
    ResendPair, ResendPairs,
};
pub use header::{HeaderV3, PacketKind};

use super::{AddressSegment, TrafficSpec};

/// A protocol version.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord)]
pub enum Version {
    /// 3.3: header and trailer 32 octets, control segment 32.
    V33,
    /// 3.5: header and trailer 40 octets, control segment 48.
    V35,
    /// 3.6: header 40 octets, trailer 4; control segment as in 3.5.
    V36,
    /// 4.0: header 32 octets, no trailer.
    #[default]
    V40,
}

/// Octets of a 3.x trailer.
pub const TRAILER_LEN: usize = 4;

/// Top bit of keys and routes: the value is the receiver's own, returned to it.
pub const RTN_V3: u32 = 1 << 31;

/// Reads the length of a packet from its first octets.
type PacketLen = fn(&[u8]) -> Option<usize>;

impl Version {
    /// Octets before the middle segment.
    pub const fn header_len(self) -> usize {
        match self {
            Version::V33 => 28,
            Version::V35 => 36,
            Version::V36 => 40,
            Version::V40 => super::HEADER_LEN,
        }
    }

    /// Octets of header and trailer.
    pub const fn overhead(self) -> usize {
        match self {
            Version::V40 => super::HEADER_LEN,
            _ => self.header_len() + TRAILER_LEN,
        }
    }

    /// Octets of a control segment without resend pairs.
    pub const fn control_len(self) -> usize {
        match self {
            Version::V33 => 32,
            Version::V35 | Version::V36 => 48,
            Version::V40 => super::control_segment::COMMON_LEN,
        }
    }

    /// Whether it is a 3.x version.
    pub const fn is_v3(self) -> bool {
        !matches!(self, Version::V40)
    }

    /// How the length of a packet is read from its first octets, where they tell it.
    pub(crate) fn packet_len_reader(self) -> Option<PacketLen> {
        (self == Version::V40).then_some(super::packet_len)
    }

    /// User bytes in a full packet of `packet_len` octets: middle segments of 3.x are padded to a multiple of four.
    pub(crate) const fn payload_max(self, packet_len: usize) -> u64 {
        let room = packet_len - self.overhead();
        (if self.is_v3() { room - room % 4 } else { room }) as u64
    }

    /// Length of a DATA packet with `bytes` user bytes, padding included.
    #[inline]
    pub(crate) const fn packet_len(self, bytes: u64) -> usize {
        let bytes = bytes as usize;
        if !self.is_v3() {
            return self.overhead() + bytes;
        }
        let segment = bytes.next_multiple_of(4);
        self.overhead() + if segment == 0 { 4 } else { segment }
    }
}

/// A 3.x packet.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct PacketV3<'a> {
    /// The header.
    pub header: HeaderV3,
    /// The middle segment without padding.
    pub body: BodyV3<'a>,
}

impl<'a> PacketV3<'a> {
    /// Parses and checks a packet; the error is the first rule that it breaks. Octets after the
    /// trailer are padding of the link layer.
    pub fn parse(version: Version, octets: &'a [u8]) -> Result<PacketV3<'a>, super::Reject> {
        let header = HeaderV3::parse(version, octets)?;
        let body = BodyV3::parse(version, &header, octets).ok_or(super::Reject::Body)?;
        Ok(PacketV3 { header, body })
    }

    /// Encodes the packet and fills in length and checks. Padding before the segment is as in the
    /// header; behind it as alignment requires, and at least as in the header.
    pub fn emit(&self, version: Version) -> Vec<u8> {
        let head = version.header_len();
        let mut out = vec![0; head + usize::from(self.header.pad_front)];
        self.body.emit(version, &mut out);
        let back = padding_len(out.len() - head, usize::from(self.header.pad_back));
        out.resize(out.len() + back, 0);
        let header = HeaderV3 {
            pad_back: back as u8,
            dlen: (out.len() - head) as u32,
            ..self.header
        };
        header.emit_into(version, &mut out[..head]);
        let summed = !header.options.has(super::Options::NOCHECK);
        let check = if summed {
            engine::checksum::cxor(&out[head..])
        } else {
            0
        };
        out.extend_from_slice(&check.to_be_bytes());
        out
    }
}

/// Padding behind a middle segment of `len`, at least `least`, so that its length is a multiple of
/// four and not zero.
pub(crate) fn padding_len(len: usize, least: usize) -> usize {
    let whole = (len + least).next_multiple_of(4).max(4);
    whole - len
}

/// Parses the middle segment of a FIRST: address, traffic specifier, user data.
pub(crate) fn parse_first_segment<'a>(
    body: &'a [u8],
) -> Option<(AddressSegment<'a>, TrafficSpec, &'a [u8])> {
    let (_, address) = AddressSegment::parse(body)?;
    let rest = &body[address.len()..];
    let traffic = TrafficSpec::parse(rest)?.with_v3_service();
    Some((address, traffic, &rest[traffic.len()..]))
}

/// Appends an address segment and a traffic specifier.
pub(crate) fn emit_first_segment(
    address: &AddressSegment<'_>,
    traffic: &TrafficSpec,
    out: &mut Vec<u8>,
) {
    address.emit(0, out);
    let at = out.len();
    traffic.emit(out);
    out[at + 2] = traffic.service().v3_code();
}

/// The middle segment of a checked packet, without padding.
pub(crate) fn segment(version: Version, packet: &[u8]) -> &[u8] {
    let header = HeaderV3::parse_unchecked(version, packet);
    let start = version.header_len() + usize::from(header.pad_front);
    let end = version.header_len() + header.dlen as usize - usize::from(header.pad_back);
    packet.get(start..end).unwrap_or_default()
}
