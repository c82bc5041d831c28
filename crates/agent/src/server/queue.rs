//! Clients in line: the first measures, the others wait.

use crate::keys::PublicKey;
use std::collections::VecDeque;
use std::sync::{Mutex, MutexGuard, PoisonError};

/// Clients that may wait behind the one that measures.
pub(crate) const WAITING_MAX: usize = 16;

/// Of one key: it does not keep all others out.
const WAITING_EACH: usize = WAITING_MAX / 2;

/// Why there is no place.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub(crate) enum Full {
    /// For nobody.
    #[error("{WAITING_MAX} clients wait already; come again later")]
    Line,
    /// For this key.
    #[error("{WAITING_EACH} clients with this key wait already; come again later")]
    Key,
}

/// The line.
#[derive(Debug, Default)]
pub(crate) struct Queue {
    line: Mutex<Line>,
}

#[derive(Debug, Default)]
struct Line {
    next: u64,
    waiting: VecDeque<(u64, Option<PublicKey>)>,
}

/// A place in the line, given up when it is dropped.
#[derive(Debug)]
pub(crate) struct Place<'a> {
    queue: &'a Queue,
    number: u64,
}

impl Queue {
    fn lock(&self) -> MutexGuard<'_, Line> {
        self.line.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// A place at the end, for the holder of a key where clients have keys.
    ///
    /// # Errors
    ///
    /// When the line is full.
    pub(crate) fn join(&self, key: Option<PublicKey>) -> Result<Place<'_>, Full> {
        let mut line = self.lock();
        if line.waiting.len() > WAITING_MAX {
            return Err(Full::Line);
        }
        let own = line.waiting.iter().filter(|(_, other)| *other == key);
        if key.is_some() && own.count() > WAITING_EACH {
            return Err(Full::Key);
        }
        let number = line.next;
        line.next += 1;
        line.waiting.push_back((number, key));
        Ok(Place {
            queue: self,
            number,
        })
    }

    /// Clients in it, the one that measures included.
    pub(crate) fn len(&self) -> usize {
        self.lock().waiting.len()
    }
}

impl Place<'_> {
    /// How many go first.
    pub(crate) fn ahead(&self) -> u32 {
        let line = self.queue.lock();
        let at = line
            .waiting
            .iter()
            .position(|&(number, _)| number == self.number);
        at.unwrap_or(0) as u32
    }
}

impl Drop for Place<'_> {
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
    fn places_move_up_when_others_leave() {
        let queue = Queue::default();
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
    fn the_line_has_an_end() {
        let queue = Queue::default();
        let places: Vec<_> = (0..=WAITING_MAX)
            .map(|_| queue.join(None).expect("a place"))
            .collect();
        assert_eq!(queue.join(None).err(), Some(Full::Line));
        drop(places);
        assert!(queue.join(None).is_ok());
    }

    #[test]
    fn one_key_does_not_keep_others_out() {
        let queue = Queue::default();
        let [one, other] = [1, 2].map(|octet| Some(PublicKey::new([octet; 32])));
        let places: Vec<_> = (0..=WAITING_EACH)
            .map(|_| queue.join(one).expect("a place"))
            .collect();
        assert_eq!(queue.join(one).err(), Some(Full::Key));
        assert!(queue.join(other).is_ok());
        drop(places);
        assert!(queue.join(one).is_ok());
    }
}
