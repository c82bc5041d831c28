//! Chunks that were sent and that the peer may ask for again, in the order of their TSNs.

use crate::numbers::{LongTsn, Ssn, StreamId};
use crate::pdu::{DATA_HEADER_LEN, DataHeader};
use core::ops::Range;
use std::collections::VecDeque;

/// Where a chunk stands.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum ChunkStatus {
    /// On its way.
    InFlight,
    /// Reported beyond a gap. The peer may still take that back.
    GapAcked,
    /// Lost, to be sent again.
    Marked,
}

/// A chunk that was sent.
#[derive(Clone, Debug)]
pub(crate) struct OutChunk {
    /// Its user bytes in the store.
    pub(crate) start: u64,
    pub(crate) len: u32,
    pub(crate) ppid: u32,
    pub(crate) stream: StreamId,
    pub(crate) ssn: Ssn,
    /// B, E and U.
    pub(crate) flags: u8,
    pub(crate) status: ChunkStatus,
    /// How often a gap was reported in its place.
    pub(crate) misses: u8,
    /// It was retransmitted because of that: from now on only a timeout does.
    pub(crate) was_fast_retransmitted: bool,
    /// The path it was last sent by, by its index.
    pub(crate) path: u8,
    /// It was sent by another one before: its acknowledgement says nothing of either.
    pub(crate) was_moved: bool,
}

impl OutChunk {
    /// Octets with header and padding.
    pub(crate) fn octets(&self) -> usize {
        (DATA_HEADER_LEN + self.len as usize).next_multiple_of(4)
    }

    /// Its user bytes in the store.
    pub(crate) fn range(&self) -> Range<u64> {
        self.start..self.start + u64::from(self.len)
    }

    /// Its header on the wire, with `more` flags.
    pub(crate) fn header(&self, tsn: LongTsn, more: u8) -> DataHeader {
        DataHeader {
            flags: self.flags | more,
            tsn: tsn.tsn(),
            stream: self.stream,
            ssn: self.ssn,
            ppid: self.ppid,
        }
    }
}

/// Chunks beyond the cumulative TSN. Bounded by the peer's window, which counts 16 octets a chunk
/// besides its bytes.
#[derive(Debug)]
pub(crate) struct Outstanding {
    chunks: VecDeque<OutChunk>,
    /// The TSN of the first.
    first: LongTsn,
    /// How many are [`ChunkStatus::Marked`], and none of them lies before this one.
    marked: usize,
    marked_from: LongTsn,
    /// User bytes of all.
    bytes: u64,
    /// The highest TSN that is or was [`ChunkStatus::GapAcked`].
    pub(crate) highest_gap_acked: LongTsn,
}

impl Outstanding {
    pub(crate) fn new(first: LongTsn) -> Outstanding {
        Outstanding {
            chunks: VecDeque::new(),
            first,
            marked: 0,
            marked_from: first,
            bytes: 0,
            highest_gap_acked: LongTsn::default(),
        }
    }

    pub(crate) fn is_empty(&self) -> bool {
        self.chunks.is_empty()
    }

    /// User bytes of all chunks.
    pub(crate) fn bytes(&self) -> u64 {
        self.bytes
    }

    /// The lowest TSN that is not acknowledged.
    pub(crate) fn first(&self) -> LongTsn {
        self.first
    }

    /// The TSN of the next new chunk.
    pub(crate) fn next(&self) -> LongTsn {
        self.first.plus(self.chunks.len() as u64)
    }

    /// Adds a new chunk; its TSN.
    pub(crate) fn push(&mut self, chunk: OutChunk) -> LongTsn {
        let tsn = self.next();
        self.bytes += u64::from(chunk.len);
        self.chunks.push_back(chunk);
        tsn
    }

    /// Removes the first chunk: the peer has all up to it.
    pub(crate) fn pop(&mut self) -> Option<OutChunk> {
        let chunk = self.chunks.pop_front()?;
        self.first = self.first.plus(1);
        self.bytes -= u64::from(chunk.len);
        self.marked -= usize::from(chunk.status == ChunkStatus::Marked);
        Some(chunk)
    }

    /// The chunk of `tsn`.
    pub(crate) fn get_mut(&mut self, tsn: LongTsn) -> Option<&mut OutChunk> {
        self.chunks
            .get_mut(tsn.0.checked_sub(self.first.0)? as usize)
    }

    /// Marks the chunk of `tsn`, which is in flight, as lost.
    pub(crate) fn mark(&mut self, tsn: LongTsn) {
        let first_of_all = self.marked == 0;
        if let Some(chunk) = self.get_mut(tsn) {
            chunk.status = ChunkStatus::Marked;
            self.marked += 1;
            self.marked_from = match first_of_all {
                true => tsn,
                false => self.marked_from.min(tsn),
            };
        }
    }

    /// A marked chunk of `tsn` is marked no more: it is sent again, or arrived.
    pub(crate) fn unmark(&mut self, tsn: LongTsn, status: ChunkStatus) {
        if let Some(chunk) = self.get_mut(tsn) {
            chunk.status = status;
            self.marked -= 1;
        }
    }

    /// Whether a chunk is marked.
    pub(crate) fn has_marked(&self) -> bool {
        self.marked > 0
    }

    /// The lowest marked chunk.
    pub(crate) fn next_marked(&mut self) -> Option<LongTsn> {
        if self.marked == 0 {
            return None;
        }
        let from = self.marked_from.max(self.first).since(self.first) as usize;
        let mut rest = self.chunks.iter().skip(from);
        let found = rest.position(|chunk| chunk.status == ChunkStatus::Marked)?;
        self.marked_from = self.first.plus((from + found) as u64);
        Some(self.marked_from)
    }

    /// All chunks with their TSNs.
    pub(crate) fn iter_mut(&mut self) -> impl Iterator<Item = (LongTsn, &mut OutChunk)> {
        let first = self.first;
        let chunks = self.chunks.iter_mut().enumerate();
        chunks.map(move |(index, chunk)| (first.plus(index as u64), chunk))
    }
}
