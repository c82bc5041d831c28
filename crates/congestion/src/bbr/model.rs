//! BBR's model of the path: the maximum of the delivery rate and the minimum of the RTT.

use crate::WINDOW_MAX_BYTES;
use crate::sample::PacketState;
use core::time::Duration;
use engine::Instant;

/// Rounds in the bandwidth filter: a gain cycle and two more (MaxBwFilterLen).
const MAX_BW_FILTER_LEN: usize = 10;

/// Highest bandwidth: 2^36 bytes a second are 550 Gbit/s.
const BW_MAX_BYTES_PER_S: u64 = 1 << 36;

/// What is known of the path.
#[derive(Clone, Debug)]
pub(super) struct PathModel {
    /// Bytes that the peer has (`C.delivered`).
    pub(super) delivered_bytes: u64,
    /// When the last of them were delivered (`C.delivered_time`).
    delivered_at: Instant,
    /// Highest delivery rate of each of the last rounds, bytes a second (`BBR.MaxBwFilter`).
    max_bw_filter: [u64; MAX_BW_FILTER_LEN],
    round_count: usize,
    /// `BBR.min_rtt`.
    pub(super) min_rtt_ns: u64,
    /// When the minimum RTT was measured (`BBR.min_rtt_stamp`).
    pub(super) min_rtt_stamp: Instant,
    /// Minimum RTT since ProbeRTT began (`BBR.probe_rtt_min_delay`).
    pub(super) probe_rtt_min_delay_ns: u64,
}

impl PathModel {
    pub(super) fn new() -> PathModel {
        PathModel {
            delivered_bytes: 0,
            delivered_at: Instant::ZERO,
            max_bw_filter: [0; MAX_BW_FILTER_LEN],
            round_count: 0,
            min_rtt_ns: u64::MAX,
            min_rtt_stamp: Instant::ZERO,
            probe_rtt_min_delay_ns: u64::MAX,
        }
    }

    /// State of a packet sent now.
    pub(super) fn packet_state(
        &self,
        now: Instant,
        sent_bytes: u64,
        app_limited: bool,
    ) -> PacketState {
        let fresh = self.delivered_at == Instant::ZERO;
        PacketState {
            sent_bytes,
            delivered_bytes: self.delivered_bytes,
            delivered_at: if fresh { now } else { self.delivered_at },
            app_limited,
        }
    }

    /// The delivery rate excludes the idle time that ends now.
    pub(super) fn on_restart_from_idle(&mut self, now: Instant) {
        self.delivered_at = now;
    }

    /// The peer has `delivered_bytes` in all.
    pub(super) fn on_delivered(&mut self, now: Instant, delivered_bytes: u64) {
        if delivered_bytes > self.delivered_bytes || self.delivered_at == Instant::ZERO {
            self.delivered_bytes = self.delivered_bytes.max(delivered_bytes);
            self.delivered_at = now;
        }
    }

    pub(super) fn update_min_rtt(&mut self, now: Instant, rtt: Duration) {
        let ns = u64::try_from(rtt.as_nanos())
            .unwrap_or(u64::MAX >> 1)
            .max(1);
        self.probe_rtt_min_delay_ns = self.probe_rtt_min_delay_ns.min(ns);
        if ns <= self.min_rtt_ns {
            (self.min_rtt_ns, self.min_rtt_stamp) = (ns, now);
        }
    }

    /// Delivery rate since `packet` was sent. The interval is at least a round trip, so that
    /// compressed acknowledgements do not inflate the rate.
    pub(super) fn update_max_bw(&mut self, now: Instant, packet: &PacketState) {
        let span_ns = now.since(packet.delivered_at).as_nanos().max(1);
        let bytes = self.delivered_bytes.saturating_sub(packet.delivered_bytes);
        let delivery_rate = u128::from(bytes) * 1_000_000_000 / span_ns;
        let delivery_rate = delivery_rate.min(u128::from(BW_MAX_BYTES_PER_S)) as u64;
        let max_bw = &mut self.max_bw_filter[self.round_count % MAX_BW_FILTER_LEN];
        *max_bw = delivery_rate.max(*max_bw);
    }

    /// A round ended: the oldest leaves the filter.
    pub(super) fn advance_max_bw_filter(&mut self) {
        self.round_count = self.round_count.wrapping_add(1);
        self.max_bw_filter[self.round_count % MAX_BW_FILTER_LEN] = 0;
    }

    /// Halves the bandwidth estimate.
    pub(super) fn halve_max_bw(&mut self) {
        self.max_bw_filter = self.max_bw_filter.map(|rate| rate / 2);
    }

    /// Bandwidth estimate in bytes a second: the maximum of the filter (`BBR.max_bw`).
    pub(super) fn max_bw(&self) -> u64 {
        self.max_bw_filter.iter().copied().max().unwrap_or(0)
    }

    /// Bandwidth-delay product in bytes; 0 while unknown.
    pub(super) fn bdp_bytes(&self) -> u64 {
        if self.min_rtt_ns == u64::MAX {
            return 0;
        }
        let bdp = u128::from(self.max_bw()) * u128::from(self.min_rtt_ns) / 1_000_000_000;
        bdp.min(u128::from(WINDOW_MAX_BYTES)) as u64
    }
}
