//! The service thread: runs the engine's timers, ends receives whose time is over, sends when the wire
//! has room again, and drives while no user does.
//!
//! | it wakes | because |
//! | --- | --- |
//! | at the engine's timeout | a timer is due |
//! | when a user's wait is over | that user blocks in a receive, without a timer of its own |
//! | every [`TICK`], as long as users come and go | the last one that drove may not come back |
//! | when it is signalled | one of these is earlier now, packets wait for room, or it is to drive |

use super::Shared;
use super::drive::ERROR_PAUSE;
use super::state::{Blocked, State};
use super::work::By;
use crate::broken::{self, Breakable};
use crate::shared::timespec;
use engine::{Instant, Transactions};
use rustix::event::{PollFd, PollFlags, poll};
use std::io;
use std::sync::atomic::Ordering;
use std::time::Duration;
use wire::Wire;

/// How often it looks whether users drive. A user that stops waiting delays arrivals by up to twice as
/// much.
const TICK: Duration = Duration::from_millis(2);

/// How long after ending a receive it tries again: the interrupt may be lost.
const INTERRUPT_AGAIN: Duration = Duration::from_millis(10);

/// Arrivals that it takes in before what they caused is sent.
const RECEIVES_MAX: usize = 64;

/// A time that does not come: 584 years.
const NEVER: Instant = Instant::from_nanos(u64::MAX);

/// The service thread of an endpoint. When it ends, also by a panic, nobody is left to wake users: they
/// are told.
pub(super) struct Service<'a, E: Transactions, W: Wire>(pub(super) &'a Shared<E, W>);

impl<E: Transactions, W: Wire> Drop for Service<'_, E, W> {
    fn drop(&mut self) {
        let shared = self.0;
        broken::look(shared).fail_callers();
        shared.submissions.clear();
        shared.lock_requests().is_over = true;
        shared.request_arrived.notify_all();
    }
}

impl<E: Transactions, W: Wire> Service<'_, E, W> {
    /// Serves until the endpoint is closed or broken.
    pub(super) fn run(&self) {
        let driving = &self.0.driving;
        let mut by_users = u64::MAX;
        while !self.0.closed.load(Ordering::Acquire) && !self.0.broken().is_broken() {
            let seen = driving.by_users();
            let users_rest = std::mem::replace(&mut by_users, seen) == seen;
            let is_late = users_rest && driving.is_watched();
            if (driving.take_call() || is_late) && driving.take_as_service() {
                driving.end_watch();
                self.drive();
                continue;
            }
            if is_late {
                driving.end_watch();
            }
            if self.keep_time().is_err() {
                return;
            }
        }
    }

    /// Runs due timers, ends receives, and sleeps until there is more to do. Errors: a panic in the engine.
    fn keep_time(&self) -> io::Result<()> {
        let shared = self.0;
        let mut state = shared.lock()?;
        let now = shared.now();
        shared.work_off(&mut state, now, By::Service);
        self.end_receive(&state, now);
        let tick = if shared.driving.is_watched() {
            now + TICK
        } else {
            NEVER
        };
        let receive_until = Instant::from_nanos(shared.receive_until.load(Ordering::Relaxed));
        let until = tick.min(receive_until);
        let (until, is_blocked) = self.announce_sleep(&state, until);
        shared.unlock(state);
        self.sleep(
            until,
            if is_blocked {
                PollFlags::OUT
            } else {
                PollFlags::empty()
            },
        );
        Ok(())
    }

    /// Ends a user's receive whose time is over.
    fn end_receive(&self, state: &State<E, W>, now: Instant) {
        let shared = self.0;
        let until = shared.receive_until.load(Ordering::Relaxed);
        if state.blocked == Blocked::Receiving && until <= now.as_nanos() {
            shared.rouse(state);
            let again = now + INTERRUPT_AGAIN;
            shared
                .receive_until
                .store(again.as_nanos(), Ordering::Relaxed);
        }
    }

    /// Says, under the lock, until when this thread sleeps, so that a thread that brings something
    /// forward wakes it; and whether packets wait for room.
    fn announce_sleep(&self, state: &State<E, W>, until: Instant) -> (Instant, bool) {
        let timeout = state.pump.poll_timeout();
        let until = timeout.map_or(until, |at| at.min(until));
        let shared = self.0;
        shared
            .sleeps_until
            .store(until.as_nanos(), Ordering::Relaxed);
        let is_blocked = state.pump.is_blocked();
        shared.watches_room.store(is_blocked, Ordering::Relaxed);
        (until, is_blocked)
    }

    /// Sleeps until the time, a signal, or what `flags` say of the wire.
    fn sleep(&self, until: Instant, flags: PollFlags) {
        let shared = self.0;
        let rest = until.since(shared.now());
        let limit = (until < NEVER).then(|| timespec(rest));
        let mut ready = [
            PollFd::new(shared.service_wakeup.descriptor(), PollFlags::IN),
            PollFd::new(shared.descriptor.get(), flags),
        ];
        let polled = if flags.is_empty() { 1 } else { 2 };
        // An interrupted sleep is a short one.
        let _ = poll(&mut ready[..polled], limit.as_ref());
        if !ready[0].revents().is_empty() {
            shared.service_wakeup.clear();
        }
        shared.sleeps_until.store(0, Ordering::Relaxed);
    }

    /// Drives until a user does.
    fn drive(&self) {
        let shared = self.0;
        while !shared.closed.load(Ordering::Acquire) {
            let Ok(mut state) = shared.lock() else {
                break;
            };
            let now = shared.now();
            let taken = shared.take_in(&mut state, now, RECEIVES_MAX);
            shared.work_off(&mut state, now, By::Service);
            if matches!(taken, Ok(RECEIVES_MAX)) {
                shared.unlock(state);
                continue;
            }
            let (until, is_blocked) = self.announce_sleep(&state, NEVER);
            let may_wait = state.pump.wire_mut().may_wait();
            let mut flags = PollFlags::IN;
            flags.set(PollFlags::OUT, is_blocked);
            // Before users are woken: one of them may drive at once.
            shared.driving.sleep_as_service();
            shared.unlock(state);
            if taken.is_err() {
                std::thread::sleep(ERROR_PAUSE);
            }
            if may_wait && shared.driving.service_drives() {
                self.sleep(until, flags);
            }
            if !shared.driving.wake_as_service() {
                return;
            }
        }
        shared.driving.let_go();
    }
}
