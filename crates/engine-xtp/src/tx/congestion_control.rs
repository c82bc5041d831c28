//! An optional congestion controller, so that XTP can share a path.

use super::bbr::{AckSample, Bbr};
use crate::config::Congestion;
use engine::Instant;

/// One of the kinds there are.
#[derive(Clone, Debug)]
pub(crate) enum CongestionController {
    Window(WindowController),
    Bbr(Box<Bbr>),
}

/// A window that grows until something happens.
#[derive(Clone, Debug)]
pub(crate) struct WindowController {
    /// A long round trip is something too.
    reacts_to_delay: bool,
    mss: u64,
    cwnd: u64,
    ssthresh: u64,
}

/// Packets in the first window, as RFC 6928 has it.
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

    /// One beyond the last byte that may be sent when everything below `acknowledged` was.
    pub(crate) fn send_limit(&self, acknowledged: u64) -> u64 {
        match self {
            CongestionController::Window(control) => acknowledged.saturating_add(control.cwnd),
            CongestionController::Bbr(control) => control.send_limit(acknowledged),
        }
    }

    /// Bytes between two status requests at most: whoever measures wants reports.
    pub(crate) fn status_interval_bytes(&self) -> u64 {
        match self {
            CongestionController::Window(_) => u64::MAX,
            CongestionController::Bbr(control) => control.cwnd() / 8,
        }
    }

    /// The request `sync` is sent; `idle` when the user has nothing more to send.
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

    /// A round trip was measured; `queued` when much of it was spent in queues.
    pub(crate) fn on_rtt_sample(&mut self, queued: bool) {
        if let CongestionController::Window(control) = self
            && control.reacts_to_delay
            && queued
        {
            control.reduce_to(control.cwnd - control.cwnd / 8);
        }
    }

    /// A report came.
    pub(crate) fn on_ack_sample(&mut self, now: Instant, sample: &AckSample) {
        if let CongestionController::Bbr(control) = self {
            control.on_ack_sample(now, sample);
        }
    }

    /// `bytes` are to be sent again.
    pub(crate) fn on_loss(&mut self, bytes: u64) {
        match self {
            CongestionController::Window(control) => control.reduce_to(control.cwnd / 2),
            CongestionController::Bbr(control) => control.on_loss(bytes),
        }
    }

    /// A request was not answered.
    pub(crate) fn on_wtimer_expired(&mut self) {
        match self {
            CongestionController::Window(control) => {
                // Begins anew.
                control.reduce_to(control.cwnd / 2);
                control.cwnd = 2 * control.mss;
            }
            CongestionController::Bbr(control) => control.on_wtimer_expired(),
        }
    }

    /// When a packet may be sent, if not now; `alone` when nothing is on the way.
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

/// No path has more than 1 GiB in flight.
const CWND_MAX: u64 = 1 << 30;

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn cwnd_slow_start_then_avoidance_and_halving() {
        let mut control = CongestionController::new(Congestion::Loss, 1000).expect("it is on");
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
