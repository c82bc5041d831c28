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

/// Refills a second at most of a limit that a peer or a router set: below 100 us a timer costs more than
/// what it lets through.
const REFILLS_PER_S_MAX: u32 = 10_000;

/// `limit` with a burst of at least a packet and of 100 us: a peer, or a router, may slow this side
/// down and not keep it busy (0021).
pub(crate) fn with_floor(limit: RateLimit, packet_len: usize) -> RateLimit {
    let packet = u32::try_from(packet_len).unwrap_or(u32::MAX);
    let refill = limit.rate_bytes_per_s / REFILLS_PER_S_MAX;
    RateLimit {
        burst_bytes: limit.burst_bytes.max(packet).max(refill),
        ..limit
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn floor_gives_a_packet_a_burst_and_100_us_a_refill() {
        let limit = |rate_bytes_per_s, burst_bytes| RateLimit {
            rate_bytes_per_s,
            burst_bytes,
        };
        assert_eq!(
            with_floor(limit(4_000_000_000, 1), 1472),
            limit(4_000_000_000, 400_000)
        );
        assert_eq!(with_floor(limit(1000, 1), 1472), limit(1000, 1472));
        assert_eq!(with_floor(limit(1000, 9000), 1472), limit(1000, 9000));
    }

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
