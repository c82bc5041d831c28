//! Congestion control of a path: that of RFC 9260 section 7.2, or one of crate `congestion`.

use crate::config::{CongestionChoice, SctpConfig};
use congestion::{AckSample, Congestion, CongestionController, LossSample, PacketState};
use engine::Instant;

/// The congestion control of a path. Octets are those of DATA chunks with header and padding.
#[derive(Clone, Debug)]
pub(crate) enum PathControl {
    /// RFC 9260.
    Rfc9260(Rfc9260),
    /// Another controller.
    Other(CongestionController),
    /// None: only the peer's window limits the sender.
    Off,
}

/// What an acknowledgement means for a path.
#[derive(Clone, Copy, Debug)]
pub(crate) struct PathAck {
    /// Octets newly acknowledged, beyond gaps too.
    pub(crate) acked: u64,
    /// Octets in flight before.
    pub(crate) flight_before: u64,
    /// The cumulative TSN grew.
    pub(crate) advances: bool,
    /// The association is in fast recovery.
    pub(crate) in_recovery: bool,
    /// Nothing is outstanding any more.
    pub(crate) all_acked: bool,
}

impl PathControl {
    pub(crate) fn new(config: &SctpConfig) -> PathControl {
        let pmdcs = config.pmdcs() as u64;
        match config.congestion {
            CongestionChoice::Rfc9260 => {
                PathControl::Rfc9260(Rfc9260::new(pmdcs, config.initial_window_packets))
            }
            CongestionChoice::Other(Congestion::Off) => PathControl::Off,
            CongestionChoice::Other(other) => match CongestionController::new(other, pmdcs) {
                Some(controller) => PathControl::Other(controller),
                None => PathControl::Off,
            },
        }
    }

    /// Octets of chunks in a full packet are `pmdcs` now. Controllers besides the RFC's keep those that they
    /// began with.
    pub(crate) fn set_pmdcs(&mut self, pmdcs: u64) {
        if let PathControl::Rfc9260(control) = self {
            control.pmdcs = pmdcs;
        }
    }

    /// Octets that may be in flight.
    pub(crate) fn window(&self) -> u64 {
        match self {
            PathControl::Rfc9260(control) => control.cwnd,
            PathControl::Other(control) => control.window_bytes(),
            PathControl::Off => u64::MAX,
        }
    }

    /// When pacing allows the next packet; None for now.
    pub(crate) fn blocked_until(&self, now: Instant) -> Option<Instant> {
        match self {
            PathControl::Other(control) => control.blocked_until(now).filter(|at| *at > now),
            PathControl::Rfc9260(_) | PathControl::Off => None,
        }
    }

    /// Whether it needs to hear of its packets as they arrive: a rate is measured by acknowledgements.
    pub(crate) fn measures(&self) -> bool {
        matches!(self, PathControl::Other(_))
    }

    /// `octets` of chunks are sent; nothing was in flight if `from_idle`.
    pub(crate) fn on_sent(&mut self, now: Instant, octets: u64, from_idle: bool) {
        if let PathControl::Other(control) = self {
            if from_idle {
                control.on_restart_from_idle(now);
            }
            control.on_sent(now, octets);
        }
    }

    /// State to keep with a packet whose acknowledgement gives an RTT sample.
    pub(crate) fn packet_state(&self, now: Instant, sent: u64, app_limited: bool) -> PacketState {
        match self {
            PathControl::Other(control) => control.packet_state(now, sent, app_limited),
            PathControl::Rfc9260(_) | PathControl::Off => PacketState::default(),
        }
    }

    pub(crate) fn on_ack(&mut self, now: Instant, ack: &PathAck, sample: &AckSample) {
        match self {
            PathControl::Rfc9260(control) => control.on_ack(ack),
            PathControl::Other(control) => control.on_ack(now, sample),
            PathControl::Off => {}
        }
    }

    /// Octets were found lost by reports of gaps; `starts_recovery` once a recovery.
    pub(crate) fn on_loss(&mut self, lost: u64, starts_recovery: bool) {
        match self {
            PathControl::Rfc9260(control) if starts_recovery => control.on_loss(),
            PathControl::Other(control) => control.on_loss(&LossSample {
                lost_bytes: lost,
                starts_recovery,
            }),
            PathControl::Rfc9260(_) | PathControl::Off => {}
        }
    }

    pub(crate) fn on_rto(&mut self) {
        match self {
            PathControl::Rfc9260(control) => control.on_rto(),
            PathControl::Other(control) => control.on_rto(),
            PathControl::Off => {}
        }
    }

    /// Nothing was sent for `rtos` timeouts (RFC 9260 section 7.2.1).
    pub(crate) fn on_idle(&mut self, rtos: u64) {
        if let PathControl::Rfc9260(control) = self {
            control.on_idle(rtos);
        }
    }
}

/// Slow start and congestion avoidance of RFC 9260 section 7.2.
#[derive(Clone, Debug)]
pub(crate) struct Rfc9260 {
    cwnd: u64,
    ssthresh: u64,
    /// Octets acknowledged in congestion avoidance since the window last grew.
    partial_bytes_acked: u64,
    pmdcs: u64,
}

/// Three full packets over IPv4 (RFC 9260 section 7.2.1).
const INITIAL_OCTETS: u64 = 4404;

/// No path has more than 1 GiB in flight.
const WINDOW_MAX: u64 = 1 << 30;

impl Rfc9260 {
    pub(crate) fn new(pmdcs: u64, initial_packets: Option<u32>) -> Rfc9260 {
        let of_rfc = (4 * pmdcs).min((2 * pmdcs).max(INITIAL_OCTETS));
        Rfc9260 {
            cwnd: initial_packets.map_or(of_rfc, |packets| u64::from(packets.max(1)) * pmdcs),
            ssthresh: WINDOW_MAX,
            partial_bytes_acked: 0,
            pmdcs,
        }
    }

    /// Section 7.2.1 and 7.2.2. The window grows only when all of it was in use before; in slow start
    /// only if the cumulative TSN grew.
    fn on_ack(&mut self, ack: &PathAck) {
        let was_full = ack.flight_before >= self.cwnd;
        if self.cwnd <= self.ssthresh {
            if was_full && ack.advances && !ack.in_recovery {
                self.cwnd = (self.cwnd + ack.acked.min(self.pmdcs)).min(WINDOW_MAX);
            }
        } else {
            self.partial_bytes_acked += ack.acked;
            if self.partial_bytes_acked >= self.cwnd {
                if was_full {
                    self.partial_bytes_acked -= self.cwnd;
                    self.cwnd = (self.cwnd + self.pmdcs).min(WINDOW_MAX);
                } else {
                    self.partial_bytes_acked = self.cwnd;
                }
            }
        }
        if ack.all_acked {
            self.partial_bytes_acked = 0;
        }
    }

    /// Section 7.2.3: a loss shown by gaps.
    fn on_loss(&mut self) {
        self.ssthresh = (self.cwnd / 2).max(4 * self.pmdcs);
        self.cwnd = self.ssthresh;
        self.partial_bytes_acked = 0;
    }

    /// Section 7.2.3: T3-rtx expired.
    fn on_rto(&mut self) {
        self.ssthresh = (self.cwnd / 2).max(4 * self.pmdcs);
        self.cwnd = self.pmdcs;
        self.partial_bytes_acked = 0;
    }

    fn on_idle(&mut self, rtos: u64) {
        if rtos > 0 {
            self.ssthresh = self.cwnd.max(self.ssthresh.min(WINDOW_MAX));
            let shift = rtos.min(30) as u32;
            self.cwnd = (self.cwnd >> shift).max((4 * self.pmdcs).min(self.cwnd));
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn ack(acked: u64, flight_before: u64) -> PathAck {
        PathAck {
            acked,
            flight_before,
            advances: true,
            in_recovery: false,
            all_acked: false,
        }
    }

    #[test]
    fn initial_window_is_that_of_the_rfc() {
        for (pmdcs, cwnd) in [(1468, 4404), (1448, 4404), (500, 2000), (4000, 8000)] {
            assert_eq!(Rfc9260::new(pmdcs, None).cwnd, cwnd, "{pmdcs}");
        }
    }

    #[test]
    fn slow_start_grows_by_a_packet_an_acknowledgement_if_the_window_was_full() {
        let mut control = Rfc9260::new(1000, None);
        control.on_ack(&ack(2000, 4000));
        assert_eq!(control.cwnd, 5000, "at most a packet");
        control.on_ack(&ack(300, 5000));
        assert_eq!(control.cwnd, 5300);
        control.on_ack(&ack(2000, 5299));
        assert_eq!(control.cwnd, 5300, "the window was not full");
        control.on_ack(&PathAck {
            in_recovery: true,
            ..ack(2000, 6000)
        });
        assert_eq!(control.cwnd, 5300, "not in fast recovery");
    }

    #[test]
    fn congestion_avoidance_grows_by_a_packet_a_window() {
        let mut control = Rfc9260::new(1000, None);
        control.cwnd = 20_000;
        control.on_loss();
        assert_eq!((control.cwnd, control.ssthresh), (10_000, 10_000));
        control.on_ack(&ack(1000, 10_000));
        assert_eq!(control.cwnd, 11_000, "equal to ssthresh is slow start");
        for _ in 0..10 {
            control.on_ack(&ack(1000, 11_000));
        }
        assert_eq!(control.cwnd, 11_000);
        control.on_ack(&ack(1500, 11_000));
        assert_eq!((control.cwnd, control.partial_bytes_acked), (12_000, 500));
        control.on_ack(&ack(20_000, 11_999));
        assert_eq!(control.partial_bytes_acked, 12_000, "kept, not grown");
    }

    #[test]
    fn timeout_leaves_one_packet_and_half_the_window_as_threshold() {
        let mut control = Rfc9260::new(1000, None);
        control.cwnd = 20_000;
        control.on_rto();
        assert_eq!((control.cwnd, control.ssthresh), (1000, 10_000));
        control.on_rto();
        assert_eq!((control.cwnd, control.ssthresh), (1000, 4000));
    }

    #[test]
    fn idle_path_halves_its_window_down_to_four_packets() {
        let mut control = Rfc9260::new(1000, None);
        control.cwnd = 40_000;
        control.on_idle(2);
        assert_eq!(control.cwnd, 10_000);
        control.on_idle(40);
        assert_eq!(control.cwnd, 4000);
    }
}
