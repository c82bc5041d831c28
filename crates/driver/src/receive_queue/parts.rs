//! Messages received in parts: what does not fit into the user's buffer stays for the next call.

use super::{Chunk, MessageReader, ReadOutcome};
use engine::{Framing, Note};

/// Octets of a tag that lies among the bytes.
pub(super) const TAG_LEN: usize = 8;

/// A part of a message.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Part {
    /// Its bytes, which were copied into the buffer.
    pub len: usize,
    /// The message ends with it. False on a byte stream, which has no messages. Without bytes, of a message
    /// of which others were given before its end came: its sender gave it up.
    pub end: bool,
    /// What travelled with the message; the same with each of its parts.
    pub note: Note,
}

impl Part {
    /// `len` bytes of a stream.
    pub fn of_stream(len: usize) -> Part {
        Part {
            len,
            end: false,
            note: Note::default(),
        }
    }
}

/// Where the bytes of a message go.
pub(super) trait Place {
    /// Whether it takes the first `len` bytes of a message before its end has come.
    fn takes_begun(&self, len: usize) -> bool;

    /// Puts the bytes of a message from position `at` on, and forgets what was put there or behind.
    fn put(&mut self, at: usize, bytes: &[u8]);
}

/// What does not fit is dropped.
impl Place for [u8] {
    fn takes_begun(&self, _len: usize) -> bool {
        false
    }

    #[inline]
    fn put(&mut self, at: usize, bytes: &[u8]) {
        let start = at.min(self.len());
        let room = (self.len() - start).min(bytes.len());
        self[start..start + room].copy_from_slice(&bytes[..room]);
    }
}

/// What does not fit is kept.
struct Keeping<'a> {
    buffer: &'a mut [u8],
    rest: Vec<u8>,
    /// [`MessageReader::parts_from`].
    parts_from: usize,
}

impl Place for Keeping<'_> {
    fn takes_begun(&self, len: usize) -> bool {
        len >= self.parts_from
    }

    fn put(&mut self, at: usize, bytes: &[u8]) {
        self.buffer.put(at, bytes);
        self.rest.truncate(at.saturating_sub(self.buffer.len()));
        let room = self.buffer.len().saturating_sub(at).min(bytes.len());
        self.rest.extend_from_slice(&bytes[room..]);
    }
}

/// What is left of a message.
#[derive(Debug)]
pub(super) struct Rest {
    pub(super) bytes: Vec<u8>,
    /// Bytes that the user has.
    pub(super) read: usize,
    pub(super) note: Note,
    /// The message ends with them.
    pub(super) ends: bool,
    /// The chunk that is read when the message is done: its reader has none meanwhile, so that
    /// receives of whole messages need not look here first.
    pub(super) chunk: Option<Chunk>,
}

impl MessageReader {
    /// Copies the next part of a message, or of a byte stream what fits, into `buffer`. None when
    /// the chunk is consumed.
    pub fn next_part(&mut self, buffer: &mut [u8]) -> Option<Part> {
        if self.rest.is_some() {
            return self.next_of_rest(buffer);
        }
        let mut place = Keeping {
            buffer,
            rest: Vec::new(),
            parts_from: self.parts_from,
        };
        let outcome = match self.framing {
            Framing::Stream => {
                return match self.next_bytes(place.buffer) {
                    ReadOutcome::Message(len) => Some(Part::of_stream(len)),
                    ReadOutcome::Begun(_) | ReadOutcome::Empty => None,
                };
            }
            Framing::Records => self.next_record(&mut place),
            Framing::Messages => self.next_message(&mut place),
        };
        let (len, ends) = match outcome {
            ReadOutcome::Message(len) => (len, true),
            ReadOutcome::Begun(len) => (len, false),
            ReadOutcome::Empty => return None,
        };
        let Keeping { buffer, rest, .. } = place;
        let note = self.last_note();
        if self.tagged || self.end_tagged {
            let mut whole = buffer[..len.min(buffer.len())].to_vec();
            whole.extend_from_slice(&rest);
            let note = self.cut_tags(&mut whole, note);
            // What follows of the message has no tag in front.
            self.tagged &= ends;
            self.keep_rest(whole, (note, ends));
            return self.next_of_rest(buffer);
        }
        let is_all = rest.is_empty();
        if !is_all {
            self.keep_rest(rest, (note, ends));
        }
        Some(Part {
            len: len.min(buffer.len()),
            end: is_all && ends,
            note,
        })
    }

    /// Gives parts of messages whose end has not come, once so many bytes of them are here. Others than
    /// [`MessageReader::next_part`] wait for whole messages, and get the rest of one that was begun.
    pub fn set_parts_from(&mut self, bytes: usize) {
        self.parts_from = bytes.max(1);
    }

    /// Takes what has come of the message at hand, without its end: it goes to the user.
    pub(super) fn give_begun<P: Place + ?Sized>(&mut self, place: &mut P) -> ReadOutcome {
        place.put(0, &self.partial);
        let len = self.partial.len();
        self.partial.clear();
        self.has_given = true;
        ReadOutcome::Begun(len)
    }

    /// What is left of a message received in parts, as one message: its length, of which `buffer`
    /// gets what fits. None when nothing is left.
    #[cold]
    pub fn next_rest(&mut self, buffer: &mut [u8]) -> Option<usize> {
        let rest = self.rest.take()?;
        self.chunk = rest.chunk;
        let bytes = &rest.bytes[rest.read..];
        buffer.put(0, bytes);
        Some(bytes.len())
    }

    fn next_of_rest(&mut self, buffer: &mut [u8]) -> Option<Part> {
        let rest = self.rest.as_mut()?;
        let bytes = &rest.bytes[rest.read..];
        buffer.put(0, bytes);
        let len = bytes.len().min(buffer.len());
        rest.read += len;
        let (is_all, note) = (rest.read == rest.bytes.len(), rest.note);
        let end = is_all && rest.ends;
        if is_all {
            self.chunk = self.rest.take().and_then(|rest| rest.chunk);
        }
        Some(Part { len, end, note })
    }

    fn keep_rest(&mut self, bytes: Vec<u8>, (note, ends): (Note, bool)) {
        self.rest = Some(Box::new(Rest {
            bytes,
            read: 0,
            note,
            ends,
            chunk: self.chunk.take(),
        }));
    }

    /// What travelled with the message that ended last.
    fn last_note(&self) -> Note {
        match (&self.chunk, self.framing) {
            (Some(chunk), Framing::Messages) if !chunk.notes.is_empty() => {
                chunk.note(self.span.saturating_sub(1))
            }
            _ => Note::default(),
        }
    }

    /// Takes the tags of the message that ended last out of its bytes.
    fn cut_tags(&self, whole: &mut Vec<u8>, mut note: Note) -> Note {
        if self.end_tagged
            && let Some((_, tag)) = whole.split_last_chunk::<TAG_LEN>()
        {
            note.end_tag = Some(u64::from_be_bytes(*tag));
            whole.truncate(whole.len() - TAG_LEN);
        }
        if self.tagged
            && let Some(tag) = whole.first_chunk::<TAG_LEN>()
        {
            note.tag = Some(u64::from_be_bytes(*tag));
            whole.drain(..TAG_LEN);
        }
        note
    }
}
