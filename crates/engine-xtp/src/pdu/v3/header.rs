//! Headers of XTP 3.x.

use super::super::{Options, Reject};
use super::{TRAILER_LEN, Version};
use crate::numbers::SyncNumber;
use engine::checksum;

/// Kind of packet.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum PacketKind {
    /// DATA: user data.
    Data = 0,
    /// CNTL: state of the receiving direction, key, limits and resend pairs.
    Cntl = 1,
    /// FIRST: opens an association, with user data if there are any.
    First = 2,
    /// PATH: a status request that is routed by address, as FIRST is.
    Path = 4,
    /// DIAG: reports an error.
    Diag = 8,
    /// MAINT: network maintenance.
    Maint = 9,
    /// MGMT: network management.
    Mgmt = 10,
    /// ROUTE: assigns and releases routes between neighbours.
    Route = 11,
    /// RCNTL: rate limits of a router.
    Rcntl = 12,
}

impl PacketKind {
    fn from_code(code: u8) -> Option<PacketKind> {
        Some(match code {
            0 => PacketKind::Data,
            1 => PacketKind::Cntl,
            2 => PacketKind::First,
            4 => PacketKind::Path,
            8 => PacketKind::Diag,
            9 => PacketKind::Maint,
            10 => PacketKind::Mgmt,
            11 => PacketKind::Route,
            12 => PacketKind::Rcntl,
            _ => return None,
        })
    }
}

/// Header of every packet, in network byte order. Words of four octets:
///
/// ```text
///          3.3                         3.5, 3.6
///  0   options 16, front 4, back 4, revision 3, kind 5
///  4   key: RTN 1, value 31
///  8   route: RTN 1, value 31
/// 12   seq
/// 16   dseq
/// 20   sync
/// 24   dlen 16, check 16           dlen 32
/// 28                               sort
/// 32                               check (3.5); time to live 8, zero 24 (3.6)
/// 36                               check (3.6)
/// ```
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct HeaderV3 {
    /// The kind of packet.
    pub kind: PacketKind,
    /// The option bits, as in 4.0.
    pub options: Options,
    /// Octets of padding before the content of the middle segment, 0 to 15.
    pub pad_front: u8,
    /// Octets of padding behind it, 0 to 15.
    pub pad_back: u8,
    /// Names the context, with [`super::RTN_V3`] in the top bit.
    pub key: u32,
    /// Names the route between neighbours, with [`super::RTN_V3`] in the top bit; 0 for none.
    pub route: u32,
    /// Number of the first user byte, or of the next one to be sent.
    pub seq: u32,
    /// Delivered sequence number: the sender's user consumed everything below.
    pub dseq: u32,
    /// Number of the sender's last status request.
    pub sync: SyncNumber,
    /// Octets of the middle segment including padding, a multiple of four.
    pub dlen: u32,
    /// Priority, valid with [`Options::SORT`]; 3.3 has none.
    pub sort: u32,
    /// Time to live: routers that the packet may still pass; 3.6 only.
    pub ttl: u8,
}

fn word(bytes: &[u8], at: usize) -> u32 {
    bytes
        .get(at..)
        .and_then(|rest| rest.first_chunk())
        .map_or(0, |chunk| u32::from_be_bytes(*chunk))
}

/// The option bits of 4.0 and, above them, ETAG.
const OPTIONS_MASK: u32 = 0xffff;

impl HeaderV3 {
    /// The header of a packet that belongs to no association: all else is zero.
    pub fn plain(kind: PacketKind, route: u32, ttl: u8) -> HeaderV3 {
        HeaderV3 {
            kind,
            options: Options::NONE,
            pad_front: 0,
            pad_back: 0,
            key: 0,
            route,
            seq: 0,
            dseq: 0,
            sync: SyncNumber::NONE,
            dlen: 0,
            sort: 0,
            ttl,
        }
    }

    /// Parses and checks the header of `packet` and the check in its trailer, in the order of
    /// [`Reject`].
    pub fn parse(version: Version, packet: &[u8]) -> Result<HeaderV3, Reject> {
        let head = version.header_len();
        let header = HeaderV3::parse_header_only(version, packet)?;
        let end = head + header.dlen as usize;
        let summed = !header.options.has(Options::NOCHECK);
        let wanted = if summed {
            checksum::cxor(&packet[head..end])
        } else {
            0
        };
        if word(packet, end) != wanted {
            return Err(Reject::Checksum);
        }
        Ok(header)
    }

    /// Parses and checks the header of `packet` only.
    pub fn parse_header_only(version: Version, packet: &[u8]) -> Result<HeaderV3, Reject> {
        let head = version.header_len();
        if packet.len() < head + 4 + TRAILER_LEN {
            return Err(Reject::Short);
        }
        if packet[3] >> 5 != version_number(version) {
            return Err(Reject::Version);
        }
        let header = HeaderV3::parse_unchecked(version, packet);
        let pads = u32::from(header.pad_front) + u32::from(header.pad_back);
        let whole = header.dlen.is_multiple_of(4) && header.dlen >= pads.max(4);
        let room = packet.len() - head - TRAILER_LEN;
        if !whole || header.dlen as usize > room {
            return Err(Reject::Length);
        }
        if header_check(version, &packet[..head]) != stated_check(version, packet) {
            return Err(Reject::Checksum);
        }
        PacketKind::from_code(packet[3] & 0x1f).ok_or(Reject::Format)?;
        Ok(header)
    }

    /// Parses the header of a packet that was checked.
    pub(crate) fn parse_unchecked(version: Version, packet: &[u8]) -> HeaderV3 {
        let long = version != Version::V33;
        let sixth = word(packet, 24);
        HeaderV3 {
            kind: PacketKind::from_code(packet[3] & 0x1f).unwrap_or(PacketKind::Data),
            options: Options((word(packet, 0) >> 16 & OPTIONS_MASK) << 8),
            pad_front: packet[2] >> 4,
            pad_back: packet[2] & 0xf,
            key: word(packet, 4),
            route: word(packet, 8),
            seq: word(packet, 12),
            dseq: word(packet, 16),
            sync: SyncNumber(word(packet, 20)),
            dlen: if long { sixth } else { sixth >> 16 },
            sort: if long { word(packet, 28) } else { 0 },
            ttl: if version == Version::V36 {
                packet[32]
            } else {
                0
            },
        }
    }

    /// Encodes the header and fills in its check.
    pub fn emit(&self, version: Version) -> Vec<u8> {
        let mut out = vec![0; version.header_len()];
        self.emit_into(version, &mut out);
        out
    }

    /// Encodes the header into `out`, which has its length and is zero.
    pub(super) fn emit_into(&self, version: Version, out: &mut [u8]) {
        let mut put = |at: usize, value: u32| out[at..at + 4].copy_from_slice(&value.to_be_bytes());
        let pads = u32::from(self.pad_front & 0xf) << 4 | u32::from(self.pad_back & 0xf);
        let what = u32::from(version_number(version) << 5 | self.kind as u8);
        put(
            0,
            (self.options.0 >> 8 & OPTIONS_MASK) << 16 | pads << 8 | what,
        );
        put(4, self.key);
        put(8, self.route);
        put(12, self.seq);
        put(16, self.dseq);
        put(20, self.sync.0);
        let short = version == Version::V33;
        put(24, if short { self.dlen << 16 } else { self.dlen });
        if !short {
            put(28, self.sort);
        }
        if version == Version::V36 {
            put(32, u32::from(self.ttl) << 24);
        }
        set_header_check(version, out);
    }
}

/// Fills in the check of an encoded header.
pub(crate) fn set_header_check(version: Version, header: &mut [u8]) {
    let check = header_check(version, header);
    let at = check_at(version);
    if version == Version::V33 {
        header[at..at + 2].copy_from_slice(&(check as u16).to_be_bytes());
    } else {
        header[at..at + 4].copy_from_slice(&check.to_be_bytes());
    }
}

/// The version number in the packet type; 4.0 is 1.
const fn version_number(version: Version) -> u8 {
    match version {
        Version::V33 => 3,
        Version::V35 => 5,
        Version::V36 => 6,
        Version::V40 => 1,
    }
}

/// Offset of the check, the last field; it covers everything before it.
const fn check_at(version: Version) -> usize {
    match version {
        Version::V33 => 26,
        Version::V35 => 32,
        Version::V36 | Version::V40 => 36,
    }
}

/// The check over a header. In 3.3 only the rotated half fits (0008, The packets).
fn header_check(version: Version, header: &[u8]) -> u32 {
    let check = checksum::cxor(&header[..check_at(version)]);
    if version == Version::V33 {
        check & 0xffff
    } else {
        check
    }
}

fn stated_check(version: Version, packet: &[u8]) -> u32 {
    if version == Version::V33 {
        word(packet, 24) & 0xffff
    } else {
        word(packet, check_at(version))
    }
}
