//! Delay-based congestion control, of the kind of LEDBAT (RFC 6817): NewReno that also reacts to
//! queueing delay.
//!
//! What it has of RFC 6817: a base delay, the minimum of what was measured; queueing delay as what
//! a sample exceeds it by; a target above which the window shrinks, before packets are lost; half
//! the window after a loss.
//!
//! What it has not, so that it is no LEDBAT in the words of the RFC:
//!
//! * Delay is the round-trip time, not the one-way delay: a queue on the way back counts.
//! * The target is the base delay itself (the RTT doubles), not a constant of at most 100 ms.
//! * Above the target a sample takes an eighth of the window, whatever the distance; there is no
//!   `GAIN * off_target`.
//! * Below the target the window grows as NewReno's: slow start, then a segment each round trip.
//! * The base delay has no history (BASE_HISTORY) and never rises: on a path that became longer, the
//!   window stays small.
//! * Samples are not filtered (CURRENT_FILTER).

use crate::new_reno::NewReno;
use crate::sample::{AckSample, LossSample};
use core::time::Duration;

/// Above the target, a sample takes one part in this many of the window.
const REDUCTION_DIVISOR: u64 = 8;

/// The LEDBAT-like controller.
#[derive(Clone, Debug)]
pub struct Ledbat {
    window: NewReno,
    /// Minimum RTT; None before the first sample.
    base_delay: Option<Duration>,
}

impl Ledbat {
    /// A controller in slow start for segments of `smss_bytes`.
    pub fn new(smss_bytes: u64) -> Ledbat {
        Ledbat {
            window: NewReno::new(smss_bytes),
            base_delay: None,
        }
    }

    /// Congestion window (`cwnd`).
    pub fn window_bytes(&self) -> u64 {
        self.window.window_bytes()
    }

    /// Bytes were acknowledged: the window shrinks if the RTT sample shows a queue, then grows as
    /// NewReno's.
    pub fn on_ack(&mut self, sample: &AckSample) {
        if let Some(sample) = &sample.rtt {
            self.on_delay(sample.rtt);
        }
        self.window.on_ack(sample);
    }

    fn on_delay(&mut self, delay: Duration) {
        let delay = delay.max(Duration::from_nanos(1));
        let base_delay = *self.base_delay.get_or_insert(delay);
        let target = base_delay;
        if delay.saturating_sub(base_delay) > target {
            let window = self.window.window_bytes();
            self.window.reduce_to(window - window / REDUCTION_DIVISOR);
        }
        self.base_delay = Some(base_delay.min(delay));
    }

    /// Bytes were lost: as NewReno.
    pub fn on_loss(&mut self, sample: &LossSample) {
        self.window.on_loss(sample);
    }

    /// The retransmission timer expired: as NewReno.
    pub fn on_rto(&mut self) {
        self.window.on_rto();
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::sample::{PacketState, RttSample};

    fn after(delays_ms: &[u64]) -> Ledbat {
        let mut control = Ledbat::new(1000);
        for &ms in delays_ms {
            control.on_ack(&AckSample {
                acked_bytes: 0,
                delivered_bytes: 0,
                sent_bytes: 0,
                inflight_bytes: 0,
                rtt: Some(RttSample {
                    rtt: Duration::from_millis(ms),
                    packet: PacketState::default(),
                }),
            });
        }
        control
    }

    #[test]
    fn delay_up_to_twice_base_delay_keeps_window() {
        assert_eq!(after(&[20, 40, 39, 20]).window_bytes(), 10_000);
        assert!(after(&[20, 40]).window.in_slow_start());
    }

    #[test]
    fn delay_above_twice_base_delay_takes_an_eighth_and_ends_slow_start() {
        let control = after(&[20, 41]);
        assert_eq!(control.window_bytes(), 8750);
        assert!(!control.window.in_slow_start());
        assert_eq!(after(&[20; 9]).window_bytes(), 10_000);
        assert_eq!(after(&[20, 41, 41]).window_bytes(), 8750 - 1093);
    }

    #[test]
    fn base_delay_is_minimum_of_samples() {
        let control = after(&[30, 50, 20, 45]);
        assert_eq!(control.base_delay, Some(Duration::from_millis(20)));
        assert_eq!(control.window_bytes(), 8750);
    }

    #[test]
    fn loss_halves_and_rto_restarts_as_new_reno() {
        let mut control = after(&[20]);
        control.on_loss(&LossSample {
            lost_bytes: 1000,
            starts_recovery: true,
        });
        assert_eq!(control.window_bytes(), 5000);
        control.on_rto();
        assert_eq!(control.window_bytes(), 2000);
    }
}
