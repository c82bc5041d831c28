//! A message or a fragment of one, as DATA or I-DATA brought it.

use crate::numbers::{StreamId, Tsn};
use crate::pdu::data::{DATA_FIELDS_LEN, FLAG_BEGIN, FLAG_END, FLAG_UNORDERED};
use crate::pdu::i_data::I_DATA_FIELDS_LEN;
use crate::pdu::{Chunk, ChunkType, DataHeader, IDataHeader};

/// What precedes the user bytes of a chunk.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Fragment {
    /// `FLAG_*` bits.
    pub(crate) flags: u8,
    pub(crate) tsn: Tsn,
    pub(crate) stream: StreamId,
    /// The number of its message: an SSN with DATA, a MID with I-DATA.
    pub(crate) number: u32,
    /// Its number within the message; 0 with DATA.
    pub(crate) fsn: u32,
    /// The payload protocol identifier; with I-DATA of the first fragment alone.
    pub(crate) ppid: u32,
}

impl Fragment {
    /// Of a chunk of DATA or I-DATA, with the octets in front of its user bytes; None if it is too
    /// short.
    pub(crate) fn parse(chunk: &Chunk<'_>) -> Option<(Fragment, usize)> {
        if chunk.kind == ChunkType::I_DATA {
            let header = IDataHeader::parse(chunk.flags, chunk.value)?;
            let fragment = Fragment {
                flags: header.flags,
                tsn: header.tsn,
                stream: header.stream,
                number: header.mid.0,
                fsn: header.fsn.0,
                ppid: header.ppid,
            };
            return Some((fragment, I_DATA_FIELDS_LEN));
        }
        let header = DataHeader::parse(chunk.flags, chunk.value)?;
        let fragment = Fragment {
            flags: header.flags,
            tsn: header.tsn,
            stream: header.stream,
            number: u32::from(header.ssn.0),
            fsn: 0,
            ppid: header.ppid,
        };
        Some((fragment, DATA_FIELDS_LEN))
    }

    /// Whether the first of its message.
    pub(crate) fn is_begin(&self) -> bool {
        self.flags & FLAG_BEGIN != 0
    }

    /// Whether the last of its message.
    pub(crate) fn is_end(&self) -> bool {
        self.flags & FLAG_END != 0
    }

    /// Whether its message is unordered.
    pub(crate) fn is_unordered(&self) -> bool {
        self.flags & FLAG_UNORDERED != 0
    }

    /// Whether it is a whole message of which there is nothing to note.
    #[inline]
    pub(crate) fn is_plain_message(&self) -> bool {
        let is_whole =
            self.flags & (FLAG_BEGIN | FLAG_END | FLAG_UNORDERED) == FLAG_BEGIN | FLAG_END;
        is_whole && self.stream == StreamId(0) && self.ppid == 0
    }

    /// The number that all fragments of its message have: the SSN of unordered DATA says nothing (RFC 9260
    /// section 3.3.1).
    pub(crate) fn message_number(&self, interleaved: bool) -> u32 {
        match interleaved || !self.is_unordered() {
            true => self.number,
            false => 0,
        }
    }

    /// Its place among the fragments of I-DATA: stream, whether unordered, MID and FSN.
    pub(crate) fn place(&self) -> (u16, bool, u32, u32) {
        (self.stream.0, self.is_unordered(), self.number, self.fsn)
    }
}
