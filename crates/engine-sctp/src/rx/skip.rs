//! Messages that the peer gave up: what came of them is dropped, and their streams go on (RFC 3758
//! section 3.6, RFC 8260 section 2.3.1).

use super::streams::Streams;
use crate::numbers::LongTsn;

/// What a stream needs next on its way past a message that was given up.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum SkipStep {
    /// Messages may be deliverable now.
    Deliver,
    /// The message whose first bytes are at the user never ends.
    Aborted,
    /// The stream is past it.
    Done,
}

impl Streams {
    /// With DATA: all TSNs up to `tsn` count as received. Messages that can never be complete are
    /// dropped; those whose first bytes are at the user are named, by stream and whether they are
    /// unordered. It looks at all streams that were ever used, 64 octets each.
    pub(crate) fn skip_to(&mut self, tsn: LongTsn) -> Vec<(u16, bool)> {
        if self.interleaved {
            return Vec::new();
        }
        let mut aborted = Vec::new();
        for (stream, state) in self.streams.iter_mut().enumerate() {
            if state.open.take_if(|open| open.at <= tsn.0).is_some() {
                state.next = u32::from((state.next as u16).wrapping_add(1));
                aborted.push((stream as u16, false));
            }
            let open = &mut state.open_unordered;
            if open.take_if(|open| open.at <= tsn.0).is_some() {
                aborted.push((stream as u16, true));
            }
        }
        for chunk in self.incomplete_up_to(tsn) {
            self.drop_held(chunk);
        }
        aborted
    }

    /// Chunks of DATA that wait, up to `limit`, whose messages are not whole.
    fn incomplete_up_to(&self, limit: LongTsn) -> Vec<LongTsn> {
        let (mut incomplete, mut run) = (Vec::new(), Vec::new());
        let mut next = LongTsn(0);
        for (tsn, fragment) in self.held_from(LongTsn(0)) {
            let continues = !run.is_empty() && tsn == next && !fragment.is_begin();
            if !continues {
                incomplete.append(&mut run);
                if tsn > limit {
                    break;
                }
            }
            if !continues && !fragment.is_begin() {
                incomplete.push(tsn);
                continue;
            }
            run.push(tsn);
            next = tsn.plus(1);
            if fragment.is_end() {
                run.clear();
                if tsn >= limit {
                    break;
                }
            }
        }
        incomplete.append(&mut run);
        incomplete.retain(|tsn| *tsn <= limit);
        incomplete
    }

    /// A step of `stream` past its ordered messages up to number `number`. Those of them that are whole
    /// are delivered.
    pub(crate) fn skip_ordered(&mut self, stream: u16, number: u32) -> SkipStep {
        let state = *self.stream(stream);
        if self.distance(state.next, number).is_none() {
            return SkipStep::Done;
        }
        if state.open.is_some() {
            let next = self.following(state.next);
            let state = self.stream(stream);
            state.open = None;
            state.next = next;
            return SkipStep::Aborted;
        }
        while let Some((found, tsn)) = self.first_begin(stream, state.next, number) {
            if self.is_whole(tsn) {
                self.stream(stream).next = found;
                return SkipStep::Deliver;
            }
            self.drop_held(tsn);
        }
        if self.interleaved {
            self.drop_fragments(stream, false, number);
        }
        self.stream(stream).next = self.following(number);
        SkipStep::Deliver
    }

    /// With I-DATA: the unordered messages of `stream` up to number `number` are given up unless they
    /// are whole; whether the one whose first bytes are at the user is among them.
    pub(crate) fn skip_unordered(&mut self, stream: u16, number: u32) -> bool {
        let state = self.stream(stream);
        let is_up_to = |mid: u32| (number.wrapping_sub(mid) as i32) >= 0;
        let aborted = state.open_unordered.take_if(|open| is_up_to(open.number));
        let advances = state.skipped_unordered.is_none_or(is_up_to);
        if advances {
            state.skipped_unordered = Some(number);
        }
        self.drop_fragments(stream, true, number);
        aborted.is_some()
    }

    /// How far `later` lies behind `number`; None if it lies before it.
    fn distance(&self, number: u32, later: u32) -> Option<u32> {
        let distance = later.wrapping_sub(number);
        match self.interleaved {
            true => (distance as i32 >= 0).then_some(distance),
            false => (distance as u16 as i16 >= 0).then_some(u32::from(distance as u16)),
        }
    }

    /// The first ordered message of `stream` from number `from` to `to` whose first fragment waits.
    fn first_begin(&self, stream: u16, from: u32, to: u32) -> Option<(u32, LongTsn)> {
        let in_order = |from: u32, to: u32| {
            let mut begins = self.begins.range((stream, from)..=(stream, to));
            begins.next().map(|((_, number), tsn)| (*number, *tsn))
        };
        if from <= to {
            return in_order(from, to);
        }
        in_order(from, u32::MAX).or_else(|| in_order(0, to))
    }

    /// Whether all fragments of the message that begins with the chunk `tsn` wait.
    fn is_whole(&self, tsn: LongTsn) -> bool {
        let mut chunks = self.held_from(tsn);
        let Some((_, begin)) = chunks.next().filter(|(first, _)| *first == tsn) else {
            return false;
        };
        if begin.is_end() {
            return true;
        }
        if !self.interleaved {
            let mut next = tsn.plus(1);
            let mut rest = chunks.take_while(|(tsn, fragment)| {
                let continues = *tsn == next && !fragment.is_begin();
                next = next.plus(1);
                continues
            });
            return rest.any(|(_, fragment)| fragment.is_end());
        }
        let (stream, unordered, number, _) = begin.place();
        let places = (stream, unordered, number, 1)..=(stream, unordered, number, u32::MAX);
        for (next, (place, tsn)) in (1..).zip(self.fragments.range(places)) {
            let fragment = self.held_from(*tsn).next();
            if place.3 != next {
                return false;
            }
            if fragment.is_some_and(|(_, fragment)| fragment.is_end()) {
                return true;
            }
        }
        false
    }

    /// Drops the fragments of I-DATA of `stream` that wait, of messages up to number `number` that are
    /// not whole.
    fn drop_fragments(&mut self, stream: u16, unordered: bool, number: u32) {
        let places = (stream, unordered, 0, 0)..=(stream, unordered, u32::MAX, u32::MAX);
        let mut dropped = Vec::new();
        let mut last = None;
        for (place, tsn) in self.fragments.range(places) {
            let mid = place.2;
            if (number.wrapping_sub(mid) as i32) < 0 {
                continue;
            }
            let is_whole = match last {
                Some((known, is_whole)) if known == mid => is_whole,
                _ => place.3 == 0 && self.is_whole(*tsn),
            };
            last = Some((mid, is_whole));
            if !is_whole {
                dropped.push(*tsn);
            }
        }
        for tsn in dropped {
            self.drop_held(tsn);
        }
    }
}
