//! The bucket algorithm: how long a sender keeps bytes for receivers it does not know.
//!
//! A bucket stands for the data sent between two status requests and takes in the answers to the
//! second. There are N + E + 1. When they are all in use, each new request takes the oldest for
//! itself, and at that moment the sender acts on the least allocation, the least sequence number
//! and the longest round trip over all of them. A receiver whose answers get lost E times in a row
//! is still heard in one of the others, so nothing is forgotten that it lacks.
//!
//! That holds for answers that come before their bucket is taken again. So WT grows as soon as any
//! answer took long, even one whose bucket is gone, and shrinks by half at most each time all buckets
//! were taken once. And a sender with a store of S bytes keeps to the rate that the specification's
//! arithmetic of the store, S = (N + E + 1) / (N + 0.5) WT rate, leaves it: more than that it could not
//! send for long, and sent at once it would fill queues faster than it hears of it.

use super::config::Buckets;
use crate::api::RateLimit;
use crate::types::is_before;
use core::time::Duration;
use engine::Instant;
use std::collections::VecDeque;

/// The answers to one status request.
#[derive(Clone, Copy, Debug)]
struct Bucket {
    sync: u32,
    at: Instant,
    /// Everything below was sent before the request.
    sent: u64,
    alloc: u64,
    rseq: u64,
    rtt: Duration,
    answers: u32,
    /// Answers that said that the receiver has all there ever will be.
    done: u32,
}

/// What the buckets say together.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) struct Verdict {
    /// The least allocation; None when nobody answered.
    pub(super) alloc: Option<u64>,
    /// The least sequence number.
    pub(super) rseq: Option<u64>,
    /// The longest round trip.
    pub(super) rtt: Option<Duration>,
    /// Somebody lacks something that was sent before the request it answered.
    pub(super) lossy: bool,
    /// All that answered have everything.
    pub(super) done: bool,
}

#[derive(Clone, Debug)]
pub(super) struct Ring {
    pub(super) config: Buckets,
    buckets: VecDeque<Bucket>,
    /// Answers to requests before this were given before the last going back arrived.
    saved_sync: Option<u32>,
    /// Requests whose buckets were taken again, with when they were made.
    past: VecDeque<(u32, Instant)>,
    /// WT; None before anybody answered.
    wait: Option<Duration>,
    /// Buckets opened since WT was made shorter.
    opened: usize,
    /// The most that receivers were seen to take at once.
    window: u64,
}

/// Requests that are remembered after their bucket was taken again. With the fewest buckets, two, and
/// N = 1 they are those of 42 wait timers.
const PAST_MAX: usize = 64;

/// Parts of a bucket's share of the store that are sent at once at most, so that a burst is short.
const BURSTS: u64 = 8;

impl Ring {
    pub(super) fn new(config: Buckets) -> Ring {
        Ring {
            config,
            buckets: VecDeque::new(),
            saved_sync: None,
            past: VecDeque::new(),
            wait: None,
            opened: 0,
            window: 0,
        }
    }

    /// WT, if anybody answered yet.
    pub(super) fn wait(&self) -> Option<Duration> {
        self.wait
    }

    /// An answer took `rtt`: WT is half as long again at least.
    fn note_rtt(&mut self, rtt: Duration) {
        if let Some(wait) = &mut self.wait {
            *wait = (*wait).max(rtt + rtt / 2);
        }
    }

    /// WT may be as short as `wanted`, but no shorter than half of what it is (`usual` at first), and
    /// only when every bucket was taken once since it was made shorter.
    pub(super) fn shorten(&mut self, wanted: Duration, usual: Duration) {
        let wait = *self.wait.get_or_insert(usual);
        if self.opened >= self.config.count() {
            self.opened = 0;
            self.wait = Some(wait.min(wanted.max(wait / 2)));
        }
        self.wait = self.wait.max(Some(wanted));
    }

    /// What a sender whose WT is `wait` keeps to, with packets of `packet_len` octets and a store of
    /// `window` bytes before anything is known.
    pub(super) fn rate(&self, wait: Duration, window: u64, packet_len: u64) -> RateLimit {
        let share = self.window.max(window) / self.config.count() as u64;
        let each_ns = self.config.switching(wait).as_nanos().max(1);
        let rate = u128::from(share.max(packet_len)) * 1_000_000_000 / each_ns;
        let octets = |count: u64| u32::try_from(count).unwrap_or(u32::MAX - 1);
        RateLimit {
            rate_bytes_per_s: octets(u64::try_from(rate).unwrap_or(u64::MAX)).max(1),
            burst_bytes: octets((share / BURSTS).max(2 * packet_len)),
        }
    }

    pub(super) fn len(&self) -> usize {
        self.buckets.len()
    }

    /// Opens a bucket for the request `sync`, with everything below `sent` sent before. When the
    /// oldest bucket is taken for it, what all buckets said until now.
    pub(super) fn open(&mut self, now: Instant, sync: u32, sent: u64) -> Option<Verdict> {
        let full = self.buckets.len() == self.config.count();
        let verdict = full.then(|| self.verdict());
        if let Some(verdict) = &verdict
            && let (Some(alloc), Some(rseq)) = (verdict.alloc, verdict.rseq)
            && alloc != u64::MAX
        {
            self.window = self.window.max(alloc.saturating_sub(rseq));
        }
        if let Some(oldest) = self.buckets.pop_front_if(|_| full) {
            if self.past.len() == PAST_MAX {
                self.past.pop_front();
            }
            self.past.push_back((oldest.sync, oldest.at));
        }
        self.opened += 1;
        self.buckets.push_back(Bucket {
            sync,
            at: now,
            sent,
            alloc: u64::MAX,
            rseq: u64::MAX,
            rtt: Duration::ZERO,
            answers: 0,
            done: 0,
        });
        verdict
    }

    /// Takes in an answer; false when it belongs to no bucket.
    pub(super) fn answer(
        &mut self,
        now: Instant,
        echo: u32,
        (rseq, alloc): (u64, u64),
        done: bool,
    ) -> bool {
        let Some(bucket) = self.buckets.iter_mut().find(|bucket| bucket.sync == echo) else {
            if let Some(&(_, at)) = self.past.iter().find(|(sync, _)| *sync == echo) {
                self.note_rtt(now.since(at));
            }
            return false;
        };
        let rtt = now.since(bucket.at);
        bucket.alloc = bucket.alloc.min(alloc);
        bucket.rseq = bucket.rseq.min(rseq);
        bucket.rtt = bucket.rtt.max(rtt);
        bucket.answers += 1;
        bucket.done += u32::from(done);
        self.note_rtt(rtt);
        true
    }

    /// A receiver joined that has nothing above `rseq` and takes bytes below `alloc`: as if it had
    /// answered the newest request.
    pub(super) fn hold(&mut self, rseq: u64, alloc: u64) {
        if let Some(newest) = self.buckets.back_mut() {
            newest.rseq = newest.rseq.min(rseq);
            newest.alloc = newest.alloc.min(alloc);
            newest.answers += 1;
        }
    }

    /// The sender goes back: answers to requests before `sync` say nothing about it.
    pub(super) fn went_back(&mut self, sync: u32) {
        self.saved_sync = Some(sync);
    }

    fn verdict(&self) -> Verdict {
        let heard = || self.buckets.iter().filter(|bucket| bucket.answers > 0);
        let fresh = |bucket: &&Bucket| {
            let saved = self.saved_sync;
            saved.is_none_or(|saved| !is_before(bucket.sync, saved))
        };
        Verdict {
            alloc: heard().map(|bucket| bucket.alloc).min(),
            rseq: heard().map(|bucket| bucket.rseq).min(),
            rtt: heard()
                .map(|bucket| bucket.rtt)
                .max()
                .filter(|rtt| !rtt.is_zero()),
            lossy: heard()
                .filter(fresh)
                .any(|bucket| bucket.rseq < bucket.sent),
            done: heard().next().is_some() && heard().all(|bucket| bucket.done == bucket.answers),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn at(ms: u64) -> Instant {
        Instant::from_nanos(ms * 1_000_000)
    }

    fn ring(requests: u32, tolerated: u32) -> Ring {
        Ring::new(Buckets {
            requests,
            tolerated,
        })
    }

    #[test]
    fn times_and_numbers_are_those_of_the_specification() {
        let buckets = Buckets {
            requests: 3,
            tolerated: 4,
        };
        assert_eq!(buckets.count(), 8);
        let wait = Duration::from_millis(350);
        assert_eq!(buckets.switching(wait), Duration::from_millis(100));
    }

    #[test]
    fn the_sender_acts_when_the_oldest_bucket_is_taken_again() {
        let mut ring = ring(1, 1);
        for (sync, sent) in [(10, 100), (20, 200), (30, 300)] {
            assert_eq!(ring.open(at(u64::from(sync)), sync, sent), None);
        }
        assert!(ring.answer(at(12), 10, (100, 900), false));
        assert!(ring.answer(at(29), 20, (200, 800), false));
        assert!(ring.answer(at(31), 30, (300, 1000), false));
        let verdict = ring.open(at(40), 40, 400).expect("all are in use");
        assert_eq!(verdict.rseq, Some(100));
        assert_eq!(verdict.alloc, Some(800));
        assert_eq!(verdict.rtt, Some(Duration::from_millis(9)));
        assert!(!verdict.lossy && !verdict.done);
        // The oldest is gone.
        assert!(!ring.answer(at(41), 10, (0, 0), false));
        let verdict = ring.open(at(50), 50, 500).expect("all are in use");
        assert_eq!(verdict.rseq, Some(200));
    }

    #[test]
    fn a_receiver_that_misses_e_answers_still_counts() {
        let mut ring = ring(1, 2);
        let mut verdicts = Vec::new();
        for round in 0..8u32 {
            let sent = u64::from(round) * 100;
            verdicts.push(ring.open(at(u64::from(round)), round, sent));
            // One receiver has everything; the other lacks what follows 100 and is heard in one
            // round of three.
            ring.answer(at(u64::from(round)), round, (sent, 1000), false);
            if round % 3 == 0 {
                ring.answer(at(u64::from(round)), round, (sent.min(100), 1000), false);
            }
        }
        let acted: Vec<u64> = verdicts.iter().flatten().filter_map(|v| v.rseq).collect();
        assert!(acted.iter().all(|rseq| *rseq <= 100), "{acted:?}");
        assert!(verdicts.iter().flatten().any(|verdict| verdict.lossy));
    }

    #[test]
    fn a_receiver_that_joined_is_not_overrun_before_it_answers() {
        let mut ring = ring(1, 0);
        ring.open(at(0), 1, 100);
        ring.answer(at(1), 1, (100, 5000), false);
        ring.open(at(2), 2, 200);
        ring.hold(50, 1050);
        let verdict = ring.open(at(4), 3, 300).expect("all are in use");
        assert_eq!((verdict.rseq, verdict.alloc), (Some(50), Some(1050)));
    }

    #[test]
    fn silence_decides_nothing() {
        let mut ring = ring(1, 0);
        ring.open(at(0), 1, 10);
        ring.open(at(1), 2, 20);
        let verdict = ring.open(at(2), 3, 30).expect("all are in use");
        assert_eq!(verdict, Verdict::default());
    }

    #[test]
    fn one_loss_makes_the_sender_go_back_once() {
        let mut ring = ring(1, 0);
        ring.open(at(0), 1, 100);
        ring.answer(at(1), 1, (40, 1000), false);
        ring.open(at(2), 2, 200);
        ring.answer(at(3), 2, (40, 1000), false);
        assert!(ring.open(at(4), 3, 300).expect("all are in use").lossy);
        ring.went_back(3);
        assert!(!ring.open(at(6), 4, 300).expect("all are in use").lossy);
        ring.answer(at(7), 4, (40, 1000), false);
        assert!(ring.open(at(8), 5, 300).expect("all are in use").lossy);
    }
}
