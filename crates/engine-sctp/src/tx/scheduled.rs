//! Messages of streams that take turns: the schedulers of RFC 8260 section 3.
//!
//! All messages lie in one store, in the order in which they were submitted; a scheduler chooses which of
//! them is cut next. Without interleaving a message that was begun goes on until its end.

use super::messages::{Dropped, FRAGMENT_MIN, Plan, Submission};
use super::numbering::{Asked, CurrentMessage, Cut, Numbering};
use crate::config::Scheduler;
use core::ops::Range;
use engine::{Instant, Reliability};
use std::collections::{BTreeMap, BTreeSet, VecDeque};

/// A message that waits, and is whole in the store.
#[derive(Clone, Debug)]
struct Waiting {
    range: Range<u64>,
    asked: Asked,
}

/// The queue of a stream.
#[derive(Debug, Default)]
struct OutStream {
    waiting: VecDeque<Waiting>,
    /// The first of them, if a part of it was cut.
    current: Option<CurrentMessage>,
    /// Its place in the agenda; None while it is empty.
    place: Option<Place>,
    /// Octets that it has sent, by its weight, in units of [`WEIGHT_ONE`].
    virtual_time: u64,
}

/// Where a stream stands in the order of service: its rank, its turn, itself.
type Place = (u64, u64, u16);

/// An octet of a stream of weight 1, in virtual time. Weights have 16 bits.
const WEIGHT_ONE: u64 = 1 << 16;

/// Messages that wait, by stream.
#[derive(Debug)]
pub(crate) struct Scheduled {
    pub(super) numbering: Numbering,
    pub(super) now: Instant,
    pub(super) dropped: VecDeque<Dropped>,
    scheduler: Scheduler,
    plain: Reliability,
    /// Messages that have no stream yet: the peer has not said how many there are.
    arrived: VecDeque<Waiting>,
    streams: BTreeMap<u16, OutStream>,
    /// Streams with messages, in the order of service.
    agenda: BTreeSet<Place>,
    /// Priorities and weights that a user gave.
    values: BTreeMap<u16, u16>,
    /// Turns taken.
    turns: u64,
    /// The rank last served by bandwidth: a stream that was silent begins there.
    clock: u64,
    /// The stream whose message must go on.
    unfinished: Option<u16>,
    /// The stream of the packet, where packets have one.
    of_packet: Option<u16>,
    /// Values, positions and streams of messages that may be given up for others.
    by_value: BTreeSet<(u16, u64, u16)>,
    /// The message that has no end yet begins here.
    tail: u64,
    submitted: u64,
    /// Bytes of `arrived` and all streams that were not cut.
    waiting: u64,
    pushed: bool,
}

impl Scheduled {
    pub(super) fn new(scheduler: Scheduler, plain: Reliability) -> Scheduled {
        Scheduled {
            numbering: Numbering::default(),
            now: Instant::from_nanos(0),
            dropped: VecDeque::new(),
            scheduler,
            plain,
            arrived: VecDeque::new(),
            streams: BTreeMap::new(),
            agenda: BTreeSet::new(),
            values: BTreeMap::new(),
            turns: 0,
            clock: 0,
            unfinished: None,
            of_packet: None,
            by_value: BTreeSet::new(),
            tail: 0,
            submitted: 0,
            waiting: 0,
            pushed: false,
        }
    }

    /// From the next message of the stream on.
    pub(super) fn set_value(&mut self, stream: u16, value: u16) -> bool {
        let is_valid = match self.scheduler {
            Scheduler::Priority => true,
            Scheduler::Weighted => value > 0,
            _ => false,
        };
        if is_valid {
            self.values.insert(stream, value);
        }
        is_valid
    }

    pub(super) fn submit(&mut self, submission: &Submission<'_>) {
        self.submitted = self.submitted.max(submission.end);
        if submission.is_end && submission.end > self.tail {
            let asked = Asked::new(submission.now, submission.note, self.plain);
            self.add(submission.end, asked);
        }
        self.pushed |= submission.push && self.waiting > 0;
    }

    /// The message at the tail ends.
    fn add(&mut self, end: u64, asked: Asked) {
        let range = self.tail..end;
        self.tail = end;
        self.waiting += range.end - range.start;
        self.arrived.push_back(Waiting { range, asked });
    }

    pub(super) fn end_tail(&mut self) {
        if self.tail < self.submitted {
            let asked = Asked::new(self.now, &Default::default(), self.plain);
            self.add(self.submitted, asked);
        }
        self.pushed = self.waiting > 0;
    }

    pub(super) fn unsent(&self) -> u64 {
        self.waiting + (self.submitted - self.tail)
    }

    pub(super) fn begin_packet(&mut self) {
        self.of_packet = None;
    }

    /// Messages that arrived go to the queues of their streams.
    fn route(&mut self) {
        while let Some(message) = self.arrived.pop_front() {
            let stream = self.numbering.stream_of(&message.asked);
            if stream >= self.numbering.rules.streams {
                self.drop_message(message);
                continue;
            }
            if let Reliability::Priority(value) = message.asked.note.reliability {
                self.by_value.insert((value, message.range.start, stream));
            }
            let queue = &mut self.streams.entry(stream).or_default();
            queue.waiting.push_back(message);
            if queue.place.is_none() {
                self.enter(stream);
            }
        }
    }

    fn drop_message(&mut self, message: Waiting) {
        let Waiting { range, asked } = message;
        self.waiting -= range.end - range.start;
        let note = asked.note;
        self.dropped.push_back(Dropped { range, note });
    }

    /// Puts a stream that has messages into the agenda.
    fn enter(&mut self, stream: u16) {
        let value = self.values.get(&stream).copied();
        self.turns += 1;
        let Some(queue) = self.streams.get_mut(&stream) else {
            return;
        };
        let rank = match self.scheduler {
            Scheduler::Fcfs => queue.waiting.front().map_or(0, |first| first.range.start),
            Scheduler::RoundRobin | Scheduler::RoundRobinPacket => 0,
            Scheduler::Priority => u64::from(value.unwrap_or(stream)),
            Scheduler::FairBandwidth | Scheduler::Weighted => {
                queue.virtual_time = queue.virtual_time.max(self.clock);
                queue.virtual_time
            }
        };
        let place = (rank, self.turns, stream);
        queue.place = Some(place);
        self.agenda.insert(place);
    }

    /// Takes a stream out of the agenda.
    fn leave(&mut self, stream: u16) {
        if let Some(queue) = self.streams.get_mut(&stream)
            && let Some(place) = queue.place.take()
        {
            self.agenda.remove(&place);
        }
    }

    /// The stream to be served; messages of it whose life is over are given up.
    fn choose(&mut self) -> Option<u16> {
        if !self.arrived.is_empty() {
            self.route();
        }
        loop {
            let stream = self.chosen()?;
            let partial_reliability = self.numbering.rules.partial_reliability;
            let queue = self.streams.get_mut(&stream)?;
            let is_over = |message: &mut Waiting| {
                let is_late = message.asked.deadline.is_some_and(|at| at <= self.now);
                partial_reliability && is_late
            };
            let late = match queue.current {
                Some(_) => None,
                None => queue.waiting.pop_front_if(is_over),
            };
            let Some(late) = late else {
                return Some(stream);
            };
            let is_empty = queue.waiting.is_empty();
            self.forget_value(&late, stream);
            self.drop_message(late);
            if is_empty {
                self.leave(stream);
            }
        }
    }

    /// The stream whose turn it is.
    fn chosen(&self) -> Option<u16> {
        if let Some(stream) = self.unfinished {
            return Some(stream);
        }
        if let Some(stream) = self.of_packet {
            let queue = self.streams.get(&stream);
            return queue.and_then(|queue| queue.place).map(|_| stream);
        }
        self.agenda.first().map(|(_, _, stream)| *stream)
    }

    fn forget_value(&mut self, message: &Waiting, stream: u16) {
        if let Reliability::Priority(value) = message.asked.note.reliability {
            self.by_value.remove(&(value, message.range.start, stream));
        }
    }

    /// The next chunk of `stream`: how many bytes, and whether its message ends with them.
    fn next_len(&self, stream: u16, room: usize, full: usize) -> Option<(u64, bool)> {
        let room = (room.checked_sub(self.numbering.rules.header_len)? & !3) as u64;
        let queue = self.streams.get(&stream)?;
        let message = queue.waiting.front()?;
        let left = message.range.end - message.range.start;
        if left <= room {
            return Some((left, true));
        }
        // A message that fits into a packet of its own is not cut.
        let is_cut = queue.current.is_some() || left > full as u64;
        (is_cut && room >= FRAGMENT_MIN).then_some((room, false))
    }

    pub(super) fn next(&mut self, room: usize, full: usize) -> Option<u64> {
        let stream = self.choose()?;
        self.next_len(stream, room, full).map(|(len, _)| len)
    }

    pub(super) fn plan(&self, room: usize, full: usize) -> Plan {
        let next = self.chosen();
        let next = next.and_then(|stream| self.next_len(stream, room, full));
        let Some((len, _)) = next else {
            return Plan::default();
        };
        let header_len = self.numbering.rules.header_len;
        Plan {
            octets: (header_len + len as usize).next_multiple_of(4),
            first: len,
            is_full: false,
        }
    }

    pub(super) fn may_leave(&self, room: usize) -> bool {
        let header_len = self.numbering.rules.header_len as u64;
        self.pushed || self.waiting + 2 * header_len >= room as u64
    }

    pub(super) fn cut(&mut self, room: usize, full: usize) -> Option<Cut> {
        let stream = self.choose()?;
        let (len, is_end) = self.next_len(stream, room, full)?;
        let interleave = self.numbering.rules.interleave;
        let queue = self.streams.get_mut(&stream)?;
        let message = queue.waiting.front_mut()?;
        let whole = message.range.clone();
        message.range.start += len;
        let asked = message.asked;
        let (mut current, tracked) = match queue.current {
            Some(current) => (current, None),
            None => {
                let current = self.numbering.begin(whole.start, stream, Some(&asked));
                let asked = Some(&asked);
                let tracked = self.numbering.tracked(whole.clone(), true, asked, &current);
                (current, tracked)
            }
        };
        let range = whole.start..whole.start + len;
        let cut = current.fragment(range, is_end, interleave);
        if tracked.is_some() || current.start == whole.start {
            let began = Waiting {
                range: whole,
                asked,
            };
            self.forget_value(&began, stream);
        }
        self.waiting -= len;
        self.pushed &= self.waiting > 0;
        self.serve(stream, current, (len, is_end));
        Some(Cut { tracked, ..cut })
    }

    /// A chunk of `len` user bytes of `stream` was cut: another one may be next.
    fn serve(&mut self, stream: u16, current: CurrentMessage, (len, is_end): (u64, bool)) {
        let interleave = self.numbering.rules.interleave;
        let weight = match self.scheduler {
            Scheduler::Weighted => self.values.get(&stream).copied(),
            _ => Some(1),
        };
        // Stream n has weight n + 1 unless its user chose one.
        let weight = weight.map_or(u64::from(stream) + 1, u64::from).max(1);
        let Some(queue) = self.streams.get_mut(&stream) else {
            return;
        };
        if let Some((rank, ..)) = queue.place {
            self.clock = self.clock.max(rank);
        }
        queue.virtual_time += len * WEIGHT_ONE / weight;
        queue.current = (!is_end).then_some(current);
        if is_end {
            queue.waiting.pop_front();
        }
        let is_empty = queue.waiting.is_empty();
        self.unfinished = (!is_end && !interleave).then_some(stream);
        if self.scheduler == Scheduler::RoundRobinPacket {
            self.of_packet = Some(stream);
        }
        self.leave(stream);
        if !is_empty {
            self.enter(stream);
        }
    }

    pub(super) fn overdue(&mut self) -> Option<u64> {
        if !self.numbering.rules.partial_reliability {
            return None;
        }
        let stream = self.choose()?;
        let current = self.streams.get(&stream)?.current?;
        current.is_over(self.now).then_some(current.start)
    }

    pub(super) fn drop_rest(&mut self, start: u64) -> Option<Cut> {
        let is_it = |queue: &OutStream| queue.current.is_some_and(|current| current.start == start);
        let (&stream, queue) = self.streams.iter_mut().find(|(_, queue)| is_it(queue))?;
        let mut current = queue.current.take()?;
        let message = queue.waiting.pop_front()?;
        let is_empty = queue.waiting.is_empty();
        self.waiting -= message.range.end - message.range.start;
        self.unfinished.take_if(|unfinished| *unfinished == stream);
        self.leave(stream);
        if !is_empty {
            self.enter(stream);
        }
        let interleave = self.numbering.rules.interleave;
        Some(current.fragment(message.range, true, interleave))
    }

    pub(super) fn drop_above(&mut self, value: u16) -> bool {
        if self.numbering.rules.partial_reliability {
            self.route();
        }
        let last = self.by_value.last();
        let Some(&(highest, ..)) = last.filter(|(highest, ..)| *highest > value) else {
            return false;
        };
        // The oldest of them: its room is the first to be free.
        let mut oldest = self.by_value.range((highest, 0, 0)..);
        let Some(&(_, start, stream)) = oldest.next() else {
            return false;
        };
        self.by_value.remove(&(highest, start, stream));
        let Some(queue) = self.streams.get_mut(&stream) else {
            return false;
        };
        let index = queue
            .waiting
            .partition_point(|message| message.range.start < start);
        let Some(message) = queue.waiting.remove(index) else {
            return false;
        };
        let is_empty = queue.waiting.is_empty();
        self.drop_message(message);
        if is_empty {
            self.leave(stream);
        }
        true
    }

    pub(super) fn next_deadline(&self) -> Option<Instant> {
        let queue = self.streams.get(&self.chosen()?)?;
        let may_end = self.numbering.rules.partial_reliability;
        queue.waiting.front().filter(|_| may_end)?.asked.deadline
    }

    pub(super) fn take_unsent(&mut self) -> Vec<(Dropped, bool)> {
        self.end_tail();
        let mut unsent = Vec::new();
        for queue in std::mem::take(&mut self.streams).into_values() {
            let mut begun = queue.current.is_some();
            for Waiting { range, asked } in queue.waiting {
                let note = asked.note;
                unsent.push((Dropped { range, note }, begun));
                begun = false;
            }
        }
        for Waiting { range, asked } in self.arrived.drain(..) {
            let note = asked.note;
            unsent.push((Dropped { range, note }, false));
        }
        unsent.sort_by_key(|(message, _)| message.range.start);
        self.agenda.clear();
        self.by_value.clear();
        self.waiting = 0;
        unsent
    }
}

#[cfg(test)]
mod tests;
