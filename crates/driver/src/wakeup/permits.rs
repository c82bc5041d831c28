//! Permits to fill send stores: a counting semaphore.
//!
//! When very many circuits of an endpoint send all they can, their bytes leave the caches before
//! they are sent, and so does the kernel's memory of them: over loopback a thousand circuits
//! together got a third to two thirds of what one gets. Therefore only some fill their stores at a time. A circuit
//! needs a permit to have more than a batch in its store; circuits with short messages never wait, nor
//! do sixteen circuits or fewer. While others wait, a turn ends after some bytes, and its permit comes
//! back when the peer has acknowledged them, so that what is on its way fits into a cache. Where a round of all permits takes long,
//! as over long paths or with readers that stopped, there are more of them, as long as more come back that way.

use crate::sync::{AtomicBool, Mutex, MutexGuard, Ordering};
use engine::AssociationId;
use std::collections::{BTreeSet, VecDeque};
use std::sync::PoisonError;

/// Up to as many circuits never wait for each other. One in the models, where two threads are to queue.
const UNSHARED: usize = if cfg!(all(test, feature = "loom")) {
    1
} else {
    16
};

/// Permits for more of them.
const PERMITS: usize = UNSHARED.div_ceil(4);

/// A round in which as many permits come back as there are lasts so many ticks on a path whose bytes are still in a cache
/// when they are read. After a longer one there are [`GROWTH`] times as many. Ticks without a poll of the wire do not
/// count.
const SHORT_ROUND_TICKS: u32 = 2;

/// A round ends after so many ticks, whatever came back: the readers have stopped.
const ROUND_TICKS_MAX: u32 = 64;

/// How many times as many permits there are after a long round.
const GROWTH: usize = 4;

/// Rounds without an attempt to grow after one by which no more came back: it was the machine that took long, not the
/// path.
const ROUNDS_BETWEEN: u32 = 32;

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
    /// Its turn is over while others wait: held until all of its store is acknowledged, then queued.
    Draining,
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

/// The time in which as many permits come back as there are.
#[derive(Clone, Copy, Default)]
struct Round {
    ticks: u32,
    released: usize,
}

impl Round {
    /// Whether half as many again came back in the same time as in `other`.
    fn is_faster_than(self, other: Round) -> bool {
        2 * self.released * other.ticks as usize >= 3 * other.released * self.ticks as usize
    }
}

struct PermitState {
    in_use: usize,
    limit: usize,
    round: Round,
    /// The round before the last growth, and the limit of then.
    before_growth: Option<(Round, usize)>,
    /// Rounds until the next attempt to grow.
    rounds_between: u32,
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
            round: Round::default(),
            before_growth: None,
            rounds_between: 0,
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
            state.enqueue(id);
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
        state.round.released += 1;
        state.grant_next();
        self.publish_flags(&state);
    }

    /// Returns the permit of circuit `id`, whose turn is over, and queues it, if `become_queued` says that it still holds it.
    pub(crate) fn queue_again(&self, id: AssociationId, become_queued: impl FnOnce() -> bool) {
        let mut state = self.lock();
        if !become_queued() {
            return;
        }
        state.enqueue(id);
        state.in_use -= 1;
        state.round.released += 1;
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
            state.grant_next();
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

    /// Called about every millisecond in which the wire was polled: raises the limit where permits come
    /// back late, and more that way.
    pub(crate) fn tick(&self) {
        if !self.has_waiters() {
            return;
        }
        let mut state = self.lock();
        state.round.ticks += 1;
        if state.round.released >= state.limit || state.round.ticks >= ROUND_TICKS_MAX {
            let round = std::mem::take(&mut state.round);
            state.end_round(round);
        }
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
        let out = self.in_use + self.granted.len();
        out < self.limit || out + self.queue.len() <= UNSHARED && out < UNSHARED
    }

    fn enqueue(&mut self, id: AssociationId) {
        if self.queue.is_empty() {
            self.round = Round::default();
        }
        self.queue.push_back(id);
    }

    /// A long path has more bytes on their way with more permits, and more come back in the same time; a busy machine has
    /// not, and the limit of before is right.
    fn end_round(&mut self, round: Round) {
        let before = self.before_growth.take();
        if let Some((before, limit)) = before
            && !round.is_faster_than(before)
        {
            self.limit = limit;
            self.rounds_between = ROUNDS_BETWEEN;
        } else if self.rounds_between > 0 {
            self.rounds_between -= 1;
        } else if round.ticks > SHORT_ROUND_TICKS {
            self.before_growth = Some((round, self.limit));
            self.limit *= GROWTH;
            self.grant_next();
        }
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
            self.before_growth = None;
            self.rounds_between = 0;
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn circuit(number: usize) -> AssociationId {
        AssociationId(number as u32)
    }

    /// Requests permits for circuits; how many were granted.
    fn acquire(permits: &SendPermits, circuits: std::ops::Range<usize>) -> usize {
        let results = circuits.map(|number| permits.acquire_or_queue(circuit(number)));
        results.filter(|&granted| granted).count()
    }

    const WAITING: usize = 200 * UNSHARED;

    /// Permits of which only [`PERMITS`] are held, while [`WAITING`] circuits wait.
    fn shared() -> SendPermits {
        let permits = SendPermits::default();
        assert_eq!(acquire(&permits, 0..UNSHARED + WAITING), UNSHARED);
        (PERMITS..UNSHARED).for_each(|_| permits.release());
        assert!(permits.take_unnotified().is_empty(), "they were too many");
        permits.lock().round = Round::default();
        permits
    }

    /// So many permits come back in a round of so many ticks; how many are granted then, and claimed.
    fn round(permits: &SendPermits, ticks: u32, released: usize) -> usize {
        (1..ticks).for_each(|_| permits.tick());
        (0..released).for_each(|_| permits.release());
        permits.tick();
        let granted = permits.take_unnotified();
        assert!(granted.iter().all(|&id| permits.claim(id)));
        granted.len()
    }

    #[test]
    fn few_circuits_never_wait_and_more_wait_in_the_order_in_which_they_came() {
        let permits = SendPermits::default();
        assert_eq!(acquire(&permits, 0..UNSHARED), UNSHARED);
        assert!(!permits.has_waiters());
        assert_eq!(acquire(&permits, UNSHARED..UNSHARED + 1), 0);
        assert!(permits.has_waiters() && !permits.has_unnotified());
        permits.release();
        let last = circuit(UNSHARED);
        assert_eq!(permits.take_unnotified(), [last], "they are few again");
        assert!(permits.claim(last) && !permits.claim(last));

        let permits = shared();
        for expected in UNSHARED..UNSHARED + 3 {
            permits.queue_again(circuit(1000 + expected), || true);
            assert_eq!(permits.take_unnotified(), [circuit(expected)]);
            assert!(permits.claim(circuit(expected)));
        }
        permits.queue_again(circuit(0), || false);
        assert!(!permits.has_unnotified(), "its permit was given up before");
    }

    #[test]
    fn cancelled_waiter_does_not_block_others() {
        let permits = shared();
        let waiting = |number| circuit(UNSHARED + number);
        permits.cancel(waiting(1));
        permits.release();
        permits.cancel(waiting(0));
        assert_eq!(permits.take_unnotified(), [waiting(0), waiting(2)]);
        assert!(!permits.claim(waiting(0)) && permits.claim(waiting(2)));
        assert_eq!(permits.lock().in_use, PERMITS);
        (3..WAITING).for_each(|number| permits.cancel(waiting(number)));
        assert!(!permits.has_waiters());
    }

    #[test]
    fn stopped_readers_and_long_paths_have_more_permits() {
        let permits = shared();
        for out in [PERMITS, GROWTH * PERMITS, GROWTH * GROWTH * PERMITS] {
            assert_eq!(round(&permits, ROUND_TICKS_MAX, 0), (GROWTH - 1) * out);
        }
        let permits = shared();
        for out in [PERMITS, GROWTH * PERMITS, GROWTH * GROWTH * PERMITS] {
            assert_eq!(round(&permits, SHORT_ROUND_TICKS + 1, out), GROWTH * out);
        }
    }

    #[test]
    fn busy_machine_keeps_its_permits_and_tries_again_much_later() {
        let (permits, long) = (shared(), SHORT_ROUND_TICKS + 1);
        assert_eq!(round(&permits, SHORT_ROUND_TICKS, PERMITS), PERMITS);
        assert_eq!(round(&permits, long, PERMITS), GROWTH * PERMITS);
        // Four times as many take four times as long.
        let granted = round(&permits, GROWTH as u32 * long, GROWTH * PERMITS);
        assert_eq!((granted, permits.lock().limit), (GROWTH * PERMITS, PERMITS));
        (PERMITS..GROWTH * PERMITS).for_each(|_| permits.release());
        permits.lock().round = Round::default();
        for _ in 0..ROUNDS_BETWEEN {
            assert_eq!(round(&permits, long, PERMITS), PERMITS);
        }
        assert_eq!(round(&permits, long, PERMITS), GROWTH * PERMITS);
    }
}
