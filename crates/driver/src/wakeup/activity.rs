//! What users do, as the helper sees it without the lock of the pump.

use crate::sync::{AtomicU32, AtomicU64, Ordering};

/// Counts that are unchanged since the helper's last tick when no user was active.
#[derive(Debug, Default)]
pub(crate) struct Activity {
    /// Locks of the pump that users took. Written under that lock, as is `polls`.
    locks: AtomicU64,
    /// Polls of the wire.
    polls: AtomicU64,
    /// Users asleep ([`EndpointShared::sleep`](crate::shared::EndpointShared::sleep)); they receive for
    /// themselves, as the one does that the [`ReceiveClaim`](super::ReceiveClaim) knows of.
    asleep: AtomicU32,
}

impl Activity {
    /// The caller took the lock of the pump.
    #[inline]
    pub(crate) fn count_lock(&self) {
        increment(&self.locks);
    }

    /// The caller, who holds the lock of the pump, polls the wire.
    #[inline]
    pub(crate) fn count_poll(&self) {
        increment(&self.polls);
    }

    /// Locks and polls so far.
    pub(crate) fn generation(&self) -> Generation {
        Generation {
            locks: self.locks.load(Ordering::Relaxed),
            polls: self.polls.load(Ordering::Relaxed),
        }
    }

    /// The caller, who holds the lock of the pump, falls asleep.
    pub(crate) fn begin_sleep(&self) {
        self.asleep.fetch_add(1, Ordering::Relaxed);
    }

    pub(crate) fn end_sleep(&self) {
        self.asleep.fetch_sub(1, Ordering::Relaxed);
    }

    /// Whether a user is asleep, who is to be woken by an arrival.
    pub(crate) fn is_user_asleep(&self) -> bool {
        self.asleep.load(Ordering::Relaxed) > 0
    }
}

/// How often users took the lock of the pump, and polled the wire.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct Generation {
    pub(crate) locks: u64,
    pub(crate) polls: u64,
}

/// Increments a counter that only the holder of the pump's lock writes: no locked instruction.
#[inline]
fn increment(counter: &AtomicU64) {
    counter.store(counter.load(Ordering::Relaxed) + 1, Ordering::Relaxed);
}
