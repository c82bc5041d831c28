//! Calls that leave together.
//!
//! Replies come together in one arrival, and wake as many callers. Sent one by one, their next calls take a call of the wire each, and the replies come one by one
//! again. So the thread that drives gives way to callers that it has woken, until each of them has left its next call
//! and sleeps; then it sends all of these. It waits for those that come back soon, as far as is known, and only for as
//! long as one after another does. It does not look for more replies first: the other end would have nothing to do
//! until all of their calls have left.

use super::drive::Locked;
use super::state::State;
use super::work::By;
use super::{Call, Message, Shared, TransactionEndpoint};
use crate::broken;
use engine::{EntityId, Instant, Note, Transactions};
use std::io;
use std::time::Duration;
use wire::Wire;

/// How long the next of the callers that are expected may take.
const RETURN_TIMEOUT: Duration = Duration::from_micros(20);

impl<E: Transactions, W: Wire> Shared<E, W> {
    /// Whether callers are to be woken that will be back soon.
    pub(super) fn has_company(&self, state: &State<E, W>) -> bool {
        state.wakes_callers && self.driving.callers.are_soon()
    }

    /// Wakes callers that were answered, and waits until they have left their next calls.
    /// Errors: a panic in the engine.
    pub(super) fn give_way<'a>(&'a self, state: Locked<'a, E, W>) -> io::Result<Locked<'a, E, W>> {
        self.release(state);
        self.await_callers();
        self.lock()
    }

    /// Waits for callers that are expected back.
    pub(super) fn await_callers(&self) {
        let callers = &self.driving.callers;
        let mut expected = callers.expected();
        if expected == 0 || !callers.are_soon() {
            return;
        }
        let mut until = self.now() + RETURN_TIMEOUT;
        while expected > 0 {
            std::thread::yield_now();
            let left = callers.expected();
            let now = self.now();
            if left < expected {
                until = now + RETURN_TIMEOUT;
            } else if now >= until {
                return callers.give_up();
            }
            expected = left;
        }
    }

    /// A user leaves with what it waited for.
    pub(super) fn note_left(&self, who: By, now: Instant) {
        if who == By::Caller {
            self.driving.callers.note_left(now.as_nanos());
        }
    }

    /// A user that drove lets go of the lock, with what it waited for or because its time is over. If it comes back
    /// soon, callers that it wakes leave their next calls to it.
    pub(super) fn leave_drive(
        &self,
        mut state: Locked<'_, E, W>,
        (who, now): (By, Instant),
        has_taken: bool,
    ) {
        let driving = &self.driving;
        state.awaited = None;
        let is_back_soon = has_taken
            && who == By::Caller
            && driving.has_sleeping_users()
            && driving.callers.are_soon();
        if is_back_soon {
            driving.callers.expect(1);
        } else {
            driving.set_attends(false);
        }
        if has_taken && driving.has_sleeping_users() {
            self.note_left(who, now);
        }
        self.unlock(state);
    }
}

impl<E: Transactions, W: Wire> TransactionEndpoint<E, W> {
    /// Begins a call and sends it, as [`begin`](TransactionEndpoint::begin) and
    /// [`flush_calls`](TransactionEndpoint::flush_calls) do one after the other: a user who is alone hands it to the
    /// engine at once.
    pub fn begin_now(
        &self,
        from: EntityId,
        to: EntityId,
        request: impl Into<Message>,
        note: &Note,
    ) -> Call {
        let shared: &Shared<E, W> = &self.shared;
        let has_company = shared.driving.has_sleeping_users() || shared.submissions.has_any();
        let free = match has_company {
            true => None,
            false => broken::try_lock(shared).ok().flatten(),
        };
        let Some(mut state) = free else {
            let call = self.begin(from, to, request, note);
            self.flush_calls();
            return call;
        };
        let now = shared.now();
        state.pump.handle_timeout(now);
        state.octets_ahead = 0;
        let place = state.call_at_once(now, (from, to), request.into(), note);
        shared.settle_state(&mut state, now, By::Another);
        shared.unlock(state);
        Call { place }
    }

    /// Sends what was begun.
    pub fn flush(&self) {
        self.shared.work_off_submissions();
    }

    /// Sends the calls that were begun, or leaves them to callers that are about to wait here, so that they leave
    /// together: at the latest after 4 ms.
    pub fn flush_calls(&self) {
        let driving = &self.shared.driving;
        // One of those that wait drives.
        match driving.has_sleeping_users() && driving.callers.are_soon() {
            true => self.shared.watch(),
            false => self.shared.work_off_submissions(),
        }
    }

    /// Sends replies, or leaves them to servers that are about to take the next request: at the latest after 4 ms.
    pub fn flush_replies(&self) {
        match self.shared.driving.serving.are_soon() {
            true => self.shared.watch(),
            false => self.shared.work_off_submissions(),
        }
    }
}
