//! Who takes in arrivals and runs the timers: one thread at a time drives.
//!
//! A user that waits drives if nobody else waits: its reply then costs no switch to another thread.
//! Where it finds the service thread driving, it sleeps, and the service thread lets go as soon as no
//! user sleeps. A user that leaves while others sleep wakes the service thread. That one looks every
//! [`TICK`] whether a user has driven since, and drives itself when none has.

use super::request_queue::RequestQueue;
use super::{Call, Reply, Request, Shared};
use crate::shared::timespec;
use crate::timeout::finite;
use engine::{Instant, Transactions};
use rustix::event::{PollFd, PollFlags, poll};
use std::io;
use std::sync::atomic::{AtomicBool, AtomicU64, AtomicUsize, Ordering};
use std::sync::{Condvar, Mutex, PoisonError};
use std::time::Duration;
use wire::Wire;

/// The longest sleep of the service thread when it drives.
const SLEEP_MAX: Duration = Duration::from_millis(100);

/// How often it looks whether users drive. A user that stops waiting delays arrivals by as much.
const TICK: Duration = Duration::from_millis(2);

/// Pause after an error of the wire, so that one that lasts does not take a processor.
const ERROR_PAUSE: Duration = Duration::from_millis(1);

/// How often a user that sleeps looks whether the endpoint still works.
const LOOK_EVERY: Duration = Duration::from_millis(100);

/// Arrivals that the service thread takes in before what they caused is sent. A user takes in one: it
/// may be what the user waits for.
const RECEIVES_MAX: usize = 64;

/// Who drives.
#[derive(Debug, Default)]
pub(super) struct Driving {
    is_taken: AtomicBool,
    /// Users that sleep and need another thread to drive.
    waiting_users: AtomicUsize,
    /// Users that wait for a request.
    servers: AtomicUsize,
    /// A user has slept since the service thread looked.
    was_needed: AtomicBool,
    /// Times that a user drove.
    by_users: AtomicU64,
    is_wanted: Mutex<bool>,
    wanted: Condvar,
}

impl Driving {
    fn try_take(&self) -> bool {
        !self.is_taken.swap(true, Ordering::Acquire)
    }

    /// Users that wait for a request.
    pub(super) fn waiting_for_requests(&self) -> usize {
        self.servers.load(Ordering::SeqCst)
    }

    fn let_go(&self) {
        self.is_taken.store(false, Ordering::Release);
    }

    /// Wakes the service thread, if it does not drive.
    pub(super) fn call_service(&self) {
        let mut is_wanted = self
            .is_wanted
            .lock()
            .unwrap_or_else(PoisonError::into_inner);
        *is_wanted = true;
        self.wanted.notify_one();
    }

    /// Waits until the service thread is called, up to a tick.
    fn await_call(&self) {
        let is_wanted = self
            .is_wanted
            .lock()
            .unwrap_or_else(PoisonError::into_inner);
        let waited = self
            .wanted
            .wait_timeout_while(is_wanted, TICK, |is_wanted| !*is_wanted);
        *waited.unwrap_or_else(PoisonError::into_inner).0 = false;
    }
}

impl<E: Transactions, W: Wire> Shared<E, W> {
    /// The outcome of a call, an error if the endpoint is broken; None when it takes longer than
    /// `limit`.
    pub(super) fn take(&self, call: &Call, limit: Duration) -> Option<io::Result<Reply>> {
        let place = &call.place;
        let outcome = self.await_with(limit, || place.take(), |rest| place.wait(rest));
        outcome.or_else(|| self.broken.error().map(Err))
    }

    /// The next request; None when it takes longer than `limit`.
    pub(super) fn next_request(&self, limit: Duration) -> Option<Request> {
        let take = || self.lock_requests().pop_front();
        self.driving.servers.fetch_add(1, Ordering::SeqCst);
        let taken = self.await_with(limit, take, |rest| {
            self.sleep_until_request(rest).pop_front()
        });
        self.driving.servers.fetch_sub(1, Ordering::SeqCst);
        taken
    }

    /// Waits for a request; whether there is one.
    pub(super) fn wait_request(&self, limit: Duration) -> bool {
        let is_there = |is_empty: bool| (!is_empty).then_some(());
        let take = || is_there(self.lock_requests().is_empty());
        let sleep = |rest| is_there(self.sleep_until_request(rest).is_empty());
        self.driving.servers.fetch_add(1, Ordering::SeqCst);
        let is_one = self.await_with(limit, take, sleep).is_some();
        self.driving.servers.fetch_sub(1, Ordering::SeqCst);
        is_one
    }

    fn sleep_until_request(&self, limit: Duration) -> std::sync::MutexGuard<'_, RequestQueue> {
        let requests = self.lock_requests();
        let waited = self
            .request_arrived
            .wait_timeout_while(requests, limit, |requests| requests.is_empty());
        waited.unwrap_or_else(PoisonError::into_inner).0
    }

    /// What `take` gives within `limit`: driving, or where another thread drives, by `sleep`.
    fn await_with<T>(
        &self,
        limit: Duration,
        take: impl Fn() -> Option<T>,
        sleep: impl Fn(Duration) -> Option<T>,
    ) -> Option<T> {
        if let Some(taken) = take() {
            return Some(taken);
        }
        let until = self.now() + finite(limit);
        if self.driving.try_take() {
            self.driving.by_users.fetch_add(1, Ordering::Relaxed);
            let taken = self.drive(until, &take);
            self.driving.let_go();
            if self.driving.waiting_users.load(Ordering::SeqCst) > 0 {
                self.driving.call_service();
            }
            return taken;
        }
        self.work_off_submissions();
        self.driving.waiting_users.fetch_add(1, Ordering::SeqCst);
        self.driving.was_needed.store(true, Ordering::SeqCst);
        // The thread that drives lets go when it sees no user sleep; it may have looked before.
        self.driving.call_service();
        let slept = self.sleep_while_whole(until, sleep);
        if self.driving.waiting_users.fetch_sub(1, Ordering::SeqCst) == 1 {
            // The service thread lets go, so that the next wait drives.
            self.wakeup.signal();
        }
        slept.or_else(take)
    }

    /// What `sleep` gives until the time, or until the endpoint is broken.
    fn sleep_while_whole<T>(
        &self,
        until: Instant,
        sleep: impl Fn(Duration) -> Option<T>,
    ) -> Option<T> {
        loop {
            let rest = until.since(self.now());
            let slept = sleep(rest.min(LOOK_EVERY));
            if slept.is_some() || rest.is_zero() || self.broken.is_broken() {
                return slept;
            }
        }
    }

    /// Takes in arrivals until `take` gives something, or until the time; None from a broken
    /// endpoint.
    fn drive<T>(&self, until: Instant, take: &impl Fn() -> Option<T>) -> Option<T> {
        // What was submitted leaves; what has come shows when the thread would sleep.
        let mut is_idle = self.round(0).ok()?;
        loop {
            if let Some(taken) = take() {
                return Some(taken);
            }
            if self.now() >= until {
                return None;
            }
            if is_idle {
                self.sleep(until).ok()?;
            }
            is_idle = self.round(1).ok()?;
        }
    }

    /// Takes in what has come, unless another thread drives, and sends what was submitted.
    pub(super) fn look(&self) {
        if self.driving.try_take() {
            self.driving.by_users.fetch_add(1, Ordering::Relaxed);
            // A broken endpoint says so when something is waited for.
            let _ = self.round(RECEIVES_MAX);
            self.driving.let_go();
            if self.driving.waiting_users.load(Ordering::SeqCst) > 0 {
                self.driving.call_service();
            }
        } else {
            self.work_off_submissions();
        }
    }

    /// Runs due timers, takes in arrivals, and sends what all that and submissions caused. Whether
    /// nothing has come that poll would not show.
    ///
    /// # Errors
    ///
    /// A panic in the engine.
    fn round(&self, receives_max: usize) -> io::Result<bool> {
        let mut state = self.lock()?;
        let now = self.now();
        state.pump.handle_timeout(now);
        let (mut failed, mut arrivals) = (false, 0);
        while arrivals < receives_max {
            match state.receive(now) {
                Ok(true) => arrivals += 1,
                Ok(false) if state.pump.wire().has_buffered() => {}
                Ok(false) => break,
                Err(_) => {
                    failed = true;
                    break;
                }
            }
        }
        self.work_off(&mut state);
        let is_idle = arrivals == 0 && !state.pump.wire().has_buffered();
        drop(state);
        // A submission that found the lock taken while it was let go.
        if !self.lock_submissions().is_empty() {
            self.work_off(&mut *self.lock()?);
        }
        if failed {
            std::thread::sleep(ERROR_PAUSE);
        }
        Ok(is_idle)
    }

    /// The service thread.
    pub(super) fn serve(&self) {
        let mut by_users = u64::MAX;
        while !self.closed.load(Ordering::Acquire) && !self.broken.is_broken() {
            let seen = self.driving.by_users.load(Ordering::Relaxed);
            let users_drive = std::mem::replace(&mut by_users, seen) != seen;
            let is_needed = self.driving.waiting_users.load(Ordering::SeqCst) > 0;
            if (users_drive && !is_needed) || !self.driving.try_take() {
                self.driving.await_call();
                continue;
            }
            self.serve_while_needed();
            self.driving.let_go();
            self.driving.await_call();
        }
    }

    /// Drives as long as users sleep, or none wants to wait.
    fn serve_while_needed(&self) {
        let mut was_needed = false;
        while !self.closed.load(Ordering::Acquire) {
            let done = self.round(RECEIVES_MAX).and_then(|is_idle| match is_idle {
                true => self.sleep(self.now() + SLEEP_MAX),
                false => Ok(()),
            });
            if done.is_err() {
                return;
            }
            was_needed |= self.driving.was_needed.swap(false, Ordering::SeqCst);
            if was_needed && self.driving.waiting_users.load(Ordering::SeqCst) == 0 {
                return;
            }
        }
    }

    /// Sleeps until an arrival, the engine's timeout, a wake-up, or `latest`.
    ///
    /// # Errors
    ///
    /// A panic in the engine.
    fn sleep(&self, latest: Instant) -> io::Result<()> {
        let (until, flags) = {
            let state = self.lock()?;
            let now = self.now();
            let timeout = state.pump.poll_timeout();
            let until = timeout.map_or(latest, |at| at.min(latest)).max(now);
            let mut flags = PollFlags::IN;
            flags.set(PollFlags::OUT, state.pump.is_blocked());
            // Under the lock: a thread that moves the timeout forward after this sees it.
            self.sleeps_until.store(until.as_nanos(), Ordering::Relaxed);
            (until, flags)
        };
        let mut ready = [
            PollFd::new(self.descriptor.get(), flags),
            PollFd::new(self.wakeup.descriptor(), PollFlags::IN),
        ];
        // An interrupted sleep is a short one.
        let _ = poll(&mut ready, Some(&timespec(until.since(self.now()))));
        if !ready[1].revents().is_empty() {
            self.wakeup.clear();
        }
        self.sleeps_until.store(0, Ordering::Relaxed);
        Ok(())
    }
}
