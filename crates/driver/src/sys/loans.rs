//! Loans of a store: ranges of its byte stream that lie in lent buffers.
//!
//! The producer hands a loan over before it publishes the position behind it, so that the consumer
//! knows of every loan below the position it reads. From then on the loan is the consumer's, which
//! sends from it without a lock and returns it once its bytes are released.

use crate::lend::{Buffer, ReturnedBuffer};
use std::collections::VecDeque;
use std::ops::Range;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Mutex, MutexGuard, PoisonError};

/// A buffer and the positions it covers.
#[derive(Debug)]
pub(super) struct Loan {
    pub(super) start: u64,
    pub(super) buffer: Buffer,
}

impl Loan {
    pub(super) fn end(&self) -> u64 {
        self.start + self.buffer.len() as u64
    }

    /// Notes that packets may refer to it although the peer will acknowledge it no more, if the wire referred to bytes
    /// below `referenced`.
    pub(super) fn mark_outlived(&self, referenced: u64) {
        if let (Buffer::Pages(pages), true) = (&self.buffer, self.start < referenced) {
            pages.mark_referenced();
        }
    }
}

/// Loans handed over by the producer and returned by the consumer.
#[derive(Debug, Default)]
pub(super) struct Loans {
    /// Whether `queues.handed_over` and `queues.returned` may hold some; read without the lock.
    has_handed_over: AtomicBool,
    has_returned: AtomicBool,
    queues: Mutex<LoanQueues>,
}

#[derive(Debug, Default)]
struct LoanQueues {
    handed_over: VecDeque<Loan>,
    returned: VecDeque<ReturnedBuffer>,
}

impl Loans {
    /// Hands a loan over. For the producer.
    pub(super) fn hand_over(&self, loan: Loan) {
        self.lock().handed_over.push_back(loan);
        self.has_handed_over.store(true, Ordering::Release);
    }

    /// Moves the loans handed over to `loans`. For the consumer.
    pub(super) fn take_handed_over(&self, loans: &mut VecDeque<Loan>) {
        if self.has_handed_over.swap(false, Ordering::Acquire) {
            loans.append(&mut self.lock().handed_over);
        }
    }

    /// Returns those of `loans` that end at or before `position`. For the consumer.
    pub(super) fn give_back(&self, loans: &mut VecDeque<Loan>, position: u64, is_done: bool) {
        let count = loans.partition_point(|loan| loan.end() <= position);
        if count == 0 {
            return;
        }
        let mut state = self.lock();
        let returned = loans.drain(..count).map(|loan| ReturnedBuffer {
            buffer: loan.buffer,
            is_complete: is_done,
        });
        state.returned.extend(returned);
        drop(state);
        self.has_returned.store(true, Ordering::Release);
    }

    /// The next returned buffer, oldest first. For the producer.
    pub(super) fn reclaim(&self) -> Option<ReturnedBuffer> {
        if !self.has_returned() {
            return None;
        }
        let mut state = self.lock();
        let returned = state.returned.pop_front();
        // Set under the lock: `give_back` sets it after the lock.
        self.has_returned
            .store(!state.returned.is_empty(), Ordering::Release);
        returned
    }

    /// Whether there is a buffer to reclaim.
    pub(super) fn has_returned(&self) -> bool {
        self.has_returned.load(Ordering::Acquire)
    }

    fn lock(&self) -> MutexGuard<'_, LoanQueues> {
        self.queues.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// Part of a range of positions.
#[derive(Debug, PartialEq, Eq)]
pub(super) enum PayloadPart<'a> {
    /// Bytes of a loan.
    Lent(&'a [u8]),
    /// Positions whose bytes are in the store itself.
    Stored(Range<u64>),
}

/// The parts of `payload`, in order.
pub(super) fn parts(
    loans: &VecDeque<Loan>,
    payload: Range<u64>,
) -> impl Iterator<Item = PayloadPart<'_>> {
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
                Some(PayloadPart::Lent(&loan.buffer[from..to]))
            }
            _ => {
                at = next.map_or(payload.end, |loan| loan.start);
                Some(PayloadPart::Stored(start..at))
            }
        }
    })
}

/// Whether all loans that overlap `payload` lie in pages of their own.
pub(super) fn are_in_pages(loans: &VecDeque<Loan>, payload: &Range<u64>) -> bool {
    let first = loans.partition_point(|loan| loan.end() <= payload.start);
    let named = loans.range(first..);
    named
        .take_while(|loan| loan.start < payload.end)
        .all(|loan| matches!(loan.buffer, Buffer::Pages(_)))
}

/// Whether a loan overlaps `payload`.
pub(super) fn overlaps(loans: &VecDeque<Loan>, payload: &Range<u64>) -> bool {
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
    fn range_splits_into_lent_and_stored_parts() {
        let loans = VecDeque::from([loan(10, 5), loan(15, 5), loan(30, 10)]);
        let all: Vec<PayloadPart> = parts(&loans, 5..35).collect();
        let expected = [
            PayloadPart::Stored(5..10),
            PayloadPart::Lent(&[10; 5]),
            PayloadPart::Lent(&[15; 5]),
            PayloadPart::Stored(20..30),
            PayloadPart::Lent(&[30; 5]),
        ];
        assert_eq!(all, expected);
        assert_eq!(
            parts(&loans, 12..14).collect::<Vec<_>>(),
            [PayloadPart::Lent(&[10; 2])]
        );
        assert_eq!(
            parts(&loans, 20..29).collect::<Vec<_>>(),
            [PayloadPart::Stored(20..29)]
        );
        assert_eq!(parts(&loans, 12..12).count(), 0);
        for (range, touched) in [
            (0..10, false),
            (9..11, true),
            (20..30, false),
            (39..50, true),
        ] {
            assert_eq!(overlaps(&loans, &range), touched, "{range:?}");
        }
    }

    #[test]
    fn loans_return_once_in_order() {
        let (loans, mut taken) = (Loans::default(), VecDeque::new());
        assert!(loans.reclaim().is_none());
        for start in [0, 10, 20] {
            loans.hand_over(loan(start, 10));
        }
        loans.take_handed_over(&mut taken);
        loans.take_handed_over(&mut taken);
        assert_eq!(taken.len(), 3);
        loans.give_back(&mut taken, 9, true);
        assert!(loans.reclaim().is_none(), "not all of it is done");
        loans.give_back(&mut taken, 25, true);
        loans.give_back(&mut taken, u64::MAX, false);
        let back: Vec<(u8, bool)> = std::iter::from_fn(|| loans.reclaim())
            .map(|returned| (returned.buffer[0], returned.is_complete))
            .collect();
        assert_eq!(back, [(0, true), (10, true), (20, false)]);
        assert!(taken.is_empty());
    }
}
