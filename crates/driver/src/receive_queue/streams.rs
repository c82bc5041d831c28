//! Unfinished messages of several streams: fragments of one stream may come between those of another.

use super::{Chunk, MESSAGE_BYTES_MAX, MessageReader};
use engine::Note;
use std::collections::BTreeMap;

/// Ordered and unordered messages of a stream are unfinished independently of each other.
type StreamKey = (u16, bool);

/// Unfinished messages of the streams that are not being read.
#[derive(Debug, Default)]
pub(super) struct PartialStreams {
    /// The stream that is being read.
    current: StreamKey,
    /// The others, by stream; None until there was one, so that most circuits drop no tree. Each peer has few streams, and all
    /// bytes together have a limit.
    others: Option<BTreeMap<StreamKey, Partial>>,
    /// Bytes in `others`.
    bytes: usize,
}

#[derive(Debug)]
struct Partial {
    bytes: Vec<u8>,
    /// Bytes up to the message's end are discarded.
    discarding: bool,
    /// Parts of it were given.
    has_given: bool,
}

impl MessageReader {
    /// Turns to the stream of the next range. Nothing happens where there are no notes.
    #[inline]
    pub(super) fn select_stream(&mut self) {
        let Some(chunk) = &self.chunk else {
            return;
        };
        let may_differ = !chunk.notes.is_empty() || self.streams.current != StreamKey::default();
        if may_differ && self.span < chunk.spans.len() {
            let note = chunk.note(self.span);
            self.turn_to(&note);
        }
    }

    /// Turns to the stream of range `at` of `chunk`, if there is one.
    #[inline]
    pub(super) fn select_stream_of(&mut self, chunk: &Chunk, at: usize) {
        let may_differ = !chunk.notes.is_empty() || self.streams.current != StreamKey::default();
        if may_differ && at < chunk.spans.len() {
            self.turn_to(&chunk.note(at));
        }
    }

    /// Whether bytes came before of the message of range `at`, which is of another stream.
    pub(super) fn has_partial(&self, chunk: &Chunk, at: usize) -> bool {
        let Some(others) = &self.streams.others else {
            return false;
        };
        let note = chunk.note(at);
        let other = others.get(&(note.stream, note.unordered));
        other.is_some_and(|partial| !partial.bytes.is_empty())
    }

    /// What is known of the message that is being read.
    pub(super) fn stream_note(&self) -> Note {
        let (stream, unordered) = self.streams.current;
        Note {
            stream,
            unordered,
            ..Note::default()
        }
    }

    #[cold]
    fn turn_to(&mut self, note: &Note) {
        let key = (note.stream, note.unordered);
        if key == self.streams.current {
            return;
        }
        if self.reassembling || self.discarding_partial_message {
            let bytes = std::mem::take(&mut self.partial);
            let is_too_much = self.streams.bytes + bytes.len() > MESSAGE_BYTES_MAX;
            self.messages_damaged += u64::from(is_too_much && self.reassembling);
            let partial = Partial {
                discarding: self.discarding_partial_message || is_too_much,
                bytes: if is_too_much { Vec::new() } else { bytes },
                has_given: self.has_given,
            };
            self.streams.bytes += partial.bytes.len();
            let others = self.streams.others.get_or_insert_default();
            others.insert(self.streams.current, partial);
        }
        let others = self.streams.others.as_mut();
        let partial = others.and_then(|others| others.remove(&key));
        self.streams.current = key;
        self.discarding_partial_message = partial.as_ref().is_some_and(|other| other.discarding);
        self.reassembling = partial.is_some() && !self.discarding_partial_message;
        self.has_given = partial.as_ref().is_some_and(|other| other.has_given);
        if let Some(partial) = partial {
            self.streams.bytes -= partial.bytes.len();
            self.partial = partial.bytes;
        }
    }
}
