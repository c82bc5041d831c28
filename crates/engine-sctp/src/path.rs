//! An address of the peer, as seen from one of ours: its RTT, window and errors.

use crate::config::SctpConfig;
use crate::congestion::PathControl;
use congestion::{PacketState, RtoBounds, RttEstimator};
use core::time::Duration;
use engine::{Instant, Path};

use crate::numbers::LongTsn;
use crate::path_mtu::PathMtu;

/// Whether a path may carry user data (RFC 9260 sections 5.4 and 8.2, RFC 7829). In the order in which
/// data prefer them.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum PathStatus {
    /// It answers.
    Active,
    /// It did not answer lately: data take another path if there is one.
    PotentiallyFailed,
    /// It failed more often than it may.
    Inactive,
    /// The peer listed its address and has not answered a HEARTBEAT there: it gets nothing else.
    Unconfirmed,
}

/// What a user may decide of one path (RFC 6458 section 8.1.12). All begin with those of [`SctpConfig`].
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct PathParameters {
    /// Silence before a HEARTBEAT, besides an RTO; zero for none while the path answers.
    pub heartbeat_interval: Duration,
    /// Bounds of the retransmission timeout.
    pub rto: RtoBounds,
    /// Timeouts in a row that the path survives (Path.Max.Retrans).
    pub retries: u32,
}

impl PathParameters {
    /// What a path begins with.
    pub(crate) fn of(config: &SctpConfig) -> PathParameters {
        PathParameters {
            heartbeat_interval: config.heartbeat_interval,
            rto: config.rto,
            retries: config.path_retries,
        }
    }

    /// Whether the bounds of the timeout are in order and none is zero, which would repeat without end.
    pub fn is_in_order(&self) -> bool {
        let RtoBounds { initial, min, max } = self.rto;
        !initial.is_zero() && !min.is_zero() && initial <= max && min <= max
    }
}

/// A HEARTBEAT that was not answered yet.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Heartbeat {
    /// What the answer must carry.
    pub(crate) nonce: u64,
    pub(crate) sent_at: Instant,
}

/// The chunk whose acknowledgement gives the next RTT sample: one a round trip.
#[derive(Clone, Copy, Debug)]
pub(crate) struct TimedChunk {
    pub(crate) tsn: LongTsn,
    /// It was acknowledged, be it beyond a gap.
    pub(crate) is_acked: bool,
    pub(crate) sent_at: Instant,
    pub(crate) packet: PacketState,
}

/// A path of an association.
#[derive(Clone, Debug)]
pub(crate) struct PathState {
    pub(crate) path: Path,
    pub(crate) status: PathStatus,
    pub(crate) control: PathControl,
    pub(crate) mtu: PathMtu,
    pub(crate) parameters: PathParameters,
    rtt: RttEstimator,
    /// Timeouts since the last RTT sample: each doubles the RTO.
    backoffs: u32,
    /// Timeouts in a row.
    pub(crate) errors: u32,
    /// Octets of chunks in flight.
    pub(crate) flight: u64,
    /// The same before the acknowledgement at hand, and what that acknowledged.
    pub(crate) flight_before: u64,
    pub(crate) newly_acked: u64,
    /// That acknowledged something that was sent here alone, so that the path answers.
    pub(crate) is_answered: bool,
    /// The highest TSN in flight here that it newly acknowledged.
    pub(crate) highest_new: LongTsn,
    pub(crate) heartbeat: Option<Heartbeat>,
    pub(crate) timed: Option<TimedChunk>,
    /// Octets of chunks sent and acknowledged in all.
    pub(crate) sent: u64,
    pub(crate) delivered: u64,
    /// Its timer expired, and nothing was acknowledged since: one packet at a time (RFC 9260 section
    /// 7.2.3).
    pub(crate) after_timeout: bool,
    /// When data were last sent.
    pub(crate) last_sent_at: Instant,
    /// Data were acknowledged since the last heartbeat was due.
    pub(crate) is_in_use: bool,
    /// One of its addresses went: its place is free.
    pub(crate) is_removed: bool,
}

/// Eight paths are 8 KiB at most, besides their controllers' heaps.
const _: () = assert!(size_of::<PathState>() <= 1024);

impl PathState {
    pub(crate) fn new(path: Path, status: PathStatus, config: &SctpConfig, now: Instant) -> Self {
        PathState {
            path,
            status,
            control: PathControl::new(config),
            mtu: match config.probes_path_mtu {
                true => PathMtu::probed(config.packet_len),
                false => PathMtu::fixed(config.packet_len),
            },
            parameters: PathParameters::of(config),
            rtt: RttEstimator::default(),
            backoffs: 0,
            errors: 0,
            flight: 0,
            flight_before: 0,
            newly_acked: 0,
            is_answered: false,
            highest_new: LongTsn::default(),
            heartbeat: None,
            timed: None,
            sent: 0,
            delivered: 0,
            after_timeout: false,
            last_sent_at: now,
            is_in_use: false,
            is_removed: false,
        }
    }

    /// The retransmission timeout now.
    pub(crate) fn rto(&self) -> Duration {
        self.rtt.rto(&self.parameters.rto, self.backoffs)
    }

    /// An RTT was measured: the RTO follows it again.
    pub(crate) fn sample(&mut self, rtt: Duration) {
        self.rtt.sample(rtt);
        self.backoffs = 0;
    }

    /// The RTO doubles.
    pub(crate) fn back_off(&mut self) {
        self.backoffs = self.backoffs.saturating_add(1);
    }

    /// Smoothed round-trip time; zero before the first sample.
    pub(crate) fn srtt(&self) -> Duration {
        self.rtt.srtt()
    }

    /// Its variation.
    pub(crate) fn rttvar(&self) -> Duration {
        self.rtt.rttvar()
    }
}
