//! When a receive polls before it sleeps.
//!
//! Waking an idle processor costs the sender more than some polls cost the receiver (on virtual machines, a fifth of
//! its time). A poll that found nothing yields the processor, which lets a peer on the same one run first; but where
//! other programs want it, a yield lasts for their time slice, some milliseconds, while a sleeping thread is run
//! as soon as a packet arrives. So a receive that yielded for long is followed by receives that sleep at once.

use std::io;
use std::sync::atomic::{AtomicBool, AtomicU32, Ordering};
use std::time::{Duration, Instant};

/// An arrival of at least this length announces bulk data: the next one is due at once.
const BULK_LEN: usize = 16 << 10;

/// Polls of a receive during bulk data: some 20 us.
const BULK_POLLS: u32 = 32;

/// Longest polling after [`BusyPoll::hint`]. An idle processor takes 30 us to wake on a virtual machine, and
/// so does the peer's.
const HINTED_TIME: Duration = Duration::from_micros(100);

/// A yield of this length ran another program. A peer that shares the processor seldom computes for as long.
const YIELD_MAX: Duration = Duration::from_micros(500);

/// Receives that do not poll after one that polled without success, or yielded for long. It bounds the cost when replies are
/// slow or other threads want the processor.
const BACKOFF: u32 = 64;

/// Polls between two looks at the clock: a look takes a tenth of the time of a poll, in which an arrival waits.
const POLLS_PER_CLOCK_READ: u32 = 8;

/// Decides for one receiver when it polls.
#[derive(Debug, Default)]
pub struct BusyPoll {
    /// The last arrival had at least [`BULK_LEN`] octets.
    is_in_bulk: AtomicBool,
    /// [`BusyPoll::hint`] was called since the last receive.
    is_hinted: AtomicBool,
    /// Receives in bulk, and hinted ones, that are still not to poll.
    bulk_backoff: AtomicU32,
    hinted_backoff: AtomicU32,
}

impl BusyPoll {
    /// An arrival is due at once: the next receive polls.
    pub fn hint(&self) {
        self.is_hinted.store(true, Ordering::Relaxed);
    }

    /// Notes the length of the last arrival, octets.
    pub fn note_arrival(&self, len: usize) {
        self.is_in_bulk.store(len >= BULK_LEN, Ordering::Relaxed);
    }

    /// Polls while that pays; None: it is time to sleep. `receive` does not wait; its error is `WouldBlock` when
    /// nothing is there.
    pub fn poll<T>(&self, receive: impl FnMut() -> io::Result<T>) -> Option<io::Result<T>> {
        // A load first: an exchange takes the cache line.
        let is_hinted =
            self.is_hinted.load(Ordering::Relaxed) && self.is_hinted.swap(false, Ordering::Relaxed);
        if self.is_in_bulk.load(Ordering::Relaxed) {
            self.poll_in_bulk(receive)
        } else if is_hinted {
            self.poll_hinted(receive)
        } else {
            None
        }
    }

    /// [`BusyPoll::poll`] without regard to hints.
    pub fn poll_in_bulk<T>(
        &self,
        mut receive: impl FnMut() -> io::Result<T>,
    ) -> Option<io::Result<T>> {
        if !self.is_in_bulk.load(Ordering::Relaxed) || !is_over(&self.bulk_backoff) {
            return None;
        }
        for _ in 0..BULK_POLLS {
            if let Some(received) = unless_blocked(receive()) {
                return Some(received);
            }
            let began = Instant::now();
            std::thread::yield_now();
            if began.elapsed() > YIELD_MAX {
                self.bulk_backoff.store(BACKOFF, Ordering::Relaxed);
                break;
            }
        }
        None
    }

    fn poll_hinted<T>(&self, mut receive: impl FnMut() -> io::Result<T>) -> Option<io::Result<T>> {
        if !is_over(&self.hinted_backoff) {
            return None;
        }
        let mut began = None;
        loop {
            std::thread::yield_now();
            if let Some(received) = unless_blocked(receive()) {
                return Some(received);
            }
            if began.get_or_insert_with(Instant::now).elapsed() >= HINTED_TIME {
                self.hinted_backoff.store(BACKOFF, Ordering::Relaxed);
                return None;
            }
        }
    }
}

/// Polls for `time` without yielding; None when nothing came.
pub fn poll_for<T>(
    time: Duration,
    mut receive: impl FnMut() -> io::Result<T>,
) -> Option<io::Result<T>> {
    let began = Instant::now();
    while began.elapsed() < time {
        for _ in 0..POLLS_PER_CLOCK_READ {
            if let Some(received) = unless_blocked(receive()) {
                return Some(received);
            }
            std::hint::spin_loop();
        }
    }
    None
}

/// Whether there is no receive left that is not to poll; otherwise one of them is this one.
fn is_over(backoff: &AtomicU32) -> bool {
    match backoff.load(Ordering::Relaxed) {
        0 => true,
        left => {
            backoff.store(left - 1, Ordering::Relaxed);
            false
        }
    }
}

fn unless_blocked<T>(received: io::Result<T>) -> Option<io::Result<T>> {
    match received {
        Err(error) if error.kind() == io::ErrorKind::WouldBlock => None,
        received => Some(received),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::cell::Cell;

    /// Polls of one receive that finds nothing, each of which takes `time`.
    fn polls_in_vain(poll: &BusyPoll, time: Duration) -> u32 {
        let polls = Cell::new(0);
        let received = poll.poll(|| -> io::Result<()> {
            polls.set(polls.get() + 1);
            std::thread::sleep(time);
            Err(io::ErrorKind::WouldBlock.into())
        });
        assert!(received.is_none());
        polls.get()
    }

    #[test]
    fn short_arrivals_are_awaited_asleep() {
        let poll = BusyPoll::default();
        assert_eq!(polls_in_vain(&poll, Duration::ZERO), 0);
        poll.note_arrival(BULK_LEN - 1);
        assert_eq!(polls_in_vain(&poll, Duration::ZERO), 0);
    }

    #[test]
    fn bulk_is_polled_for_until_a_short_arrival() {
        let poll = BusyPoll::default();
        poll.note_arrival(BULK_LEN);
        // A yield may last for long here too; then fewer polls follow.
        assert!((1..=BULK_POLLS).contains(&polls_in_vain(&poll, Duration::ZERO)));
        poll.note_arrival(100);
        assert_eq!(polls_in_vain(&poll, Duration::ZERO), 0);
    }

    #[test]
    fn hint_counts_once_and_polls_in_vain_are_not_repeated_soon() {
        let poll = BusyPoll::default();
        poll.hint();
        assert!(polls_in_vain(&poll, HINTED_TIME) >= 1);
        assert_eq!(polls_in_vain(&poll, Duration::ZERO), 0, "no hint");
        for _ in 0..BACKOFF {
            poll.hint();
            assert_eq!(polls_in_vain(&poll, Duration::ZERO), 0, "backs off");
        }
        poll.hint();
        assert!(polls_in_vain(&poll, HINTED_TIME) >= 1);
    }

    #[test]
    fn what_is_there_is_received_at_once_and_errors_are_passed_on() {
        let poll = BusyPoll::default();
        poll.note_arrival(BULK_LEN);
        assert!(matches!(poll.poll(|| Ok(7)), Some(Ok(7))));
        let refused = || -> io::Result<()> { Err(io::ErrorKind::ConnectionRefused.into()) };
        assert!(matches!(poll.poll(refused), Some(Err(_))));
        assert!(matches!(poll_for(Duration::MAX, || Ok(7)), Some(Ok(7))));
        let nothing = || -> io::Result<()> { Err(io::ErrorKind::WouldBlock.into()) };
        assert!(poll_for(Duration::ZERO, nothing).is_none());
    }
}
