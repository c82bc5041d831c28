//! Where a caller waits for its reply.

use super::Reply;
use engine::TransactionId;
use std::collections::VecDeque;
use std::io;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

/// Octets of the replies to a call to a group that wait for its caller, at most; those beyond are
/// lost.
const WAITING_BYTES_MAX: usize = 64 << 20;

/// The place of one call: the thread that takes in a reply fills it, once, or once for each member of
/// a group.
#[derive(Debug, Default)]
pub(super) struct Place {
    outcomes: Mutex<Outcomes>,
    /// Whether it holds an outcome: the caller that drives looks several times a call, and mostly finds nothing. Written under
    /// the lock.
    has_outcome: AtomicBool,
    filled: Condvar,
    /// The engine's number of the call.
    transaction: AtomicU64,
}

#[derive(Debug, Default)]
struct Outcomes {
    queue: VecDeque<io::Result<Reply>>,
    /// Its caller sleeps: one that drives looks by itself.
    is_awaited: bool,
}

/// Tells places apart, as long as each is held.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct PlaceName(usize);

impl PlaceName {
    pub(super) fn of(place: &Arc<Place>) -> PlaceName {
        PlaceName(Arc::as_ptr(place) as usize)
    }
}

impl Place {
    /// Makes it an empty one, if nobody else holds it.
    fn renew(place: &mut Arc<Place>) -> bool {
        let Some(unused) = Arc::get_mut(place) else {
            return false;
        };
        if std::mem::take(unused.has_outcome.get_mut()) {
            let outcomes = unused.outcomes.get_mut();
            let outcomes = outcomes.unwrap_or_else(PoisonError::into_inner);
            outcomes.queue.clear();
        }
        true
    }

    /// What it was filled with first. None also where another thread fills it at this moment.
    #[inline]
    pub(super) fn take(&self) -> Option<io::Result<Reply>> {
        match self.has_outcome.load(Ordering::Acquire) {
            true => self.pop(&mut self.lock()),
            false => None,
        }
    }

    fn pop(&self, outcomes: &mut Outcomes) -> Option<io::Result<Reply>> {
        let first = outcomes.queue.pop_front();
        self.has_outcome
            .store(!outcomes.queue.is_empty(), Ordering::Release);
        first
    }

    /// Waits until it is filled; None when that takes longer than `limit`.
    pub(super) fn wait(&self, limit: Duration) -> Option<io::Result<Reply>> {
        let mut outcomes = self.lock();
        outcomes.is_awaited = true;
        let waited = self
            .filled
            .wait_timeout_while(outcomes, limit, |outcomes| outcomes.queue.is_empty());
        let mut outcomes = waited.unwrap_or_else(PoisonError::into_inner).0;
        outcomes.is_awaited = false;
        self.pop(&mut outcomes)
    }

    /// Wakes its caller.
    fn wake(&self) {
        self.filled.notify_one();
    }

    /// The engine's number of the call, once it has one.
    pub(super) fn transaction(&self) -> TransactionId {
        TransactionId(self.transaction.load(Ordering::Relaxed))
    }

    fn lock(&self) -> MutexGuard<'_, Outcomes> {
        self.outcomes.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// The right to fill a place. One that is dropped before fills it with an error, so that no caller
/// waits for what does not come.
#[derive(Debug)]
pub(super) struct Filler {
    place: Option<Arc<Place>>,
    is_filled: bool,
}

impl Filler {
    pub(super) fn new(place: Arc<Place>) -> Filler {
        Filler {
            place: Some(place),
            is_filled: false,
        }
    }

    /// Whether it is of this place.
    #[inline]
    pub(super) fn is_of(&self, name: PlaceName) -> bool {
        self.place
            .as_ref()
            .is_some_and(|place| PlaceName::of(place) == name)
    }

    /// The place, whose caller gets what comes without it.
    pub(super) fn leave(mut self) -> Option<Arc<Place>> {
        self.is_filled = true;
        self.place.take()
    }

    /// The engine has given the call a number.
    pub(super) fn set_transaction(&self, transaction: TransactionId) {
        if let Some(place) = &self.place {
            place.transaction.store(transaction.0, Ordering::Relaxed);
        }
    }

    /// Fills the place; whether its caller is to be woken.
    fn fill(&mut self, outcome: io::Result<Reply>) -> bool {
        self.is_filled = true;
        let Some(place) = &self.place else {
            return false;
        };
        let len = |outcome: &io::Result<Reply>| match outcome {
            Ok(reply) => reply.octets.len(),
            Err(_) => 0,
        };
        let mut outcomes = place.lock();
        let waiting: usize = outcomes.queue.iter().map(len).sum();
        if outcomes.queue.is_empty() || waiting + len(&outcome) <= WAITING_BYTES_MAX {
            outcomes.queue.push_back(outcome);
            place.has_outcome.store(true, Ordering::Release);
        }
        outcomes.is_awaited
    }
}

impl Drop for Filler {
    fn drop(&mut self) {
        if !self.is_filled {
            self.fill(Err(io::ErrorKind::ConnectionAborted.into()));
            if let Some(place) = &self.place {
                place.wake();
            }
        }
    }
}

/// Places kept for other calls, at most: of some 200 octets each, 13 kB.
const SPARE_MAX: usize = 64;

/// Places of an endpoint that are used again, and those whose callers are to be woken.
#[derive(Debug, Default)]
pub(super) struct Places {
    /// Of calls that are over. Their callers may hold them for a while.
    spare: Mutex<VecDeque<Arc<Place>>>,
    filled: Mutex<Vec<Arc<Place>>>,
}

impl Places {
    /// A place that nobody holds: one that was used before, or a new one.
    pub(super) fn take(&self) -> Arc<Place> {
        let mut spare = lock(&self.spare);
        let oldest = spare.pop_front();
        let Some(mut place) = oldest else {
            return Arc::default();
        };
        match Place::renew(&mut place) {
            true => place,
            // Its caller has not left it.
            false => {
                spare.push_back(place);
                Arc::default()
            }
        }
    }

    /// As [`take`](Places::take), and rather `kept` if that is there and nobody holds it.
    pub(super) fn take_or(&self, kept: Option<Arc<Place>>) -> Arc<Place> {
        let Some(mut place) = kept else {
            return self.take();
        };
        if Place::renew(&mut place) {
            return place;
        }
        self.keep(Some(place));
        self.take()
    }

    /// Keeps a place of a call that is over, as far as there is room.
    pub(super) fn keep(&self, place: Option<Arc<Place>>) {
        let mut spare = lock(&self.spare);
        if spare.len() < SPARE_MAX {
            spare.extend(place);
        }
    }

    /// Fills a place; whether a caller waits for [`wake`](Places::wake).
    pub(super) fn fill(&self, filler: &mut Filler, outcome: io::Result<Reply>) -> bool {
        let wakes = filler.fill(outcome);
        if let Some(place) = filler.place.as_ref().filter(|_| wakes) {
            lock(&self.filled).push(Arc::clone(place));
        }
        wakes
    }

    /// Fills a place for the last time: it is used again when its caller has left it.
    pub(super) fn fill_last(&self, mut filler: Filler, outcome: io::Result<Reply>) -> bool {
        let wakes = self.fill(&mut filler, outcome);
        self.keep(filler.place.take());
        wakes
    }

    /// Callers that are to be woken.
    pub(super) fn filled(&self) -> usize {
        lock(&self.filled).len()
    }

    /// Wakes the callers whose places were filled: without the endpoint's lock, which they take next.
    pub(super) fn wake(&self) {
        loop {
            let filled = lock(&self.filled).pop();
            match filled {
                Some(place) => place.wake(),
                None => return,
            }
        }
    }
}

fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn filler_that_is_dropped_ends_the_wait() {
        let place = Arc::new(Place::default());
        drop(Filler::new(Arc::clone(&place)));
        let outcome = place.wait(Duration::MAX / 4).expect("filled");
        let error = outcome.expect_err("nothing came");
        assert_eq!(error.kind(), io::ErrorKind::ConnectionAborted);
    }

    #[test]
    fn place_is_used_again_when_its_caller_has_left_it() {
        let places = Places::default();
        let held = places.take();
        let filler = Filler::new(Arc::clone(&held));
        let wakes = places.fill_last(filler, Err(io::ErrorKind::TimedOut.into()));
        assert!(!wakes, "nobody sleeps");
        assert!(!Arc::ptr_eq(&places.take(), &held), "its caller holds it");
        let address = Arc::as_ptr(&held);
        drop(held);
        let again = places.take();
        assert_eq!(Arc::as_ptr(&again), address);
        assert!(again.take().is_none(), "it is empty");
    }
}
