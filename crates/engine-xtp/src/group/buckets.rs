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

use super::config::BucketConfig;
use crate::config::RateLimit;
use crate::numbers::sync_before;
use core::time::Duration;
use engine::Instant;
use std::collections::VecDeque;

/// The answers to one status request.
#[derive(Clone, Copy, Debug)]
struct AnswerBucket {
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
pub(super) struct BucketSummary {
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
pub(super) struct BucketRing {
    pub(super) config: BucketConfig,
    buckets: VecDeque<AnswerBucket>,
    /// Answers to requests before this were given before the last going back arrived.
    saved_sync: Option<u32>,
    /// Requests whose buckets were taken again, with when they were made.
    recycled: VecDeque<(u32, Instant)>,
    /// WT; None before anybody answered.
    wtimer: Option<Duration>,
    /// Buckets opened since WT was made shorter.
    opened_since_lowered: usize,
    /// The most that receivers were seen to take at once.
    window_seen_max: u64,
}

/// Requests that are remembered after their bucket was taken again. With the fewest buckets, two, and
/// N = 1 they are those of 42 wait timers.
const RECYCLED_MAX: usize = 64;

/// Parts of a bucket's share of the store that are sent at once at most, so that a burst is short.
const BURSTS_PER_SHARE: u64 = 8;

impl BucketRing {
    pub(super) fn new(config: BucketConfig) -> BucketRing {
        BucketRing {
            config,
            buckets: VecDeque::new(),
            saved_sync: None,
            recycled: VecDeque::new(),
            wtimer: None,
            opened_since_lowered: 0,
            window_seen_max: 0,
        }
    }

    /// WT, if anybody answered yet.
    pub(super) fn wtimer(&self) -> Option<Duration> {
        self.wtimer
    }

    /// An answer took `rtt`: WT is half as long again at least.
    fn raise_wtimer(&mut self, rtt: Duration) {
        if let Some(wait) = &mut self.wtimer {
            *wait = (*wait).max(rtt + rtt / 2);
        }
    }

    /// WT may be as short as `wanted`, but no shorter than half of what it is (`usual` at first), and
    /// only when every bucket was taken once since it was made shorter.
    pub(super) fn lower_wtimer(&mut self, wanted: Duration, usual: Duration) {
        let wait = *self.wtimer.get_or_insert(usual);
        if self.opened_since_lowered >= self.config.count() {
            self.opened_since_lowered = 0;
            self.wtimer = Some(wait.min(wanted.max(wait / 2)));
        }
        self.wtimer = self.wtimer.max(Some(wanted));
    }

    /// What a sender whose WT is `wait` keeps to, with packets of `packet_len` octets and a store of
    /// `window` bytes before anything is known.
    pub(super) fn rate(&self, wait: Duration, window: u64, packet_len: u64) -> RateLimit {
        let share = self.window_seen_max.max(window) / self.config.count() as u64;
        let each_ns = self.config.request_interval(wait).as_nanos().max(1);
        let rate = u128::from(share.max(packet_len)) * 1_000_000_000 / each_ns;
        let octets = |count: u64| u32::try_from(count).unwrap_or(u32::MAX - 1);
        RateLimit {
            rate_bytes_per_s: octets(u64::try_from(rate).unwrap_or(u64::MAX)).max(1),
            burst_bytes: octets((share / BURSTS_PER_SHARE).max(2 * packet_len)),
        }
    }

    pub(super) fn len(&self) -> usize {
        self.buckets.len()
    }

    /// Opens a bucket for the request `sync`, with everything below `sent` sent before. When the
    /// oldest bucket is taken for it, what all buckets said until now.
    pub(super) fn open(&mut self, now: Instant, sync: u32, sent: u64) -> Option<BucketSummary> {
        let full = self.buckets.len() == self.config.count();
        let summary = full.then(|| self.summary());
        if let Some(summary) = &summary
            && let (Some(alloc), Some(rseq)) = (summary.alloc, summary.rseq)
            && alloc != u64::MAX
        {
            self.window_seen_max = self.window_seen_max.max(alloc.saturating_sub(rseq));
        }
        if let Some(oldest) = self.buckets.pop_front_if(|_| full) {
            if self.recycled.len() == RECYCLED_MAX {
                self.recycled.pop_front();
            }
            self.recycled.push_back((oldest.sync, oldest.at));
        }
        self.opened_since_lowered += 1;
        self.buckets.push_back(AnswerBucket {
            sync,
            at: now,
            sent,
            alloc: u64::MAX,
            rseq: u64::MAX,
            rtt: Duration::ZERO,
            answers: 0,
            done: 0,
        });
        summary
    }

    /// Takes in an answer; false when it belongs to no bucket.
    pub(super) fn add_answer(
        &mut self,
        now: Instant,
        echo: u32,
        (rseq, alloc): (u64, u64),
        done: bool,
    ) -> bool {
        let Some(bucket) = self.buckets.iter_mut().find(|bucket| bucket.sync == echo) else {
            if let Some(&(_, at)) = self.recycled.iter().find(|(sync, _)| *sync == echo) {
                self.raise_wtimer(now.since(at));
            }
            return false;
        };
        let rtt = now.since(bucket.at);
        bucket.alloc = bucket.alloc.min(alloc);
        bucket.rseq = bucket.rseq.min(rseq);
        bucket.rtt = bucket.rtt.max(rtt);
        bucket.answers += 1;
        bucket.done += u32::from(done);
        self.raise_wtimer(rtt);
        true
    }

    /// A receiver joined that has nothing above `rseq` and takes bytes below `alloc`: as if it had
    /// answered the newest request.
    pub(super) fn add_join(&mut self, rseq: u64, alloc: u64) {
        if let Some(newest) = self.buckets.back_mut() {
            newest.rseq = newest.rseq.min(rseq);
            newest.alloc = newest.alloc.min(alloc);
            newest.answers += 1;
        }
    }

    /// The sender goes back: answers to requests before `sync` say nothing about it.
    pub(super) fn record_go_back(&mut self, sync: u32) {
        self.saved_sync = Some(sync);
    }

    fn summary(&self) -> BucketSummary {
        let answered = || self.buckets.iter().filter(|bucket| bucket.answers > 0);
        let fresh = |bucket: &&AnswerBucket| {
            let saved = self.saved_sync;
            saved.is_none_or(|saved| !sync_before(bucket.sync, saved))
        };
        BucketSummary {
            alloc: answered().map(|bucket| bucket.alloc).min(),
            rseq: answered().map(|bucket| bucket.rseq).min(),
            rtt: answered()
                .map(|bucket| bucket.rtt)
                .max()
                .filter(|rtt| !rtt.is_zero()),
            lossy: answered()
                .filter(fresh)
                .any(|bucket| bucket.rseq < bucket.sent),
            done: answered().next().is_some()
                && answered().all(|bucket| bucket.done == bucket.answers),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn at(ms: u64) -> Instant {
        Instant::from_nanos(ms * 1_000_000)
    }

    fn ring(requests: u32, tolerated: u32) -> BucketRing {
        BucketRing::new(BucketConfig {
            requests,
            tolerated,
        })
    }

    #[test]
    fn bucket_count_and_interval_match_specification() {
        let buckets = BucketConfig {
            requests: 3,
            tolerated: 4,
        };
        assert_eq!(buckets.count(), 8);
        let wait = Duration::from_millis(350);
        assert_eq!(buckets.request_interval(wait), Duration::from_millis(100));
    }

    #[test]
    fn summary_when_oldest_bucket_recycled() {
        let mut ring = ring(1, 1);
        for (sync, sent) in [(10, 100), (20, 200), (30, 300)] {
            assert_eq!(ring.open(at(u64::from(sync)), sync, sent), None);
        }
        assert!(ring.add_answer(at(12), 10, (100, 900), false));
        assert!(ring.add_answer(at(29), 20, (200, 800), false));
        assert!(ring.add_answer(at(31), 30, (300, 1000), false));
        let summary = ring.open(at(40), 40, 400).expect("all are in use");
        assert_eq!(summary.rseq, Some(100));
        assert_eq!(summary.alloc, Some(800));
        assert_eq!(summary.rtt, Some(Duration::from_millis(9)));
        assert!(!summary.lossy && !summary.done);
        // The oldest is gone.
        assert!(!ring.add_answer(at(41), 10, (0, 0), false));
        let summary = ring.open(at(50), 50, 500).expect("all are in use");
        assert_eq!(summary.rseq, Some(200));
    }

    #[test]
    fn receiver_missing_e_answers_still_counts() {
        let mut ring = ring(1, 2);
        let mut summaries = Vec::new();
        for round in 0..8u32 {
            let sent = u64::from(round) * 100;
            summaries.push(ring.open(at(u64::from(round)), round, sent));
            // One receiver has everything; the other lacks what follows 100 and is heard in one
            // round of three.
            ring.add_answer(at(u64::from(round)), round, (sent, 1000), false);
            if round % 3 == 0 {
                ring.add_answer(at(u64::from(round)), round, (sent.min(100), 1000), false);
            }
        }
        let acted: Vec<u64> = summaries.iter().flatten().filter_map(|v| v.rseq).collect();
        assert!(acted.iter().all(|rseq| *rseq <= 100), "{acted:?}");
        assert!(summaries.iter().flatten().any(|summary| summary.lossy));
    }

    #[test]
    fn joined_receiver_window_kept_before_first_answer() {
        let mut ring = ring(1, 0);
        ring.open(at(0), 1, 100);
        ring.add_answer(at(1), 1, (100, 5000), false);
        ring.open(at(2), 2, 200);
        ring.add_join(50, 1050);
        let summary = ring.open(at(4), 3, 300).expect("all are in use");
        assert_eq!((summary.rseq, summary.alloc), (Some(50), Some(1050)));
    }

    #[test]
    fn no_answers_give_empty_summary() {
        let mut ring = ring(1, 0);
        ring.open(at(0), 1, 10);
        ring.open(at(1), 2, 20);
        let summary = ring.open(at(2), 3, 30).expect("all are in use");
        assert_eq!(summary, BucketSummary::default());
    }

    #[test]
    fn one_loss_goes_back_once() {
        let mut ring = ring(1, 0);
        ring.open(at(0), 1, 100);
        ring.add_answer(at(1), 1, (40, 1000), false);
        ring.open(at(2), 2, 200);
        ring.add_answer(at(3), 2, (40, 1000), false);
        assert!(ring.open(at(4), 3, 300).expect("all are in use").lossy);
        ring.record_go_back(3);
        assert!(!ring.open(at(6), 4, 300).expect("all are in use").lossy);
        ring.add_answer(at(7), 4, (40, 1000), false);
        assert!(ring.open(at(8), 5, 300).expect("all are in use").lossy);
    }
}
