//! DATA: a message, or a fragment of one (RFC 9260 section 3.3.1, flag I of RFC 7053).

use super::{ChunkType, u16_at, u32_at};
use crate::numbers::{Ssn, StreamId, Tsn};

/// Octets in front of the user bytes, the chunk's header included.
pub const DATA_HEADER_LEN: usize = 16;

/// Octets of the value in front of the user bytes.
pub const DATA_FIELDS_LEN: usize = 12;

/// Flag E: the last fragment of a message.
pub const FLAG_END: u8 = 1;
/// Flag B: the first fragment of a message.
pub const FLAG_BEGIN: u8 = 2;
/// Flag U: the message is unordered.
pub const FLAG_UNORDERED: u8 = 4;
/// Flag I: the sender wants an acknowledgement at once (RFC 7053).
pub const FLAG_IMMEDIATE: u8 = 8;

/// What precedes the user bytes of a DATA chunk.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct DataHeader {
    /// `FLAG_*` bits.
    pub flags: u8,
    /// Its number.
    pub tsn: Tsn,
    /// The stream of its message.
    pub stream: StreamId,
    /// The number of its message, if that is ordered.
    pub ssn: Ssn,
    /// The payload protocol identifier, opaque.
    pub ppid: u32,
}

impl DataHeader {
    /// Of a chunk's flags and value; None if that is too short. The user bytes are what follows
    /// [`DATA_FIELDS_LEN`] octets of the value, and may be none, which is a fault of the peer.
    pub fn parse(flags: u8, value: &[u8]) -> Option<DataHeader> {
        Some(DataHeader {
            flags,
            tsn: Tsn(u32_at(value, 0)?),
            stream: StreamId(u16_at(value, 4)?),
            ssn: Ssn(u16_at(value, 6)?),
            ppid: u32_at(value, 8)?,
        })
    }

    /// The octets in front of `len` user bytes.
    pub fn emit(&self, len: usize) -> [u8; DATA_HEADER_LEN] {
        self.bits(len).to_be_bytes()
    }

    /// The same as a number, the first octet the highest.
    #[inline]
    pub(crate) fn bits(&self, len: usize) -> u128 {
        let length = (len + DATA_HEADER_LEN) as u16;
        let kind = u64::from(ChunkType::DATA.0) << 56;
        let front = kind | u64::from(self.flags) << 48 | u64::from(length) << 32;
        let stream = u64::from(self.stream.0) << 48 | u64::from(self.ssn.0) << 32;
        let front = front | u64::from(self.tsn.0);
        u128::from(front) << 64 | u128::from(stream | u64::from(self.ppid))
    }
}
