//! Where messages go, and the numbers of their streams.

use crate::numbers::StreamId;
use crate::pdu::DATA_HEADER_LEN;
use crate::pdu::data::{FLAG_BEGIN, FLAG_END, FLAG_UNORDERED};
use core::ops::Range;
use engine::{Instant, Note, Reliability};

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
    /// Messages may be given up.
    pub(crate) partial_reliability: bool,
    /// They travel in I-DATA.
    pub(crate) interleave: bool,
    /// Octets in front of the user bytes of a chunk.
    pub(crate) header_len: usize,
}

impl Default for MessageRules {
    fn default() -> Self {
        MessageRules {
            streams: 1,
            spread: false,
            unordered: false,
            endless: false,
            partial_reliability: false,
            interleave: false,
            header_len: DATA_HEADER_LEN,
        }
    }
}

/// A message of which something was sent and that may be given up, or whose user gave it a number.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Tracked {
    /// Its bytes in the store; the end is that of the store while it is not known.
    pub(crate) range: Range<u64>,
    pub(crate) has_end: bool,
    pub(crate) note: Note,
    /// When its life is over.
    pub(crate) deadline: Option<Instant>,
}

/// A message that waits, as its user said.
#[derive(Clone, Copy, Debug)]
pub(super) struct Asked {
    pub(super) note: Note,
    /// It had no note: it goes where plain messages go.
    pub(super) is_plain: bool,
    pub(super) deadline: Option<Instant>,
}

impl Asked {
    /// A message with `note`, submitted at `now`; one without gets the reliability of plain ones.
    pub(super) fn new(now: Instant, note: &Note, plain: Reliability) -> Asked {
        let is_plain = note.is_plain();
        let note = match is_plain {
            true => Note {
                reliability: plain,
                ..Note::default()
            },
            false => *note,
        };
        let deadline = match note.reliability {
            Reliability::Lifetime(life) => Some(now + life),
            _ => None,
        };
        Asked {
            note,
            is_plain,
            deadline,
        }
    }

    /// Whether more must be kept of it than where it ends.
    pub(super) fn is_noted(&self) -> bool {
        !self.note.is_plain()
    }
}

/// A message of which a part was cut.
#[derive(Clone, Copy, Debug)]
pub(super) struct CurrentMessage {
    /// Where it begins in the store.
    pub(super) start: u64,
    pub(super) stream: StreamId,
    number: u32,
    ppid: u32,
    unordered: bool,
    /// The number of its next fragment, which goes round in a message without end.
    fsn: u32,
    is_begun: bool,
    /// When its life is over.
    pub(super) deadline: Option<Instant>,
}

/// A chunk cut from a message that waits.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Cut {
    pub(crate) range: Range<u64>,
    /// B, E and U.
    pub(crate) flags: u8,
    pub(crate) stream: StreamId,
    /// Its SSN, or its MID.
    pub(crate) number: u32,
    /// Its payload protocol identifier; with I-DATA behind the first fragment the fragment's number.
    pub(crate) ppid: u32,
    /// Its message, of which this is the first fragment.
    pub(crate) tracked: Option<Box<Tracked>>,
}

impl CurrentMessage {
    /// Its next fragment, with the bytes `range`.
    pub(super) fn fragment(&mut self, range: Range<u64>, is_end: bool, interleave: bool) -> Cut {
        let is_begin = !core::mem::replace(&mut self.is_begun, true);
        let flag = |set: bool, flag: u8| if set { flag } else { 0 };
        let cut = Cut {
            range,
            flags: flag(is_begin, FLAG_BEGIN)
                | flag(is_end, FLAG_END)
                | flag(self.unordered, FLAG_UNORDERED),
            stream: self.stream,
            number: self.number,
            ppid: match interleave && !is_begin {
                true => self.fsn,
                false => self.ppid,
            },
            tracked: None,
        };
        self.fsn = self.fsn.wrapping_add(1);
        cut
    }
}

impl CurrentMessage {
    /// Whether its life is over.
    pub(super) fn is_over(&self, now: Instant) -> bool {
        self.deadline.is_some_and(|at| at <= now)
    }
}

/// Numbers of the streams, and whose turn it is.
#[derive(Debug, Default)]
pub(super) struct Numbering {
    pub(super) rules: MessageRules,
    /// The next SSN or MID of ordered messages, of each stream up to the highest used.
    ordered: Vec<u32>,
    /// The next MID of unordered ones.
    unordered: Vec<u32>,
    /// The stream of the next plain message.
    turn: u16,
}

impl Numbering {
    /// The stream of a message: plain ones take turns.
    pub(super) fn stream_of(&mut self, asked: &Asked) -> u16 {
        match asked.is_plain {
            true => self.take_turn(),
            false => asked.note.stream,
        }
    }

    /// Begins the message at `start` on `stream`: it gets its number.
    pub(super) fn begin(
        &mut self,
        start: u64,
        stream: u16,
        asked: Option<&Asked>,
    ) -> CurrentMessage {
        let noted = asked.filter(|asked| !asked.is_plain);
        let unordered = noted.map_or(self.rules.unordered, |asked| asked.note.unordered);
        let ppid = noted.and_then(|asked| asked.note.tag).unwrap_or(0) as u32;
        CurrentMessage {
            start,
            stream: StreamId(stream),
            number: self.next_number(stream, unordered),
            ppid,
            unordered,
            fsn: 0,
            is_begun: false,
            deadline: asked.and_then(|asked| asked.deadline),
        }
    }

    /// What must be known of the message of `range` while its chunks may be lost.
    pub(super) fn tracked(
        &self,
        range: Range<u64>,
        has_end: bool,
        asked: Option<&Asked>,
        current: &CurrentMessage,
    ) -> Option<Box<Tracked>> {
        let asked = asked?;
        let note = asked.note;
        let may_end = self.rules.partial_reliability && note.reliability != Reliability::Full;
        (may_end || note.context != 0).then(|| {
            let (stream, unordered) = (current.stream.0, current.unordered);
            Box::new(Tracked {
                range,
                has_end,
                note: Note {
                    stream,
                    unordered,
                    ..note
                },
                deadline: asked.deadline,
            })
        })
    }

    pub(super) fn take_turn(&mut self) -> u16 {
        if !self.rules.spread {
            return 0;
        }
        let stream = self.turn;
        self.turn = (stream + 1) % self.rules.streams.max(1);
        stream
    }

    /// The messages of `streams`, or of all for none, are counted anew.
    pub(super) fn reset(&mut self, streams: &[StreamId]) {
        for numbers in [&mut self.ordered, &mut self.unordered] {
            if streams.is_empty() {
                numbers.clear();
            }
            for stream in streams {
                if let Some(number) = numbers.get_mut(usize::from(stream.0)) {
                    *number = 0;
                }
            }
        }
    }

    /// The next SSN of ordered messages of stream 0.
    pub(super) fn first_stream(&mut self) -> &mut u32 {
        if self.ordered.is_empty() {
            self.ordered.push(0);
        }
        &mut self.ordered[0]
    }

    /// Unordered messages in DATA have no number.
    fn next_number(&mut self, stream: u16, unordered: bool) -> u32 {
        let interleave = self.rules.interleave;
        let numbers = match unordered {
            true if !interleave => return 0,
            true => &mut self.unordered,
            false => &mut self.ordered,
        };
        let index = usize::from(stream);
        if index >= numbers.len() {
            numbers.resize(index + 1, 0);
        }
        let number = numbers[index];
        numbers[index] = match interleave {
            true => number.wrapping_add(1),
            false => u32::from((number as u16).wrapping_add(1)),
        };
        number
    }
}
