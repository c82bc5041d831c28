//! RTT estimation and WTIMER, after RFC 6298.

use crate::config::Config;
use core::time::Duration;

#[derive(Clone, Debug, Default)]
pub(crate) struct RttEstimator {
    srtt_ns: u64,
    rttvar_ns: u64,
    min_rtt_ns: u64,
}

impl RttEstimator {
    pub(crate) fn sample(&mut self, rtt: Duration) {
        let ns = u64::try_from(rtt.as_nanos())
            .unwrap_or(u64::MAX >> 4)
            .clamp(1, u64::MAX >> 4);
        if self.srtt_ns == 0 {
            self.srtt_ns = ns;
            self.rttvar_ns = ns / 2;
            self.min_rtt_ns = ns;
            return;
        }
        let off = self.srtt_ns.abs_diff(ns);
        self.rttvar_ns = (3 * self.rttvar_ns + off) / 4;
        self.srtt_ns = (7 * self.srtt_ns + ns) / 8;
        self.min_rtt_ns = self.min_rtt_ns.min(ns);
    }

    /// Smoothed RTT (srtt); zero before the first sample.
    pub(crate) fn srtt(&self) -> Duration {
        Duration::from_nanos(self.srtt_ns)
    }

    /// RTT variation (rttvar); zero before the first sample.
    pub(crate) fn rttvar(&self) -> Duration {
        Duration::from_nanos(self.rttvar_ns)
    }

    /// Whether `rtt` exceeds twice the minimum RTT.
    pub(crate) fn is_queue_building(&self, rtt: Duration) -> bool {
        self.min_rtt_ns > 0 && rtt > Duration::from_nanos(2 * self.min_rtt_ns)
    }

    /// WTIMER for the `tries`-th attempt, counted from 0 (0007, WTIMER).
    pub(crate) fn wtimer(&self, config: &Config, tries: u32) -> Duration {
        let base = if self.srtt_ns == 0 {
            config.initial_rtt.map_or(config.wtimer_initial, |rtt| {
                (rtt * 3).max(config.wtimer_min)
            })
        } else {
            Duration::from_nanos(self.srtt_ns + 4 * self.rttvar_ns).max(config.wtimer_min)
        };
        base.saturating_mul(1 << tries.min(16))
            .min(config.wtimer_max)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn wtimer_follows_rtt_within_bounds_and_backs_off() {
        let config = Config::default();
        let mut rtt = RttEstimator::default();
        assert_eq!(rtt.wtimer(&config, 0), config.wtimer_initial);
        rtt.sample(Duration::from_millis(100));
        assert_eq!(rtt.wtimer(&config, 0), Duration::from_millis(300));
        assert_eq!(rtt.wtimer(&config, 1), Duration::from_millis(600));
        assert_eq!(rtt.wtimer(&config, 31), config.wtimer_max);
        for _ in 0..100 {
            rtt.sample(Duration::from_micros(10));
        }
        assert_eq!(rtt.wtimer(&config, 0), config.wtimer_min);
        assert!(rtt.is_queue_building(Duration::from_micros(21)));
    }
}
