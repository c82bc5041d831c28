//! Messages of streams on their way to the user: each stream in its own order.
//!
//! Of each stream one ordered and one unordered message may be *open*: its first bytes are at the user,
//! and nothing else of its kind and stream goes there before its end. A message opens when it is the
//! next of its stream, wherever its TSN lies, so that a lost chunk holds up its own stream alone.

use crate::numbers::{LongTsn, Ssn};
use crate::pdu::DataHeader;
use std::collections::{BTreeMap, BTreeSet};

/// A chunk that arrived.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Arrived {
    pub(crate) header: DataHeader,
    /// User bytes.
    pub(crate) len: usize,
}

/// A copy of a chunk that waits.
#[derive(Debug)]
struct Held {
    header: DataHeader,
    bytes: Vec<u8>,
}

/// The peer numbered its fragments as no message can be: the association ends.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Violation;

/// What of a stream is at the user.
#[derive(Clone, Copy, Debug, Default)]
struct InStream {
    /// The next ordered message.
    next_ssn: Ssn,
    /// The next chunk of the open ordered message.
    open: Option<LongTsn>,
    /// The same of the unordered one.
    open_unordered: Option<LongTsn>,
}

/// Octets that a chunk that waits takes besides its bytes: its header, three tables' entries.
const HELD_OVERHEAD: u64 = 128;

/// All inbound streams.
#[derive(Debug)]
pub(crate) struct Streams {
    /// Up to the highest used; no more than `max`.
    streams: Vec<InStream>,
    max: u16,
    held: BTreeMap<LongTsn, Held>,
    /// First fragments of ordered messages among them.
    begins: BTreeMap<(u16, Ssn), LongTsn>,
    /// First fragments of unordered messages among them.
    unordered_begins: BTreeSet<(u16, LongTsn)>,
    held_octets: u64,
}

impl Streams {
    pub(crate) fn new(max: u16) -> Streams {
        Streams {
            streams: Vec::new(),
            max,
            held: BTreeMap::new(),
            begins: BTreeMap::new(),
            unordered_begins: BTreeSet::new(),
            held_octets: 0,
        }
    }

    /// Whether the peer may use the stream.
    pub(crate) fn has_stream(&self, stream: u16) -> bool {
        stream < self.max
    }

    /// Octets of chunks that wait.
    pub(crate) fn held_octets(&self) -> u64 {
        self.held_octets
    }

    pub(crate) fn highest_held(&self) -> Option<LongTsn> {
        self.held.last_key_value().map(|(tsn, _)| *tsn)
    }

    pub(crate) fn is_held(&self, tsn: LongTsn) -> bool {
        self.held.contains_key(&tsn)
    }

    fn stream(&mut self, stream: u16) -> &mut InStream {
        let index = usize::from(stream);
        if index >= self.streams.len() {
            self.streams.resize(index + 1, InStream::default());
        }
        &mut self.streams[index]
    }

    /// Whether the chunk's bytes are the next of its stream; if so they count as delivered.
    pub(crate) fn begins_or_continues(&mut self, tsn: LongTsn, header: &DataHeader) -> bool {
        let state = self.stream(header.stream.0);
        let unordered = header.is_unordered();
        let open = match unordered {
            true => &mut state.open_unordered,
            false => &mut state.open,
        };
        let is_next = match *open {
            Some(expected) => expected == tsn && !header.is_begin(),
            None => header.is_begin() && (unordered || header.ssn == state.next_ssn),
        };
        if !is_next {
            return false;
        }
        *open = (!header.is_end()).then(|| tsn.plus(1));
        if header.is_end() && !unordered {
            state.next_ssn = state.next_ssn.next();
        }
        true
    }

    /// Keeps a copy of a chunk until its turn.
    pub(crate) fn hold(&mut self, tsn: LongTsn, header: DataHeader, bytes: &[u8]) {
        if header.is_begin() && header.is_unordered() {
            self.unordered_begins.insert((header.stream.0, tsn));
        } else if header.is_begin() {
            self.begins.insert((header.stream.0, header.ssn), tsn);
        }
        self.held_octets += bytes.len() as u64 + HELD_OVERHEAD;
        let bytes = bytes.to_vec();
        self.held.insert(tsn, Held { header, bytes });
    }

    /// Takes a chunk that waits.
    fn take_held(&mut self, tsn: LongTsn) -> Option<Held> {
        let held = self.held.remove(&tsn)?;
        let stream = held.header.stream.0;
        self.held_octets -= held.bytes.len() as u64 + HELD_OVERHEAD;
        if held.header.is_begin() && held.header.is_unordered() {
            self.unordered_begins.remove(&(stream, tsn));
        } else if held.header.is_begin() {
            let key = (stream, held.header.ssn);
            if self.begins.get(&key) == Some(&tsn) {
                self.begins.remove(&key);
            }
        }
        Some(held)
    }

    /// Drops a chunk that waits.
    pub(crate) fn drop_held(&mut self, tsn: LongTsn) {
        self.take_held(tsn);
    }

    /// The next chunk of `stream` whose turn has come. None when there is none.
    ///
    /// # Errors
    ///
    /// [`Violation`] when another message lies where an open one goes on.
    pub(crate) fn next_ready(
        &mut self,
        stream: u16,
    ) -> Result<Option<(DataHeader, Vec<u8>)>, Violation> {
        if self.held.is_empty() {
            return Ok(None);
        }
        let state = *self.stream(stream);
        let ordered = match state.open {
            Some(tsn) => self.continuation(tsn, stream, false)?,
            None => self.begins.get(&(stream, state.next_ssn)).copied(),
        };
        let found = match (ordered, state.open_unordered) {
            (Some(tsn), _) => Some(tsn),
            (None, Some(tsn)) => self.continuation(tsn, stream, true)?,
            (None, None) => {
                let from = (stream, LongTsn(0));
                let mut begins = self.unordered_begins.range(from..);
                let first = begins.next().filter(|(of, _)| *of == stream);
                first.map(|(_, tsn)| *tsn)
            }
        };
        let Some(tsn) = found else {
            return Ok(None);
        };
        let Some(held) = self.take_held(tsn) else {
            return Ok(None);
        };
        if !self.begins_or_continues(tsn, &held.header) {
            return Err(Violation);
        }
        Ok(Some((held.header, held.bytes)))
    }

    /// The chunk that continues an open message, if it is here.
    fn continuation(
        &self,
        tsn: LongTsn,
        stream: u16,
        unordered: bool,
    ) -> Result<Option<LongTsn>, Violation> {
        let Some(held) = self.held.get(&tsn) else {
            return Ok(None);
        };
        let header = held.header;
        let fits =
            !header.is_begin() && header.stream.0 == stream && header.is_unordered() == unordered;
        if fits { Ok(Some(tsn)) } else { Err(Violation) }
    }
}
