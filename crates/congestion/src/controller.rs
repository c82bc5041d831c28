//! What an engine calls: one controller for each path of an association.
//!
//! For each packet that counts for congestion control, in this order:
//!
//! 1. [`blocked_until`](CongestionController::blocked_until), and whether the bytes in flight are
//!    below [`window_bytes`](CongestionController::window_bytes);
//! 2. [`on_restart_from_idle`](CongestionController::on_restart_from_idle) if nothing is in flight;
//! 3. [`packet_state`](CongestionController::packet_state), kept until the packet is acknowledged, if
//!    its acknowledgement gives an RTT sample;
//! 4. [`on_sent`](CongestionController::on_sent).
//!
//! For each packet of the peer that acknowledges: [`on_ack`](CongestionController::on_ack), then
//! [`on_loss`](CongestionController::on_loss) if it shows a loss. When the retransmission timer expires:
//! [`on_rto`](CongestionController::on_rto).

use crate::sample::{AckSample, LossSample, PacketState};
use crate::{Bbr, Congestion, Ledbat, NewReno};
use engine::Instant;

/// A congestion controller.
#[derive(Clone, Debug)]
pub enum CongestionController {
    /// Loss-based.
    NewReno(NewReno),
    /// Delay-based and loss-based.
    Ledbat(Ledbat),
    /// Model-based.
    Bbr(Box<Bbr>),
}

impl CongestionController {
    /// The controller of a new path with segments of `smss_bytes`; None with
    /// [`Congestion::Off`].
    pub fn new(selected: Congestion, smss_bytes: u64) -> Option<CongestionController> {
        match selected {
            Congestion::Off => None,
            Congestion::NewReno => Some(CongestionController::NewReno(NewReno::new(smss_bytes))),
            Congestion::Ledbat => Some(CongestionController::Ledbat(Ledbat::new(smss_bytes))),
            Congestion::Bbr => Some(CongestionController::Bbr(Box::new(Bbr::new(smss_bytes)))),
        }
    }

    /// Congestion window: bytes that may be in flight.
    pub fn window_bytes(&self) -> u64 {
        match self {
            CongestionController::NewReno(control) => control.window_bytes(),
            CongestionController::Ledbat(control) => control.window_bytes(),
            CongestionController::Bbr(control) => control.window_bytes(),
        }
    }

    /// Pacing rate in bytes a second; None if packets are not paced.
    pub fn pacing_rate_bytes_per_s(&self) -> Option<u64> {
        match self {
            CongestionController::NewReno(_) | CongestionController::Ledbat(_) => None,
            CongestionController::Bbr(control) => control.pacing_rate_bytes_per_s(),
        }
    }

    /// Largest distance of two RTT samples in bytes sent that the controller works with; None if any
    /// will do. An engine that asks for acknowledgements asks this often.
    pub fn sample_interval_bytes(&self) -> Option<u64> {
        match self {
            CongestionController::NewReno(_) | CongestionController::Ledbat(_) => None,
            CongestionController::Bbr(control) => Some(control.sample_interval_bytes()),
        }
    }

    /// When pacing allows the next packet; None for now.
    #[inline]
    pub fn blocked_until(&self, now: Instant) -> Option<Instant> {
        match self {
            CongestionController::NewReno(_) | CongestionController::Ledbat(_) => None,
            CongestionController::Bbr(control) => control.blocked_until(now),
        }
    }

    /// A packet is about to be sent, and nothing is in flight.
    #[inline]
    pub fn on_restart_from_idle(&mut self, now: Instant) {
        if let CongestionController::Bbr(control) = self {
            control.on_restart_from_idle(now);
        }
    }

    /// State to keep with a packet that brings the bytes sent to `sent_bytes`; `app_limited` when
    /// the user has nothing more to send.
    pub fn packet_state(&self, now: Instant, sent_bytes: u64, app_limited: bool) -> PacketState {
        match self {
            CongestionController::NewReno(_) | CongestionController::Ledbat(_) => PacketState {
                sent_bytes,
                delivered_bytes: 0,
                delivered_at: now,
                app_limited,
            },
            CongestionController::Bbr(control) => {
                control.packet_state(now, sent_bytes, app_limited)
            }
        }
    }

    /// A packet of `bytes` was sent.
    #[inline]
    pub fn on_sent(&mut self, now: Instant, bytes: u64) {
        if let CongestionController::Bbr(control) = self {
            control.on_sent(now, bytes);
        }
    }

    /// A packet of the peer acknowledged.
    pub fn on_ack(&mut self, now: Instant, sample: &AckSample) {
        match self {
            CongestionController::NewReno(control) => control.on_ack(sample),
            CongestionController::Ledbat(control) => control.on_ack(sample),
            CongestionController::Bbr(control) => control.on_ack(now, sample),
        }
    }

    /// Bytes were found lost.
    pub fn on_loss(&mut self, sample: &LossSample) {
        match self {
            CongestionController::NewReno(control) => control.on_loss(sample),
            CongestionController::Ledbat(control) => control.on_loss(sample),
            CongestionController::Bbr(control) => control.on_loss(sample),
        }
    }

    /// The retransmission timer expired.
    pub fn on_rto(&mut self) {
        match self {
            CongestionController::NewReno(control) => control.on_rto(),
            CongestionController::Ledbat(control) => control.on_rto(),
            CongestionController::Bbr(control) => control.on_rto(),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_choice_but_off_starts_with_ten_segments() {
        assert!(CongestionController::new(Congestion::Off, 1000).is_none());
        for selected in [Congestion::NewReno, Congestion::Ledbat, Congestion::Bbr] {
            let control = CongestionController::new(selected, 1000).expect("a controller");
            assert_eq!(control.window_bytes(), 10_000, "{selected:?}");
            assert_eq!(control.pacing_rate_bytes_per_s(), None);
        }
    }

    #[test]
    fn window_controllers_do_not_pace() {
        for selected in [Congestion::NewReno, Congestion::Ledbat] {
            let mut control = CongestionController::new(selected, 1000).expect("a controller");
            control.on_sent(Instant::ZERO, 1 << 30);
            assert_eq!(control.blocked_until(Instant::ZERO), None);
            assert_eq!(control.sample_interval_bytes(), None);
        }
    }
}
