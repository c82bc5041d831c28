//! Received bytes of one circuit in one piece of memory.

use engine::{Framing, Note};
use std::ops::{Deref, Range};
use std::sync::Arc;

/// A range of user bytes within an arrival.
#[derive(Clone, Debug)]
pub struct ChunkSpan {
    /// Where the bytes lie in the arrival.
    pub range: Range<u32>,
    /// Bytes were lost before it.
    pub gap: bool,
    /// It begins with a tag.
    pub begin_tag: bool,
    /// It ends with a tag.
    pub end_tag: bool,
    /// A message ends with it.
    pub end_of_message: bool,
}

impl ChunkSpan {
    /// The bytes of a whole message.
    #[inline]
    pub(crate) fn of_message(range: Range<u32>) -> ChunkSpan {
        ChunkSpan {
            range,
            gap: false,
            begin_tag: false,
            end_tag: false,
            end_of_message: true,
        }
    }

    /// Whether it says that the sender gave the rest of the message up: see [`engine::Delivery::gap`].
    #[inline]
    pub(super) fn is_end_of_abandoned(&self) -> bool {
        self.gap && self.end_of_message && self.range.is_empty()
    }
}

/// Memory that received bytes lie in.
#[derive(Clone, Debug)]
pub enum Octets {
    /// Of one chunk alone.
    Own(Vec<u8>),
    /// An arrival with bytes of several circuits.
    Shared(Arc<Vec<u8>>),
}

impl Deref for Octets {
    type Target = [u8];

    #[inline]
    fn deref(&self) -> &[u8] {
        match self {
            Octets::Own(octets) => octets,
            Octets::Shared(octets) => octets,
        }
    }
}

/// The user bytes of one circuit in one arrival, or copied out of several.
#[derive(Clone, Debug)]
pub struct Chunk {
    /// The arrival, or the copies.
    pub octets: Octets,
    /// The circuit's ranges of it, in order.
    pub spans: Vec<ChunkSpan>,
    /// Notes that are not plain, with the number of the range that the engine gave each with.
    pub notes: Vec<(u32, Note)>,
}

/// Lists grow by doubling: they take at most twice what is in them.
const LIST_SPARE: usize = 2;

/// Octets of memory that a chunk takes besides its bytes and ranges: its place in a queue, a list and the
/// counts in front of shared octets, and what an allocator adds to three allocations.
const CHUNK_OCTETS: usize =
    LIST_SPARE * size_of::<Chunk>() + size_of::<Vec<u8>>() + 2 * size_of::<usize>() + 48;

impl Chunk {
    /// A copy of the one range in `spans` of `octets`, with its notes, in `own`, which is empty.
    pub(crate) fn of_one(
        mut own: Vec<u8>,
        octets: &[u8],
        mut spans: Vec<ChunkSpan>,
        notes: Vec<(u32, Note)>,
    ) -> Chunk {
        if let [span] = &mut spans[..] {
            own.extend_from_slice(&octets[span.range.start as usize..span.range.end as usize]);
            span.range = 0..own.len() as u32;
        }
        Chunk {
            octets: Octets::Own(own),
            spans,
            notes,
        }
    }

    /// A copy of several ranges of `octets`, listed in `list`. It and `own` are empty.
    pub(crate) fn of_many(
        own: Vec<u8>,
        octets: &[u8],
        (spans, list): (&[ChunkSpan], Vec<ChunkSpan>),
        notes: &[(u32, Note)],
        framing: Framing,
    ) -> Chunk {
        let mut chunk = Chunk {
            octets: Octets::Own(own),
            spans: list,
            notes: Vec::new(),
        };
        chunk.join(octets, spans, notes, framing, usize::MAX);
        chunk
    }

    /// User bytes in the chunk.
    pub fn len(&self) -> u64 {
        self.spans
            .iter()
            .map(|span| u64::from(span.range.end - span.range.start))
            .sum()
    }

    /// What travelled with range number `span`.
    pub fn note(&self, span: usize) -> Note {
        // Ranges are numbered in the order of their notes.
        let found = self
            .notes
            .binary_search_by_key(&(span as u32), |(at, _)| *at);
        found.map_or_else(|_| Note::default(), |at| self.notes[at].1)
    }

    /// Whether it holds no user bytes.
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }

    /// Octets of memory that it takes.
    pub(crate) fn memory(&self) -> u64 {
        let spans = LIST_SPARE * self.spans.len() * size_of::<ChunkSpan>();
        let notes = LIST_SPARE * self.notes.len() * size_of::<(u32, Note)>();
        (self.octets.len() + spans + notes + CHUNK_OCTETS) as u64
    }

    /// Appends a copy of the ranges `spans` of `octets`, with their notes. False, and nothing is
    /// appended, when others refer to its octets, there would be more than `len_max` of them, or
    /// something has notes, whose list is short.
    pub(crate) fn join(
        &mut self,
        octets: &[u8],
        spans: &[ChunkSpan],
        notes: &[(u32, Note)],
        framing: Framing,
        len_max: usize,
    ) -> bool {
        let more: usize = spans.iter().map(|span| span.range.len()).sum();
        let Octets::Own(own) = &mut self.octets else {
            return false;
        };
        let len = own.len() + more;
        let has_notes = !notes.is_empty() || !self.notes.is_empty();
        if len > len_max || has_notes && !self.spans.is_empty() {
            return false;
        }
        if own.capacity() < len {
            // Full chunks have no spare room, and growing ones are moved seldom.
            let capacity = (2 * own.len()).min(len_max).max(len);
            own.reserve_exact(capacity - own.len());
        }
        for (index, span) in spans.iter().enumerate() {
            let start = own.len() as u32;
            own.extend_from_slice(&octets[span.range.start as usize..span.range.end as usize]);
            let end = own.len() as u32;
            let note = notes.iter().find(|(at, _)| *at as usize == index);
            match self.spans.last_mut() {
                Some(last) if note.is_none() && continues(last, span, framing) => {
                    last.range.end = end;
                    last.end_tag = span.end_tag;
                    last.end_of_message = span.end_of_message;
                }
                _ => self.spans.push(ChunkSpan {
                    range: start..end,
                    ..span.clone()
                }),
            }
            if let Some((_, note)) = note {
                self.notes.push((self.spans.len() as u32 - 1, *note));
            }
        }
        true
    }
}

/// Whether `next` is more of the stream, or of the message, that `last` is of. Records have a header
/// in each packet.
fn continues(last: &ChunkSpan, next: &ChunkSpan, framing: Framing) -> bool {
    let is_same = !last.end_of_message && !last.end_tag && !next.gap && !next.begin_tag;
    framing != Framing::Records && is_same
}
