//! Messages of streams on their way to the user: each stream in its own order.
//!
//! Of each stream one ordered and one unordered message may be *open*: its first bytes are at the user,
//! and nothing else of its kind and stream goes there before its end. A message opens when it is the
//! next of its stream, wherever its TSN lies, so that a lost chunk holds up its own stream alone.
//!
//! The fragments of a message have consecutive TSNs with DATA, and numbers of their own with I-DATA.

use super::fragment::Fragment;
use crate::numbers::{LongTsn, StreamId};
use std::collections::{BTreeMap, BTreeSet};

/// A chunk that arrived.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Arrived {
    pub(crate) fragment: Fragment,
    /// User bytes.
    pub(crate) len: usize,
}

/// A copy of a chunk that waits.
#[derive(Debug)]
struct Held {
    fragment: Fragment,
    bytes: Vec<u8>,
}

/// The peer numbered its fragments as no message can be: the association ends.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Violation;

/// A message whose first bytes are at the user.
#[derive(Clone, Copy, Debug)]
pub(super) struct Open {
    /// Its MID; 0 with DATA.
    pub(super) number: u32,
    /// Its next fragment: a TSN with DATA, else an FSN.
    pub(super) at: u64,
    /// Its payload protocol identifier, which the first fragment brought.
    ppid: u32,
}

/// What of a stream is at the user.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct InStream {
    /// The next ordered message.
    pub(super) next: u32,
    pub(super) open: Option<Open>,
    pub(super) open_unordered: Option<Open>,
    /// Unordered messages up to this MID were given up.
    pub(super) skipped_unordered: Option<u32>,
}

/// Octets that a chunk that waits takes besides its bytes: its header, three tables' entries.
const HELD_OVERHEAD: u64 = 128;

/// All inbound streams.
#[derive(Debug)]
pub(crate) struct Streams {
    /// The peer sends I-DATA.
    pub(super) interleaved: bool,
    /// Up to the highest used; no more than `max`.
    pub(super) streams: Vec<InStream>,
    max: u16,
    held: BTreeMap<LongTsn, Held>,
    /// First fragments of ordered messages among them.
    pub(super) begins: BTreeMap<(u16, u32), LongTsn>,
    /// First fragments of unordered messages among them.
    unordered_begins: BTreeSet<(u16, LongTsn)>,
    /// Fragments of I-DATA among them, by stream, whether unordered, MID and FSN.
    pub(super) fragments: BTreeMap<(u16, bool, u32, u32), LongTsn>,
    held_octets: u64,
}

impl Streams {
    pub(crate) fn new(max: u16, interleaved: bool) -> Streams {
        Streams {
            interleaved,
            streams: Vec::new(),
            max,
            held: BTreeMap::new(),
            begins: BTreeMap::new(),
            unordered_begins: BTreeSet::new(),
            fragments: BTreeMap::new(),
            held_octets: 0,
        }
    }

    /// The number of the next ordered message of stream 0, if all that came of it went to the user in whole messages, and
    /// nothing of any stream waits.
    #[inline]
    pub(super) fn next_of_first(&mut self) -> Option<&mut u32> {
        let is_idle = !self.interleaved && self.held.is_empty();
        let first = self.streams.first_mut()?;
        (is_idle && first.open.is_none()).then_some(&mut first.next)
    }

    /// Whether the peer may use the stream.
    pub(crate) fn has_stream(&self, stream: u16) -> bool {
        stream < self.max
    }

    /// Streams that the peer may use.
    pub(crate) fn max(&self) -> u16 {
        self.max
    }

    /// The peer may use `count` more streams, `limit` in all; how many those are. None beyond it.
    pub(crate) fn add(&mut self, count: u16, limit: u16) -> Option<u16> {
        let more = self.max.checked_add(count);
        self.max = more.filter(|max| *max <= limit)?;
        Some(self.max)
    }

    /// The messages of `streams`, or of all for none, are counted anew; false if one of them has a
    /// message that is not whole, or waits for one: then nothing changes.
    pub(crate) fn reset(&mut self, streams: &[StreamId]) -> bool {
        let all = 0..self.streams.len() as u16;
        let named = streams.iter().map(|stream| stream.0);
        let named: Vec<u16> = match streams.is_empty() {
            true => all.collect(),
            false => named.collect(),
        };
        let is_idle = |stream: &u16| {
            let state = self.streams.get(usize::from(*stream));
            let is_open = state.is_some_and(|state| {
                state.open.is_some() || self.interleaved && state.open_unordered.is_some()
            });
            let mut begins = self.begins.range((*stream, 0)..=(*stream, u32::MAX));
            let all = (*stream, false, 0, 0)..=(*stream, true, u32::MAX, u32::MAX);
            let mut fragments = self.fragments.range(all);
            !is_open && begins.next().is_none() && fragments.next().is_none()
        };
        if !named.iter().all(is_idle) {
            return false;
        }
        for stream in named {
            if let Some(state) = self.streams.get_mut(usize::from(stream)) {
                state.next = 0;
                state.skipped_unordered = None;
            }
        }
        true
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

    /// Chunks that wait, from `tsn` on.
    pub(super) fn held_from(&self, tsn: LongTsn) -> impl Iterator<Item = (LongTsn, Fragment)> {
        let held = self.held.range(tsn..);
        held.map(|(tsn, held)| (*tsn, held.fragment))
    }

    pub(super) fn stream(&mut self, stream: u16) -> &mut InStream {
        let index = usize::from(stream);
        if index >= self.streams.len() {
            self.streams.resize(index + 1, InStream::default());
        }
        &mut self.streams[index]
    }

    /// The number of the message behind number `number`: SSNs have 16 bits, MIDs 32.
    pub(super) fn following(&self, number: u32) -> u32 {
        match self.interleaved {
            true => number.wrapping_add(1),
            false => u32::from((number as u16).wrapping_add(1)),
        }
    }

    /// Whether the chunk is of a message that was given up, and comes late.
    pub(crate) fn is_skipped(&mut self, fragment: &Fragment) -> bool {
        if !self.interleaved {
            return false;
        }
        let state = self.stream(fragment.stream.0);
        let is_before = |number: u32, limit: u32| (number.wrapping_sub(limit) as i32) < 0;
        match fragment.is_unordered() {
            false => is_before(fragment.number, state.next),
            true => state
                .skipped_unordered
                .is_some_and(|skipped| !is_before(skipped, fragment.number)),
        }
    }

    /// Whether the chunk's bytes are the next of its stream; if so they count as delivered, and the
    /// fragment gets the payload protocol identifier of its message, that of the first.
    pub(crate) fn begins_or_continues(&mut self, tsn: LongTsn, fragment: &mut Fragment) -> bool {
        let interleaved = self.interleaved;
        let following = self.following(fragment.number);
        let state = self.stream(fragment.stream.0);
        let unordered = fragment.is_unordered();
        let open = match unordered {
            true => &mut state.open_unordered,
            false => &mut state.open,
        };
        let at = match interleaved {
            true => u64::from(fragment.fsn),
            false => tsn.0,
        };
        let number = fragment.message_number(interleaved);
        let is_next = match *open {
            Some(open) => open.at == at && open.number == number && !fragment.is_begin(),
            None => fragment.is_begin() && (unordered || fragment.number == state.next),
        };
        if !is_next {
            return false;
        }
        if let Some(open) = open {
            fragment.ppid = open.ppid;
        }
        *open = (!fragment.is_end()).then_some(Open {
            number,
            at: at + 1,
            ppid: fragment.ppid,
        });
        if fragment.is_end() && !unordered {
            state.next = following;
        }
        true
    }

    /// Keeps a copy of a chunk until its turn.
    /// Fails with [`Violation`] when another chunk has the same place in the same message, or with DATA lies where
    /// its message goes on.
    pub(crate) fn hold(
        &mut self,
        tsn: LongTsn,
        fragment: Fragment,
        bytes: &[u8],
    ) -> Result<(), Violation> {
        let stream = fragment.stream.0;
        if self.interleaved {
            let is_taken = self.fragments.insert(fragment.place(), tsn).is_some();
            let is_first = fragment.fsn == 0;
            if is_taken || is_first != fragment.is_begin() {
                return Err(Violation);
            }
        } else if !self.fits_adjacent(tsn, &fragment) {
            return Err(Violation);
        }
        if fragment.is_begin() && fragment.is_unordered() {
            self.unordered_begins.insert((stream, tsn));
        } else if fragment.is_begin() {
            self.begins.insert((stream, fragment.number), tsn);
        }
        self.held_octets += bytes.len() as u64 + HELD_OVERHEAD;
        let bytes = bytes.to_vec();
        self.held.insert(tsn, Held { fragment, bytes });
        Ok(())
    }

    /// Whether the chunks of DATA that wait in front of `tsn` and behind it can be of one message with
    /// `fragment` where they have to be: all but the number within it are the same (RFC 9260 section 3.3.1).
    fn fits_adjacent(&self, tsn: LongTsn, fragment: &Fragment) -> bool {
        let goes_on = |first: &Fragment, second: &Fragment| {
            let is_same = first.stream == second.stream
                && first.is_unordered() == second.is_unordered()
                && first.message_number(false) == second.message_number(false);
            first.is_end() || second.is_begin() || is_same
        };
        let before = self.held.get(&LongTsn(tsn.0 - 1));
        let behind = self.held.get(&tsn.plus(1));
        before.is_none_or(|held| goes_on(&held.fragment, fragment))
            && behind.is_none_or(|held| goes_on(fragment, &held.fragment))
    }

    /// Takes a chunk that waits.
    fn take_held(&mut self, tsn: LongTsn) -> Option<Held> {
        let held = self.held.remove(&tsn)?;
        let stream = held.fragment.stream.0;
        self.held_octets -= held.bytes.len() as u64 + HELD_OVERHEAD;
        if self.interleaved {
            self.fragments.remove(&held.fragment.place());
        }
        if held.fragment.is_begin() && held.fragment.is_unordered() {
            self.unordered_begins.remove(&(stream, tsn));
        } else if held.fragment.is_begin() {
            let key = (stream, held.fragment.number);
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
    /// Fails with [`Violation`] when another message lies where an open one goes on.
    pub(crate) fn next_ready(
        &mut self,
        stream: u16,
    ) -> Result<Option<(Fragment, Vec<u8>)>, Violation> {
        if self.held.is_empty() {
            return Ok(None);
        }
        let state = *self.stream(stream);
        let ordered = match state.open {
            Some(open) => self.continuation(open, stream, false)?,
            None => self.begins.get(&(stream, state.next)).copied(),
        };
        let found = match (ordered, state.open_unordered) {
            (Some(tsn), _) => Some(tsn),
            (None, Some(open)) => self.continuation(open, stream, true)?,
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
        let Some(mut held) = self.take_held(tsn) else {
            return Ok(None);
        };
        if !self.begins_or_continues(tsn, &mut held.fragment) {
            return Err(Violation);
        }
        Ok(Some((held.fragment, held.bytes)))
    }

    /// The chunk that continues an open message, if it is here.
    fn continuation(
        &self,
        open: Open,
        stream: u16,
        unordered: bool,
    ) -> Result<Option<LongTsn>, Violation> {
        if self.interleaved {
            let place = (stream, unordered, open.number, open.at as u32);
            return Ok(self.fragments.get(&place).copied());
        }
        let tsn = LongTsn(open.at);
        let Some(held) = self.held.get(&tsn) else {
            return Ok(None);
        };
        let fragment = held.fragment;
        let fits = !fragment.is_begin()
            && fragment.stream.0 == stream
            && fragment.is_unordered() == unordered
            && fragment.message_number(false) == open.number;
        if fits { Ok(Some(tsn)) } else { Err(Violation) }
    }
}
