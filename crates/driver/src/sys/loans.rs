//! Buffers lent to a store: parts of its byte stream that lie elsewhere.
//!
//! The producer puts a loan down before it publishes the position behind it, so that the consumer
//! knows of every loan below the position it reads. From then on the loan is the consumer's, who
//! sends from it without a lock, and puts it among those that go back once it is released.

use crate::lent::{Buffer, Returned};
use std::collections::VecDeque;
use std::ops::Range;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Mutex, MutexGuard, PoisonError};

/// A buffer and the positions it takes up.
#[derive(Debug)]
pub(super) struct Loan {
    pub(super) start: u64,
    pub(super) buffer: Buffer,
}

impl Loan {
    pub(super) fn end(&self) -> u64 {
        self.start + self.buffer.len() as u64
    }
}

/// Loans on their way between producer and consumer.
#[derive(Debug, Default)]
pub(super) struct Loans {
    /// Whether there may be some in `state.new`, and in `state.back`; for a look without the lock.
    has_new: AtomicBool,
    has_back: AtomicBool,
    state: Mutex<State>,
}

#[derive(Debug, Default)]
struct State {
    new: VecDeque<Loan>,
    back: VecDeque<Returned>,
}

impl Loans {
    /// Hands a loan over. For the producer.
    pub(super) fn put(&self, loan: Loan) {
        self.lock().new.push_back(loan);
        self.has_new.store(true, Ordering::Release);
    }

    /// Moves what was handed over to `loans`. For the consumer.
    pub(super) fn take(&self, loans: &mut VecDeque<Loan>) {
        if self.has_new.swap(false, Ordering::Acquire) {
            loans.append(&mut self.lock().new);
        }
    }

    /// Gives those of `loans` back that end at or before `position`. For the consumer.
    pub(super) fn give_back(&self, loans: &mut VecDeque<Loan>, position: u64, is_done: bool) {
        let count = loans.partition_point(|loan| loan.end() <= position);
        if count == 0 {
            return;
        }
        let mut state = self.lock();
        let returned = loans.drain(..count).map(|loan| Returned {
            buffer: loan.buffer,
            is_done,
        });
        state.back.extend(returned);
        drop(state);
        self.has_back.store(true, Ordering::Release);
    }

    /// The next that went back, oldest first. For the producer.
    pub(super) fn reclaim(&self) -> Option<Returned> {
        if !self.has_back() {
            return None;
        }
        let mut state = self.lock();
        let returned = state.back.pop_front();
        // While the lock is held: who gives back sets it after.
        self.has_back
            .store(!state.back.is_empty(), Ordering::Release);
        returned
    }

    /// Whether there is something to reclaim.
    pub(super) fn has_back(&self) -> bool {
        self.has_back.load(Ordering::Acquire)
    }

    fn lock(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// A part of a range of positions.
#[derive(Debug, PartialEq, Eq)]
pub(super) enum Part<'a> {
    /// Bytes of a loan.
    Lent(&'a [u8]),
    /// Positions whose bytes are in the store itself.
    Stored(Range<u64>),
}

/// The parts of `payload`, in order.
pub(super) fn parts(loans: &VecDeque<Loan>, payload: Range<u64>) -> impl Iterator<Item = Part<'_>> {
    let mut index = loans.partition_point(|loan| loan.end() <= payload.start);
    let mut at = payload.start;
    std::iter::from_fn(move || {
        if at >= payload.end {
            return None;
        }
        let next = loans.get(index).filter(|loan| loan.start < payload.end);
        let start = at;
        match next {
            Some(loan) if loan.start <= at => {
                at = loan.end().min(payload.end);
                index += 1;
                let from = (start - loan.start) as usize;
                let to = (at - loan.start) as usize;
                Some(Part::Lent(&loan.buffer[from..to]))
            }
            _ => {
                at = next.map_or(payload.end, |loan| loan.start);
                Some(Part::Stored(start..at))
            }
        }
    })
}

/// Whether a loan begins or goes on within `payload`.
pub(super) fn touches(loans: &VecDeque<Loan>, payload: &Range<u64>) -> bool {
    let index = loans.partition_point(|loan| loan.end() <= payload.start);
    loans
        .get(index)
        .is_some_and(|loan| loan.start < payload.end)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn loan(start: u64, len: usize) -> Loan {
        Loan {
            start,
            buffer: vec![start as u8; len].into(),
        }
    }

    #[test]
    fn a_range_falls_into_what_is_lent_and_what_is_stored() {
        let loans = VecDeque::from([loan(10, 5), loan(15, 5), loan(30, 10)]);
        let all: Vec<Part> = parts(&loans, 5..35).collect();
        let expected = [
            Part::Stored(5..10),
            Part::Lent(&[10; 5]),
            Part::Lent(&[15; 5]),
            Part::Stored(20..30),
            Part::Lent(&[30; 5]),
        ];
        assert_eq!(all, expected);
        assert_eq!(
            parts(&loans, 12..14).collect::<Vec<_>>(),
            [Part::Lent(&[10; 2])]
        );
        assert_eq!(
            parts(&loans, 20..29).collect::<Vec<_>>(),
            [Part::Stored(20..29)]
        );
        assert_eq!(parts(&loans, 12..12).count(), 0);
        for (range, touched) in [
            (0..10, false),
            (9..11, true),
            (20..30, false),
            (39..50, true),
        ] {
            assert_eq!(touches(&loans, &range), touched, "{range:?}");
        }
    }

    #[test]
    fn loans_go_back_once_and_in_order() {
        let (loans, mut held) = (Loans::default(), VecDeque::new());
        assert!(loans.reclaim().is_none());
        for start in [0, 10, 20] {
            loans.put(loan(start, 10));
        }
        loans.take(&mut held);
        loans.take(&mut held);
        assert_eq!(held.len(), 3);
        loans.give_back(&mut held, 9, true);
        assert!(loans.reclaim().is_none(), "not all of it is done");
        loans.give_back(&mut held, 25, true);
        loans.give_back(&mut held, u64::MAX, false);
        let back: Vec<(u8, bool)> = std::iter::from_fn(|| loans.reclaim())
            .map(|returned| (returned.buffer[0], returned.is_done))
            .collect();
        assert_eq!(back, [(0, true), (10, true), (20, false)]);
        assert!(held.is_empty());
    }
}
