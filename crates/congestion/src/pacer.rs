//! Pacing: departure times of packets at a rate (draft-ietf-ccwg-bbr, `C.next_departure_time`).

use core::time::Duration;
use engine::Instant;

/// Burst that pacing allows, which also makes up for late timers.
const BURST: Duration = Duration::from_millis(2);

/// Spaces packets at a pacing rate.
#[derive(Clone, Debug, Default)]
pub struct Pacer {
    next_departure: Instant,
}

impl Pacer {
    /// When the next packet may depart; None for now.
    pub fn blocked_until(&self, now: Instant) -> Option<Instant> {
        (self.next_departure > now + BURST).then_some(self.next_departure)
    }

    /// A packet of `bytes` departed at `now`. A `rate_bytes_per_s` of 0 does not pace.
    pub fn on_sent(&mut self, now: Instant, bytes: u64, rate_bytes_per_s: u64) {
        if rate_bytes_per_s == 0 {
            return;
        }
        let earliest_ns = now.as_nanos().saturating_sub(BURST.as_nanos() as u64);
        let from = self.next_departure.max(Instant::from_nanos(earliest_ns));
        let span_ns = bytes * 1_000_000_000 / rate_bytes_per_s;
        self.next_departure = from + Duration::from_nanos(span_ns);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn pacer_sends_at_its_rate_after_a_burst() {
        let mut pacer = Pacer::default();
        let start = Instant::from_nanos(5_000_000_000);
        let (mut now, mut sent) = (start, 0u64);
        while now.since(start) < Duration::from_secs(1) {
            while pacer.blocked_until(now).is_none() {
                pacer.on_sent(now, 1000, 10_000_000);
                sent += 1000;
            }
            now = now + Duration::from_micros(100);
        }
        // A burst of 2 ms before the start, and one after it.
        assert!((10_000_000..=10_050_000).contains(&sent), "{sent} bytes");
    }

    #[test]
    fn idle_time_earns_no_more_than_a_burst() {
        let mut pacer = Pacer::default();
        let burst_from = |pacer: &mut Pacer, now: Instant| {
            let mut packets = 0;
            while pacer.blocked_until(now).is_none() {
                pacer.on_sent(now, 1000, 1_000_000);
                packets += 1;
            }
            packets
        };
        let early = burst_from(&mut pacer, Instant::from_nanos(10_000_000));
        let late = burst_from(&mut pacer, Instant::from_nanos(60_000_000_000));
        assert_eq!((early, late), (5, 5));
    }

    #[test]
    fn rate_of_zero_does_not_pace() {
        let mut pacer = Pacer::default();
        pacer.on_sent(Instant::ZERO, 1 << 30, 0);
        assert_eq!(pacer.blocked_until(Instant::ZERO), None);
    }
}
