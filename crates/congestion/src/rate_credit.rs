//! Rate control: credit of one burst, refilled once every burst / rate; it does not accumulate.
//!
//! This is the rate control of XTP's traffic specifiers (0007, Traffic specifiers). It enforces a rate that
//! a user or a peer configured, and learns nothing from the path.

use core::time::Duration;
use engine::Instant;

/// A limit on the sending rate.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct RateLimit {
    /// Octets of packets a second, at least 1.
    pub rate_bytes_per_s: u32,
    /// Octets sent at once, then none for `burst / rate` seconds.
    pub burst_bytes: u32,
}

/// Credit under a rate limit.
#[derive(Clone, Debug)]
pub struct RateCredit {
    limit: RateLimit,
    credit_bytes: i64,
    refill_at: Instant,
}

impl RateCredit {
    /// The credit of one burst.
    pub fn new(limit: RateLimit, now: Instant) -> RateCredit {
        RateCredit {
            credit_bytes: i64::from(limit.burst_bytes.max(1)),
            refill_at: now + period(limit),
            limit,
        }
    }

    /// Changes the limit.
    pub fn set_limit(&mut self, limit: RateLimit, now: Instant) {
        if self.limit != limit {
            self.limit = limit;
            self.credit_bytes = self.credit_bytes.min(i64::from(limit.burst_bytes.max(1)));
            self.refill_at = self.refill_at.min(now + period(limit));
        }
    }

    /// Whether a packet may be sent now. With a burst shorter than a packet, credit goes negative.
    pub fn allows(&mut self, now: Instant) -> bool {
        if now >= self.refill_at {
            let burst = i64::from(self.limit.burst_bytes.max(1));
            self.credit_bytes = burst.min(self.credit_bytes.min(0) + burst);
            self.refill_at = now + period(self.limit);
        }
        self.credit_bytes > 0
    }

    /// Charges a packet of `octets`.
    pub fn spend(&mut self, octets: usize) {
        self.credit_bytes -= octets as i64;
    }

    /// The limit in force.
    pub fn limit(&self) -> RateLimit {
        self.limit
    }

    /// When there is credit again.
    pub fn next_refill(&self) -> Instant {
        self.refill_at
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
