//! Loss-based congestion control: slow start and congestion avoidance (RFC 5681), one reduction a
//! recovery episode (RFC 6582).
//!
//! Where it differs from the RFCs:
//!
//! * The initial window has ten segments (RFC 6928).
//! * Slow start adds all bytes that an acknowledgement covers, as RFC 3465 with no limit L.
//! * `ssthresh` after a loss is half of the congestion window, not of FlightSize; RFC 9002 s. 7.3.2 does the
//!   same. A window that the user did not fill is not reduced further.
//! * The window is not inflated during fast recovery. An engine that repairs selectively keeps
//!   sending new data within the window.
//! * After a retransmission timeout the window is two segments, not one, and each further timeout
//!   halves `ssthresh` again.
//! * The window grows whether or not it is filled, and idle time does not reduce it (RFC 5681
//!   s. 4.1).

use crate::sample::{AckSample, LossSample};
use crate::{INITIAL_WINDOW_SEGMENTS, WINDOW_MAX_BYTES};

/// Smallest window after a reduction, in segments (RFC 5681 equation 4).
const SSTHRESH_MIN_SEGMENTS: u64 = 2;

/// The NewReno controller.
#[derive(Clone, Debug)]
pub struct NewReno {
    /// Sender maximum segment size (SMSS).
    smss_bytes: u64,
    cwnd_bytes: u64,
    ssthresh_bytes: u64,
}

impl NewReno {
    /// A controller in slow start for segments of `smss_bytes`.
    pub fn new(smss_bytes: u64) -> NewReno {
        NewReno {
            smss_bytes,
            cwnd_bytes: INITIAL_WINDOW_SEGMENTS * smss_bytes,
            ssthresh_bytes: u64::MAX,
        }
    }

    /// Congestion window (`cwnd`).
    pub fn window_bytes(&self) -> u64 {
        self.cwnd_bytes
    }

    /// Whether the window is below `ssthresh`.
    pub fn in_slow_start(&self) -> bool {
        self.cwnd_bytes < self.ssthresh_bytes
    }

    /// Bytes were acknowledged: they are added in slow start; in congestion avoidance, a window of them
    /// adds a segment.
    pub fn on_ack(&mut self, sample: &AckSample) {
        let grown = if self.in_slow_start() {
            sample.acked_bytes
        } else {
            self.smss_bytes * sample.acked_bytes / self.cwnd_bytes.max(1)
        };
        self.cwnd_bytes = (self.cwnd_bytes + grown).min(WINDOW_MAX_BYTES);
    }

    /// Bytes were lost: the first loss of a recovery episode halves the window.
    pub fn on_loss(&mut self, sample: &LossSample) {
        if sample.starts_recovery {
            self.reduce_to(self.cwnd_bytes / 2);
        }
    }

    /// The retransmission timer expired: slow start again, up to half of the window (RFC 5681
    /// s. 3.1).
    pub fn on_rto(&mut self) {
        self.reduce_to(self.cwnd_bytes / 2);
        self.cwnd_bytes = SSTHRESH_MIN_SEGMENTS * self.smss_bytes;
    }

    /// Ends slow start with a window of `cwnd_bytes`, at least two segments.
    pub(crate) fn reduce_to(&mut self, cwnd_bytes: u64) {
        self.cwnd_bytes = cwnd_bytes.max(SSTHRESH_MIN_SEGMENTS * self.smss_bytes);
        self.ssthresh_bytes = self.cwnd_bytes;
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::RecoveryPoint;

    fn acked(acked_bytes: u64) -> AckSample {
        AckSample {
            acked_bytes,
            delivered_bytes: 0,
            sent_bytes: 0,
            inflight_bytes: 0,
            rtt: None,
        }
    }

    fn lost(starts_recovery: bool) -> LossSample {
        LossSample {
            lost_bytes: 1000,
            starts_recovery,
        }
    }

    #[test]
    fn slow_start_doubles_window_each_round_trip() {
        let mut control = NewReno::new(1000);
        for round in 0..5 {
            assert_eq!(control.window_bytes(), 10_000 << round);
            for _ in 0..control.window_bytes() / 2000 {
                control.on_ack(&acked(2000));
            }
        }
        assert!(control.in_slow_start());
    }

    #[test]
    fn congestion_avoidance_adds_one_segment_each_round_trip() {
        let mut control = NewReno::new(1000);
        control.on_loss(&lost(true));
        assert!(!control.in_slow_start());
        for round in 0..20 {
            let window = control.window_bytes();
            assert_eq!(window, 5000 + 1000 * round);
            control.on_ack(&acked(window));
        }
    }

    #[test]
    fn losses_of_one_recovery_episode_halve_window_once() {
        let mut control = NewReno::new(1000);
        let mut recovery = RecoveryPoint::default();
        control.on_ack(&acked(30_000));
        for lost_end_bytes in [3000, 5000, 40_000] {
            let starts = recovery.on_loss(lost_end_bytes, 40_000);
            control.on_loss(&lost(starts));
        }
        assert_eq!(control.window_bytes(), 20_000);
        let starts = recovery.on_loss(41_000, 60_000);
        control.on_loss(&lost(starts));
        assert_eq!(control.window_bytes(), 10_000);
    }

    #[test]
    fn rto_restarts_slow_start_up_to_half_of_window() {
        let mut control = NewReno::new(1000);
        control.on_ack(&acked(22_000));
        control.on_rto();
        assert_eq!(control.window_bytes(), 2000);
        assert!(control.in_slow_start());
        control.on_ack(&acked(14_000));
        assert_eq!(control.window_bytes(), 16_000);
        assert!(!control.in_slow_start());
    }

    #[test]
    fn window_stays_between_two_segments_and_a_gibibyte() {
        let mut control = NewReno::new(1000);
        for _ in 0..10 {
            control.on_loss(&lost(true));
        }
        assert_eq!(control.window_bytes(), 2000);
        let mut control = NewReno::new(1000);
        control.on_ack(&acked(1 << 40));
        assert_eq!(control.window_bytes(), 1 << 30);
    }
}
