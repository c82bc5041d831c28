//! Smoothed RTT and retransmission timeout (RFC 6298).

use core::time::Duration;

/// RTT estimate of a path: SRTT and RTTVAR.
#[derive(Clone, Debug, Default)]
pub struct RttEstimator {
    srtt_ns: u64,
    rttvar_ns: u64,
}

/// Bounds of the retransmission timeout.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct RtoBounds {
    /// RTO before the first sample.
    pub initial: Duration,
    /// Smallest RTO after a sample. It includes the clock granularity G of RFC 6298.
    pub min: Duration,
    /// Largest RTO, backoff included.
    pub max: Duration,
}

/// The RTO is doubled at most this often: 2^16 times a millisecond is a minute.
const BACKOFFS_MAX: u32 = 16;

impl RttEstimator {
    /// Adds a sample. It must not be of a retransmitted packet, unless the acknowledgement says
    /// which transmission it answers (Karn's algorithm).
    pub fn sample(&mut self, rtt: Duration) {
        let ns = u64::try_from(rtt.as_nanos())
            .unwrap_or(u64::MAX >> 4)
            .clamp(1, u64::MAX >> 4);
        if self.srtt_ns == 0 {
            self.srtt_ns = ns;
            self.rttvar_ns = ns / 2;
            return;
        }
        let deviation_ns = self.srtt_ns.abs_diff(ns);
        self.rttvar_ns = (3 * self.rttvar_ns + deviation_ns) / 4;
        self.srtt_ns = (7 * self.srtt_ns + ns) / 8;
    }

    /// Smoothed RTT (SRTT); zero before the first sample.
    pub fn srtt(&self) -> Duration {
        Duration::from_nanos(self.srtt_ns)
    }

    /// RTT variation (RTTVAR); zero before the first sample.
    pub fn rttvar(&self) -> Duration {
        Duration::from_nanos(self.rttvar_ns)
    }

    /// Retransmission timeout after `backoffs` expirations in a row.
    pub fn rto(&self, bounds: &RtoBounds, backoffs: u32) -> Duration {
        let base = if self.srtt_ns == 0 {
            bounds.initial
        } else {
            Duration::from_nanos(self.srtt_ns + 4 * self.rttvar_ns).max(bounds.min)
        };
        let backed_off = match backoffs {
            0 => base,
            _ => base.saturating_mul(1 << backoffs.min(BACKOFFS_MAX)),
        };
        backed_off.min(bounds.max)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const BOUNDS: RtoBounds = RtoBounds {
        initial: Duration::from_millis(500),
        min: Duration::from_millis(20),
        max: Duration::from_secs(10),
    };

    #[test]
    fn rto_follows_rtt_within_bounds_and_backs_off() {
        let mut rtt = RttEstimator::default();
        assert_eq!(rtt.rto(&BOUNDS, 0), BOUNDS.initial);
        rtt.sample(Duration::from_millis(100));
        assert_eq!(rtt.rto(&BOUNDS, 0), Duration::from_millis(300));
        assert_eq!(rtt.rto(&BOUNDS, 1), Duration::from_millis(600));
        assert_eq!(rtt.rto(&BOUNDS, 31), BOUNDS.max);
        for _ in 0..100 {
            rtt.sample(Duration::from_micros(10));
        }
        assert_eq!(rtt.rto(&BOUNDS, 0), BOUNDS.min);
    }

    #[test]
    fn samples_are_weighted_an_eighth_and_deviations_a_quarter() {
        let mut rtt = RttEstimator::default();
        rtt.sample(Duration::from_millis(80));
        rtt.sample(Duration::from_millis(160));
        assert_eq!(rtt.srtt(), Duration::from_millis(90));
        assert_eq!(rtt.rttvar(), Duration::from_millis(50));
    }
}
