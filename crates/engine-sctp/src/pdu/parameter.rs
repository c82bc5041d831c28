//! Parameters of chunks: a type, a length, a value, padding (RFC 9260 section 3.2.1).

use super::chunk::{end_item, pad};
use super::u16_at;
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr};

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
    /// The sender's streams begin anew (RFC 6525 section 4.1).
    pub const RESET_OUTGOING: ParameterType = ParameterType(13);
    /// The receiver's streams are to begin anew (RFC 6525 section 4.2).
    pub const RESET_INCOMING: ParameterType = ParameterType(14);
    /// All streams and TSNs begin anew (RFC 6525 section 4.3).
    pub const RESET_ASSOCIATION: ParameterType = ParameterType(15);
    /// What became of a request of RE-CONFIG (RFC 6525 section 4.4).
    pub const RECONFIG_RESPONSE: ParameterType = ParameterType(16);
    /// The sender wants more streams to send on (RFC 6525 section 4.5).
    pub const ADD_OUTGOING: ParameterType = ParameterType(17);
    /// The receiver is to have more streams to send on (RFC 6525 section 4.6).
    pub const ADD_INCOMING: ParameterType = ParameterType(18);
    /// Explicit congestion notification, reserved.
    pub const ECN: ParameterType = ParameterType(0x8000);
    /// Packets with a checksum of zero are accepted (RFC 9653).
    pub const ZERO_CHECKSUM: ParameterType = ParameterType(0x8001);
    /// The sender's random number for authentication (RFC 4895 section 3.1).
    pub const RANDOM: ParameterType = ParameterType(0x8002);
    /// Types of chunks that the sender takes only authenticated (RFC 4895 section 3.2).
    pub const CHUNKS: ParameterType = ParameterType(0x8003);
    /// HMACs that the sender knows (RFC 4895 section 3.3).
    pub const HMAC_ALGO: ParameterType = ParameterType(0x8004);
    /// Padding (RFC 4820).
    pub const PAD: ParameterType = ParameterType(0x8005);
    /// Chunk types of extensions (RFC 5061 section 4.2.7).
    pub const SUPPORTED_EXTENSIONS: ParameterType = ParameterType(0x8008);
    /// Partial reliability (RFC 3758 section 3.1).
    pub const FORWARD_TSN: ParameterType = ParameterType(0xc000);
    /// The sender has this address too (RFC 5061 section 4.2.1).
    pub const ADD_ADDRESS: ParameterType = ParameterType(0xc001);
    /// The sender no longer has this address (RFC 5061 section 4.2.2).
    pub const DELETE_ADDRESS: ParameterType = ParameterType(0xc002);
    /// A request of an ASCONF was refused (RFC 5061 section 4.2.3).
    pub const ADDRESS_ERROR: ParameterType = ParameterType(0xc003);
    /// The receiver is to prefer this address of the sender (RFC 5061 section 4.2.4).
    pub const SET_PRIMARY: ParameterType = ParameterType(0xc004);
    /// A request of an ASCONF was done (RFC 5061 section 4.2.5).
    pub const ADDRESS_SUCCESS: ParameterType = ParameterType(0xc005);
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
    let start = begin_parameter(out, kind);
    out.extend_from_slice(value);
    end_parameter(out, start);
}

/// Begins a parameter behind the padding of the one before; [`end_parameter`] gets what this returns.
pub(super) fn begin_parameter(out: &mut Vec<u8>, kind: ParameterType) -> usize {
    pad(out);
    let start = out.len();
    out.extend(kind.0.to_be_bytes());
    out.extend([0; 2]);
    start
}

/// Ends the parameter that begins at `start`: writes its length.
pub(super) fn end_parameter(out: &mut [u8], start: usize) {
    end_item(out, start);
}

/// Appends an address.
pub fn push_address(out: &mut Vec<u8>, address: IpAddr) {
    match address {
        IpAddr::V4(v4) => push_parameter(out, ParameterType::IPV4, &v4.octets()),
        IpAddr::V6(v6) => push_parameter(out, ParameterType::IPV6, &v6.octets()),
    }
}

/// The address that a parameter holds; None of another type, or if it is too short.
pub fn address_of(parameter: &Parameter<'_>) -> Option<IpAddr> {
    match parameter.kind {
        ParameterType::IPV4 => {
            let octets = parameter.value.first_chunk::<4>()?;
            Some(Ipv4Addr::from(*octets).into())
        }
        ParameterType::IPV6 => {
            let octets = parameter.value.first_chunk::<16>()?;
            Some(Ipv6Addr::from(*octets).into())
        }
        _ => None,
    }
}
