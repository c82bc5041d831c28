//! FORWARD-TSN and I-FORWARD-TSN: the peer is not to wait for chunks up to a TSN any more (RFC 3758
//! section 3.2, RFC 8260 section 2.3.1).

use super::chunk::{begin_chunk, end_chunk};
use super::{ChunkType, u16_at, u32_at};
use crate::numbers::{StreamId, Tsn};

/// Octets of either without entries.
pub const FORWARD_TSN_LEN: usize = 8;

/// Flag U of an entry of I-FORWARD-TSN: it is about unordered messages.
const ENTRY_UNORDERED: u16 = 1;

/// Messages of a stream that were given up.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct SkippedStream {
    /// Their stream.
    pub stream: StreamId,
    /// They are unordered: of I-FORWARD-TSN only.
    pub unordered: bool,
    /// The number of the last of them: an SSN of 16 bits, or a MID.
    pub number: u32,
}

/// A FORWARD-TSN or I-FORWARD-TSN of a peer.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct ForwardTsn<'a> {
    /// All TSNs up to this one count as received.
    pub cumulative: Tsn,
    interleaved: bool,
    entries: &'a [u8],
}

/// Octets of an entry of the one and of the other.
pub const fn entry_len(interleaved: bool) -> usize {
    if interleaved { 8 } else { 4 }
}

impl<'a> ForwardTsn<'a> {
    /// Of a chunk's value; None if it is too short or its last entry is broken.
    pub fn parse(kind: ChunkType, value: &'a [u8]) -> Option<ForwardTsn<'a>> {
        let interleaved = kind == ChunkType::I_FORWARD_TSN;
        let entries = value.get(4..)?;
        let whole = entries.len().is_multiple_of(entry_len(interleaved));
        whole.then_some(ForwardTsn {
            cumulative: Tsn(u32_at(value, 0)?),
            interleaved,
            entries,
        })
    }

    /// The streams of which messages were given up. One may be named more than once.
    pub fn streams(&self) -> impl Iterator<Item = SkippedStream> + use<'a> {
        let interleaved = self.interleaved;
        let entries = self.entries.chunks_exact(entry_len(interleaved));
        entries.filter_map(move |entry| {
            let stream = StreamId(u16_at(entry, 0)?);
            let second = u16_at(entry, 2)?;
            Some(match interleaved {
                true => SkippedStream {
                    stream,
                    unordered: second & ENTRY_UNORDERED != 0,
                    number: u32_at(entry, 4)?,
                },
                false => SkippedStream {
                    stream,
                    unordered: false,
                    number: u32::from(second),
                },
            })
        })
    }
}

/// Appends the chunk: I-FORWARD-TSN if `interleaved`, else FORWARD-TSN, whose entries are of ordered
/// messages alone.
pub fn push_forward_tsn(
    out: &mut Vec<u8>,
    interleaved: bool,
    cumulative: Tsn,
    streams: impl Iterator<Item = SkippedStream>,
) {
    let kind = match interleaved {
        true => ChunkType::I_FORWARD_TSN,
        false => ChunkType::FORWARD_TSN,
    };
    let start = begin_chunk(out, kind, 0);
    out.extend(cumulative.0.to_be_bytes());
    for skipped in streams {
        out.extend(skipped.stream.0.to_be_bytes());
        if interleaved {
            out.extend(u16::from(skipped.unordered).to_be_bytes());
            out.extend(skipped.number.to_be_bytes());
        } else {
            out.extend((skipped.number as u16).to_be_bytes());
        }
    }
    end_chunk(out, start);
}
