//! Clients in line: the first measures, the others wait.

use std::collections::VecDeque;
use std::sync::{Mutex, MutexGuard, PoisonError};

/// Clients that may wait behind the one that measures.
pub(crate) const WAITING_MAX: usize = 16;

/// The line.
#[derive(Debug, Default)]
pub(crate) struct Queue {
    line: Mutex<Line>,
}

#[derive(Debug, Default)]
struct Line {
    next: u64,
    waiting: VecDeque<u64>,
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

    /// A place at the end; None when the line is full.
    pub(crate) fn join(&self) -> Option<Place<'_>> {
        let mut line = self.lock();
        if line.waiting.len() > WAITING_MAX {
            return None;
        }
        let number = line.next;
        line.next += 1;
        line.waiting.push_back(number);
        Some(Place {
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
            .position(|&number| number == self.number);
        at.unwrap_or(0) as u32
    }
}

impl Drop for Place<'_> {
    fn drop(&mut self) {
        self.queue
            .lock()
            .waiting
            .retain(|&number| number != self.number);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn places_move_up_when_others_leave() {
        let queue = Queue::default();
        let first = queue.join().expect("a place");
        let second = queue.join().expect("a place");
        let third = queue.join().expect("a place");
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
            .map(|_| queue.join().expect("a place"))
            .collect();
        assert!(queue.join().is_none());
        drop(places);
        assert!(queue.join().is_some());
    }
}
