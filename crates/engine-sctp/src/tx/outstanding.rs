//! Chunks that were sent and that the peer may ask for again, in the order of their TSNs.

use super::numbering::Cut;
use crate::numbers::{Fsn, LongTsn, Mid, Ssn, StreamId};
use crate::pdu::data::{FLAG_BEGIN, FLAG_END, FLAG_UNORDERED};
use crate::pdu::{DATA_HEADER_LEN, DataHeader, I_DATA_HEADER_LEN, IDataHeader};
use core::ops::Range;
use engine::{Note, PacketBuilder};
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
    /// Of a message that was given up: the peer is told not to wait for it.
    Abandoned,
}

/// A chunk that was sent.
#[derive(Clone, Debug)]
pub(crate) struct OutChunk {
    /// Its user bytes in the store.
    pub(crate) start: u64,
    pub(crate) len: u32,
    /// The payload protocol identifier; with I-DATA behind the first fragment its number.
    pub(crate) ppid: u32,
    /// The SSN or MID of its message.
    pub(crate) number: u32,
    pub(crate) stream: StreamId,
    /// How often it was sent again.
    pub(crate) retransmissions: u16,
    /// B, E and U.
    pub(crate) flags: u8,
    pub(crate) status: ChunkStatus,
    /// How often a gap was reported in its place.
    pub(crate) misses: u8,
    /// The TSN of the next new chunk when it was last sent: those from there on left later, so that
    /// their arrival says something of this transmission.
    pub(crate) sent_before: LongTsn,
    /// The path it was last sent by, by its index.
    pub(crate) path: u8,
    /// It was sent by another one before: its acknowledgement says nothing of either.
    pub(crate) was_moved: bool,
    /// Octets in front of its user bytes: those of DATA or of I-DATA.
    pub(crate) header_len: u8,
}

/// The header of a chunk of user data on the wire, as numbers: octets that were written one by one are waited for
/// when they are copied together.
#[derive(Clone, Copy, Debug)]
pub(crate) struct ChunkHeader {
    /// What DATA has, the first octet the highest.
    pub(crate) front: u128,
    /// What I-DATA has behind it.
    pub(crate) back: Option<u32>,
}

impl ChunkHeader {
    /// Its octets.
    pub(crate) fn len(&self) -> usize {
        match self.back {
            None => DATA_HEADER_LEN,
            Some(_) => I_DATA_HEADER_LEN,
        }
    }

    /// Appends it to `packet`.
    #[inline]
    pub(crate) fn add_to(&self, packet: &mut PacketBuilder<'_>) {
        packet.add_joined(&self.front.to_be_bytes());
        if let Some(back) = self.back {
            packet.add_joined(&back.to_be_bytes());
        }
    }
}

impl OutChunk {
    /// What was cut, with `header_len` octets in front, as it leaves by `path`; `next` is its TSN.
    #[inline]
    pub(crate) fn new(cut: &Cut, next: LongTsn, path: usize, header_len: usize) -> OutChunk {
        OutChunk {
            start: cut.range.start,
            len: (cut.range.end - cut.range.start) as u32,
            ppid: cut.ppid,
            number: cut.number,
            stream: cut.stream,
            retransmissions: 0,
            flags: cut.flags,
            status: ChunkStatus::InFlight,
            misses: 0,
            sent_before: next.plus(1),
            path: path as u8,
            was_moved: false,
            header_len: header_len as u8,
        }
    }

    /// Octets with header and padding.
    pub(crate) fn octets(&self) -> usize {
        (usize::from(self.header_len) + self.len as usize).next_multiple_of(4)
    }

    /// Its user bytes in the store.
    pub(crate) fn range(&self) -> Range<u64> {
        self.start..self.start + u64::from(self.len)
    }

    /// Whether the first of its message.
    pub(crate) fn is_begin(&self) -> bool {
        self.flags & FLAG_BEGIN != 0
    }

    /// Whether the last of its message.
    pub(crate) fn is_end(&self) -> bool {
        self.flags & FLAG_END != 0
    }

    /// What is known of its message.
    pub(crate) fn note(&self) -> Note {
        let has_ppid = self.is_begin() || usize::from(self.header_len) == DATA_HEADER_LEN;
        Note {
            stream: self.stream.0,
            unordered: self.flags & FLAG_UNORDERED != 0,
            tag: (has_ppid && self.ppid != 0).then_some(u64::from(self.ppid)),
            ..Note::default()
        }
    }

    /// Its header on the wire, with `more` flags.
    #[inline]
    pub(crate) fn header(&self, tsn: LongTsn, more: u8) -> ChunkHeader {
        let (flags, tsn, stream) = (self.flags | more, tsn.tsn(), self.stream);
        let user_len = self.len as usize;
        if usize::from(self.header_len) == DATA_HEADER_LEN {
            let data = DataHeader {
                flags,
                tsn,
                stream,
                ssn: Ssn(self.number as u16),
                ppid: self.ppid,
            };
            return ChunkHeader {
                front: data.bits(user_len),
                back: None,
            };
        }
        let data = IDataHeader {
            flags,
            tsn,
            stream,
            mid: Mid(self.number),
            ppid: self.ppid,
            fsn: Fsn(self.ppid),
        };
        let octets = data.emit(user_len);
        let (front, back) = (octets.first_chunk(), octets.last_chunk());
        ChunkHeader {
            front: front.map_or(0, |front| u128::from_be_bytes(*front)),
            back: back.map(|back| u32::from_be_bytes(*back)),
        }
    }
}

/// Chunks that the peer has, which left once and by one path.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Acked {
    /// That path, by its index.
    pub(crate) path: u8,
    /// Their user bytes in the store.
    pub(crate) range: Range<u64>,
    /// Their octets with headers and padding.
    pub(crate) octets: u64,
    /// The TSN of the last.
    pub(crate) last: LongTsn,
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
    /// User bytes of all that were not given up.
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

    /// The chunk, if there is one alone.
    #[inline]
    pub(crate) fn only(&self) -> Option<&OutChunk> {
        let front = self.chunks.front()?;
        (self.chunks.len() == 1).then_some(front)
    }

    /// User bytes of all chunks that were not given up.
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

    /// Adds a chunk that is never sent: the rest of a message that was given up.
    pub(crate) fn push_abandoned(&mut self, rest: &Cut) {
        self.chunks.push_back(OutChunk {
            len: 0,
            status: ChunkStatus::Abandoned,
            ..OutChunk::new(rest, self.next(), 0, DATA_HEADER_LEN)
        });
    }

    /// Removes the first chunk: the peer has all up to it.
    pub(crate) fn pop(&mut self) -> Option<OutChunk> {
        let chunk = self.chunks.pop_front()?;
        self.first = self.first.plus(1);
        if chunk.status != ChunkStatus::Abandoned {
            self.bytes -= u64::from(chunk.len);
        }
        self.marked -= usize::from(chunk.status == ChunkStatus::Marked);
        Some(chunk)
    }

    /// Removes the chunks in front as far as the peer has all up to `cumulative`, they left once and by the same path,
    /// and their bytes follow each other; None if the first did not leave so.
    #[inline(never)]
    pub(crate) fn pop_in_flight(&mut self, cumulative: LongTsn) -> Option<Acked> {
        let front = self.chunks.front()?;
        let (path, start) = (front.path, front.start);
        let (mut end, mut octets, mut count) = (start, 0, 0);
        let most = cumulative.plus(1).since(self.first) as usize;
        for chunk in self.chunks.iter().take(most) {
            let is_next = chunk.start == end && chunk.path == path && !chunk.was_moved;
            if !is_next || chunk.status != ChunkStatus::InFlight {
                break;
            }
            end += u64::from(chunk.len);
            octets += chunk.octets() as u64;
            count += 1;
        }
        if count == 0 {
            return None;
        }
        self.chunks.drain(..count);
        self.bytes -= end - start;
        let last = self.first.plus(count as u64 - 1);
        self.first = last.plus(1);
        Some(Acked {
            path,
            range: start..end,
            octets,
            last,
        })
    }

    /// The chunk of `tsn`.
    pub(crate) fn get(&self, tsn: LongTsn) -> Option<&OutChunk> {
        self.chunks.get(tsn.0.checked_sub(self.first.0)? as usize)
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

    /// The lowest marked chunk behind `tsn`.
    pub(crate) fn next_marked_after(&self, tsn: LongTsn) -> Option<LongTsn> {
        if self.marked == 0 {
            return None;
        }
        let from = tsn.plus(1).since(self.first) as usize;
        let mut rest = self.chunks.iter().skip(from);
        let found = rest.position(|chunk| chunk.status == ChunkStatus::Marked)?;
        Some(self.first.plus((from + found) as u64))
    }

    /// Gives up the chunks of the message with the bytes `message`, one of which is `tsn`. They are
    /// returned as they were, in the order of their TSNs.
    pub(crate) fn abandon(
        &mut self,
        tsn: LongTsn,
        message: &Range<u64>,
    ) -> Vec<(LongTsn, OutChunk)> {
        let is_of = |chunk: &OutChunk| message.contains(&chunk.start);
        let near = tsn.since(self.first) as usize;
        let begins = |at: &usize| {
            let chunk = self.chunks.get(*at);
            chunk.is_some_and(|chunk| is_of(chunk) && chunk.is_begin())
        };
        let from = (0..=near).rev().find(begins).unwrap_or(0);
        let mut abandoned = Vec::new();
        for (index, chunk) in self.chunks.iter_mut().enumerate().skip(from) {
            if !is_of(chunk) || chunk.status == ChunkStatus::Abandoned {
                continue;
            }
            abandoned.push((self.first.plus(index as u64), chunk.clone()));
            self.bytes -= u64::from(chunk.len);
            self.marked -= usize::from(chunk.status == ChunkStatus::Marked);
            chunk.status = ChunkStatus::Abandoned;
            if chunk.is_end() {
                break;
            }
        }
        abandoned
    }

    /// The chunks given up in front of all others, with their TSNs.
    pub(crate) fn abandoned_in_front(&self) -> impl Iterator<Item = (LongTsn, &OutChunk)> {
        let chunks = self.chunks.iter().enumerate();
        let front = chunks.take_while(|(_, chunk)| chunk.status == ChunkStatus::Abandoned);
        front.map(|(index, chunk)| (self.first.plus(index as u64), chunk))
    }

    /// The last of them (Advanced.Peer.Ack.Point).
    pub(crate) fn abandoned_up_to(&self) -> Option<LongTsn> {
        // Nearly always there is none.
        let first = self.chunks.front()?;
        if first.status != ChunkStatus::Abandoned {
            return None;
        }
        self.abandoned_in_front().last().map(|(tsn, _)| tsn)
    }

    /// Takes all chunks: the association ended.
    pub(crate) fn take_chunks(&mut self) -> VecDeque<OutChunk> {
        (self.marked, self.bytes) = (0, 0);
        core::mem::take(&mut self.chunks)
    }

    /// All chunks with their TSNs.
    pub(crate) fn iter_mut(&mut self) -> impl Iterator<Item = (LongTsn, &mut OutChunk)> {
        let first = self.first;
        let chunks = self.chunks.iter_mut().enumerate();
        chunks.map(move |(index, chunk)| (first.plus(index as u64), chunk))
    }
}
