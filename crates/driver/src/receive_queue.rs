//! Received bytes that wait for their user, where the wire put them.

mod chunk;
mod lent;
mod parts;
mod streams;
#[cfg(test)]
mod tests;

pub use chunk::{Chunk, ChunkSpan, Octets};
use engine::{Framing, record};
pub use lent::{ArrivalPiece, LentArrival};
pub use parts::Part;
use parts::{Place, Rest};

/// Reads records, messages or bytes from received chunks.
#[derive(Debug)]
pub struct MessageReader {
    framing: Framing,
    chunk: Option<Chunk>,
    span: usize,
    offset: usize,
    /// Bytes of a message whose end has not come.
    partial: Vec<u8>,
    /// Whether `partial` is the start of a message with nothing missing.
    reassembling: bool,
    /// A gap came before a message end: bytes up to the next end are discarded.
    discarding_partial_message: bool,
    /// The last message began with a tag.
    tagged: bool,
    /// The last message ended with a tag.
    end_tagged: bool,
    messages_damaged: u64,
    /// Parts are given of messages of so many bytes whose end has not come.
    parts_from: usize,
    /// Parts were given of the message of which `partial` is the start.
    has_given: bool,
    /// What is left of a message that is received in parts.
    rest: Option<Box<Rest>>,
    /// What is lent.
    lent: lent::Lent,
    /// Whose message `partial` is, and unfinished messages of other streams.
    streams: streams::PartialStreams,
}

/// Result of a read.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ReadOutcome {
    /// A message of this length, truncated if the buffer is shorter.
    Message(usize),
    /// So many bytes of a message whose end has not come: see [`MessageReader::set_parts_from`].
    Begun(usize),
    /// The chunk is consumed.
    Empty,
}

impl MessageReader {
    /// A reader without a chunk.
    pub fn new(framing: Framing) -> MessageReader {
        MessageReader {
            framing,
            chunk: None,
            span: 0,
            offset: 0,
            partial: Vec::new(),
            reassembling: false,
            discarding_partial_message: false,
            tagged: false,
            end_tagged: false,
            messages_damaged: 0,
            parts_from: usize::MAX,
            has_given: false,
            rest: None,
            lent: lent::Lent::default(),
            streams: streams::PartialStreams::default(),
        }
    }

    /// Gives the reader the next chunk; the chunk before must be consumed.
    pub fn put(&mut self, chunk: Chunk) {
        debug_assert!(self.chunk.is_none());
        self.chunk = Some(chunk);
        self.span = 0;
        self.offset = 0;
    }

    /// Messages that could not be reassembled because bytes were lost.
    pub fn messages_damaged(&self) -> u64 {
        self.messages_damaged
    }

    /// Whether every range of the chunk was read.
    pub fn is_consumed(&self) -> bool {
        let spans = self.chunk.as_ref().map_or(0, |chunk| chunk.spans.len());
        self.span >= spans
    }

    /// Whether it has a chunk, be it consumed.
    pub fn has_chunk(&self) -> bool {
        self.chunk.is_some()
    }

    /// Takes the consumed chunk back, and drops what is left of a message received in parts.
    pub fn take_consumed(&mut self) -> Option<Chunk> {
        match self.rest.take() {
            Some(rest) => rest.chunk,
            None => self.chunk.take(),
        }
    }

    /// Takes the chunk back if no message is left in it.
    pub fn take_if_consumed(&mut self) -> Option<Chunk> {
        let chunk = self.chunk.as_ref()?;
        let last = chunk.spans.len().checked_sub(1)?;
        let span = &chunk.spans[last];
        let len = (span.range.end - span.range.start) as usize;
        let unread = match self.framing {
            Framing::Records => record::FRAGMENT_HEADER_LEN,
            Framing::Stream | Framing::Messages => 1,
        };
        let consumed = self.span > last || (self.span == last && self.offset + unread > len);
        if consumed { self.chunk.take() } else { None }
    }

    /// Copies the next whole message, or of a byte stream what fits, into `buffer`.
    #[inline]
    pub fn next(&mut self, buffer: &mut [u8]) -> ReadOutcome {
        match self.framing {
            Framing::Records => self.next_record(buffer),
            Framing::Stream => self.next_bytes(buffer),
            Framing::Messages => self.next_message(buffer),
        }
    }

    /// Consumes all that is left and calls `take` with each range where it lies: byte streams only.
    pub fn take_in_place(&mut self, mut take: impl FnMut(&[u8])) -> ReadOutcome {
        debug_assert!(self.framing == Framing::Stream);
        let Some(chunk) = &self.chunk else {
            return ReadOutcome::Empty;
        };
        let mut len = 0;
        while let Some(span) = chunk.spans.get(self.span) {
            let from = span.range.start as usize + self.offset;
            let bytes = &chunk.octets[from..span.range.end as usize];
            take(bytes);
            len += bytes.len();
            self.span += 1;
            self.offset = 0;
        }
        if len > 0 {
            ReadOutcome::Message(len)
        } else {
            ReadOutcome::Empty
        }
    }

    #[inline]
    fn next_bytes(&mut self, buffer: &mut [u8]) -> ReadOutcome {
        let Some(chunk) = &self.chunk else {
            return ReadOutcome::Empty;
        };
        let mut filled = 0;
        while let Some(span) = chunk.spans.get(self.span) {
            let bytes =
                &chunk.octets[span.range.start as usize + self.offset..span.range.end as usize];
            let take = bytes.len().min(buffer.len() - filled);
            buffer[filled..filled + take].copy_from_slice(&bytes[..take]);
            filled += take;
            if take < bytes.len() {
                self.offset += take;
                break;
            }
            self.span += 1;
            self.offset = 0;
        }
        // Nothing fits into an empty buffer, and nothing is lost.
        if filled > 0 || self.span < chunk.spans.len() {
            ReadOutcome::Message(filled)
        } else {
            ReadOutcome::Empty
        }
    }

    fn next_message<P: Place + ?Sized>(&mut self, place: &mut P) -> ReadOutcome {
        loop {
            self.select_stream();
            let Some(chunk) = &self.chunk else {
                return ReadOutcome::Empty;
            };
            let Some(span) = chunk.spans.get(self.span) else {
                return ReadOutcome::Empty;
            };
            self.span += 1;
            let bytes = &chunk.octets[span.range.start as usize..span.range.end as usize];
            if self.reassembling && span.is_end_of_abandoned() {
                self.messages_damaged += 1;
                self.reassembling = false;
                if std::mem::take(&mut self.has_given) {
                    return ReadOutcome::Message(0);
                }
                continue;
            }
            if span.gap {
                // The message being reassembled lost its end, and the next may have lost its
                // beginning.
                self.messages_damaged +=
                    u64::from(self.reassembling) + u64::from(!self.discarding_partial_message);
                self.reassembling = false;
                self.discarding_partial_message = true;
            }
            if self.discarding_partial_message {
                self.discarding_partial_message = !span.end_of_message;
                continue;
            }
            if !self.reassembling {
                self.tagged = span.begin_tag;
            }
            self.end_tagged = span.end_tag;
            if span.end_of_message && !self.reassembling {
                place.put(0, bytes);
                return ReadOutcome::Message(bytes.len());
            }
            let first = !self.reassembling;
            // With notes, parts of messages of other streams may come between.
            if first
                && chunk.notes.is_empty()
                && let Some((span, len)) = copy_whole_message(chunk, self.span - 1, place)
            {
                self.end_tagged = chunk.spans[span - 1].end_tag;
                self.span = span;
                return ReadOutcome::Message(len);
            }
            let complete = append_fragment(
                &mut self.partial,
                &mut self.reassembling,
                &mut self.messages_damaged,
                bytes,
                first,
            );
            if complete && span.end_of_message {
                self.reassembling = false;
                self.has_given = false;
                place.put(0, &self.partial);
                return ReadOutcome::Message(self.partial.len());
            }
            if complete && place.takes_begun(self.partial.len()) {
                return self.give_begun(place);
            }
        }
    }

    #[inline]
    fn next_record<P: Place + ?Sized>(&mut self, place: &mut P) -> ReadOutcome {
        let Some(chunk) = &self.chunk else {
            return ReadOutcome::Empty;
        };
        while let Some(span) = chunk.spans.get(self.span) {
            let payload = &chunk.octets[span.range.start as usize..span.range.end as usize];
            if self.offset == 0 && span.gap && self.reassembling {
                self.messages_damaged += 1;
                self.reassembling = false;
            }
            let Some(fragment) = record::parse_fragment(payload, self.offset) else {
                self.span += 1;
                self.offset = 0;
                continue;
            };
            if fragment.first
                && !fragment.last
                && let Some(complete) = copy_whole_record(chunk, self.span, self.offset, place)
            {
                self.messages_damaged += u64::from(std::mem::take(&mut self.reassembling));
                (self.span, self.offset) = (complete.span, complete.offset);
                return ReadOutcome::Message(complete.len);
            }
            self.offset = fragment.bytes.end;
            let bytes = &payload[fragment.bytes];
            if fragment.first && fragment.last {
                self.messages_damaged += u64::from(std::mem::take(&mut self.reassembling));
                place.put(0, bytes);
                return ReadOutcome::Message(bytes.len());
            }
            if append_fragment(
                &mut self.partial,
                &mut self.reassembling,
                &mut self.messages_damaged,
                bytes,
                fragment.first,
            ) && fragment.last
            {
                self.reassembling = false;
                place.put(0, &self.partial);
                return ReadOutcome::Message(self.partial.len());
            }
        }
        ReadOutcome::Empty
    }
}

/// Copies the message that begins with range number `first` straight into `place`, if the chunk holds
/// all of it without a gap; the number of the range behind it, and its length.
fn copy_whole_message<P: Place + ?Sized>(
    chunk: &Chunk,
    first: usize,
    place: &mut P,
) -> Option<(usize, usize)> {
    let spans = &chunk.spans[first..];
    let last = spans.iter().position(|span| span.end_of_message)?;
    if spans[1..=last].iter().any(|span| span.gap) {
        return None;
    }
    let mut len = 0;
    for span in &spans[..=last] {
        let bytes = &chunk.octets[span.range.start as usize..span.range.end as usize];
        place.put(len, bytes);
        len += bytes.len();
    }
    Some((first + last + 1, len))
}

/// The end of a message within one chunk, and its length.
struct AssembledRecord {
    span: usize,
    offset: usize,
    len: usize,
}

/// Copies the message at (`span`, `offset`) straight into `buffer`, if the chunk holds all of it
/// without a gap. A message that continues in the next chunk is reassembled in `partial` instead,
/// which costs a second copy.
fn copy_whole_record<P: Place + ?Sized>(
    chunk: &Chunk,
    mut span: usize,
    mut offset: usize,
    place: &mut P,
) -> Option<AssembledRecord> {
    let mut len = 0;
    let mut begun = false;
    loop {
        let part = chunk.spans.get(span)?;
        let payload = &chunk.octets[part.range.start as usize..part.range.end as usize];
        let fragment = record::parse_fragment(payload, offset)?;
        if begun && (fragment.first || part.gap) {
            return None;
        }
        begun = true;
        let bytes = &payload[fragment.bytes.clone()];
        place.put(len, bytes);
        len += bytes.len();
        offset = fragment.bytes.end;
        if fragment.last {
            return Some(AssembledRecord { span, offset, len });
        }
        // All fragments of a message but the last fill their packets: the next is in the next
        // packet.
        span += 1;
        offset = 0;
    }
}

/// Appends a fragment to the message being reassembled; false when its beginning is missing or it
/// exceeds the limit.
fn append_fragment(
    partial: &mut Vec<u8>,
    reassembling: &mut bool,
    damaged: &mut u64,
    bytes: &[u8],
    first: bool,
) -> bool {
    if first {
        *damaged += u64::from(*reassembling);
        partial.clear();
        *reassembling = true;
    }
    if *reassembling && partial.len() + bytes.len() > MESSAGE_BYTES_MAX {
        *damaged += 1;
        *reassembling = false;
    }
    if *reassembling {
        partial.extend_from_slice(bytes);
    }
    *reassembling
}

/// Longest message reassembled from fragments, 16 MiB: a peer that never ends one is limited.
const MESSAGE_BYTES_MAX: usize = 16 << 20;
