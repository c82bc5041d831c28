//! Messages that may overtake each other or be given up: a receiver knows each by its number, which
//! travels as its tag.

use super::Flow;
use crate::store::BytePattern;
use engine::{Delivery, Note, RangeSet, Reliability};
use std::collections::BTreeMap;
use std::ops::Range;

/// What travels with the messages of a station's circuits.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct MessageNotes {
    /// Streams that they take in turn.
    pub streams: u16,
    /// They may overtake each other.
    pub unordered: bool,
    /// How hard the sender tries.
    pub reliability: Reliability,
}

impl MessageNotes {
    /// The note of message number `index`.
    pub(crate) fn note(&self, index: u64) -> Note {
        Note {
            stream: (index % u64::from(self.streams.max(1))) as u16,
            tag: Some(index + 1),
            unordered: self.unordered,
            reliability: self.reliability,
            ..Note::default()
        }
    }
}

/// What a receiver has of them.
#[derive(Debug, Default)]
pub(super) struct LabelledProgress {
    /// The unfinished message of each stream: its number, and how many bytes of it came.
    open: BTreeMap<(u16, bool), (u64, u64)>,
    /// The last ordered message of each stream.
    last: BTreeMap<u16, u64>,
    /// Positions that came, and those that the sender said need not.
    arrived: RangeSet,
}

impl Flow {
    /// The bytes of message number `number` in the store; None if there is none.
    fn message_range(&self, number: u64) -> Option<Range<u64>> {
        let index = usize::try_from(number).ok()?;
        let end = *self.ends.get(index)?;
        let start = index.checked_sub(1).map_or(0, |before| self.ends[before]);
        Some(start..end)
    }

    /// Checks a delivery to `receiver`; the number of the message that ends with it.
    pub(crate) fn check_labelled(
        &mut self,
        receiver: usize,
        (delivery, bytes): (&Delivery, &[u8]),
        pattern: &BytePattern,
    ) -> Option<u64> {
        if self.progress[receiver].after_gap {
            return None;
        }
        let len = bytes.len() as u64;
        let key = (delivery.note.stream, delivery.note.unordered);
        let number = delivery.note.tag.unwrap_or(0).wrapping_sub(1);
        let message = self.message_range(number);
        let progress = &mut self.labelled[receiver];
        let report = &mut self.report.receivers[receiver];
        if delivery.gap {
            // Its sender gave up what is missing.
            report.gaps += 1;
            progress.open.remove(&key);
            return None;
        }
        let Some(message) = message else {
            report.wrong_bytes += len;
            return None;
        };
        let (known, done) = progress.open.remove(&key).unwrap_or((number, 0));
        if known != number {
            report.wrong_bytes += len;
            return None;
        }
        if done == 0 && !key.1 && progress.last.insert(key.0, number) > Some(number) {
            report.skipped_bytes += len;
        }
        let start = message.start + done;
        let end = start + len;
        report.wrong_bytes += wrong_bytes(pattern, start, bytes);
        report.repeated_bytes += len - progress.arrived.insert(start..end);
        if !delivery.end_of_message {
            progress.open.insert(key, (number, done + len));
            return None;
        }
        report.wrong_ends += u64::from(end != message.end);
        Some(number)
    }

    /// Bytes are released: the user of each receiver has them. Unordered messages may wait in its engine
    /// for the rest of another one.
    pub(super) fn check_released(&mut self, range: &Range<u64>) {
        if self.notes.is_none_or(|notes| notes.unordered) {
            return;
        }
        let receivers = self.progress.iter().zip(&mut self.labelled);
        for (_, labelled) in receivers.filter(|(progress, _)| !progress.after_gap) {
            let missing = labelled.arrived.insert(range.clone());
            self.report.lost_bytes = self.report.lost_bytes.max(missing);
        }
    }

    /// The sender gave a message up, of which the bytes `range` were not released.
    pub(crate) fn note_abandoned(&mut self, now_ps: u64, range: Range<u64>) {
        self.report.abandoned += 1;
        self.settle(now_ps, range);
    }

    /// The user of `receiver` has read the end of message number `number`.
    pub(crate) fn note_labelled_read(&mut self, now_ps: u64, receiver: usize, number: u64) {
        let report = &mut self.report.receivers[receiver];
        if let Some(offered_ps) = self.offered_ps.get(number as usize) {
            report.delay.record(now_ps - offered_ps);
        }
        report.messages += 1;
        report.last_ps = now_ps;
    }
}

/// How many of `bytes` are not those that belong at `position`.
fn wrong_bytes(pattern: &BytePattern, position: u64, bytes: &[u8]) -> u64 {
    let mut at = position;
    let mut wrong = 0;
    for part in bytes.chunks(1 << 15) {
        let expected = pattern.at(at, part.len());
        wrong += part.iter().zip(expected).filter(|(a, b)| a != b).count() as u64;
        at += part.len() as u64;
    }
    wrong
}
