//! Permits to fill send stores: a counting semaphore.
//!
//! When very many circuits of an endpoint send all they can, their bytes leave the caches before
//! they are sent, and so does the kernel's memory of them: over loopback a thousand circuits
//! together got half of what one gets. Therefore only some fill their stores at a time. A circuit
//! needs a permit to have more than a batch in its store; circuits with short messages never wait.
//! A circuit that holds a permit while others wait gives it up after one store's worth. When
//! permits come back slowly, as over long paths or from readers that stopped, there are more of
//! them.

use crate::sync::{AtomicBool, Mutex, MutexGuard, Ordering};
use engine::AssociationId;
use std::collections::{BTreeSet, VecDeque};
use std::sync::PoisonError;

/// Permits before circuits queue: up to as many circuits never wait for each other. One in the models,
/// where two threads are to queue.
const PERMITS: usize = if cfg!(all(test, feature = "loom")) {
    1
} else {
    16
};

/// Ticks within which [`COME_BACK_MIN`] permits are to come back; else the limit grows. Ticks without a poll of the wire
/// do not count.
const GROW_AFTER_TICKS: u32 = 8;

/// With fewer the path is slow or long, or its readers have stopped, and more circuits may fill their stores: it is none
/// whose bytes are still in a cache when they leave. As many as there are would not do: twice as many then seldom come
/// back in time either, and after one pause of the machine all circuits had a permit, and memory of their own.
const COME_BACK_MIN: usize = PERMITS.div_ceil(4);

/// Permit of one circuit.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[repr(u8)]
pub(crate) enum Permit {
    /// Not needed: the circuit sends little, or none waits.
    Idle,
    /// Queued, or granted and not yet claimed.
    Queued,
    /// The circuit may fill its store.
    Held,
    /// Given up; the circuit held it until its store was empty.
    Expired,
}

/// Permits of an endpoint's circuits.
#[derive(Default)]
pub(crate) struct SendPermits {
    /// Whether circuits are queued, and whether some were granted a permit and not notified; read
    /// without the lock.
    has_queued: AtomicBool,
    has_unnotified: AtomicBool,
    state: Mutex<PermitState>,
}

struct PermitState {
    in_use: usize,
    limit: usize,
    /// Ticks, and permits released, since the limit was last checked.
    ticks: u32,
    released: usize,
    queue: VecDeque<AssociationId>,
    /// Circuits that were granted a permit and have not claimed it.
    granted: BTreeSet<AssociationId>,
    unnotified: Vec<AssociationId>,
}

impl Default for PermitState {
    fn default() -> PermitState {
        PermitState {
            in_use: 0,
            limit: PERMITS,
            ticks: 0,
            released: 0,
            queue: VecDeque::new(),
            granted: BTreeSet::new(),
            unnotified: Vec::new(),
        }
    }
}

impl SendPermits {
    /// Takes a permit for circuit `id`, or queues it; whether it holds one now.
    pub(crate) fn acquire_or_queue(&self, id: AssociationId) -> bool {
        let mut state = self.lock();
        let granted = state.queue.is_empty() && state.has_free_permit();
        if granted {
            state.in_use += 1;
        } else {
            state.queue.push_back(id);
            self.publish_flags(&state);
        }
        granted
    }

    /// Claims the permit that queued circuit `id` was granted; false if it was granted none.
    pub(crate) fn claim(&self, id: AssociationId) -> bool {
        let mut state = self.lock();
        let granted = state.granted.remove(&id);
        state.in_use += usize::from(granted);
        granted
    }

    /// Returns a permit.
    pub(crate) fn release(&self) {
        let mut state = self.lock();
        state.in_use -= 1;
        state.released += 1;
        state.grant_next();
        self.publish_flags(&state);
    }

    /// Removes queued circuit `id`, which was dropped.
    pub(crate) fn cancel(&self, id: AssociationId) {
        let mut state = self.lock();
        if state.granted.remove(&id) {
            state.grant_next();
        } else {
            state.queue.retain(|&other| other != id);
        }
        self.publish_flags(&state);
    }

    /// Whether circuits are queued.
    #[inline]
    pub(crate) fn has_waiters(&self) -> bool {
        self.has_queued.load(Ordering::Relaxed)
    }

    /// Whether circuits were granted a permit and not notified.
    #[inline]
    pub(crate) fn has_unnotified(&self) -> bool {
        self.has_unnotified.load(Ordering::Relaxed)
    }

    /// Takes the circuits to notify of their permits.
    pub(crate) fn take_unnotified(&self) -> Vec<AssociationId> {
        let mut state = self.lock();
        let unnotified = std::mem::take(&mut state.unnotified);
        self.publish_flags(&state);
        unnotified
    }

    /// Called about every millisecond in which the wire was polled: raises the limit if few permits
    /// came back.
    pub(crate) fn tick(&self) {
        if !self.has_waiters() {
            return;
        }
        let mut state = self.lock();
        state.ticks += 1;
        if state.ticks < GROW_AFTER_TICKS {
            return;
        }
        let out = state.in_use + state.granted.len();
        if state.released < out.min(COME_BACK_MIN) {
            state.limit = 2 * out.max(PERMITS);
            state.grant_next();
        }
        (state.ticks, state.released) = (0, 0);
        self.publish_flags(&state);
    }

    fn publish_flags(&self, state: &PermitState) {
        self.has_queued
            .store(!state.queue.is_empty(), Ordering::Relaxed);
        self.has_unnotified
            .store(!state.unnotified.is_empty(), Ordering::Relaxed);
    }

    fn lock(&self) -> MutexGuard<'_, PermitState> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl PermitState {
    fn has_free_permit(&self) -> bool {
        self.in_use + self.granted.len() < self.limit
    }

    /// Grants free permits to those queued longest.
    fn grant_next(&mut self) {
        while self.has_free_permit()
            && let Some(id) = self.queue.pop_front()
        {
            self.granted.insert(id);
            self.unnotified.push(id);
        }
        if self.queue.is_empty() {
            self.limit = PERMITS;
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Requests permits for circuits; how many were granted.
    fn acquire(permits: &SendPermits, circuits: std::ops::Range<usize>) -> usize {
        let results = circuits.map(|number| permits.acquire_or_queue(AssociationId(number as u32)));
        results.filter(|&granted| granted).count()
    }

    #[test]
    fn permits_granted_in_queue_order() {
        let permits = SendPermits::default();
        assert_eq!(acquire(&permits, 0..PERMITS + 3), PERMITS);
        assert!(permits.has_waiters() && !permits.has_unnotified());
        permits.release();
        // The circuit that released its permit queues behind the others.
        assert_eq!(acquire(&permits, 0..1), 0);
        let first = AssociationId(PERMITS as u32);
        assert_eq!(permits.take_unnotified(), [first]);
        assert!(permits.claim(first) && !permits.claim(first));
        for expected in [PERMITS as u32 + 1, PERMITS as u32 + 2, 0] {
            permits.release();
            assert_eq!(permits.take_unnotified(), [AssociationId(expected)]);
        }
        assert!(!permits.has_waiters());
    }

    #[test]
    fn cancelled_waiter_does_not_block_others() {
        let permits = SendPermits::default();
        acquire(&permits, 0..PERMITS + 3);
        let waiting = |number| AssociationId((PERMITS + number) as u32);
        permits.cancel(waiting(1));
        permits.release();
        permits.cancel(waiting(0));
        assert_eq!(permits.take_unnotified(), [waiting(0), waiting(2)]);
        assert!(!permits.claim(waiting(0)) && permits.claim(waiting(2)));
        assert_eq!(permits.lock().in_use, PERMITS);
    }

    #[test]
    fn limit_grows_when_no_permit_is_released() {
        let permits = SendPermits::default();
        let mut held = acquire(&permits, 0..10 * PERMITS);
        assert_eq!(held, PERMITS);
        for _ in 0..4 {
            (0..GROW_AFTER_TICKS).for_each(|_| permits.tick());
            let granted = permits.take_unnotified();
            held += granted.len();
            assert!(granted.into_iter().all(|id| permits.claim(id)));
        }
        assert_eq!(held, 10 * PERMITS);
        (0..held).for_each(|_| permits.release());
        assert_eq!(acquire(&permits, 0..10 * PERMITS), PERMITS);
        (0..PERMITS).for_each(|_| permits.release());
        (0..GROW_AFTER_TICKS).for_each(|_| permits.tick());
        assert_eq!(permits.take_unnotified().len(), PERMITS, "enough come back");
    }

    #[test]
    fn limit_that_grew_stays_when_some_come_back() {
        let permits = SendPermits::default();
        acquire(&permits, 0..10 * PERMITS);
        (0..GROW_AFTER_TICKS).for_each(|_| permits.tick());
        let mut held = permits.take_unnotified();
        assert_eq!(held.len(), PERMITS, "none came back");
        for _ in 0..4 {
            assert!(held.iter().all(|&id| permits.claim(id)));
            (0..COME_BACK_MIN).for_each(|_| permits.release());
            (0..GROW_AFTER_TICKS).for_each(|_| permits.tick());
            held = permits.take_unnotified();
            assert_eq!(held.len(), COME_BACK_MIN, "one for each that came back");
        }
    }
}
