//! A loop's turns: it pauses between messages until the next one, and counts what falls into each.
//!
//! A loop that sends waits at its [`TurnGate`]; one that only receives or answers is idle while its
//! peer pauses. What arrives is counted by [`TurnSlices`] between two fixed times of each turn, so
//! that every contestant is counted for the same time.

use super::WorkerFlags;
use crate::clock::now_ns;
use crate::turn_schedule::{GAP_NS, SETTLE_NS};
use control::{Slice, Turn, Turns};
use std::time::Duration;

/// Longest sleep, so that a stopped loop notices.
const SLEEP_MAX_NS: u64 = 20_000_000;

/// Time before the end of a turn from which the clock is read after each call: longer than a run of
/// messages between two readings, ns.
const NEAR_END_NS: u64 = 500_000;

/// Where a loop that sends waits for its turns; always open without turns.
#[derive(Debug)]
pub(crate) struct TurnGate<'a> {
    turns: Option<&'a Turns>,
    /// The current turn, or the next.
    at: usize,
    /// The time from which messages of this turn count.
    counted_from_ns: u64,
    /// The time until which the gate is open.
    open_until_ns: u64,
}

impl<'a> TurnGate<'a> {
    /// The gate of a loop with these flags.
    pub(crate) fn of(flags: &'a WorkerFlags) -> TurnGate<'a> {
        let turns = flags.turns();
        TurnGate {
            turns,
            at: 0,
            counted_from_ns: 0,
            open_until_ns: if turns.is_some() { 0 } else { u64::MAX },
        }
    }

    /// Waits until the loop may send, at `now_ns` by a reading of its clock. False when its turns are
    /// over, or it is stopped.
    #[inline]
    pub(crate) fn wait(&mut self, now_ns: u64, flags: &WorkerFlags) -> bool {
        now_ns < self.open_until_ns || self.next_turn(flags)
    }

    /// Whether a message sent at `at_ns` counts: its turn has settled.
    #[inline]
    pub(crate) fn counts(&self, at_ns: u64) -> bool {
        at_ns >= self.counted_from_ns
    }

    /// Number of the current turn, from 0; None without turns.
    pub(crate) fn number(&self) -> Option<usize> {
        self.turns.map(|_| self.at)
    }

    /// Sleeps until the next turn begins; after the last, until all turns are over.
    #[cold]
    fn next_turn(&mut self, flags: &WorkerFlags) -> bool {
        let Some(turns) = self.turns else {
            return true;
        };
        while let Some(&turn) = turns.windows.get(self.at) {
            if now_ns() >= turn.end_ns {
                self.at += 1;
                continue;
            }
            if !sleep_until(turn.begin_ns, flags) {
                return false;
            }
            self.counted_from_ns = turn.counted_from_ns;
            self.open_until_ns = turn.end_ns;
            return true;
        }
        sleep_until(turns.over_ns, flags);
        false
    }
}

/// Sleeps until a time; false when it is stopped before.
fn sleep_until(at_ns: u64, flags: &WorkerFlags) -> bool {
    loop {
        let left_ns = at_ns.saturating_sub(now_ns());
        if left_ns == 0 || flags.is_stopped() {
            return !flags.is_stopped();
        }
        std::thread::sleep(Duration::from_nanos(left_ns.min(SLEEP_MAX_NS)));
    }
}

/// The counts of each turn, one slice a turn, on a clock that runs in the counted time alone.
#[derive(Debug)]
pub(crate) struct TurnSlices {
    turns: Turns,
    /// The turn whose begin or end comes next.
    at: usize,
    /// The cumulative counts at the counted begin of this turn; None before it.
    base: Option<Slice>,
    /// The last reading.
    last: Slice,
    /// Time and counts of all turns so far.
    total: Slice,
    /// Octets that came when the next contestant had begun to count.
    late_bytes: u64,
    slices: Vec<Slice>,
}

impl TurnSlices {
    pub(crate) fn new(turns: &Turns) -> TurnSlices {
        let mut slices = Vec::with_capacity(turns.windows.len() + 1);
        let first = turns.windows.first().copied().unwrap_or_default();
        let total = Slice {
            at_ns: first.counted_from_ns,
            ..Slice::default()
        };
        slices.push(total);
        TurnSlices {
            turns: turns.clone(),
            at: 0,
            base: None,
            last: Slice::default(),
            total,
            late_bytes: 0,
            slices,
        }
    }

    /// A reading of the cumulative counts.
    #[inline]
    pub(crate) fn record(&mut self, now: Slice) {
        while let Some(turn) = self.turns.windows.get(self.at).copied() {
            let edge_ns = match self.base {
                None => turn.counted_from_ns,
                Some(_) => turn.end_ns,
            };
            if now.at_ns < edge_ns {
                break;
            }
            self.cross(turn, edge_ns, now);
        }
        if self.base.is_none() {
            self.note_late(now);
        }
        self.last = now;
    }

    /// Notes a reading between two turns.
    fn note_late(&mut self, now: Slice) {
        let windows = &self.turns.windows;
        let ended = self.at.checked_sub(1).map(|before| windows[before].end_ns);
        let next = windows.get(self.at).map(|next| next.begin_ns);
        let is_between = next.is_some_and(|begin_ns| now.at_ns < begin_ns);
        if is_between && ended.is_some_and(|end_ns| now.at_ns > end_ns + GAP_NS + SETTLE_NS) {
            self.late_bytes += now.bytes - self.last.bytes;
        }
    }

    /// Passes the begin or the end of what counts of a turn.
    #[cold]
    fn cross(&mut self, turn: Turn, edge_ns: u64, now: Slice) {
        let next = self.turns.windows.get(self.at + 1);
        // What is read in a later turn was sent in it, but for what was on its way.
        let is_later = next.is_some_and(|next| now.at_ns >= next.begin_ns);
        let since_ns = self.last.at_ns.max(turn.begin_ns);
        let counts = match is_later {
            true => self.last,
            false => between(self.last, since_ns, now, edge_ns),
        };
        let Some(base) = self.base.take() else {
            self.base = Some(counts);
            return;
        };
        self.total.at_ns += turn.end_ns - turn.counted_from_ns;
        self.total.messages += counts.messages - base.messages;
        self.total.bytes += counts.bytes - base.bytes;
        self.slices.push(self.total);
        self.at += 1;
    }

    /// Whether a turn is under way and does not end soon.
    #[inline]
    pub(crate) fn is_amid_turn(&self, at_ns: u64) -> bool {
        let turn = self.turns.windows.get(self.at);
        turn.is_some_and(|turn| at_ns >= turn.begin_ns && at_ns + NEAR_END_NS < turn.end_ns)
    }

    /// Share of all octets that came when the next contestant had begun to count, and so took some of
    /// its time.
    pub(crate) fn late_fraction(&self) -> f64 {
        self.late_bytes as f64 / self.last.bytes.max(1) as f64
    }

    /// The series; turns after the last reading brought nothing.
    pub(crate) fn finish(mut self) -> Vec<Slice> {
        let end = Slice {
            at_ns: u64::MAX,
            ..self.last
        };
        self.record(end);
        self.slices
    }
}

/// The counts at `edge_ns`, which lies between two readings: in proportion to the time since
/// `since_ns`.
fn between(last: Slice, since_ns: u64, now: Slice, edge_ns: u64) -> Slice {
    let span_ns = now.at_ns.saturating_sub(since_ns).max(1);
    let share = edge_ns.saturating_sub(since_ns) as f64 / span_ns as f64;
    let part = |from: u64, to: u64| from + ((to - from) as f64 * share.min(1.0)).round() as u64;
    Slice {
        at_ns: edge_ns,
        messages: part(last.messages, now.messages),
        bytes: part(last.bytes, now.bytes),
    }
}

#[cfg(test)]
mod tests;
