//! The address segment: hosts and ports of an association.

use super::{octets, u16_at};
use core::net::Ipv4Addr;
use core::net::Ipv6Addr;

/// Hosts and ports of an association.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Endpoints<H> {
    /// The responder's host.
    pub dst_host: H,
    /// The initiator's host.
    pub src_host: H,
    /// The responder's port.
    pub dst_port: u16,
    /// The initiator's port.
    pub src_port: u16,
}

/// Address format.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum AddressFormat {
    /// None: code 0.
    Null,
    /// Internet, version 4: code 1.
    Internet4,
    /// ISO's connectionless network protocol: code 2.
    Iso,
    /// Xerox Network Systems: code 3.
    Xns,
    /// Novell's IPX: code 4.
    Ipx,
    /// Direct, for fixed topologies: code 5.
    Direct,
    /// Internet, version 6: code 6.
    Internet6,
    /// Private use: codes from 128.
    Private(u8),
    /// Unassigned.
    Unassigned(u8),
}

impl AddressFormat {
    /// Decodes a format code.
    pub fn from_code(code: u8) -> AddressFormat {
        match code {
            0 => AddressFormat::Null,
            1 => AddressFormat::Internet4,
            2 => AddressFormat::Iso,
            3 => AddressFormat::Xns,
            4 => AddressFormat::Ipx,
            5 => AddressFormat::Direct,
            6 => AddressFormat::Internet6,
            128.. => AddressFormat::Private(code),
            _ => AddressFormat::Unassigned(code),
        }
    }
}

/// An address segment. `alen` and `aformat` follow from the variant.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum AddressSegment<'a> {
    /// Format 0: four octets of zero.
    Null([u8; 4]),
    /// Format 1.
    V4(Endpoints<Ipv4Addr>),
    /// Format 6. No published layout: as format 1, with longer hosts.
    V6(Endpoints<Ipv6Addr>),
    /// Format 5: direct, of local meaning only and not interpreted.
    Direct(&'a [u8]),
    /// A format that is not interpreted, see [`AddressFormat`]: its code and the octets after the
    /// first four.
    Other(u8, &'a [u8]),
}

const HEAD_LEN: usize = 4;

impl<'a> AddressSegment<'a> {
    /// Octets of the segment.
    pub fn len(&self) -> usize {
        HEAD_LEN
            + match self {
                AddressSegment::Null(_) => 4,
                AddressSegment::V4(_) => 12,
                AddressSegment::V6(_) => 36,
                AddressSegment::Direct(rest) | AddressSegment::Other(_, rest) => rest.len(),
            }
    }

    /// Always false: a segment has at least its head.
    pub fn is_empty(&self) -> bool {
        false
    }

    /// Parses the segment at the front of `body`: its domain and itself.
    pub(super) fn parse(body: &'a [u8]) -> Option<(u8, AddressSegment<'a>)> {
        let len = usize::from(u16_at(body, 0)?);
        let segment = body.get(..len)?;
        let &[domain, format] = segment.get(2..HEAD_LEN)? else {
            return None;
        };
        let rest = &segment[HEAD_LEN..];
        let address = match (format, rest.len()) {
            (0, 4) => AddressSegment::Null(octets(rest, 0)?),
            (1, 12) => AddressSegment::V4(Endpoints {
                dst_host: octets::<4>(rest, 0)?.into(),
                src_host: octets::<4>(rest, 4)?.into(),
                dst_port: u16_at(rest, 8)?,
                src_port: u16_at(rest, 10)?,
            }),
            (6, 36) => AddressSegment::V6(Endpoints {
                dst_host: octets::<16>(rest, 0)?.into(),
                src_host: octets::<16>(rest, 16)?.into(),
                dst_port: u16_at(rest, 32)?,
                src_port: u16_at(rest, 34)?,
            }),
            (0 | 1 | 6, _) => return None,
            (5, _) => AddressSegment::Direct(rest),
            (other, _) => AddressSegment::Other(other, rest),
        };
        Some((domain, address))
    }

    pub(super) fn emit(&self, domain: u8, out: &mut Vec<u8>) {
        let [high, low] = (self.len() as u16).to_be_bytes();
        let mut put = |format: u8, parts: &[&[u8]]| {
            out.extend_from_slice(&[high, low, domain, format]);
            parts.iter().for_each(|part| out.extend_from_slice(part));
        };
        let ports = |dst: u16, src: u16| (u32::from(dst) << 16 | u32::from(src)).to_be_bytes();
        match self {
            AddressSegment::Null(zero) => put(0, &[zero]),
            AddressSegment::V4(e) => {
                let hosts = [e.dst_host.to_bits(), e.src_host.to_bits()];
                let hosts = u64::from(hosts[0]) << 32 | u64::from(hosts[1]);
                let ports = ports(e.dst_port, e.src_port);
                put(1, &[&hosts.to_be_bytes(), &ports]);
            }
            AddressSegment::V6(e) => {
                let (dst, src) = (e.dst_host.octets(), e.src_host.octets());
                put(6, &[&dst, &src, &ports(e.dst_port, e.src_port)]);
            }
            AddressSegment::Direct(rest) => put(5, &[rest]),
            AddressSegment::Other(format, rest) => put(*format, &[rest]),
        }
    }

    /// The address format.
    pub fn format(&self) -> AddressFormat {
        AddressFormat::from_code(match self {
            AddressSegment::Null(_) => 0,
            AddressSegment::V4(_) => 1,
            AddressSegment::Direct(_) => 5,
            AddressSegment::V6(_) => 6,
            AddressSegment::Other(code, _) => *code,
        })
    }

    /// The responder's port; None in formats without ports.
    pub fn service_port(&self) -> Option<u16> {
        match self {
            AddressSegment::V4(ends) => Some(ends.dst_port),
            AddressSegment::V6(ends) => Some(ends.dst_port),
            _ => None,
        }
    }
}
