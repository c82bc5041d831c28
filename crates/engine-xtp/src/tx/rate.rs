//! Rate control: a bucket that is filled at once and empties once a period.

use crate::api::RateLimit;
use core::time::Duration;
use engine::Instant;

#[derive(Clone, Debug)]
pub(crate) struct Bucket {
    limit: RateLimit,
    credit: i64,
    refill: Instant,
}

impl Bucket {
    pub(crate) fn new(limit: RateLimit, now: Instant) -> Bucket {
        Bucket {
            credit: i64::from(limit.burst_bytes.max(1)),
            refill: now + period(limit),
            limit,
        }
    }

    /// Keeps to `limit` from now on.
    pub(crate) fn change(&mut self, limit: RateLimit, now: Instant) {
        if self.limit != limit {
            self.limit = limit;
            self.credit = self.credit.min(i64::from(limit.burst_bytes.max(1)));
            self.refill = self.refill.min(now + period(limit));
        }
    }

    /// Whether a packet may be sent now. A burst shorter than a packet lets one through and goes
    /// into debt.
    pub(crate) fn allows(&mut self, now: Instant) -> bool {
        if now >= self.refill {
            let burst = i64::from(self.limit.burst_bytes.max(1));
            self.credit = burst.min(self.credit.min(0) + burst);
            self.refill = now + period(self.limit);
        }
        self.credit > 0
    }

    pub(crate) fn spend(&mut self, octets: usize) {
        self.credit -= octets as i64;
    }

    pub(crate) fn limit(&self) -> RateLimit {
        self.limit
    }

    pub(crate) fn next_refill(&self) -> Instant {
        self.refill
    }
}

/// Who limits a sender. It keeps to the lowest of the rates and the lowest of the bursts.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct Limits {
    pub(crate) own: Option<RateLimit>,
    pub(crate) peer: Option<RateLimit>,
}

impl Limits {
    /// What all of them allow; None without a limit.
    pub(crate) fn all(&self) -> Option<RateLimit> {
        let limits = [self.own, self.peer].into_iter().flatten();
        limits.reduce(|one, other| RateLimit {
            rate_bytes_per_s: one.rate_bytes_per_s.min(other.rate_bytes_per_s),
            burst_bytes: one.burst_bytes.min(other.burst_bytes),
        })
    }
}

fn period(limit: RateLimit) -> Duration {
    let rate = u64::from(limit.rate_bytes_per_s.max(1));
    Duration::from_nanos((u64::from(limit.burst_bytes.max(1)) * 1_000_000_000).div_ceil(rate))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_second_carries_the_rate_and_not_more() {
        let limit = RateLimit {
            rate_bytes_per_s: 100_000,
            burst_bytes: 1000,
        };
        let mut now = Instant::ZERO;
        let mut bucket = Bucket::new(limit, now);
        let mut sent = 0;
        while now < Instant::from_nanos(1_000_000_000) {
            while bucket.allows(now) {
                bucket.spend(1472);
                sent += 1472;
            }
            now = bucket.next_refill();
        }
        assert!(
            (90_000..=102_000).contains(&sent),
            "{sent} bytes in a second"
        );
    }
}
