//! The bucket algorithm: how long a sender without a member list keeps bytes (0009, Buckets).
//!
//! A bucket stands for the data sent between two status requests and collects the answers to the
//! second. There are N + E + 1 buckets. Once all are in use, each new request recycles the oldest,
//! and the sender then acts on the least allocation, the least `rseq` and the longest RTT over all
//! buckets. A receiver that loses E answers in a row still counts in another bucket, so no byte it
//! lacks is released.
//!
//! That holds for answers that arrive before their bucket is recycled. So WT grows with every long
//! RTT, even of a recycled bucket, and shrinks by half at most each time all buckets were used. And
//! a sender with a buffer of S bytes keeps to the rate that S = (N + E + 1) / (N + 0.5) WT rate
//! allows: it could not sustain more, and a faster burst fills queues before any answer shows it.

use super::config::BucketConfig;
use crate::config::RateLimit;
use crate::numbers::SyncNumber;
use core::time::Duration;
use engine::Instant;
use std::collections::VecDeque;

/// An answer to a status request.
#[derive(Clone, Copy, Debug)]
pub(super) struct BucketAnswer {
    pub(super) rseq: u64,
    /// The receiver's user consumed everything below; 4.0 does not say, and `rseq` stands for it.
    pub(super) dseq: u64,
    pub(super) alloc: u64,
    /// It carries RCLOSE.
    pub(super) done: bool,
}

/// The answers to one status request.
#[derive(Clone, Copy, Debug)]
struct AnswerBucket {
    sync: SyncNumber,
    at: Instant,
    /// All bytes below were sent before the request.
    sent: u64,
    alloc: u64,
    rseq: u64,
    dseq: u64,
    rtt: Duration,
    answers: u32,
    /// Answers with RCLOSE.
    done: u32,
}

/// The minimum (of `rtt` the maximum) over all buckets.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) struct BucketSummary {
    /// The least allocation; None without answers.
    pub(super) alloc: Option<u64>,
    /// The least `rseq`: repair begins here.
    pub(super) rseq: Option<u64>,
    /// The least `dseq`: bytes below are released.
    pub(super) dseq: Option<u64>,
    /// The longest RTT.
    pub(super) rtt: Option<Duration>,
    /// A receiver lacks bytes that were sent before the request it answered.
    pub(super) lossy: bool,
    /// All answers carry RCLOSE.
    pub(super) done: bool,
}

#[derive(Clone, Debug)]
pub(super) struct BucketRing {
    pub(super) config: BucketConfig,
    buckets: VecDeque<AnswerBucket>,
    /// Sync of the first request after the last go-back-n; answers to older ones are stale.
    saved_sync: Option<SyncNumber>,
    /// Syncs and times of requests whose buckets were recycled.
    recycled: VecDeque<(SyncNumber, Instant)>,
    /// WT; None before the first answer.
    wtimer: Option<Duration>,
    /// Buckets opened since WT last shrank.
    opened_since_lowered: usize,
    /// The largest receive window seen.
    window_seen_max: u64,
}

/// Requests remembered after their bucket was recycled. With N = 1 they are those of 42 WTs:
/// 64 / 1.5.
const RECYCLED_MAX: usize = 64;

/// Bursts in which a bucket's share of the send buffer is sent; more make each burst shorter.
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

    /// WT; None before the first answer.
    pub(super) fn wtimer(&self) -> Option<Duration> {
        self.wtimer
    }

    /// Raises WT to 1.5 times an answer's `rtt` at least.
    fn raise_wtimer(&mut self, rtt: Duration) {
        if let Some(wait) = &mut self.wtimer {
            *wait = (*wait).max(rtt + rtt / 2);
        }
    }

    /// Lowers WT to `wanted`, to half its value (`usual` at first) at most, and only when every
    /// bucket was used since it last shrank. Raises it at once.
    pub(super) fn lower_wtimer(&mut self, wanted: Duration, usual: Duration) {
        let wait = *self.wtimer.get_or_insert(usual);
        if self.opened_since_lowered >= self.config.count() {
            self.opened_since_lowered = 0;
            self.wtimer = Some(wait.min(wanted.max(wait / 2)));
        }
        self.wtimer = self.wtimer.max(Some(wanted));
    }

    /// The rate limit for a WT of `wait`, packets of `packet_len` octets and a window of `window`
    /// bytes until a larger one is seen.
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

    /// Opens a bucket for request `sync`; all bytes below `sent` were sent before it. Returns the
    /// summary of all buckets when the oldest is recycled for it.
    pub(super) fn open(
        &mut self,
        now: Instant,
        sync: SyncNumber,
        sent: u64,
    ) -> Option<BucketSummary> {
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
            dseq: u64::MAX,
            rtt: Duration::ZERO,
            answers: 0,
            done: 0,
        });
        summary
    }

    /// Adds an answer to its bucket; false if the bucket was recycled or never opened.
    pub(super) fn add_answer(
        &mut self,
        now: Instant,
        echo: SyncNumber,
        answer: &BucketAnswer,
    ) -> bool {
        let Some(bucket) = self.buckets.iter_mut().find(|bucket| bucket.sync == echo) else {
            if let Some(&(_, at)) = self.recycled.iter().find(|(sync, _)| *sync == echo) {
                self.raise_wtimer(now.since(at));
            }
            return false;
        };
        let rtt = now.since(bucket.at);
        bucket.alloc = bucket.alloc.min(answer.alloc);
        bucket.rseq = bucket.rseq.min(answer.rseq);
        bucket.dseq = bucket.dseq.min(answer.dseq);
        bucket.rtt = bucket.rtt.max(rtt);
        bucket.answers += 1;
        bucket.done += u32::from(answer.done);
        self.raise_wtimer(rtt);
        true
    }

    /// Counts a join as an answer to the newest request, so that the bytes granted are kept
    /// (0009, Joining).
    pub(super) fn add_join(&mut self, rseq: u64, alloc: u64) {
        if let Some(newest) = self.buckets.back_mut() {
            newest.rseq = newest.rseq.min(rseq);
            newest.dseq = newest.dseq.min(rseq);
            newest.alloc = newest.alloc.min(alloc);
            newest.answers += 1;
        }
    }

    /// Go-back-n happens with request `sync`: answers to older requests no longer report losses.
    pub(super) fn record_go_back(&mut self, sync: SyncNumber) {
        self.saved_sync = Some(sync);
    }

    fn summary(&self) -> BucketSummary {
        let answered = || self.buckets.iter().filter(|bucket| bucket.answers > 0);
        let fresh = |bucket: &&AnswerBucket| {
            let saved = self.saved_sync;
            saved.is_none_or(|saved| !bucket.sync.is_before(saved))
        };
        BucketSummary {
            alloc: answered().map(|bucket| bucket.alloc).min(),
            rseq: answered().map(|bucket| bucket.rseq).min(),
            dseq: answered().map(|bucket| bucket.dseq).min(),
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

    /// Of a receiver in 4.0.
    fn answer(rseq: u64, alloc: u64) -> BucketAnswer {
        BucketAnswer {
            rseq,
            dseq: rseq,
            alloc,
            done: false,
        }
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
            assert_eq!(ring.open(at(u64::from(sync)), SyncNumber(sync), sent), None);
        }
        assert!(ring.add_answer(at(12), SyncNumber(10), &answer(100, 900)));
        assert!(ring.add_answer(at(29), SyncNumber(20), &answer(200, 800)));
        assert!(ring.add_answer(at(31), SyncNumber(30), &answer(300, 1000)));
        let summary = ring
            .open(at(40), SyncNumber(40), 400)
            .expect("all are in use");
        assert_eq!(summary.rseq, Some(100));
        assert_eq!(summary.alloc, Some(800));
        assert_eq!(summary.rtt, Some(Duration::from_millis(9)));
        assert!(!summary.lossy && !summary.done);
        // The oldest bucket was recycled.
        assert!(!ring.add_answer(at(41), SyncNumber(10), &answer(0, 0)));
        let summary = ring
            .open(at(50), SyncNumber(50), 500)
            .expect("all are in use");
        assert_eq!(summary.rseq, Some(200));
    }

    #[test]
    fn receiver_missing_e_answers_still_counts() {
        let mut ring = ring(1, 2);
        let mut summaries = Vec::new();
        for round in 0..8u32 {
            let sent = u64::from(round) * 100;
            summaries.push(ring.open(at(u64::from(round)), SyncNumber(round), sent));
            // One receiver has all bytes; the other lacks those from 100 on, and one in three of
            // its answers arrives.
            ring.add_answer(at(u64::from(round)), SyncNumber(round), &answer(sent, 1000));
            if round % 3 == 0 {
                ring.add_answer(
                    at(u64::from(round)),
                    SyncNumber(round),
                    &answer(sent.min(100), 1000),
                );
            }
        }
        let acted: Vec<u64> = summaries.iter().flatten().filter_map(|v| v.rseq).collect();
        assert!(acted.iter().all(|rseq| *rseq <= 100), "{acted:?}");
        assert!(summaries.iter().flatten().any(|summary| summary.lossy));
    }

    #[test]
    fn joined_receiver_window_kept_before_first_answer() {
        let mut ring = ring(1, 0);
        ring.open(at(0), SyncNumber(1), 100);
        ring.add_answer(at(1), SyncNumber(1), &answer(100, 5000));
        ring.open(at(2), SyncNumber(2), 200);
        ring.add_join(50, 1050);
        let summary = ring
            .open(at(4), SyncNumber(3), 300)
            .expect("all are in use");
        assert_eq!((summary.rseq, summary.alloc), (Some(50), Some(1050)));
    }

    #[test]
    fn no_answers_give_empty_summary() {
        let mut ring = ring(1, 0);
        ring.open(at(0), SyncNumber(1), 10);
        ring.open(at(1), SyncNumber(2), 20);
        let summary = ring.open(at(2), SyncNumber(3), 30).expect("all are in use");
        assert_eq!(summary, BucketSummary::default());
    }

    #[test]
    fn one_loss_goes_back_once() {
        let mut ring = ring(1, 0);
        ring.open(at(0), SyncNumber(1), 100);
        ring.add_answer(at(1), SyncNumber(1), &answer(40, 1000));
        ring.open(at(2), SyncNumber(2), 200);
        ring.add_answer(at(3), SyncNumber(2), &answer(40, 1000));
        assert!(
            ring.open(at(4), SyncNumber(3), 300)
                .expect("all are in use")
                .lossy
        );
        ring.record_go_back(SyncNumber(3));
        assert!(
            !ring
                .open(at(6), SyncNumber(4), 300)
                .expect("all are in use")
                .lossy
        );
        ring.add_answer(at(7), SyncNumber(4), &answer(40, 1000));
        assert!(
            ring.open(at(8), SyncNumber(5), 300)
                .expect("all are in use")
                .lossy
        );
    }

    #[test]
    fn bytes_are_released_that_all_users_consumed() {
        let mut ring = ring(1, 0);
        ring.open(at(0), SyncNumber(1), 100);
        for dseq in [80, 60] {
            let answer = BucketAnswer {
                dseq,
                ..answer(100, 1000)
            };
            assert!(ring.add_answer(at(1), SyncNumber(1), &answer));
        }
        ring.open(at(2), SyncNumber(2), 100);
        let summary = ring
            .open(at(4), SyncNumber(3), 100)
            .expect("all are in use");
        assert_eq!((summary.rseq, summary.dseq), (Some(100), Some(60)));
        assert!(!summary.lossy);
    }
}
