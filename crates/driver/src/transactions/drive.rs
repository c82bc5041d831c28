//! Users that wait: one of them drives, the others sleep.
//!
//! A user that waits drives unless another thread does: its reply then costs no switch to another
//! thread. It blocks in the receive itself, without the lock and without a timer: the service thread ends
//! the receive at the user's time. What other threads leave meanwhile they send themselves. A user that
//! leaves while others sleep wakes one of them to drive, unless users come back soon.

use super::driving::Driving;
use super::place::PlaceName;
use super::request_queue::RequestQueue;
use super::state::{Blocked, State};
use super::submissions::Left;
use super::waiting::Waiting;
use super::work::By;
use super::{Call, Reply, Request, Shared};
use crate::broken::Guard;
use crate::shared::{can_end_wait, timespec};
use crate::timeout::finite;
use engine::{Address, Instant, Transactions};
use rustix::event::{PollFd, PollFlags, poll};
use std::io;
use std::sync::atomic::Ordering;
use std::sync::{MutexGuard, PoisonError};
use std::time::Duration;
use wire::{Arrival, Receiver, Wire};

/// Pause after an error of the wire, so that one that lasts does not take a processor.
pub(super) const ERROR_PAUSE: Duration = Duration::from_millis(1);

/// What a sleep among others ended with.
enum Slept<T> {
    /// What was waited for.
    Taken(T),
    /// The time is over, or the endpoint broken.
    Over,
    /// Nobody drives.
    Wanted,
}

/// A lock, held.
pub(super) type Locked<'a, E, W> = Guard<'a, Shared<E, W>>;

impl<E: Transactions, W: Wire> Shared<E, W> {
    /// The outcome of a call, an error if the endpoint is broken; None when it takes longer than
    /// `limit`.
    pub(super) fn take(&self, call: &Call, limit: Duration) -> Option<io::Result<Reply>> {
        let place = &call.place;
        let take = || place.take();
        let outcome = match take() {
            None => {
                let now = &mut self.now();
                let waiting = Waiting {
                    who: By::Caller,
                    place: Some(PlaceName::of(place)),
                    own: |state: &mut State<E, W>| state.outcome.take(),
                    take,
                };
                self.await_with((now, limit), &waiting, |rest| place.wait(rest))
            }
            taken => taken,
        };
        match (outcome, self.broken.error()) {
            (None | Some(Err(_)), Some(error)) => Some(Err(error)),
            (outcome, _) => outcome,
        }
    }

    /// The next request; None when it takes longer than `limit`.
    pub(super) fn next_request(&self, limit: Duration) -> Option<Request> {
        let take = || self.take_request();
        let mut now = self.now();
        self.note_served(now);
        self.driving.note_server(true);
        let taken = take().or_else(|| {
            let waiting = Waiting {
                who: By::Server,
                place: None,
                own: |state: &mut State<E, W>| self.own_request(state),
                take,
            };
            self.await_with((&mut now, limit), &waiting, |rest| {
                self.pop_request(&mut self.sleep_until_request(rest))
            })
        });
        self.driving.note_server(false);
        if taken.is_some() {
            self.driving.serving.note_left(now.as_nanos());
        }
        taken
    }

    /// A server comes for a request. Replies that wait for company do not wait for a service that may take long.
    fn note_served(&self, now: Instant) {
        let serving = &self.driving.serving;
        serving.note_return(now.as_nanos());
        if !serving.are_soon() && self.submissions.has_any() {
            self.work_off_submissions();
        }
    }

    /// The next request that has come. None also where another thread queues one at this moment.
    #[inline]
    pub(super) fn take_request(&self) -> Option<Request> {
        match self.has_requests.load(Ordering::Acquire) {
            true => self.pop_request(&mut self.lock_requests()),
            false => None,
        }
    }

    /// The request that has come alone while no other waits: the server that drives takes it as it is.
    #[inline]
    fn own_request(&self, state: &mut State<E, W>) -> Option<Request> {
        let is_alone = state.requests.len() == 1 && !self.has_requests.load(Ordering::Relaxed);
        if is_alone { state.requests.pop() } else { None }
    }

    /// Takes a request. Another server is woken for the next one, unless servers come back soon.
    fn pop_request(&self, requests: &mut RequestQueue) -> Option<Request> {
        let request = requests.pop_front()?;
        self.has_requests
            .store(!requests.is_empty(), Ordering::Release);
        match requests.wants_server() {
            true if self.driving.serving.are_soon() => self.watch(),
            true => self.request_arrived.notify_one(),
            false => {}
        }
        Some(request)
    }

    /// Waits for a request; whether there is one.
    pub(super) fn wait_request(&self, limit: Duration) -> bool {
        let is_there = |is_empty: bool| (!is_empty).then_some(());
        let take = || is_there(self.lock_requests().is_empty());
        let sleep = |rest| is_there(self.sleep_until_request(rest).is_empty());
        self.driving.note_server(true);
        let now = &mut self.now();
        let waiting = Waiting {
            who: By::Server,
            place: None,
            own: |_: &mut State<E, W>| None,
            take,
        };
        let is_one = take().or_else(|| self.await_with((now, limit), &waiting, sleep));
        let is_one = is_one.is_some();
        self.driving.note_server(false);
        is_one
    }

    /// Sleeps until there is a request, or this thread is to drive.
    fn sleep_until_request(&self, limit: Duration) -> MutexGuard<'_, RequestQueue> {
        let mut requests = self.lock_requests();
        requests.sleeping += 1;
        let waited = self
            .request_arrived
            .wait_timeout_while(requests, limit, |requests| !requests.ends_sleep());
        let mut requests = waited.unwrap_or_else(PoisonError::into_inner).0;
        requests.sleeping -= 1;
        requests.wants_driver = false;
        requests
    }

    /// What is waited for, which was not there, within `limit`: driving, or where another thread drives, by `sleep`.
    /// Moves `now` on.
    fn await_with<T, O, F>(
        &self,
        (now, limit): (&mut Instant, Duration),
        waiting: &Waiting<O, F>,
        sleep: impl Fn(Duration) -> Option<T>,
    ) -> Option<T>
    where
        O: Fn(&mut State<E, W>) -> Option<T>,
        F: Fn() -> Option<T>,
    {
        let who = waiting.who;
        self.driving.callers.note_return(now.as_nanos());
        let until = *now + finite(limit);
        loop {
            if self.driving.take_as_user() {
                let taken = self.drive((&mut *now, until), waiting);
                self.stop_driving(who);
                return taken;
            }
            if !self.driving.attends() {
                self.work_off_submissions();
            }
            let slept = self.sleep_among_others((*now, until), &sleep);
            *now = self.now();
            match slept {
                Slept::Taken(taken) => {
                    self.note_left(who, *now);
                    return Some(taken);
                }
                Slept::Over => return (waiting.take)(),
                Slept::Wanted => {}
            }
        }
    }

    /// What `sleep` gives while another thread drives.
    fn sleep_among_others<T>(
        &self,
        (now, until): (Instant, Instant),
        sleep: impl Fn(Duration) -> Option<T>,
    ) -> Slept<T> {
        self.driving.note_sleeping(true);
        // The thread that drives looks for users that sleep after it has let go.
        let may_drive = self.driving.is_free() || self.broken.is_broken();
        let rest = until.since(now);
        let slept = if may_drive { None } else { sleep(rest) };
        self.driving.note_sleeping(false);
        let is_late = || self.broken.is_broken() || self.now() >= until;
        let is_over = slept.is_none() && is_late();
        if (slept.is_some() || is_over) && self.driving.is_nobody() {
            // It may have been woken to drive.
            self.watch();
        }
        match slept {
            Some(taken) => Slept::Taken(taken),
            None if is_over => Slept::Over,
            None => Slept::Wanted,
        }
    }

    /// Takes in arrivals until what is waited for is there, or until the time, and moves `now` on; None from a broken
    /// endpoint.
    fn drive<T, O, F>(
        &self,
        (now, until): (&mut Instant, Instant),
        waiting: &Waiting<O, F>,
    ) -> Option<T>
    where
        O: Fn(&mut State<E, W>) -> Option<T>,
        F: Fn() -> Option<T>,
    {
        self.driving.attend();
        self.await_callers();
        let who = waiting.who;
        let mut state = self.lock().ok()?;
        state.awaited = waiting.place;
        let is_due = state.is_timer_due(*now);
        let left = self.submissions.left();
        let has_left = left != Left::Nothing;
        if has_left && !is_due {
            let taken = self.take_ahead(&mut state, (*now, left), waiting);
            if taken.is_some() {
                state.awaited = None;
                self.unlock_leaving(state);
                return taken;
            }
        }
        let mut taken = waiting.take_under_lock(&mut state);
        let mut has_work = is_due || has_left;
        loop {
            if taken.is_none() && self.has_company(&state) {
                state = self.give_way(state).ok()?;
                *now = self.now();
                has_work = true;
            }
            if has_work {
                self.take_in_before_timers(&mut state, *now, who);
                self.work_off(&mut state, *now, who);
                taken = taken.or_else(|| waiting.take_under_lock(&mut state));
            }
            if taken.is_some() || *now >= until {
                self.leave_drive(state, (who, *now), taken.is_some());
                return taken;
            }
            (state, *now) = self.await_arrival(state, (*now, until)).ok()?;
            state.drain_events();
            taken = (waiting.own)(&mut state);
            if taken.is_none() || !state.requests.is_empty() {
                self.hand_over(&mut state, *now, who);
                taken = taken.or_else(|| waiting.take_under_lock(&mut state));
            }
            if taken.is_some() && !state.is_timer_due(*now) {
                // What others have left meanwhile is found when the lock is let go of.
                self.settle_state(&mut state, *now, who);
                self.leave_drive(state, (who, *now), true);
                return taken;
            }
            has_work = true;
        }
    }

    /// Takes in what arrives next, and says when; also returns when it was interrupted. Errors: a panic in the engine.
    fn await_arrival<'a>(
        &'a self,
        mut state: Locked<'a, E, W>,
        (now, until): (Instant, Instant),
    ) -> io::Result<(Locked<'a, E, W>, Instant)> {
        let rest = until.since(now);
        let receiver = self.receiver.as_deref();
        self.driving.set_attends(false);
        match receiver.filter(|receiver| can_end_wait(*receiver, rest)) {
            Some(receiver) => {
                state.blocked = Blocked::Receiving;
                self.receive_until
                    .store(until.as_nanos(), Ordering::Relaxed);
                self.tell_service(until);
                if state.awaits_several() {
                    // One is due soon, and waking a sleeping thread costs the other end more than some looks.
                    receiver.hint_busy_poll();
                }
                let buffer = state.pump.take_receive_buffer();
                self.receive_with(receiver, state, buffer)
            }
            None => {
                state.blocked = Blocked::Polling;
                self.poll_for(state, rest)
            }
        }
    }

    /// Blocks in the wire's receive, without the lock.
    fn receive_with<'a>(
        &'a self,
        receiver: &dyn Receiver,
        state: Locked<'a, E, W>,
        mut buffer: Vec<u8>,
    ) -> io::Result<(Locked<'a, E, W>, Instant)> {
        self.release(state);
        let arrival = match self.submissions.has_any_after_release() {
            true => Err(io::ErrorKind::Interrupted.into()),
            false => receiver.receive(&mut buffer),
        };
        let is_from_nobody = matches!(&arrival, Ok(arrival) if is_from_nobody(arrival));
        self.driving.attend();
        let mut state = self.lock()?;
        state.blocked = Blocked::Not;
        self.receive_until.store(u64::MAX, Ordering::Relaxed);
        let now = self.now();
        let taken = state.handle_arrival(now, buffer, arrival);
        self.take_buffered(state, now, taken.is_err() || is_from_nobody)
    }

    /// Polls the wire without the lock, then takes in an arrival.
    fn poll_for<'a>(
        &'a self,
        mut state: Locked<'a, E, W>,
        limit: Duration,
    ) -> io::Result<(Locked<'a, E, W>, Instant)> {
        let may_wait = state.pump.wire_mut().may_wait();
        self.release(state);
        if may_wait && !self.submissions.has_any_after_release() {
            let mut ready = [
                PollFd::new(self.descriptor.get(), PollFlags::IN),
                PollFd::new(self.driver_wakeup.descriptor(), PollFlags::IN),
            ];
            // An interrupted sleep is a short one.
            let _ = poll(&mut ready, Some(&timespec(limit)));
            if !ready[1].revents().is_empty() {
                self.driver_wakeup.clear();
            }
        }
        self.driving.attend();
        let mut state = self.lock()?;
        state.blocked = Blocked::Not;
        let now = self.now();
        let taken = state.receive(now);
        self.take_buffered(state, now, taken.is_err())
    }

    /// Takes in what the wire has read already; pauses after an error.
    fn take_buffered<'a>(
        &'a self,
        mut state: Locked<'a, E, W>,
        mut now: Instant,
        mut has_failed: bool,
    ) -> io::Result<(Locked<'a, E, W>, Instant)> {
        while !has_failed && state.pump.wire().has_buffered() {
            now = self.now();
            has_failed = state.receive(now).is_err();
        }
        if has_failed {
            drop(state);
            std::thread::sleep(ERROR_PAUSE);
            state = self.lock()?;
            now = self.now();
        }
        Ok((state, now))
    }

    /// A user drives no longer. Others who sleep need one who does.
    pub(super) fn stop_driving(&self, who: By) {
        let driving: &Driving = &self.driving;
        driving.let_go();
        if !driving.has_sleeping_users() {
            return self.watch();
        }
        let users = match who {
            By::Server => &driving.serving,
            _ => &driving.callers,
        };
        if users.are_soon() {
            return self.watch();
        }
        let mut requests = self.lock_requests();
        if requests.sleeping > 0 {
            requests.wants_driver = true;
            drop(requests);
            self.request_arrived.notify_one();
        } else {
            drop(requests);
            driving.call_service();
            self.service_wakeup.signal();
        }
    }

    /// The service thread drives if no user does in time.
    pub(super) fn watch(&self) {
        if self.driving.watch() {
            self.service_wakeup.signal();
        }
    }

    /// Wakes the thread that drives: another one has handed something out.
    pub(super) fn rouse(&self, state: &State<E, W>) {
        match (state.blocked, &self.receiver) {
            (Blocked::Not, _) => {}
            // One that cannot be interrupted returns by itself after its longest wait.
            (Blocked::Receiving, Some(receiver)) => drop(receiver.interrupt()),
            (Blocked::Receiving, None) | (Blocked::Polling, _) => self.driver_wakeup.signal(),
        }
    }
}

/// Whether a receive brought nothing, from nobody: of a socket that was shut down.
fn is_from_nobody(arrival: &Arrival) -> bool {
    match arrival.path.remote {
        Address::Socket(from) => arrival.len == 0 && from.port() == 0,
        _ => false,
    }
}
