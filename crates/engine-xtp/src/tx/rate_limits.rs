//! Rate limits of both sides (0007, Traffic specifiers).

use crate::config::RateLimit;

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

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn effective_limit_has_lower_rate_and_lower_burst_of_both_sides() {
        let limit = |rate_bytes_per_s, burst_bytes| RateLimit {
            rate_bytes_per_s,
            burst_bytes,
        };
        let mut limits = RateLimits::default();
        assert_eq!(limits.effective(), None);
        limits.own = Some(limit(1000, 30));
        assert_eq!(limits.effective(), limits.own);
        limits.peer = Some(limit(2000, 20));
        assert_eq!(limits.effective(), Some(limit(1000, 20)));
    }
}
