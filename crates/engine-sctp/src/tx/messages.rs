//! Messages that wait to be cut into chunks, in the order of the store.

use crate::numbers::{Ssn, StreamId};
use crate::pdu::DATA_HEADER_LEN;
use crate::pdu::data::{FLAG_BEGIN, FLAG_END, FLAG_UNORDERED};
use core::ops::Range;
use engine::Note;
use std::collections::VecDeque;

/// Messages that wait.
#[derive(Debug, Default)]
pub(crate) struct Messages {
    /// The store holds bytes below this.
    submitted: u64,
    /// Bytes below this may leave in part-filled packets.
    pushed: u64,
    /// Bytes below this were cut into chunks.
    cut: u64,
    /// Ends of messages beyond `cut`, ascending. 8 bytes a message, so that a store full of the
    /// smallest costs eight times its octets.
    ends: VecDeque<u64>,
    /// Notes that are not plain, by the ends of their messages.
    notes: VecDeque<(u64, Note)>,
    /// The message of which a part was cut.
    current: Option<CurrentMessage>,
    /// The next SSN of each stream up to the highest used.
    ssns: Vec<Ssn>,
    /// The stream of the next plain message.
    turn: u16,
    pub(crate) rules: MessageRules,
}

/// How plain messages are sent, and what the peer accepts.
#[derive(Clone, Copy, Debug)]
pub(crate) struct MessageRules {
    /// Streams that the peer accepts.
    pub(crate) streams: u16,
    /// Plain messages go to the streams in turn.
    pub(crate) spread: bool,
    /// Plain messages are unordered.
    pub(crate) unordered: bool,
    /// The bytes are one message without end.
    pub(crate) endless: bool,
}

impl Default for MessageRules {
    fn default() -> Self {
        MessageRules {
            streams: 1,
            spread: false,
            unordered: false,
            endless: false,
        }
    }
}

#[derive(Clone, Copy, Debug)]
struct CurrentMessage {
    stream: StreamId,
    ssn: Ssn,
    ppid: u32,
    unordered: bool,
}

/// A chunk cut from the first waiting message.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Cut {
    pub(crate) range: Range<u64>,
    /// B, E and U.
    pub(crate) flags: u8,
    pub(crate) stream: StreamId,
    pub(crate) ssn: Ssn,
    pub(crate) ppid: u32,
}

/// Chunks that a packet would carry.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct Plan {
    /// Octets of the chunks.
    pub(crate) octets: usize,
    /// User bytes of the first.
    pub(crate) first: u64,
    /// User bytes of all.
    pub(crate) bytes: u64,
}

/// Shorter fragments are not cut to fill a packet: their header would be a quarter of them.
const FRAGMENT_MIN: u64 = 64;

impl Messages {
    /// The store holds bytes below `end`.
    pub(crate) fn submit(&mut self, end: u64, is_end: bool, push: bool, note: &Note) {
        self.submitted = self.submitted.max(end);
        let last = self.ends.back().copied().unwrap_or(self.cut);
        // A message has one byte at least: an end where the last one is ends nothing.
        let ends_something = end > last || end == last && self.current.is_some();
        if is_end && ends_something && self.ends.back() != Some(&end) {
            self.ends.push_back(end);
            if !note.is_plain() {
                self.notes.push_back((end, *note));
            }
        }
        if push {
            self.pushed = self.submitted;
        }
    }

    /// No more will be submitted: bytes whose message has no end are one.
    pub(crate) fn end_tail(&mut self) {
        self.pushed = self.submitted;
        if self.ends.back().copied().unwrap_or(self.cut) < self.submitted {
            self.ends.push_back(self.submitted);
        }
    }

    /// Bytes submitted and not cut.
    pub(crate) fn unsent(&self) -> u64 {
        self.submitted - self.cut
    }

    /// The next chunk in a packet with room for `room` octets of chunks, in which `full` user bytes
    /// fit if nothing else is there; how many bytes, and whether the message ends with them.
    fn next_len(&self, at: u64, end: Option<u64>, room: usize, full: usize) -> Option<(u64, bool)> {
        let room = (room.checked_sub(DATA_HEADER_LEN)? & !3) as u64;
        let left = end.unwrap_or(self.submitted) - at;
        if left == 0 || room == 0 {
            return None;
        }
        let full = full as u64;
        match end {
            Some(_) if left <= room => Some((left, true)),
            // It fits into a packet of its own.
            Some(_) if left <= full && !(at == self.cut && self.current.is_some()) => None,
            Some(_) => (room >= FRAGMENT_MIN).then_some((room, false)),
            None if self.rules.endless => Some((left.min(room), false)),
            // Its end may lie right behind what is here, and needs a byte to travel with.
            None if left > full && room >= FRAGMENT_MIN => Some(((left - 1).min(room), false)),
            None => None,
        }
    }

    /// User bytes of the next chunk in a packet with `room`.
    pub(crate) fn next(&self, room: usize, full: usize) -> Option<u64> {
        let end = self.ends.front().copied();
        self.next_len(self.cut, end, room, full).map(|(len, _)| len)
    }

    /// What would be cut for a packet with `room`; with `single`, one chunk.
    pub(crate) fn plan(&self, room: usize, full: usize, single: bool) -> Plan {
        let mut plan = Plan::default();
        let mut at = self.cut;
        let mut ends = self.ends.iter();
        let mut end = ends.next().copied();
        while let Some((len, is_end)) = self.next_len(at, end, room - plan.octets, full) {
            if plan.first == 0 {
                plan.first = len;
            }
            plan.octets += (DATA_HEADER_LEN + len as usize).next_multiple_of(4);
            at += len;
            if !is_end || single {
                break;
            }
            end = ends.next().copied();
        }
        plan.bytes = at - self.cut;
        plan
    }

    /// Whether what a packet with `room` would carry may leave now: it fills the packet, or its user
    /// pushed it.
    pub(crate) fn may_leave(&self, room: usize, full: usize) -> bool {
        if self.pushed > self.cut {
            return true;
        }
        let plan = self.plan(room, full, false);
        plan.octets + DATA_HEADER_LEN >= room || plan.bytes < self.unsent()
    }

    /// A message that names a stream that the peer does not accept: it is skipped.
    pub(crate) fn skip_refused(&mut self) -> Option<(Range<u64>, Note)> {
        let (end, note) = *self.notes.front()?;
        let is_next = self.current.is_none() && self.ends.front() == Some(&end);
        if !is_next || note.stream < self.rules.streams {
            return None;
        }
        self.notes.pop_front();
        self.ends.pop_front();
        let range = self.cut..end;
        self.cut = end;
        Some((range, note))
    }

    /// Cuts the next chunk.
    pub(crate) fn cut(&mut self, room: usize, full: usize) -> Option<Cut> {
        let end = self.ends.front().copied();
        let (len, is_end) = self.next_len(self.cut, end, room, full)?;
        let (message, begin) = match self.current {
            Some(current) => (current, 0),
            None => (self.begin(end), FLAG_BEGIN),
        };
        let range = self.cut..self.cut + len;
        self.cut = range.end;
        self.current = (!is_end).then_some(message);
        if is_end {
            self.ends.pop_front();
        }
        let end_flag = if is_end { FLAG_END } else { 0 };
        let unordered = if message.unordered { FLAG_UNORDERED } else { 0 };
        Some(Cut {
            range,
            flags: begin | end_flag | unordered,
            stream: message.stream,
            ssn: message.ssn,
            ppid: message.ppid,
        })
    }

    /// Begins the message that ends at `end`, if it is known: it gets its stream and number.
    fn begin(&mut self, end: Option<u64>) -> CurrentMessage {
        let noted = self.notes.pop_front_if(|(at, _)| Some(*at) == end);
        let (stream, unordered, ppid) = match noted {
            Some((_, note)) => (note.stream, note.unordered, note.tag.unwrap_or(0) as u32),
            None => (self.take_turn(), self.rules.unordered, 0),
        };
        let ssn = match unordered {
            true => Ssn(0),
            false => self.next_ssn(stream),
        };
        CurrentMessage {
            stream: StreamId(stream),
            ssn,
            ppid,
            unordered,
        }
    }

    fn take_turn(&mut self) -> u16 {
        if !self.rules.spread {
            return 0;
        }
        let stream = self.turn;
        self.turn = (stream + 1) % self.rules.streams.max(1);
        stream
    }

    fn next_ssn(&mut self, stream: u16) -> Ssn {
        let index = usize::from(stream);
        if index >= self.ssns.len() {
            self.ssns.resize(index + 1, Ssn(0));
        }
        let ssn = self.ssns[index];
        self.ssns[index] = ssn.next();
        ssn
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const FULL: usize = 1444;
    const ROOM: usize = FULL + DATA_HEADER_LEN;

    fn messages(lengths: &[u64]) -> Messages {
        let mut messages = Messages::default();
        let mut end = 0;
        for len in lengths {
            end += len;
            messages.submit(end, true, true, &Note::default());
        }
        messages
    }

    #[test]
    fn small_message_is_not_cut_to_fill_a_packet() {
        let mut messages = messages(&[1000, 1000]);
        let plan = messages.plan(ROOM, FULL, false);
        assert_eq!((plan.octets, plan.first), (1016, 1000));
        let first = messages.cut(ROOM, FULL).expect("a chunk");
        assert_eq!((first.range, first.flags), (0..1000, FLAG_BEGIN | FLAG_END));
        assert_eq!(messages.cut(ROOM - 1016, FULL), None);
        assert_eq!(messages.cut(ROOM, FULL).expect("a chunk").ssn, Ssn(1));
        assert_eq!(messages.unsent(), 0);
    }

    #[test]
    fn long_message_fills_packets_and_its_fragments_share_a_number() {
        let mut messages = messages(&[100, 4000]);
        let (mut flags, mut lens, mut room) = (Vec::new(), Vec::new(), ROOM);
        while messages.unsent() > 0 {
            let Some(cut) = messages.cut(room, FULL) else {
                room = ROOM;
                continue;
            };
            let len = (cut.range.end - cut.range.start) as usize;
            room -= (len + DATA_HEADER_LEN).next_multiple_of(4);
            flags.push(cut.flags);
            lens.push(len);
        }
        assert_eq!(lens, [100, 1328, 1444, 1228]);
        assert_eq!(flags, [3, FLAG_BEGIN, 0, FLAG_END]);
    }

    #[test]
    fn message_without_end_keeps_a_byte_for_its_end() {
        let mut messages = Messages::default();
        messages.submit(1444, false, true, &Note::default());
        assert_eq!(messages.cut(ROOM, FULL), None, "it may fit into one packet");
        messages.submit(1445, false, true, &Note::default());
        assert_eq!(messages.cut(ROOM, FULL).expect("a fragment").range, 0..1444);
        assert_eq!(messages.cut(ROOM, FULL), None);
        messages.submit(1445, true, true, &Note::default());
        let last = messages.cut(ROOM, FULL).expect("the end");
        assert_eq!((last.range, last.flags), (1444..1445, FLAG_END));
    }

    #[test]
    fn plain_messages_go_to_streams_in_turn_and_noted_ones_where_they_say() {
        let mut messages = Messages {
            rules: MessageRules {
                streams: 3,
                spread: true,
                ..MessageRules::default()
            },
            ..Messages::default()
        };
        let noted = Note {
            stream: 2,
            tag: Some(51),
            unordered: true,
            ..Note::default()
        };
        for (end, note) in [(1, Note::default()), (2, noted), (3, Note::default())] {
            messages.submit(end, true, true, &note);
        }
        let cuts: Vec<Cut> = (0..3).filter_map(|_| messages.cut(ROOM, FULL)).collect();
        let seen = cuts.iter().map(|cut| (cut.stream.0, cut.ppid, cut.flags));
        assert!(seen.eq([(0, 0, 3), (2, 51, 7), (1, 0, 3)]));
    }

    #[test]
    fn message_for_a_stream_that_does_not_exist_is_skipped() {
        let mut messages = Messages::default();
        let note = Note {
            stream: 1,
            ..Note::default()
        };
        messages.submit(5, true, true, &note);
        messages.submit(9, true, true, &Note::default());
        assert_eq!(messages.skip_refused(), Some((0..5, note)));
        assert_eq!(messages.skip_refused(), None);
        assert_eq!(messages.cut(ROOM, FULL).expect("a chunk").range, 5..9);
    }
}
