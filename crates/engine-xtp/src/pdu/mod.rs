//! The packet codec of XTP 4.0, and of 3.x in [`v3`].
//!
//! A packet is a [`Header`] of 32 octets and a [`Body`]. [`Packet::parse`] accepts any octets,
//! checks them in a fixed order - length, version, stated length, checksum, format, body - and
//! returns the first violation as a [`Reject`]. [`Packet::emit`] encodes an accepted packet octet
//! for octet as it was.

mod address_segment;
mod control_segment;
mod diag;
mod header;
mod named_address;
mod options;
mod packet;
mod reject;
mod traffic_specifier;
pub mod v3;

pub use crate::numbers::SyncNumber;
pub use address_segment::{AddressFormat, AddressSegment, Endpoints};
pub(crate) use control_segment::span_octets;
pub use control_segment::{CommonControl, SPAN_LEN, Span, Spans};
pub use diag::{Diag, DiagCode, DiagValue};
pub use header::{CHECK_AT, Format, HEADER_LEN, Header, RTN, packet_len};
pub(crate) use header::{DATA_WORD, FIRST_WORD, first_key, has_right_check};
pub use named_address::NamedAddress;
pub use options::Options;
pub use packet::{Body, Packet};
pub use reject::{Reject, Rejects};
pub use traffic_specifier::{Service, TrafficSpec, UNLIMITED};
pub use v3::Version;

/// Octets of a tag. It is received whole or not at all (0007, Tags).
pub(crate) const TAG_LEN: u64 = 8;

/// The `N` octets at `at`; None beyond the end.
fn octets<const N: usize>(bytes: &[u8], at: usize) -> Option<[u8; N]> {
    bytes.get(at..)?.first_chunk().copied()
}

fn u16_at(bytes: &[u8], at: usize) -> Option<u16> {
    octets(bytes, at).map(u16::from_be_bytes)
}

fn u32_at(bytes: &[u8], at: usize) -> Option<u32> {
    octets(bytes, at).map(u32::from_be_bytes)
}

fn u64_at(bytes: &[u8], at: usize) -> Option<u64> {
    octets(bytes, at).map(u64::from_be_bytes)
}
