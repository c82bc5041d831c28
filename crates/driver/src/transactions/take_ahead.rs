//! Arrivals taken in before what was left is sent, so that more of it leaves together; and before timers that are due.
//!
//! A server that finds one request in each receive would send one reply in each send, and its clients
//! one call: sixty-four callers then cost as many system calls as one. A thread that drives and has left
//! something therefore looks first for what has queued up at the wire. It looks when the look before
//! found something, and now and then, so that one call after another does not pay for it.

use super::Shared;
use super::state::State;
use super::submissions::Left;
use super::waiting::Waiting;
use super::work::By;
use engine::{Instant, Transactions};
use wire::Wire;

/// Arrivals taken in ahead, at most.
const AHEAD_MAX: usize = 16;

/// Octets that came since something was sent, or that are left to be sent, beyond which no more are taken in ahead: half
/// a packet group. Work of so many takes longer than a send, and the other end waits for it meanwhile.
const AHEAD_OCTETS: usize = 8 << 10;

/// Arrivals taken in before timers that are due, at most: of small packets 64 each, as many as ten thousand callers wait
/// for.
const BEFORE_TIMERS_MAX: usize = 160;

/// Drives from one look to the next, as long as looks find nothing. An empty look costs a system call,
/// 0.3 us of a call of 14 us.
const LOOK_EVERY: u8 = 16;

/// Whether arrivals queue up at the wire, as far as is known.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Backlog {
    /// The last look found arrivals.
    Likely,
    /// It found none; so many drives ago.
    Unlikely(u8),
}

impl Default for Backlog {
    fn default() -> Self {
        Backlog::Unlikely(0)
    }
}

impl Backlog {
    /// Whether to look now.
    fn is_look_due(&mut self) -> bool {
        match self {
            Backlog::Likely => true,
            Backlog::Unlikely(drives) => {
                *drives += 1;
                *drives >= LOOK_EVERY
            }
        }
    }

    /// What a look found.
    fn note(&mut self, has_found: bool) {
        *self = match has_found {
            true => Backlog::Likely,
            false => Backlog::Unlikely(0),
        };
    }
}

impl<E: Transactions, W: Wire> Shared<E, W> {
    /// What a user waits for, after what has queued up at the wire was taken in; None when it is to be sent
    /// first what was left.
    pub(super) fn take_ahead<T, O, F>(
        &self,
        state: &mut State<E, W>,
        (now, left): (Instant, Left),
        waiting: &Waiting<O, F>,
    ) -> Option<T>
    where
        O: Fn(&mut State<E, W>) -> Option<T>,
        F: Fn() -> Option<T>,
    {
        let Left::Waits(octets) = left else {
            return None;
        };
        let is_long = state.octets_ahead.max(octets) >= AHEAD_OCTETS;
        if is_long || !state.backlog.is_look_due() {
            return None;
        }
        // An error of the wire comes again where it is handled.
        let arrivals = self.take_in(state, now, AHEAD_MAX).unwrap_or(0);
        state.backlog.note(arrivals > 0);
        self.hand_over(state, now, waiting.who);
        waiting.take_under_lock(state)
    }
}

impl<E: Transactions, W: Wire> Shared<E, W> {
    /// Takes in what has queued up at the wire, if a timer is due. A thread that had no processor for a while finds both:
    /// answers, and timers that wait for them.
    pub(super) fn take_in_before_timers(&self, state: &mut State<E, W>, now: Instant, who: By) {
        if state.is_timer_due(now) {
            // An error of the wire comes again where it is handled.
            let _ = self.take_in(state, now, BEFORE_TIMERS_MAX);
            self.hand_over(state, now, who);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn looks_follow_those_that_found_something_and_come_now_and_then() {
        let mut backlog = Backlog::default();
        let looks = (0..64).filter(|_| {
            let is_due = backlog.is_look_due();
            if is_due {
                backlog.note(false);
            }
            is_due
        });
        assert_eq!(looks.count(), 4);
        backlog.note(true);
        assert!(backlog.is_look_due() && backlog.is_look_due());
        backlog.note(false);
        assert!(!backlog.is_look_due());
    }
}
