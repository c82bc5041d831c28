//! Bytes that arrived and wait for their user, where the wire put them.

use engine::{Framing, record};
use std::ops::Range;
use std::sync::Arc;

/// A run of user bytes within an arrival.
#[derive(Clone, Debug)]
pub struct Piece {
    /// Where the bytes lie in the arrival.
    pub range: Range<u32>,
    /// Bytes were lost in front of it.
    pub gap: bool,
    /// It begins with a tag.
    pub tag: bool,
    /// It ends with one.
    pub end_tag: bool,
    /// A message ends with it.
    pub end: bool,
}

/// The user bytes of one circuit in one arrival.
#[derive(Clone, Debug)]
pub struct Chunk {
    /// The arrival.
    pub octets: Arc<Vec<u8>>,
    /// The circuit's pieces of it, in order.
    pub pieces: Vec<Piece>,
}

impl Chunk {
    /// User bytes in it.
    pub fn len(&self) -> u64 {
        self.pieces
            .iter()
            .map(|piece| u64::from(piece.range.end - piece.range.start))
            .sum()
    }

    /// Whether it holds no user bytes.
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }
}

/// Takes what a user receives out of chunks: records or messages, joined from their parts, or
/// bytes.
#[derive(Debug)]
pub struct Reader {
    framing: Framing,
    chunk: Option<Chunk>,
    piece: usize,
    at: usize,
    /// Bytes of a message whose end has not come.
    partial: Vec<u8>,
    /// Whether the bytes in `partial` are the start of a message with nothing missing.
    joined: bool,
    /// Bytes up to the next end belong to a message whose beginning may be lost.
    torn: bool,
    /// The last message began with a tag.
    tagged: bool,
    /// It ended with one.
    end_tagged: bool,
    damaged: u64,
}

/// What a read brought.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Read {
    /// A message of this length is in the buffer, cut off if the buffer is shorter.
    Message(usize),
    /// The chunk is used up.
    Empty,
}

impl Reader {
    /// A reader with nothing to read.
    pub fn new(framing: Framing) -> Reader {
        Reader {
            framing,
            chunk: None,
            piece: 0,
            at: 0,
            partial: Vec::new(),
            joined: false,
            torn: false,
            tagged: false,
            end_tagged: false,
            damaged: 0,
        }
    }

    /// Gives the reader more; the chunk before must be used up.
    pub fn put(&mut self, chunk: Chunk) {
        debug_assert!(self.chunk.is_none());
        self.chunk = Some(chunk);
        self.piece = 0;
        self.at = 0;
    }

    /// Messages that began or ended in lost bytes and could not be joined.
    pub fn damaged(&self) -> u64 {
        self.damaged
    }

    /// Whether the last message began with a tag ([`Framing::Messages`] only).
    pub fn is_tagged(&self) -> bool {
        self.tagged
    }

    /// Whether the last message ended with a tag ([`Framing::Messages`] only).
    pub fn is_end_tagged(&self) -> bool {
        self.end_tagged
    }

    /// Whether every piece of the chunk was taken.
    pub fn is_spent(&self) -> bool {
        let pieces = self.chunk.as_ref().map_or(0, |chunk| chunk.pieces.len());
        self.piece >= pieces
    }

    /// Takes the used-up chunk back.
    pub fn take_spent(&mut self) -> Option<Chunk> {
        self.chunk.take()
    }

    /// Takes the chunk back if no message is left in it.
    pub fn take_spent_if_empty(&mut self) -> Option<Chunk> {
        let chunk = self.chunk.as_ref()?;
        let last = chunk.pieces.len().checked_sub(1)?;
        let piece = &chunk.pieces[last];
        let len = (piece.range.end - piece.range.start) as usize;
        let unread = match self.framing {
            Framing::Records => record::HEAD_LEN,
            Framing::Stream | Framing::Messages => 1,
        };
        let spent = self.piece > last || (self.piece == last && self.at + unread > len);
        if spent { self.chunk.take() } else { None }
    }

    /// Copies the next whole message, or of a byte stream what fits, into `buffer`.
    #[inline]
    pub fn next(&mut self, buffer: &mut [u8]) -> Read {
        match self.framing {
            Framing::Records => self.next_record(buffer),
            Framing::Stream => self.next_bytes(buffer),
            Framing::Messages => self.next_message(buffer),
        }
    }

    /// Shows `take` everything that is left, piece by piece and where it lies, and takes it: a byte
    /// stream only.
    pub fn take_in_place(&mut self, mut take: impl FnMut(&[u8])) -> Read {
        debug_assert!(self.framing == Framing::Stream);
        let Some(chunk) = &self.chunk else {
            return Read::Empty;
        };
        let mut len = 0;
        while let Some(piece) = chunk.pieces.get(self.piece) {
            let from = piece.range.start as usize + self.at;
            let bytes = &chunk.octets[from..piece.range.end as usize];
            take(bytes);
            len += bytes.len();
            self.piece += 1;
            self.at = 0;
        }
        if len > 0 {
            Read::Message(len)
        } else {
            Read::Empty
        }
    }

    #[inline]
    fn next_bytes(&mut self, buffer: &mut [u8]) -> Read {
        let Some(chunk) = &self.chunk else {
            return Read::Empty;
        };
        let mut filled = 0;
        while let Some(piece) = chunk.pieces.get(self.piece) {
            let bytes =
                &chunk.octets[piece.range.start as usize + self.at..piece.range.end as usize];
            let take = bytes.len().min(buffer.len() - filled);
            buffer[filled..filled + take].copy_from_slice(&bytes[..take]);
            filled += take;
            if take < bytes.len() {
                self.at += take;
                break;
            }
            self.piece += 1;
            self.at = 0;
        }
        if filled > 0 {
            Read::Message(filled)
        } else {
            Read::Empty
        }
    }

    fn next_message(&mut self, buffer: &mut [u8]) -> Read {
        let Some(chunk) = &self.chunk else {
            return Read::Empty;
        };
        while let Some(piece) = chunk.pieces.get(self.piece) {
            self.piece += 1;
            let bytes = &chunk.octets[piece.range.start as usize..piece.range.end as usize];
            if piece.gap {
                // What was joined lost its end, and what follows may have lost its beginning.
                self.damaged += u64::from(self.joined) + u64::from(!self.torn);
                self.joined = false;
                self.torn = true;
            }
            if self.torn {
                self.torn = !piece.end;
                continue;
            }
            if !self.joined {
                self.tagged = piece.tag;
            }
            self.end_tagged = piece.end_tag;
            if piece.end && !self.joined {
                return Read::Message(copy(bytes, buffer));
            }
            let first = !self.joined;
            let whole = join(
                &mut self.partial,
                &mut self.joined,
                &mut self.damaged,
                bytes,
                first,
            );
            if whole && piece.end {
                self.joined = false;
                return Read::Message(copy(&self.partial, buffer));
            }
        }
        Read::Empty
    }

    #[inline]
    fn next_record(&mut self, buffer: &mut [u8]) -> Read {
        let Some(chunk) = &self.chunk else {
            return Read::Empty;
        };
        while let Some(piece) = chunk.pieces.get(self.piece) {
            let payload = &chunk.octets[piece.range.start as usize..piece.range.end as usize];
            if self.at == 0 && piece.gap && self.joined {
                self.damaged += 1;
                self.joined = false;
            }
            let Some(fragment) = record::next(payload, self.at) else {
                self.piece += 1;
                self.at = 0;
                continue;
            };
            if fragment.first
                && !fragment.last
                && let Some(whole) = assemble(chunk, self.piece, self.at, buffer)
            {
                self.damaged += u64::from(std::mem::take(&mut self.joined));
                (self.piece, self.at) = (whole.piece, whole.at);
                return Read::Message(whole.len);
            }
            self.at = fragment.bytes.end;
            let bytes = &payload[fragment.bytes];
            if fragment.first && fragment.last {
                self.damaged += u64::from(std::mem::take(&mut self.joined));
                return Read::Message(copy(bytes, buffer));
            }
            if join(
                &mut self.partial,
                &mut self.joined,
                &mut self.damaged,
                bytes,
                fragment.first,
            ) && fragment.last
            {
                self.joined = false;
                return Read::Message(copy(&self.partial, buffer));
            }
        }
        Read::Empty
    }
}

/// Where a message put together within one chunk ends, and how long it is.
struct Whole {
    piece: usize,
    at: usize,
    len: usize,
}

/// Copies a message that begins at (`piece`, `at`) straight into `buffer`, if the chunk holds all
/// of it without a gap. A message that goes on in the next chunk is joined in memory of its own
/// instead, which costs a second copy.
fn assemble(chunk: &Chunk, mut piece: usize, mut at: usize, buffer: &mut [u8]) -> Option<Whole> {
    let mut len = 0;
    let mut begun = false;
    loop {
        let part = chunk.pieces.get(piece)?;
        let payload = &chunk.octets[part.range.start as usize..part.range.end as usize];
        let fragment = record::next(payload, at)?;
        if begun && (fragment.first || part.gap) {
            return None;
        }
        begun = true;
        let bytes = &payload[fragment.bytes.clone()];
        let start = len.min(buffer.len());
        let room = (buffer.len() - start).min(bytes.len());
        buffer[start..start + room].copy_from_slice(&bytes[..room]);
        len += bytes.len();
        at = fragment.bytes.end;
        if fragment.last {
            return Some(Whole { piece, at, len });
        }
        // A message's fragments but the last fill their packets: the next is in the next packet.
        piece += 1;
        at = 0;
    }
}

fn copy(bytes: &[u8], buffer: &mut [u8]) -> usize {
    let len = bytes.len().min(buffer.len());
    buffer[..len].copy_from_slice(&bytes[..len]);
    bytes.len()
}

/// Adds a fragment to the message being joined; false when its beginning is missing or it grew
/// past every limit.
fn join(
    partial: &mut Vec<u8>,
    joined: &mut bool,
    damaged: &mut u64,
    bytes: &[u8],
    first: bool,
) -> bool {
    if first {
        *damaged += u64::from(*joined);
        partial.clear();
        *joined = true;
    }
    if *joined && partial.len() + bytes.len() > JOINED_MAX {
        *damaged += 1;
        *joined = false;
    }
    if *joined {
        partial.extend_from_slice(bytes);
    }
    *joined
}

/// Longest message put together from fragments, 16 MiB: a peer that never ends one is cut off.
const JOINED_MAX: usize = 16 << 20;
