//! Messages in the order of the store: first come, first served (RFC 8260 section 3.1).

use super::messages::{Dropped, FRAGMENT_MIN, Plan, Submission};
use super::numbering::{Asked, CurrentMessage, Cut, Numbering};
use core::ops::Range;
use engine::{Instant, Note, Reliability};
use std::collections::{BTreeSet, VecDeque};

/// A message whose note is not plain.
#[derive(Clone, Copy, Debug)]
struct Noted {
    end: u64,
    asked: Asked,
    /// It was given up, and reported.
    is_gone: bool,
}

/// Messages that wait.
#[derive(Debug)]
pub(crate) struct InOrder {
    pub(super) numbering: Numbering,
    pub(super) now: Instant,
    pub(super) dropped: VecDeque<Dropped>,
    /// How hard the sender tries for plain messages.
    plain: Reliability,
    /// The store holds bytes below this.
    submitted: u64,
    /// Bytes below this may leave in part-filled packets.
    pushed: u64,
    /// Bytes below this were cut into chunks, or given up.
    cut: u64,
    /// Ends of messages beyond `cut`, ascending. 8 bytes a message, so that a store full of the
    /// smallest costs eight times its octets.
    ends: VecDeque<u64>,
    /// Notes that are not plain, by the ends of their messages.
    notes: VecDeque<Noted>,
    /// Values and ends of those among them that may be given up for others.
    by_value: BTreeSet<(u16, u64)>,
    /// Bytes beyond `cut` of messages that are gone.
    gone: u64,
    /// The message of which a part was cut.
    current: Option<CurrentMessage>,
}

impl InOrder {
    pub(super) fn new(plain: Reliability) -> InOrder {
        InOrder {
            numbering: Numbering::default(),
            now: Instant::from_nanos(0),
            dropped: VecDeque::new(),
            plain,
            submitted: 0,
            pushed: 0,
            cut: 0,
            ends: VecDeque::new(),
            notes: VecDeque::new(),
            by_value: BTreeSet::new(),
            gone: 0,
            current: None,
        }
    }

    pub(super) fn submit(&mut self, submission: &Submission<'_>) {
        let end = submission.end;
        self.submitted = self.submitted.max(end);
        let last = self.ends.back().copied().unwrap_or(self.cut);
        // A message has one byte at least: an end where the last one is ends nothing.
        let ends_something = end > last || end == last && self.current.is_some();
        if submission.is_end && ends_something && self.ends.back() != Some(&end) {
            let is_begun = self.ends.is_empty() && self.current.is_some();
            self.ends.push_back(end);
            let is_plain = submission.note.is_plain() && self.plain == Reliability::Full;
            if !is_begun && !is_plain {
                self.note(Asked::new(submission.now, submission.note, self.plain), end);
            }
        }
        if submission.push {
            self.pushed = self.submitted;
        }
    }

    /// Submits messages without notes that end at `ends`.
    pub(super) fn submit_all(&mut self, now: Instant, ends: &[u64], push: bool) {
        let mut ends = ends;
        while let Some((end, behind)) = ends.split_first() {
            self.submit(&Submission {
                now,
                end: *end,
                is_end: true,
                push,
                note: &Note::default(),
            });
            ends = behind;
            // Each has a byte at least, and there is nothing to note of it.
            let is_usual = ends.first() > Some(end) && ends.is_sorted_by(|one, next| one < next);
            if is_usual && self.plain == Reliability::Full {
                self.ends.extend(ends);
                self.submitted = self.submitted.max(ends[ends.len() - 1]);
                if push {
                    self.pushed = self.submitted;
                }
                return;
            }
        }
    }

    fn note(&mut self, asked: Asked, end: u64) {
        if !asked.is_noted() {
            return;
        }
        if let Reliability::Priority(value) = asked.note.reliability {
            self.by_value.insert((value, end));
        }
        self.notes.push_back(Noted {
            end,
            asked,
            is_gone: false,
        });
    }

    pub(super) fn end_tail(&mut self) {
        self.pushed = self.submitted;
        if self.ends.back().copied().unwrap_or(self.cut) < self.submitted {
            self.ends.push_back(self.submitted);
        }
    }

    /// The length of the only message that waits, if it is whole, has no note, and nothing is to be reported of others.
    #[inline]
    pub(super) fn lone(&self) -> Option<u64> {
        let end = *self.ends.front()?;
        let is_plain = self.notes.is_empty() && self.plain == Reliability::Full;
        let is_lone = self.ends.len() == 1 && self.submitted == end;
        let is_quiet = self.current.is_none() && self.dropped.is_empty();
        (is_plain && is_lone && is_quiet).then(|| end - self.cut)
    }

    /// Bytes below this were cut into chunks, or given up.
    pub(super) fn position(&self) -> u64 {
        self.cut
    }

    /// The end of the last message submitted whole; None while one of which a part was cut has no end.
    pub(super) fn whole_up_to(&self) -> Option<u64> {
        let cut = self.current.is_none().then_some(self.cut);
        self.ends.back().copied().or(cut)
    }

    /// Whether bytes were submitted that were not cut, though their messages may be gone.
    #[inline]
    pub(super) fn has_uncut(&self) -> bool {
        self.submitted > self.cut
    }

    pub(super) fn unsent(&self) -> u64 {
        self.submitted - self.cut - self.gone
    }

    /// The next chunk in a packet with room for `room` octets of chunks, in which `full` user bytes
    /// fit if nothing else is there; how many bytes, and whether the message ends with them.
    fn next_len(&self, at: u64, end: Option<u64>, room: usize, full: usize) -> Option<(u64, bool)> {
        let room = (room.checked_sub(self.numbering.rules.header_len)? & !3) as u64;
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
            None if self.numbering.rules.endless => Some((left.min(room), false)),
            // Its end may lie right behind what is here, and needs a byte to travel with.
            None if left > full && room >= FRAGMENT_MIN => Some(((left - 1).min(room), false)),
            None => None,
        }
    }

    pub(super) fn next(&mut self, room: usize, full: usize) -> Option<u64> {
        if !self.notes.is_empty() {
            self.pass_given_up();
        }
        let end = self.ends.front().copied();
        self.next_len(self.cut, end, room, full).map(|(len, _)| len)
    }

    pub(super) fn plan(&self, room: usize, full: usize, single: bool) -> Plan {
        let mut plan = Plan::default();
        let mut at = self.cut;
        let mut ends = self.ends.iter();
        let mut end = ends.next().copied();
        let header_len = self.numbering.rules.header_len;
        while let Some((len, is_end)) = self.next_len(at, end, room - plan.octets, full) {
            if plan.first == 0 {
                plan.first = len;
            }
            plan.octets += (header_len + len as usize).next_multiple_of(4);
            at += len;
            if !is_end || single {
                break;
            }
            end = ends.next().copied();
        }
        plan.is_full = end.is_some() || plan.octets + header_len >= room;
        plan
    }

    pub(super) fn may_leave(&self, room: usize, full: usize) -> bool {
        if self.pushed > self.cut {
            return true;
        }
        // More than one packet has room for: what is left out is whole, or begun.
        let header_len = self.numbering.rules.header_len as u64;
        if let Some(last) = self.ends.back()
            && last - self.cut + header_len * self.ends.len() as u64 > room as u64
        {
            return true;
        }
        self.plan(room, full, false).is_full
    }

    /// Passes over messages that are not sent: for streams that the peer does not accept, those whose
    /// life is over, and those that were given up for others.
    fn pass_given_up(&mut self) {
        while self.current.is_none()
            && let Some(noted) = self.notes.front().copied()
            && self.ends.front() == Some(&noted.end)
            && self.is_given_up(&noted)
        {
            self.notes.pop_front();
            self.ends.pop_front();
            let range = self.cut..noted.end;
            self.cut = noted.end;
            if noted.is_gone {
                self.gone -= range.end - range.start;
                continue;
            }
            if let Reliability::Priority(value) = noted.asked.note.reliability {
                self.by_value.remove(&(value, noted.end));
            }
            let note = noted.asked.note;
            self.dropped.push_back(Dropped { range, note });
        }
    }

    fn is_given_up(&self, noted: &Noted) -> bool {
        let rules = &self.numbering.rules;
        let is_late = noted.asked.deadline.is_some_and(|at| at <= self.now);
        noted.is_gone
            || noted.asked.note.stream >= rules.streams
            || rules.partial_reliability && is_late
    }

    pub(super) fn cut(&mut self, room: usize, full: usize) -> Option<Cut> {
        let end = self.ends.front().copied();
        let (len, is_end) = self.next_len(self.cut, end, room, full)?;
        let range = self.cut..self.cut + len;
        let (mut message, tracked) = match self.current {
            Some(current) => (current, None),
            None => {
                let asked = self.take_asked(end);
                let stream = match &asked {
                    Some(asked) => self.numbering.stream_of(asked),
                    None => self.numbering.take_turn(),
                };
                let message = self.numbering.begin(self.cut, stream, asked.as_ref());
                let whole = self.cut..end.unwrap_or(range.end);
                let has_end = end.is_some();
                let numbering = &self.numbering;
                let tracked = numbering.tracked(whole, has_end, asked.as_ref(), &message);
                (message, tracked)
            }
        };
        self.cut = range.end;
        let cut = message.fragment(range, is_end, self.numbering.rules.interleave);
        self.current = (!is_end).then_some(message);
        if is_end {
            self.ends.pop_front();
        }
        Some(Cut { tracked, ..cut })
    }

    /// As [`InOrder::cut`], of a message without a note that fits into `room` octets as a whole.
    pub(super) fn cut_whole(&mut self, room: usize) -> Option<Cut> {
        let is_plain = self.notes.is_empty() && self.plain == Reliability::Full;
        let end = *self.ends.front()?;
        let octets = self.numbering.rules.header_len as u64 + (end - self.cut);
        if !is_plain || self.current.is_some() || octets.next_multiple_of(4) > room as u64 {
            return None;
        }
        self.ends.pop_front();
        let range = self.cut..end;
        self.cut = end;
        let stream = self.numbering.take_turn();
        let mut message = self.numbering.begin(range.start, stream, None);
        Some(message.fragment(range, true, self.numbering.rules.interleave))
    }

    /// Cuts messages without notes, in DATA and all of stream 0, as long as `take` takes them: it gets the bytes and the
    /// number of each, and whether more bytes wait behind it.
    pub(super) fn cut_alike(&mut self, mut take: impl FnMut(Range<u64>, u16, bool) -> bool) {
        let rules = &self.numbering.rules;
        let is_plain = self.notes.is_empty() && self.plain == Reliability::Full;
        if !is_plain || self.current.is_some() || rules.spread || rules.interleave {
            return;
        }
        let (is_ordered, all) = (!rules.unordered, self.submitted - self.gone);
        let first = self.numbering.first_stream();
        let mut number = if is_ordered { *first as u16 } else { 0 };
        let mut taken = 0;
        for end in &self.ends {
            if !take(self.cut..*end, number, *end < all) {
                break;
            }
            self.cut = *end;
            number = number.wrapping_add(u16::from(is_ordered));
            taken += 1;
        }
        if is_ordered {
            *first = u32::from(number);
        }
        self.ends.drain(..taken);
    }

    /// What was asked of the message that begins now and ends at `end`, if more than a plain one.
    fn take_asked(&mut self, end: Option<u64>) -> Option<Asked> {
        let noted = self.notes.pop_front_if(|noted| Some(noted.end) == end);
        if let Some(noted) = noted {
            if let Reliability::Priority(value) = noted.asked.note.reliability {
                self.by_value.remove(&(value, noted.end));
            }
            return Some(noted.asked);
        }
        let is_full = self.plain == Reliability::Full;
        let plain = Note::default();
        (!is_full).then(|| Asked::new(self.now, &plain, self.plain))
    }

    pub(super) fn overdue(&self) -> Option<u64> {
        let current = self.current.filter(|current| current.is_over(self.now))?;
        (!self.ends.is_empty() && self.numbering.rules.partial_reliability).then_some(current.start)
    }

    pub(super) fn drop_rest(&mut self, start: u64) -> Option<Cut> {
        let is_current = |message: &mut CurrentMessage| message.start == start;
        let mut current = self.current.take_if(is_current)?;
        let end = self.ends.pop_front().unwrap_or(self.submitted);
        let rest = self.cut..end;
        self.cut = end;
        Some(current.fragment(rest, true, self.numbering.rules.interleave))
    }

    pub(super) fn drop_above(&mut self, value: u16) -> bool {
        let Some(&(highest, _)) = self.by_value.last().filter(|(highest, _)| *highest > value)
        else {
            return false;
        };
        // The oldest of them: its room is the first to be free.
        let mut oldest = self.by_value.range((highest, 0)..);
        let Some(&(_, end)) = oldest.next() else {
            return false;
        };
        self.by_value.remove(&(highest, end));
        let index = self.notes.partition_point(|noted| noted.end < end);
        let at = self.ends.partition_point(|known| *known < end);
        let start = at
            .checked_sub(1)
            .map_or(self.cut, |before| self.ends[before]);
        if let Some(noted) = self.notes.get_mut(index) {
            noted.is_gone = true;
            self.gone += end - start;
            let note = noted.asked.note;
            self.dropped.push_back(Dropped {
                range: start..end,
                note,
            });
        }
        true
    }

    pub(super) fn next_deadline(&self) -> Option<Instant> {
        if !self.numbering.rules.partial_reliability {
            return None;
        }
        if let Some(current) = &self.current {
            return current.deadline;
        }
        let noted = self.notes.front()?;
        let is_next = self.ends.front() == Some(&noted.end);
        noted.asked.deadline.filter(|_| is_next)
    }

    pub(super) fn take_unsent(&mut self) -> Vec<(Dropped, bool)> {
        self.end_tail();
        let mut unsent = Vec::new();
        let mut begun = self.current.take().is_some();
        while let Some(end) = self.ends.pop_front() {
            let noted = self.notes.pop_front_if(|noted| noted.end == end);
            let range = self.cut..end;
            self.cut = end;
            if !noted.is_some_and(|noted| noted.is_gone) {
                let note = noted.map_or_else(Note::default, |noted| noted.asked.note);
                unsent.push((Dropped { range, note }, begun));
            }
            begun = false;
        }
        self.gone = 0;
        unsent
    }
}

#[cfg(test)]
mod tests;
