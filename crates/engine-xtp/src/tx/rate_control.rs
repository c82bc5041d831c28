//! Rate control: credit of one burst, refilled once every burst / rate; it does not accumulate
//! (0007, Traffic specifiers).

use crate::config::RateLimit;
use core::time::Duration;
use engine::Instant;

#[derive(Clone, Debug)]
pub(crate) struct RateCredit {
    limit: RateLimit,
    credit: i64,
    refill_at: Instant,
}

impl RateCredit {
    pub(crate) fn new(limit: RateLimit, now: Instant) -> RateCredit {
        RateCredit {
            credit: i64::from(limit.burst_bytes.max(1)),
            refill_at: now + period(limit),
            limit,
        }
    }

    /// Changes the limit.
    pub(crate) fn set_limit(&mut self, limit: RateLimit, now: Instant) {
        if self.limit != limit {
            self.limit = limit;
            self.credit = self.credit.min(i64::from(limit.burst_bytes.max(1)));
            self.refill_at = self.refill_at.min(now + period(limit));
        }
    }

    /// Whether a packet may be sent now. With a burst shorter than a packet, credit goes negative.
    pub(crate) fn allows(&mut self, now: Instant) -> bool {
        if now >= self.refill_at {
            let burst = i64::from(self.limit.burst_bytes.max(1));
            self.credit = burst.min(self.credit.min(0) + burst);
            self.refill_at = now + period(self.limit);
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
        self.refill_at
    }
}

/// Limits of both sides. The lower rate and the lower burst apply.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct RateLimits {
    pub(crate) own: Option<RateLimit>,
    pub(crate) peer: Option<RateLimit>,
}

impl RateLimits {
    /// The limit in force; None without a limit.
    pub(crate) fn effective(&self) -> Option<RateLimit> {
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
    fn rate_credit_limits_average_rate() {
        let limit = RateLimit {
            rate_bytes_per_s: 100_000,
            burst_bytes: 1000,
        };
        let mut now = Instant::ZERO;
        let mut credit = RateCredit::new(limit, now);
        let mut sent = 0;
        while now < Instant::from_nanos(1_000_000_000) {
            while credit.allows(now) {
                credit.spend(1472);
                sent += 1472;
            }
            now = credit.next_refill();
        }
        assert!(
            (90_000..=102_000).contains(&sent),
            "{sent} bytes in a second"
        );
    }
}
