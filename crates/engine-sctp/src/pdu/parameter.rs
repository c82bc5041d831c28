//! Parameters of chunks: a type, a length, a value, padding (RFC 9260 section 3.2.1).

use super::chunk::{end_item, pad};
use super::u16_at;

/// The type of a parameter.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct ParameterType(pub u16);

impl ParameterType {
    /// What a HEARTBEAT carries, opaque to the peer.
    pub const HEARTBEAT_INFO: ParameterType = ParameterType(1);
    /// An IPv4 address.
    pub const IPV4: ParameterType = ParameterType(5);
    /// An IPv6 address.
    pub const IPV6: ParameterType = ParameterType(6);
    /// The state cookie.
    pub const STATE_COOKIE: ParameterType = ParameterType(7);
    /// Parameters of an INIT that its receiver does not know.
    pub const UNRECOGNIZED: ParameterType = ParameterType(8);
    /// A wish for a longer life of the cookie.
    pub const COOKIE_PRESERVATIVE: ParameterType = ParameterType(9);
    /// A host name, which is not allowed any more.
    pub const HOST_NAME: ParameterType = ParameterType(11);
    /// The types of addresses that the sender can use.
    pub const SUPPORTED_ADDRESS_TYPES: ParameterType = ParameterType(12);
    /// Explicit congestion notification, reserved.
    pub const ECN: ParameterType = ParameterType(0x8000);
    /// Packets with a checksum of zero are accepted (RFC 9653).
    pub const ZERO_CHECKSUM: ParameterType = ParameterType(0x8001);
    /// Padding (RFC 4820).
    pub const PAD: ParameterType = ParameterType(0x8005);
    /// Chunk types of extensions (RFC 5061 section 4.2.7).
    pub const SUPPORTED_EXTENSIONS: ParameterType = ParameterType(0x8008);
    /// Partial reliability (RFC 3758 section 3.1).
    pub const FORWARD_TSN: ParameterType = ParameterType(0xc000);
    /// A number for the peer's user (RFC 5061 section 4.2.6).
    pub const ADAPTATION: ParameterType = ParameterType(0xc006);

    /// The parameters behind one of an unknown type are not processed.
    pub fn unknown_stops(self) -> bool {
        self.0 & 0x8000 == 0
    }

    /// An unknown one is reported.
    pub fn unknown_is_reported(self) -> bool {
        self.0 & 0x4000 != 0
    }
}

/// A parameter.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Parameter<'a> {
    /// Its type.
    pub kind: ParameterType,
    /// Its value, without padding.
    pub value: &'a [u8],
    /// All of its octets but padding, for reports.
    pub octets: &'a [u8],
}

/// The parameters in `octets`, up to the first that is broken.
pub fn parameters(octets: &[u8]) -> impl Iterator<Item = Parameter<'_>> {
    let mut at = 0;
    core::iter::from_fn(move || {
        let kind = ParameterType(u16_at(octets, at)?);
        let length = usize::from(u16_at(octets, at + 2)?);
        let whole = octets.get(at..at + length)?;
        let value = whole.get(4..)?;
        at += length.next_multiple_of(4);
        Some(Parameter {
            kind,
            value,
            octets: whole,
        })
    })
}

/// Appends a parameter, behind the padding of the one before.
pub fn push_parameter(out: &mut Vec<u8>, kind: ParameterType, value: &[u8]) {
    pad(out);
    let start = out.len();
    out.extend(kind.0.to_be_bytes());
    out.extend([0; 2]);
    out.extend_from_slice(value);
    end_item(out, start);
}
