//! Received bytes lent to the user where they lie.

use super::parts::TAG_LEN;
use super::{Chunk, MessageReader};
use engine::{Framing, Note, record};
use std::ops::Range;

/// What arrived, lent where it lies: bytes of one circuit in one arrival, and in front of them what
/// came before of a message that had not ended. Dropping it gives the bytes back, read.
#[derive(Debug)]
pub struct LentArrival<'a> {
    reader: &'a mut MessageReader,
}

/// A piece of an arrival: bytes of one message, or of a stream.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct ArrivalPiece<'a> {
    /// The bytes.
    pub bytes: &'a [u8],
    /// A message ends with them.
    pub end: bool,
    /// Bytes were lost before it. A message that was not ended before stays without its end.
    pub gap: bool,
    /// What travelled with the message, as far as this piece says: a tag in front of it comes with
    /// its first piece, one behind it with its last.
    pub note: Note,
}

/// What a reader has lent.
#[derive(Debug, Default)]
pub(super) struct Lent {
    /// What came before of the first message, if it had not ended: bytes, and the same as of a
    /// range.
    front: Vec<u8>,
    ranges: Vec<LentRange>,
    /// A gap that no piece was behind yet.
    gap: bool,
    /// Where the reader goes on.
    span: usize,
    offset: usize,
}

#[derive(Debug)]
struct LentRange {
    /// Where it lies in the arrival; None for what is in front.
    range: Option<Range<usize>>,
    end: bool,
    gap: bool,
    note: Note,
}

impl LentArrival<'_> {
    /// The pieces, in order.
    pub fn pieces(&self) -> impl Iterator<Item = ArrivalPiece<'_>> {
        let lent = &self.reader.lent;
        lent.ranges.iter().filter_map(|piece| {
            let bytes = match (&piece.range, &self.reader.chunk) {
                (None, _) => &lent.front[..],
                (Some(range), Some(chunk)) => &chunk.octets[range.clone()],
                (Some(_), None) => return None,
            };
            Some(ArrivalPiece {
                bytes,
                end: piece.end,
                gap: piece.gap,
                note: piece.note,
            })
        })
    }

    /// Bytes of all pieces.
    pub fn len(&self) -> usize {
        self.pieces().map(|piece| piece.bytes.len()).sum()
    }

    /// Whether there are no bytes: an empty message arrived.
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }
}

impl Drop for LentArrival<'_> {
    fn drop(&mut self) {
        let reader = &mut *self.reader;
        (reader.span, reader.offset) = (reader.lent.span, reader.lent.offset);
        reader.lent.ranges.clear();
        reader.lent.front.clear();
    }
}

impl MessageReader {
    /// Prepares to lend what is left of the chunk, or of a message that is received in parts. False
    /// when the chunk is consumed.
    pub fn lend(&mut self) -> bool {
        if !self.lent.ranges.is_empty() {
            return true;
        }
        if let Some(rest) = self.rest.take() {
            self.chunk = rest.chunk;
            self.lent.front.extend_from_slice(&rest.bytes[rest.read..]);
            self.lent_front(rest.ends, rest.note);
            (self.lent.span, self.lent.offset) = (self.span, self.offset);
            return true;
        }
        if self.framing == Framing::Messages {
            self.select_stream();
        }
        let Some(chunk) = self.chunk.take() else {
            return false;
        };
        self.take_partial();
        let mut end = chunk.spans.len();
        match self.framing {
            Framing::Records => self.lend_records(&chunk),
            Framing::Stream => self.lend_bytes(&chunk),
            Framing::Messages => end = self.lend_messages(&chunk),
        }
        (self.lent.span, self.lent.offset) = (end, 0);
        self.chunk = Some(chunk);
        if self.lent.ranges.is_empty() {
            (self.span, self.offset) = (self.lent.span, self.lent.offset);
            return false;
        }
        true
    }

    /// Bytes that are prepared to be lent.
    pub fn lent_bytes(&self) -> u64 {
        let len = |piece: &LentRange| {
            piece
                .range
                .as_ref()
                .map_or(self.lent.front.len(), Range::len)
        };
        self.lent.ranges.iter().map(|piece| len(piece) as u64).sum()
    }

    /// What [`lend`](MessageReader::lend) prepared.
    pub fn lent(&mut self) -> LentArrival<'_> {
        LentArrival { reader: self }
    }

    /// Puts the beginning of an unfinished message in front.
    fn take_partial(&mut self) {
        if !self.reassembling {
            // What is there belongs to a message that ended.
            self.partial.clear();
        }
        if self.partial.is_empty() {
            return;
        }
        let mut begun = std::mem::take(&mut self.partial);
        let mut note = self.stream_note();
        if std::mem::take(&mut self.tagged)
            && let Some(tag) = begun.first_chunk::<TAG_LEN>()
        {
            note.tag = Some(u64::from_be_bytes(*tag));
            begun.drain(..TAG_LEN);
        }
        self.lent.front = begun;
        self.lent_front(false, note);
    }

    fn lent_front(&mut self, end: bool, note: Note) {
        self.lent.ranges.push(LentRange {
            range: None,
            end,
            gap: false,
            note,
        });
    }

    fn push_lent(&mut self, range: Range<usize>, end: bool, note: Note) {
        let gap = std::mem::take(&mut self.lent.gap);
        self.lent.ranges.push(LentRange {
            range: Some(range),
            end,
            gap,
            note,
        });
    }

    fn lend_bytes(&mut self, chunk: &Chunk) {
        for span in &chunk.spans[self.span.min(chunk.spans.len())..] {
            let start = span.range.start as usize + std::mem::take(&mut self.offset);
            self.lent.gap |= span.gap;
            self.push_lent(start..span.range.end as usize, false, Note::default());
        }
    }

    /// Where it ended: what came before of a message is lent in front, and so ends what is lent of
    /// another stream.
    fn lend_messages(&mut self, chunk: &Chunk) -> usize {
        for at in self.span..chunk.spans.len() {
            let span = &chunk.spans[at];
            if at > self.span && self.has_partial(chunk, at) {
                return at;
            }
            self.select_stream_of(chunk, at);
            if span.gap {
                self.messages_damaged +=
                    u64::from(self.reassembling) + u64::from(!self.discarding_partial_message);
                self.reassembling = false;
                self.discarding_partial_message = true;
                self.lent.gap = true;
            }
            if self.discarding_partial_message {
                self.discarding_partial_message = !span.end_of_message;
                continue;
            }
            let (mut start, mut end) = (span.range.start as usize, span.range.end as usize);
            let mut note = chunk.note(at);
            if span.begin_tag && !self.reassembling {
                note.tag = tag_at(chunk, start);
                start = end.min(start + TAG_LEN);
            }
            if span.end_tag && end - start >= TAG_LEN {
                note.end_tag = tag_at(chunk, end - TAG_LEN);
                end -= TAG_LEN;
            }
            self.reassembling = !span.end_of_message;
            self.has_given &= self.reassembling;
            // What comes of the message in other chunks has no tag in front.
            self.tagged = false;
            self.push_lent(start..end, span.end_of_message, note);
        }
        chunk.spans.len()
    }

    fn lend_records(&mut self, chunk: &Chunk) {
        for span in &chunk.spans[self.span.min(chunk.spans.len())..] {
            let mut offset = std::mem::take(&mut self.offset);
            if span.gap && offset == 0 {
                self.messages_damaged += u64::from(std::mem::take(&mut self.reassembling));
                self.lent.gap = true;
            }
            let start = span.range.start as usize;
            let payload = &chunk.octets[start..span.range.end as usize];
            while let Some(fragment) = record::parse_fragment(payload, offset) {
                offset = fragment.bytes.end;
                if fragment.first {
                    self.messages_damaged += u64::from(self.reassembling);
                } else if !self.reassembling {
                    continue;
                }
                self.reassembling = !fragment.last;
                let bytes = start + fragment.bytes.start..start + fragment.bytes.end;
                self.push_lent(bytes, fragment.last, Note::default());
            }
        }
    }
}

/// The tag at `start` of an arrival.
fn tag_at(chunk: &Chunk, start: usize) -> Option<u64> {
    let tag = chunk.octets.get(start..)?.first_chunk()?;
    Some(u64::from_be_bytes(*tag))
}
