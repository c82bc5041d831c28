//! WTIMER: the retransmission timeout of RFC 6298 within XTP's bounds.

use crate::config::Config;
use congestion::{RtoBounds, RttEstimator};
use core::time::Duration;

/// WTIMER for the `tries`-th attempt, counted from 0 (0007, WTIMER).
pub(crate) fn wtimer(rtt: &RttEstimator, config: &Config, tries: u32) -> Duration {
    let bounds = RtoBounds {
        initial: config.initial_rtt.map_or(config.wtimer_initial, |rtt| {
            (rtt * 3).max(config.wtimer_min)
        }),
        min: config.wtimer_min,
        max: config.wtimer_max,
    };
    rtt.rto(&bounds, tries)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn wtimer_starts_as_configured_then_follows_rtt_within_bounds() {
        let mut config = Config::default();
        let mut rtt = RttEstimator::default();
        assert_eq!(wtimer(&rtt, &config, 0), config.wtimer_initial);
        config.initial_rtt = Some(Duration::from_millis(80));
        assert_eq!(wtimer(&rtt, &config, 0), Duration::from_millis(240));
        config.initial_rtt = Some(Duration::from_micros(1));
        assert_eq!(wtimer(&rtt, &config, 0), config.wtimer_min);
        rtt.sample(Duration::from_millis(100));
        assert_eq!(wtimer(&rtt, &config, 1), Duration::from_millis(600));
        assert_eq!(wtimer(&rtt, &config, 31), config.wtimer_max);
    }
}
