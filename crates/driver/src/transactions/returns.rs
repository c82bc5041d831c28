//! Users that were handed something and are about to come back.
//!
//! A client calls again as soon as it is answered, a server takes the next request as soon as it has replied. How long
//! such users are away is measured. While it is short, nobody is woken to stand in for one of them, and the thread
//! that drives gives way to callers that were answered together, so that their next calls leave together.

use std::cell::Cell;
use std::sync::atomic::{AtomicU64, AtomicUsize, Ordering};

/// Users that are away between two waits for less than this are waited for. Waking a thread takes the processor 5 us
/// and more, and the arrivals of so short a time fit the wire's buffer.
const AWAY_SHORT_NS: u64 = 50_000;

/// The longest absence that counts.
const AWAY_MAX_NS: u64 = 10_000_000;

thread_local! {
    /// When this thread has left which of them.
    static LEFT: Cell<(usize, u64)> = const { Cell::new((0, 0)) };
}

/// Users of one kind at an endpoint.
#[derive(Debug, Default)]
pub(super) struct Returns {
    /// How long they are away between two waits, smoothed.
    away_ns: AtomicU64,
    /// Those that are away and were counted when they were handed something.
    expected: AtomicUsize,
}

impl Returns {
    /// Users that are taken to stay away until they are known to come back soon.
    pub(super) fn late() -> Returns {
        Returns {
            away_ns: AtomicU64::new(AWAY_MAX_NS),
            ..Returns::default()
        }
    }

    /// This user leaves.
    pub(super) fn note_left(&self, now_ns: u64) {
        LEFT.set((std::ptr::from_ref(self) as usize, now_ns));
    }

    /// This user comes to wait.
    pub(super) fn note_return(&self, now_ns: u64) {
        let (whom, left_ns) = LEFT.get();
        if whom != std::ptr::from_ref(self) as usize {
            return;
        }
        LEFT.set((0, 0));
        let away = now_ns.saturating_sub(left_ns).min(AWAY_MAX_NS);
        let smoothed = self.away_ns.load(Ordering::Relaxed);
        // Threads may overwrite each other's sample: it is an estimate.
        self.away_ns
            .store((smoothed * 7 + away) / 8, Ordering::Relaxed);
        // One that found what it waited for before it slept was not counted.
        let one_less = |expected: usize| expected.checked_sub(1);
        let _ = self
            .expected
            .fetch_update(Ordering::SeqCst, Ordering::SeqCst, one_less);
    }

    /// Whether users come back soon, as far as is known.
    pub(super) fn are_soon(&self) -> bool {
        self.away_ns.load(Ordering::Relaxed) < AWAY_SHORT_NS
    }

    /// So many users more are handed something.
    pub(super) fn expect(&self, users: usize) {
        self.expected.fetch_add(users, Ordering::SeqCst);
    }

    /// Users that are expected back.
    pub(super) fn expected(&self) -> usize {
        self.expected.load(Ordering::SeqCst)
    }

    /// Those that are expected did not come: they count as absent for long.
    pub(super) fn give_up(&self) {
        self.expected.store(0, Ordering::SeqCst);
        self.away_ns.fetch_max(2 * AWAY_SHORT_NS, Ordering::Relaxed);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn absence_is_that_of_a_user_who_left_these() {
        let returns = Returns::default();
        returns.note_return(9_000_000);
        assert!(returns.are_soon());
        returns.note_left(1_000_000);
        Returns::default().note_return(9_000_000);
        returns.note_return(2_000_000);
        assert!(!returns.are_soon());
        for round in 0..40 {
            returns.note_left(round * 1000);
            returns.note_return(round * 1000 + 900);
        }
        assert!(returns.are_soon());
    }

    #[test]
    fn expected_users_are_counted_down_as_they_come_back_or_given_up() {
        let returns = Returns::default();
        returns.expect(2);
        returns.note_return(5);
        assert_eq!(returns.expected(), 2, "a user that has not left");
        for _ in 0..3 {
            returns.note_left(10);
            returns.note_return(20);
        }
        assert_eq!(returns.expected(), 0);
        returns.expect(1);
        returns.give_up();
        assert!(returns.expected() == 0 && !returns.are_soon());
    }

    #[test]
    fn late_users_are_soon_when_they_have_come_back_soon_often_enough() {
        let returns = Returns::late();
        let rounds = (1..100).find(|_| {
            returns.note_left(1000);
            returns.note_return(2000);
            returns.are_soon()
        });
        assert_eq!(rounds, Some(40));
    }
}
