//! Submissions carried out under the lock, and what the engine says handed over.

use super::Shared;
use super::request_queue::RequestQueue;
use super::state::{State, Submission};
use crate::broken::{self, Guard};
use crate::shared::monotonic_ns;
use engine::{CallFlags, Instant, Transactions};
use std::io;
use std::sync::atomic::Ordering;
use std::sync::{MutexGuard, PoisonError};
use wire::Wire;

/// Who holds the lock.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum By {
    /// A caller that drives.
    Caller,
    /// A server that drives: it takes the next request itself.
    Server,
    /// The service thread, which may drive or not.
    Service,
    /// A thread that does not drive.
    Another,
}

impl<E: Transactions, W: Wire> Shared<E, W> {
    pub(super) fn lock(&self) -> io::Result<Guard<'_, Self>> {
        broken::lock(self)
    }

    pub(super) fn lock_requests(&self) -> MutexGuard<'_, RequestQueue> {
        self.requests.lock().unwrap_or_else(PoisonError::into_inner)
    }

    pub(super) fn now(&self) -> Instant {
        Instant::from_nanos(monotonic_ns().saturating_sub(self.started_ns))
    }

    /// Calls `act` under the lock, and works off what was left to its holder meanwhile.
    pub(super) fn with_state<T>(&self, act: impl FnOnce(&mut State<E, W>) -> T) -> io::Result<T> {
        let mut state = self.lock()?;
        let outcome = act(&mut state);
        self.unlock(state);
        Ok(outcome)
    }

    /// What `look` returns of the state, also of a broken endpoint.
    pub(super) fn look_at<T>(&self, look: impl FnOnce(&State<E, W>) -> T) -> T {
        let looked = look(&broken::look(self));
        if self.submissions.has_any_after_release() {
            self.work_off_submissions();
        }
        looked
    }

    /// Leaves a submission to the holder of the lock, or takes the lock and works off the list.
    pub(super) fn submit(&self, submission: Submission) {
        self.submissions.push(submission);
        self.work_off_submissions();
    }

    /// Leaves a submission to wait for company.
    pub(super) fn leave(&self, submission: Submission) {
        let is_full = self.submissions.push(submission);
        if is_full {
            self.work_off_submissions();
        }
    }

    /// Takes the lock and works off the list; if another thread has the lock, that one does.
    pub(super) fn work_off_submissions(&self) {
        self.submissions
            .see_to(|| match broken::try_lock(self).ok()? {
                Some(mut state) => {
                    self.work_off(&mut state, self.now(), By::Another);
                    self.release(state);
                    Some(true)
                }
                None => Some(false),
            });
    }

    /// Runs due timers, and carries out what threads want. What they leave meanwhile is found by the thread
    /// that lets go of the lock.
    pub(super) fn work_off(&self, state: &mut State<E, W>, now: Instant, who: By) {
        state.pump.handle_timeout(now);
        let mut submissions = std::mem::take(&mut state.submissions);
        self.submissions.take(&mut submissions);
        if !submissions.is_empty() {
            state.octets_ahead = 0;
        }
        for submission in submissions.drain(..) {
            state.submit(now, submission);
        }
        state.submissions = submissions;
        self.settle_state(state, now, who);
    }

    /// Sends what the engine has to send, hands over what it says, and sees to its timers.
    pub(super) fn settle_state(&self, state: &mut State<E, W>, now: Instant, who: By) {
        loop {
            // An error about one destination is a lost packet; the engine's timers send it again.
            let _ = state.pump.flush_while(now, E::has_packets);
            self.hand_over(state, now, who);
            if !state.abandon_without_room(now) {
                break;
            }
        }
        if let Some(timeout) = state.pump.poll_timeout() {
            self.tell_service(timeout);
        }
        if state.pump.is_blocked() && !self.watches_room.load(Ordering::Relaxed) {
            self.service_wakeup.signal();
        }
    }

    /// Lets go of the lock, and wakes those to whom something was handed meanwhile.
    pub(super) fn release(&self, mut state: Guard<'_, Self>) {
        let wakes_callers = std::mem::take(&mut state.wakes_callers);
        let wakes_server = std::mem::take(&mut state.wakes_server);
        drop(state);
        if wakes_callers {
            self.driving.callers.expect(self.places.filled());
            self.places.wake();
        }
        if wakes_server {
            self.request_arrived.notify_one();
        }
    }

    /// Lets go of the lock; works off what other threads have left because it was taken.
    pub(super) fn unlock(&self, state: Guard<'_, Self>) {
        self.release(state);
        if self.submissions.has_any_after_release() {
            self.work_off_submissions();
        }
    }

    /// Lets go of the lock as [`unlock`](Shared::unlock), but what was left to wait for company waits on.
    pub(super) fn unlock_leaving(&self, state: Guard<'_, Self>) {
        self.release(state);
        if self.submissions.are_wanted_after_release() {
            self.work_off_submissions();
        }
    }

    /// Wakes the service thread if it sleeps for longer than until this time.
    pub(super) fn tell_service(&self, time: Instant) {
        if time.as_nanos() < self.sleeps_until.load(Ordering::Relaxed) {
            // Once: it looks again before it sleeps.
            self.sleeps_until.store(0, Ordering::Relaxed);
            self.service_wakeup.signal();
        }
    }

    /// Gives whole requests to servers; replies go to their places.
    pub(super) fn hand_over(&self, state: &mut State<E, W>, now: Instant, who: By) {
        state.drain_events();
        let has_requests = !state.requests.is_empty();
        if !(has_requests || state.has_filled || who == By::Service) {
            return;
        }
        if has_requests {
            self.queue_requests(state, now, who);
        }
        if who == By::Service {
            // A server that was to take more than one may be away.
            state.wakes_server |= self.lock_requests().wants_server();
        }
        let has_filled = std::mem::take(&mut state.has_filled);
        if (has_requests || has_filled) && matches!(who, By::Service | By::Another) {
            self.rouse(state);
        }
    }

    fn queue_requests(&self, state: &mut State<E, W>, now: Instant, who: By) {
        let mut requests = self.lock_requests();
        let waiting = self.driving.waiting_for_requests();
        for request in state.requests.drain(..) {
            let is_conditional = request.note.call.flags.has(CallFlags::CONDITIONAL);
            let finds_nobody = is_conditional && requests.len() >= waiting;
            let refused = match finds_nobody {
                true => Some(request),
                false => requests.push(request),
            };
            if let Some(request) = refused {
                state.pump.engine.abandon(now, request.transaction);
            }
        }
        self.has_requests
            .store(!requests.is_empty(), Ordering::Release);
        // Each server that takes one wakes another if there are more.
        state.wakes_server |= who != By::Server && requests.wants_server();
    }
}
