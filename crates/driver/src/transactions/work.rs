//! Submissions carried out under the lock, and what the engine says handed over.

use super::request_queue::RequestQueue;
use super::state::{State, Submission};
use super::{SUBMISSIONS_MAX, Shared};
use crate::broken::{self, Guard};
use engine::{CallFlags, Instant, Transactions};
use std::io;
use std::sync::atomic::Ordering;
use std::sync::{MutexGuard, PoisonError};
use wire::Wire;

impl<E: Transactions, W: Wire> Shared<E, W> {
    pub(super) fn lock(&self) -> io::Result<Guard<'_, Self>> {
        broken::lock(self)
    }

    pub(super) fn lock_submissions(&self) -> MutexGuard<'_, Vec<Submission>> {
        let submissions = self.submissions.lock();
        submissions.unwrap_or_else(PoisonError::into_inner)
    }

    pub(super) fn lock_requests(&self) -> MutexGuard<'_, RequestQueue> {
        self.requests.lock().unwrap_or_else(PoisonError::into_inner)
    }

    pub(super) fn now(&self) -> Instant {
        Instant::from_nanos(self.started_at.elapsed().as_nanos() as u64)
    }

    /// Calls `act` under the lock, and works off what was left to its holder meanwhile.
    pub(super) fn with_state<T>(&self, act: impl FnOnce(&mut State<E, W>) -> T) -> io::Result<T> {
        let outcome = act(&mut *self.lock()?);
        if !self.lock_submissions().is_empty() {
            self.work_off(&mut *self.lock()?);
        }
        Ok(outcome)
    }

    /// Leaves a submission to the holder of the lock, or takes the lock and works off the list.
    pub(super) fn submit(&self, submission: Submission) {
        self.lock_submissions().push(submission);
        self.work_off_submissions();
    }

    /// Leaves a submission to wait for company.
    pub(super) fn leave(&self, submission: Submission) {
        let mut submissions = self.lock_submissions();
        submissions.push(submission);
        let is_full = submissions.len() >= SUBMISSIONS_MAX;
        drop(submissions);
        if is_full {
            self.work_off_submissions();
        }
    }

    /// Takes the lock and works off the list, unless another thread has the lock.
    pub(super) fn work_off_submissions(&self) {
        while let Ok(Some(mut state)) = broken::try_lock(self) {
            self.work_off(&mut state);
            drop(state);
            // What was left behind since has found the lock taken.
            if self.lock_submissions().is_empty() {
                return;
            }
        }
    }

    /// Carries out what threads want, sends, and hands over what the engine says.
    pub(super) fn work_off(&self, state: &mut State<E, W>) {
        let now = self.now();
        loop {
            let submissions = std::mem::take(&mut *self.lock_submissions());
            for submission in submissions {
                state.submit(now, submission);
            }
            // An error about one destination is a lost packet; the engine's timers send it again.
            let _ = state.pump.flush(now);
            self.hand_over(state, now);
            let is_settled = !state.abandon_without_room(now);
            if is_settled && self.lock_submissions().is_empty() {
                break;
            }
        }
        let timeout = state.pump.poll_timeout();
        let sleeps_until = self.sleeps_until.load(Ordering::Relaxed);
        if state.pump.is_blocked() || timeout.is_some_and(|at| at.as_nanos() < sleeps_until) {
            self.wakeup.signal();
        }
    }

    /// Gives whole requests to servers; replies go to their places.
    fn hand_over(&self, state: &mut State<E, W>, now: Instant) {
        state.drain_events();
        if state.requests.is_empty() {
            return;
        }
        let mut requests = self.lock_requests();
        let waiting = self.driving.waiting_for_requests();
        for request in state.requests.drain(..) {
            let is_conditional = request.note.call.flags.has(CallFlags::CONDITIONAL);
            let finds_nobody = is_conditional && requests.len() >= waiting;
            let refused = match finds_nobody {
                true => Some(request),
                false => requests.push(request),
            };
            match refused {
                None => self.request_arrived.notify_one(),
                Some(request) => state.pump.engine.abandon(now, request.transaction),
            }
        }
    }
}
