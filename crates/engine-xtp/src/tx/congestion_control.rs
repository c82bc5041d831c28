//! Congestion control of an association, optional (0011): what an XTP sender reports to its
//! controller, and how the window limits it.

use crate::config::Congestion;
use congestion::{AckSample, CongestionController, LossSample, PacketState};
use engine::Instant;

/// The congestion controller of an association, with what it needs of XTP.
#[derive(Clone, Debug)]
pub(crate) struct CongestionControl {
    controller: CongestionController,
    /// Bytes in flight are those not delivered; else those not acknowledged.
    counts_delivered: bool,
    /// Bytes that the peer has, spans beyond gaps included.
    delivered: u64,
    /// When a DATA packet was last paced.
    paced_at: Instant,
}

impl CongestionControl {
    /// None when it is off.
    pub(crate) fn new(selected: Congestion, mss: u64) -> Option<Box<CongestionControl>> {
        let controller = CongestionController::new(selected, mss)?;
        Some(Box::new(CongestionControl {
            controller,
            counts_delivered: selected == Congestion::Bbr,
            delivered: 0,
            paced_at: Instant::ZERO,
        }))
    }

    /// Congestion window.
    pub(crate) fn window_bytes(&self) -> u64 {
        self.controller.window_bytes()
    }

    /// Rate at which data are paced; None for a controller of windows alone.
    pub(crate) fn pacing_rate_bytes_per_s(&self) -> Option<u64> {
        self.controller.pacing_rate_bytes_per_s()
    }

    /// Bytes below this may be sent when everything below `acknowledged` is acknowledged. With BBR,
    /// the window counts from what was delivered: acknowledgement stops at the first gap (0011).
    pub(crate) fn send_limit(&self, acknowledged: u64) -> u64 {
        acknowledged
            .max(self.delivered)
            .saturating_add(self.window_bytes())
    }

    /// Largest distance of two status requests in bytes. BBR needs frequent samples (0011).
    pub(crate) fn status_interval_bytes(&self) -> u64 {
        self.controller.sample_interval_bytes().unwrap_or(u64::MAX)
    }

    /// State to keep with a status request made after `sent` bytes; `app_limited` when the user has
    /// nothing more to send.
    pub(crate) fn request_state(&self, now: Instant, sent: u64, app_limited: bool) -> PacketState {
        self.controller.packet_state(now, sent, app_limited)
    }

    /// A control packet acknowledged.
    pub(crate) fn on_ack(&mut self, now: Instant, sample: &AckSample) {
        if self.counts_delivered {
            self.delivered = self.delivered.max(sample.delivered_bytes);
        }
        self.controller.on_ack(now, sample);
    }

    /// `bytes` were released other than by a control packet's rseq: by `dseq`, RCLOSE or NOERR. BBR
    /// measures control packets alone.
    pub(crate) fn on_released(&mut self, now: Instant, bytes: u64) {
        if !self.counts_delivered {
            let sample = AckSample {
                acked_bytes: bytes,
                delivered_bytes: 0,
                sent_bytes: 0,
                inflight_bytes: 0,
                rtt: None,
            };
            self.controller.on_ack(now, &sample);
        }
    }

    /// `bytes` were lost. There is one repair at a time (0007, Repair), and each is a recovery
    /// episode.
    pub(crate) fn on_loss(&mut self, bytes: u64) {
        self.controller.on_loss(&LossSample {
            lost_bytes: bytes,
            starts_recovery: true,
        });
    }

    /// WTIMER expired. Data stop until a request is answered.
    pub(crate) fn on_wtimer_expired(&mut self) {
        self.controller.on_rto();
    }

    /// When pacing allows the next packet, if not now.
    #[inline]
    pub(crate) fn blocked_until(
        &mut self,
        now: Instant,
        nothing_in_flight: bool,
    ) -> Option<Instant> {
        self.paced_at = now;
        if nothing_in_flight {
            self.controller.on_restart_from_idle(now);
        }
        self.controller.blocked_until(now)
    }

    /// A packet with `user_bytes` was sent. Pacing counts what the delivery rate counts: with headers in
    /// the one alone, short packets would be paced below the rate that they are to probe (0011).
    #[inline]
    pub(crate) fn on_packet_sent(&mut self, user_bytes: u64) {
        self.controller.on_sent(self.paced_at, user_bytes);
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use congestion::RttSample;
    use core::time::Duration;

    fn control(selected: Congestion) -> CongestionControl {
        *CongestionControl::new(selected, 1000).expect("congestion control is on")
    }

    fn answered(control: &CongestionControl, acked: u64, delivered: u64) -> AckSample {
        AckSample {
            acked_bytes: acked,
            delivered_bytes: delivered,
            sent_bytes: 10_000,
            inflight_bytes: 10_000 - delivered,
            rtt: Some(RttSample {
                rtt: Duration::from_millis(10),
                packet: control.request_state(Instant::ZERO, 10_000, false),
            }),
        }
    }

    #[test]
    fn window_counts_from_acknowledged_bytes_and_with_bbr_from_delivered_bytes() {
        let now = Instant::from_nanos(10_000_000);
        for (selected, base) in [(Congestion::NewReno, 1000), (Congestion::Bbr, 8000)] {
            let mut control = control(selected);
            assert_eq!(control.send_limit(0), 10_000, "{selected:?}");
            let sample = answered(&control, 1000, 8000);
            control.on_ack(now, &sample);
            let limit = base + control.window_bytes();
            assert_eq!(control.send_limit(1000), limit, "{selected:?}");
        }
    }

    #[test]
    fn released_bytes_grow_window_of_new_reno_only() {
        for (selected, grown) in [(Congestion::NewReno, 3000), (Congestion::Bbr, 0)] {
            let mut control = control(selected);
            control.on_released(Instant::ZERO, 3000);
            assert_eq!(control.window_bytes(), 10_000 + grown, "{selected:?}");
        }
        assert!(CongestionControl::new(Congestion::Off, 1000).is_none());
    }

    #[test]
    fn only_bbr_asks_for_frequent_status_requests() {
        let every = |selected| control(selected).status_interval_bytes();
        assert_eq!(every(Congestion::NewReno), u64::MAX);
        assert_eq!(every(Congestion::Ledbat), u64::MAX);
        assert_eq!(every(Congestion::Bbr), 1250);
    }
}
