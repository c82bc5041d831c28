//! Who waits for what in an endpoint, and who wakes whom.
//!
//! Users and the helper thread run one pump, under one lock. Nobody holds that lock while they sleep,
//! block in a receive, or busy-poll.
//!
//! States of a user's thread:
//!
//! | state | entered | woken by |
//! |---|---|---|
//! | runs | takes the lock of the pump; [`Activity`] counts it | - |
//! | sleeps (`EndpointShared::sleep`) | under the lock: nothing arrived since it looked, so it goes on the [`WaitList`]; then polls the wire and its own eventfd | the wire; the thread that received, or granted a permit, under the lock ([`WaitList::wake_all`]); its limit or the engine's timeout |
//! | receives (`EndpointShared::wait_in_receive`) | under the lock: nobody else receives, nothing is unsent; [`ReceiveClaim::claim`] | a packet; an interrupt when its deadline passed or a timer's event concerns it; the receiver's longest wait |
//! | busy-polls | `EndpointShared::hint_busy_poll` before it receives: the receiver spins for a bounded time first | as receives |
//! | waits for a permit ([`SendPermits`]) | its send store is full, others hold all permits; or its turn is over, and its permit is held until all of it is acknowledged; then sleeps | `EndpointShared::notify_granted`, by the thread that releases a permit under the lock, or by the helper's tick |
//! | waits in its event loop | [`Watch`](crate::Watch): polls the wire and the eventfd of [`Readiness`] | the wire; the thread that makes a circuit ready under the lock |
//!
//! States of the helper ([`HelperSleep`]); in each it ends when the last handle is dropped:
//!
//! | state | entered | its timeout | woken by |
//! |---|---|---|---|
//! | ticks | a user was active, or work was found, within the last 20 ticks | 1 ms | - |
//! | idle rate | 20 ticks without work | 4 ms | work left to it: a deferred flush, a store with bytes to submit |
//! | parked | 20 ticks without work and without an active user | the engine's, at most 100 ms | work left to it; any user who takes the lock and so may change the engine's timeout; the wire, while no user waits |
//!
//! What is deferred, and until when:
//!
//! | deferred | until |
//! |---|---|
//! | bytes in a store, less than a batch | the batch is full, the user flushes or waits, nothing is in flight, or the helper finds that a tick submitted none of them |
//! | small packets of several circuits (`coalesce`) | the next flush of any user, or the helper's next tick ([`HelperState::defer_flush`]) |
//! | the final acknowledgement of a circuit with delayed ACKs | as small packets |
//! | what the engine answers to an opening whose bytes the user took with it | the user's next call, or the helper's next tick |
//!
//! The rules that make this free of lost wake-ups, each checked in every order of two threads by a model
//! (`models`, `cargo test -p towpath-driver --lib --features loom models`):
//!
//! 1. A user goes to sleep and a packet is received under the same lock. So a sleeper either saw the
//!    arrival or is on the list.
//! 2. The helper says that it falls asleep, and then looks for work; a user leaves work, and then looks
//!    whether the helper sleeps. With a sequentially consistent fence between the two on both sides, one
//!    of them sees the other. A flush that is pending already is not left again: the helper takes note of it first, and
//!    then takes the lock that the user holds.
//! 3. A user looks whether the helper is parked *after* taking the lock. So either the helper computed
//!    its timeout after the user's change, or the user sees that it is parked.
//! 4. Permits are granted in the order of the queue, under a lock of their own, and the thread that releases one
//!    sees which circuits to notify.
//! 5. The send store publishes bytes by its head, with release order, and room by its tail. Memory that was parked is
//!    taken by one of its ends, under a lock of its own.
//!
//! Two delays are bounded by a tick instead: a permit that is released without the lock of the pump, and
//! a store that is written between the helper's look and its clearing of the store's note; that store is
//! looked at once more a tick later.

mod activity;
mod eventfd;
mod helper;
mod helper_state;
#[cfg(all(test, feature = "loom"))]
mod models;
mod permits;
mod readiness;
mod receive_claim;
mod wait_list;

pub(crate) use activity::{Activity, Generation};
pub(crate) use eventfd::{EventFd, thread_eventfd};
pub(crate) use helper::Helper;
pub(crate) use helper_state::{HelperSleep, HelperState};
pub(crate) use permits::{Permit, SendPermits};
pub(crate) use readiness::Readiness;
pub(crate) use receive_claim::ReceiveClaim;
pub(crate) use wait_list::WaitList;

use std::io;

/// All state of an endpoint by which its threads wait and wake each other; send permits lie beside the
/// stores that they are for.
pub(crate) struct Wakeup {
    pub(crate) activity: Activity,
    pub(crate) receive: ReceiveClaim,
    pub(crate) waiters: WaitList,
    pub(crate) helper: HelperState,
    pub(crate) readiness: Readiness,
}

impl Wakeup {
    pub(crate) fn new() -> io::Result<Wakeup> {
        Ok(Wakeup {
            activity: Activity::default(),
            receive: ReceiveClaim::default(),
            waiters: WaitList::default(),
            helper: HelperState::new()?,
            readiness: Readiness::default(),
        })
    }

    /// All threads that sleep or poll look anew: the wire's descriptor changed, or a panic broke the
    /// endpoint. A receive is interrupted separately.
    pub(crate) fn wake_everybody(&self) {
        self.waiters.wake_all();
        self.helper.signal();
        self.readiness.signal();
    }
}
