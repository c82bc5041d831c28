//! Congestion control, optional (0011).

use super::bbr::{AckSample, Bbr};
use crate::config::Congestion;
use engine::Instant;

/// The congestion controller of an association.
#[derive(Clone, Debug)]
pub(crate) enum CongestionController {
    Window(WindowController),
    Bbr(Box<Bbr>),
}

/// Slow start and congestion avoidance (RFC 5681).
#[derive(Clone, Debug)]
pub(crate) struct WindowController {
    /// A long RTT reduces the window too.
    reacts_to_delay: bool,
    mss: u64,
    cwnd: u64,
    ssthresh: u64,
}

/// Initial window in packets (RFC 6928).
const INITIAL_CWND_SEGMENTS: u64 = 10;

impl CongestionController {
    /// None when the mode is off.
    pub(crate) fn new(mode: Congestion, mss: u64) -> Option<CongestionController> {
        match mode {
            Congestion::Off => None,
            Congestion::Loss => Some(CongestionController::Window(WindowController::new(
                false, mss,
            ))),
            Congestion::Delay => Some(CongestionController::Window(WindowController::new(
                true, mss,
            ))),
            Congestion::Rate => Some(CongestionController::Bbr(Box::new(Bbr::new(mss)))),
        }
    }

    /// Bytes that may be in flight.
    pub(crate) fn cwnd(&self) -> u64 {
        match self {
            CongestionController::Window(control) => control.cwnd,
            CongestionController::Bbr(control) => control.cwnd(),
        }
    }

    /// Bytes below this may be sent when everything below `acknowledged` is acknowledged.
    pub(crate) fn send_limit(&self, acknowledged: u64) -> u64 {
        match self {
            CongestionController::Window(control) => acknowledged.saturating_add(control.cwnd),
            CongestionController::Bbr(control) => control.send_limit(acknowledged),
        }
    }

    /// Largest distance of two status requests in bytes. BBR needs frequent samples (0011).
    pub(crate) fn status_interval_bytes(&self) -> u64 {
        match self {
            CongestionController::Window(_) => u64::MAX,
            CongestionController::Bbr(control) => control.cwnd() / 8,
        }
    }

    /// Status request `sync` is sent; `app_limited` when the user has nothing more to send.
    pub(crate) fn on_status_request(&mut self, now: Instant, sync: u32, app_limited: bool) {
        if let CongestionController::Bbr(control) = self {
            control.on_status_request(now, sync, app_limited);
        }
    }

    pub(crate) fn on_acknowledged(&mut self, bytes: u64) {
        if let CongestionController::Window(control) = self {
            control.on_acknowledged(bytes);
        }
    }

    /// An RTT was measured; `queued` when it exceeds twice the minimum RTT.
    pub(crate) fn on_rtt_sample(&mut self, queued: bool) {
        if let CongestionController::Window(control) = self
            && control.reacts_to_delay
            && queued
        {
            control.reduce_to(control.cwnd - control.cwnd / 8);
        }
    }

    /// A control packet was received.
    pub(crate) fn on_ack_sample(&mut self, now: Instant, sample: &AckSample) {
        if let CongestionController::Bbr(control) = self {
            control.on_ack_sample(now, sample);
        }
    }

    /// `bytes` were lost.
    pub(crate) fn on_loss(&mut self, bytes: u64) {
        match self {
            CongestionController::Window(control) => control.reduce_to(control.cwnd / 2),
            CongestionController::Bbr(control) => control.on_loss(bytes),
        }
    }

    /// WTIMER expired.
    pub(crate) fn on_wtimer_expired(&mut self) {
        match self {
            CongestionController::Window(control) => {
                // Slow start again, as after a retransmission timeout (RFC 5681 s. 3.1).
                control.reduce_to(control.cwnd / 2);
                control.cwnd = 2 * control.mss;
            }
            CongestionController::Bbr(control) => control.on_wtimer_expired(),
        }
    }

    /// When pacing allows the next packet, if not now.
    #[inline]
    pub(crate) fn blocked_until(
        &mut self,
        now: Instant,
        nothing_in_flight: bool,
    ) -> Option<Instant> {
        match self {
            CongestionController::Window(_) => None,
            CongestionController::Bbr(control) => control.blocked_until(now, nothing_in_flight),
        }
    }

    /// A packet was sent.
    #[inline]
    pub(crate) fn on_packet_sent(&mut self, octets: usize) {
        if let CongestionController::Bbr(control) = self {
            control.on_packet_sent(octets);
        }
    }
}

impl WindowController {
    fn new(reacts_to_delay: bool, mss: u64) -> WindowController {
        WindowController {
            reacts_to_delay,
            mss,
            cwnd: INITIAL_CWND_SEGMENTS * mss,
            ssthresh: u64::MAX,
        }
    }

    fn on_acknowledged(&mut self, bytes: u64) {
        let grown = if self.cwnd < self.ssthresh {
            bytes
        } else {
            self.mss * bytes / self.cwnd.max(1)
        };
        self.cwnd = (self.cwnd + grown).min(CWND_MAX);
    }

    fn reduce_to(&mut self, window: u64) {
        self.cwnd = window.max(2 * self.mss);
        self.ssthresh = self.cwnd;
    }
}

/// Largest window: no path has more than 1 GiB in flight.
const CWND_MAX: u64 = 1 << 30;

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn cwnd_slow_start_then_avoidance_and_halving() {
        let mut control =
            CongestionController::new(Congestion::Loss, 1000).expect("congestion control is on");
        control.on_acknowledged(10_000);
        assert_eq!(control.cwnd(), 20_000);
        control.on_loss(1000);
        assert_eq!(control.cwnd(), 10_000);
        control.on_acknowledged(10_000);
        assert_eq!(control.cwnd(), 11_000);
        control.on_wtimer_expired();
        assert_eq!(control.cwnd(), 2000);
        assert!(CongestionController::new(Congestion::Off, 1000).is_none());
    }
}
