//! I-DATA: a fragment that names its message, so that fragments of several messages may take turns
//! (RFC 8260 section 2.1).

use super::data::FLAG_BEGIN;
use super::{ChunkType, u16_at, u32_at};
use crate::numbers::{Fsn, Mid, StreamId, Tsn};

/// Octets in front of the user bytes, the chunk's header included.
pub const I_DATA_HEADER_LEN: usize = 20;

/// Octets of the value in front of the user bytes.
pub const I_DATA_FIELDS_LEN: usize = 16;

/// What precedes the user bytes of an I-DATA chunk.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct IDataHeader {
    /// `FLAG_*` bits, those of DATA.
    pub flags: u8,
    /// Its number.
    pub tsn: Tsn,
    /// The stream of its message.
    pub stream: StreamId,
    /// The number of its message; ordered and unordered messages of a stream are counted apart.
    pub mid: Mid,
    /// The payload protocol identifier, with the first fragment.
    pub ppid: u32,
    /// The number of the fragment within its message; that of the first is 0.
    pub fsn: Fsn,
}

impl IDataHeader {
    /// Of a chunk's flags and value; None if that is too short. The user bytes are what follows
    /// [`I_DATA_FIELDS_LEN`] octets of the value, and may be none, which is a fault of the peer.
    pub fn parse(flags: u8, value: &[u8]) -> Option<IDataHeader> {
        let either = u32_at(value, 12)?;
        let is_begin = flags & FLAG_BEGIN != 0;
        Some(IDataHeader {
            flags,
            tsn: Tsn(u32_at(value, 0)?),
            stream: StreamId(u16_at(value, 4)?),
            mid: Mid(u32_at(value, 8)?),
            ppid: if is_begin { either } else { 0 },
            fsn: Fsn(if is_begin { 0 } else { either }),
        })
    }

    /// The octets in front of `len` user bytes.
    pub fn emit(&self, len: usize) -> [u8; I_DATA_HEADER_LEN] {
        let mut octets = [0; I_DATA_HEADER_LEN];
        octets[0] = ChunkType::I_DATA.0;
        octets[1] = self.flags;
        let length = (len + I_DATA_HEADER_LEN) as u16;
        octets[2..4].copy_from_slice(&length.to_be_bytes());
        octets[4..8].copy_from_slice(&self.tsn.0.to_be_bytes());
        octets[8..10].copy_from_slice(&self.stream.0.to_be_bytes());
        octets[12..16].copy_from_slice(&self.mid.0.to_be_bytes());
        let either = match self.flags & FLAG_BEGIN != 0 {
            true => self.ppid,
            false => self.fsn.0,
        };
        octets[16..20].copy_from_slice(&either.to_be_bytes());
        octets
    }
}
