//! Round-trip time and the WTIMER made from it, after RFC 6298.

use crate::api::Config;
use core::time::Duration;

#[derive(Clone, Debug, Default)]
pub(crate) struct RoundTrip {
    smooth_ns: u64,
    variation_ns: u64,
    shortest_ns: u64,
}

impl RoundTrip {
    pub(crate) fn sample(&mut self, rtt: Duration) {
        let ns = u64::try_from(rtt.as_nanos())
            .unwrap_or(u64::MAX >> 4)
            .clamp(1, u64::MAX >> 4);
        if self.smooth_ns == 0 {
            self.smooth_ns = ns;
            self.variation_ns = ns / 2;
            self.shortest_ns = ns;
            return;
        }
        let off = self.smooth_ns.abs_diff(ns);
        self.variation_ns = (3 * self.variation_ns + off) / 4;
        self.smooth_ns = (7 * self.smooth_ns + ns) / 8;
        self.shortest_ns = self.shortest_ns.min(ns);
    }

    /// The smoothed round-trip time; zero before the first sample.
    pub(crate) fn smooth(&self) -> Duration {
        Duration::from_nanos(self.smooth_ns)
    }

    /// How much round trips vary; zero before the first sample.
    pub(crate) fn variation(&self) -> Duration {
        Duration::from_nanos(self.variation_ns)
    }

    /// Whether `rtt` is more than twice the shortest one seen.
    pub(crate) fn is_queued(&self, rtt: Duration) -> bool {
        self.shortest_ns > 0 && rtt > Duration::from_nanos(2 * self.shortest_ns)
    }

    /// WTIMER for the `tries`-th attempt, counted from 0.
    pub(crate) fn wait(&self, config: &Config, tries: u32) -> Duration {
        let base = if self.smooth_ns == 0 {
            config
                .rtt
                .map_or(config.wait_initial, |rtt| (rtt * 3).max(config.wait_min))
        } else {
            Duration::from_nanos(self.smooth_ns + 4 * self.variation_ns).max(config.wait_min)
        };
        base.saturating_mul(1 << tries.min(16)).min(config.wait_max)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_timer_follows_the_samples_within_its_bounds_and_doubles() {
        let config = Config::default();
        let mut rtt = RoundTrip::default();
        assert_eq!(rtt.wait(&config, 0), config.wait_initial);
        rtt.sample(Duration::from_millis(100));
        assert_eq!(rtt.wait(&config, 0), Duration::from_millis(300));
        assert_eq!(rtt.wait(&config, 1), Duration::from_millis(600));
        assert_eq!(rtt.wait(&config, 31), config.wait_max);
        for _ in 0..100 {
            rtt.sample(Duration::from_micros(10));
        }
        assert_eq!(rtt.wait(&config, 0), config.wait_min);
        assert!(rtt.is_queued(Duration::from_micros(21)));
    }
}
