//! Causes of errors in ABORT and ERROR (RFC 9260 section 3.3.10).

use super::chunk::{end_item, pad};
use super::u16_at;

/// Why a chunk was refused, or an association ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct CauseCode(pub u16);

impl CauseCode {
    /// DATA on a stream that does not exist.
    pub const INVALID_STREAM: CauseCode = CauseCode(1);
    /// A parameter that must be there is missing.
    pub const MISSING_PARAMETER: CauseCode = CauseCode(2);
    /// The cookie came too late.
    pub const STALE_COOKIE: CauseCode = CauseCode(3);
    /// No memory or no room for one more association.
    pub const OUT_OF_RESOURCE: CauseCode = CauseCode(4);
    /// A host name instead of an address.
    pub const UNRESOLVABLE_ADDRESS: CauseCode = CauseCode(5);
    /// A chunk of unknown type.
    pub const UNRECOGNIZED_CHUNK: CauseCode = CauseCode(6);
    /// A field that must be there has an impossible value.
    pub const INVALID_MANDATORY_PARAMETER: CauseCode = CauseCode(7);
    /// Parameters of unknown types.
    pub const UNRECOGNIZED_PARAMETERS: CauseCode = CauseCode(8);
    /// DATA without user bytes.
    pub const NO_USER_DATA: CauseCode = CauseCode(9);
    /// A new association while the old one is being shut down.
    pub const COOKIE_WHILE_SHUTTING_DOWN: CauseCode = CauseCode(10);
    /// A restart with addresses that the association does not have.
    pub const RESTART_WITH_NEW_ADDRESSES: CauseCode = CauseCode(11);
    /// The user ended the association.
    pub const USER_ABORT: CauseCode = CauseCode(12);
    /// A rule of the protocol was broken.
    pub const PROTOCOL_VIOLATION: CauseCode = CauseCode(13);
    /// A peer cannot do without its last address (RFC 5061 section 4.3.1).
    pub const DELETE_LAST_ADDRESS: CauseCode = CauseCode(0xa0);
    /// No room for one more address (RFC 5061 section 4.3.2).
    pub const ADDRESS_RESOURCES: CauseCode = CauseCode(0xa1);
    /// The address that a packet comes from cannot be deleted by it (RFC 5061 section 4.3.3).
    pub const DELETE_SOURCE_ADDRESS: CauseCode = CauseCode(0xa2);
    /// An ASCONF-ACK that answers nothing (RFC 5061 section 4.3.4).
    pub const ILLEGAL_ASCONF_ACK: CauseCode = CauseCode(0xa3);
    /// The request is not allowed (RFC 5061 section 4.3.5).
    pub const NO_AUTHORIZATION: CauseCode = CauseCode(0xa4);
    /// An HMAC that was not offered (RFC 4895 section 4.1).
    pub const UNSUPPORTED_HMAC: CauseCode = CauseCode(0x105);
}

/// A cause and what belongs to it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Cause<'a> {
    /// Which.
    pub code: CauseCode,
    /// Its contents.
    pub value: &'a [u8],
}

impl Cause<'_> {
    /// A cause without contents.
    pub fn plain(code: CauseCode) -> Cause<'static> {
        Cause { code, value: &[] }
    }

    /// Appends its octets, behind the padding of the one before.
    pub fn push(&self, out: &mut Vec<u8>) {
        pad(out);
        let start = out.len();
        out.extend(self.code.0.to_be_bytes());
        out.extend([0; 2]);
        out.extend_from_slice(self.value);
        end_item(out, start);
    }
}

/// The causes of an ABORT's or ERROR's value, up to the first that is broken.
pub fn causes(value: &[u8]) -> impl Iterator<Item = Cause<'_>> {
    let mut at = 0;
    core::iter::from_fn(move || {
        let code = CauseCode(u16_at(value, at)?);
        let length = usize::from(u16_at(value, at + 2)?);
        let contents = value.get(at + 4..at + length)?;
        at += length.next_multiple_of(4);
        Some(Cause {
            code,
            value: contents,
        })
    })
}
