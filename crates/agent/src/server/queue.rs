//! The client queue: the first client is served, the others wait.

use crate::keys::PublicKey;
use std::collections::VecDeque;
use std::sync::{Mutex, MutexGuard, PoisonError};

/// Waiting clients at most, besides the one being served.
pub(crate) const WAITING_MAX: usize = 16;

/// Of these, per key.
const WAITING_PER_KEY_MAX: usize = WAITING_MAX / 2;

/// Why a client cannot be queued.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub(crate) enum QueueFull {
    /// The queue is full.
    #[error("{WAITING_MAX} clients are waiting already; try again later")]
    Total,
    /// This key has reached its limit.
    #[error("{WAITING_PER_KEY_MAX} clients with this key are waiting already; try again later")]
    PerKey,
}

/// The queue.
#[derive(Debug, Default)]
pub(crate) struct ClientQueue {
    state: Mutex<QueueState>,
}

#[derive(Debug, Default)]
struct QueueState {
    next: u64,
    waiting: VecDeque<(u64, Option<PublicKey>)>,
}

/// A queue entry, removed on drop.
#[derive(Debug)]
pub(crate) struct QueueEntry<'a> {
    queue: &'a ClientQueue,
    number: u64,
}

impl ClientQueue {
    fn lock(&self) -> MutexGuard<'_, QueueState> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Appends an entry, with the client's key if it has one. Fails when the queue is full.
    pub(crate) fn join(&self, key: Option<PublicKey>) -> Result<QueueEntry<'_>, QueueFull> {
        let mut state = self.lock();
        if state.waiting.len() > WAITING_MAX {
            return Err(QueueFull::Total);
        }
        let own = state.waiting.iter().filter(|(_, other)| *other == key);
        if key.is_some() && own.count() > WAITING_PER_KEY_MAX {
            return Err(QueueFull::PerKey);
        }
        let number = state.next;
        state.next += 1;
        state.waiting.push_back((number, key));
        Ok(QueueEntry {
            queue: self,
            number,
        })
    }

    /// Number of clients, the one being served included.
    pub(crate) fn len(&self) -> usize {
        self.lock().waiting.len()
    }
}

impl QueueEntry<'_> {
    /// Number of clients ahead.
    pub(crate) fn ahead(&self) -> u32 {
        let state = self.queue.lock();
        let at = state
            .waiting
            .iter()
            .position(|&(number, _)| number == self.number);
        at.unwrap_or(0) as u32
    }
}

impl Drop for QueueEntry<'_> {
    fn drop(&mut self) {
        self.queue
            .lock()
            .waiting
            .retain(|&(number, _)| number != self.number);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn queue_positions_advance_when_clients_leave() {
        let queue = ClientQueue::default();
        let first = queue.join(None).expect("a place");
        let second = queue.join(None).expect("a place");
        let third = queue.join(None).expect("a place");
        assert_eq!([first.ahead(), second.ahead(), third.ahead()], [0, 1, 2]);
        drop(second);
        assert_eq!(third.ahead(), 1);
        drop(first);
        assert_eq!((third.ahead(), queue.len()), (0, 1));
    }

    #[test]
    fn queue_length_limited() {
        let queue = ClientQueue::default();
        let places: Vec<_> = (0..=WAITING_MAX)
            .map(|_| queue.join(None).expect("a place"))
            .collect();
        assert_eq!(queue.join(None).err(), Some(QueueFull::Total));
        drop(places);
        assert!(queue.join(None).is_ok());
    }

    #[test]
    fn queue_length_limited_per_key() {
        let queue = ClientQueue::default();
        let [one, other] = [1, 2].map(|octet| Some(PublicKey::new([octet; 32])));
        let places: Vec<_> = (0..=WAITING_PER_KEY_MAX)
            .map(|_| queue.join(one).expect("a place"))
            .collect();
        assert_eq!(queue.join(one).err(), Some(QueueFull::PerKey));
        assert!(queue.join(other).is_ok());
        drop(places);
        assert!(queue.join(one).is_ok());
    }
}
