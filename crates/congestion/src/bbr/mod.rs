//! BBR, reduced (Cardwell et al. 2016; draft-ietf-ccwg-bbr-01).
//!
//! It estimates the bottleneck bandwidth (windowed maximum of the delivery rate) and the minimum
//! RTT, paces at that bandwidth, probes for more and drains the queue afterwards. About twice the
//! bandwidth-delay product (BDP) may be in flight. Random loss is ignored; one byte in eight lost in
//! a round lowers `inflight_hi`.
//!
//! Names in backquotes are those of the draft. Where this differs from it:
//!
//! * ProbeBW is the gain cycle of BBRv1, of eight phases of a minimum RTT each, and cruises at 63/64 of
//!   the bandwidth. The cycle starts at a fixed phase: there is no random source.
//! * A round ends when the bytes sent up to its start are acknowledged; the draft counts bytes
//!   delivered. The bandwidth filter covers ten rounds.
//! * There are neither short-term bounds (`bw_lo`, `inflight_lo`) nor REFILL. `inflight_hi` is set by
//!   more than an eighth of a round lost (`BBRLossThresh` is 2 %), and rises by a sixteenth a round.
//! * ProbeRTT follows ten seconds without a lower RTT, and half of the BDP is in flight then.
//! * `cwnd_gain` of ProbeBW is 2.25 instead of 2 with `extra_acked`.
//! * A retransmission timeout halves the bandwidth estimate and restarts Startup.
//!
//! `model` has the estimates; this file the states that use them.

mod model;

use crate::pacer::Pacer;
use crate::sample::{AckSample, LossSample, PacketState};
use crate::{INITIAL_WINDOW_SEGMENTS, WINDOW_MAX_BYTES};
use core::time::Duration;
use engine::Instant;
use model::PathModel;

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum BbrState {
    /// Doubles the sending rate each round.
    Startup,
    /// Drains the queue of startup.
    Drain,
    /// Cruises and probes for bandwidth: the phase of the gain cycle.
    ProbeBw(usize),
    /// Sends little, to measure the minimum RTT.
    ProbeRtt,
}

/// The BBR controller.
#[derive(Clone, Debug)]
pub struct Bbr {
    smss_bytes: u64,
    state: BbrState,
    /// When the state was entered.
    state_since: Instant,
    model: PathModel,
    /// The round ends when everything sent up to here is acknowledged.
    round_end_bytes: u64,
    /// Bytes delivered when the round began.
    round_start_delivered_bytes: u64,
    /// A sample of this round was not application-limited.
    round_not_app_limited: bool,
    /// Bytes lost in this round.
    lost_in_round_bytes: u64,
    /// Highest bandwidth in startup, and rounds since it grew by a quarter.
    full_bw: u64,
    full_bw_count: u32,
    /// Upper bound of bytes in flight after a round with excessive loss.
    inflight_hi_bytes: u64,
    /// The retransmission timer expired and nothing was received since.
    after_rto: bool,
    pacer: Pacer,
}

/// Smallest window in segments (`BBRMinPipeCwnd`).
const MIN_PIPE_CWND_SEGMENTS: u64 = 4;

/// Gains in 64ths. 185 is 2/ln 2, which doubles the rate each round; 22 is its inverse.
const GAIN_UNIT: u64 = 64;
const STARTUP_GAIN: u64 = 185;
const DRAIN_GAIN: u64 = 22;
/// Gain cycle of ProbeBW: up, down, then six rounds of cruising just below the estimate, so that
/// queues drain.
const PROBE_BW_GAINS: [u64; 8] = [80, 48, 63, 63, 63, 63, 63, 63];

/// Rounds without a quarter more bandwidth that end startup.
const FULL_BW_ROUNDS: u32 = 3;

/// Age of the minimum RTT that starts ProbeRTT (`MinRTTFilterLen`), and the duration of ProbeRTT
/// (`ProbeRTTDuration`).
const MIN_RTT_FILTER_LEN: Duration = Duration::from_secs(10);
const PROBE_RTT_DURATION: Duration = Duration::from_millis(200);

/// RTT samples in a window that the estimates need.
const SAMPLES_PER_WINDOW: u64 = 8;

impl Bbr {
    /// A controller in Startup for segments of `smss_bytes`.
    pub fn new(smss_bytes: u64) -> Bbr {
        Bbr {
            smss_bytes,
            state: BbrState::Startup,
            state_since: Instant::ZERO,
            model: PathModel::new(),
            round_end_bytes: 0,
            round_start_delivered_bytes: 0,
            round_not_app_limited: false,
            lost_in_round_bytes: 0,
            full_bw: 0,
            full_bw_count: 0,
            inflight_hi_bytes: u64::MAX,
            after_rto: false,
            pacer: Pacer::default(),
        }
    }

    /// State to keep with a packet that brings the bytes sent to `sent_bytes`.
    pub fn packet_state(&self, now: Instant, sent_bytes: u64, app_limited: bool) -> PacketState {
        self.model.packet_state(now, sent_bytes, app_limited)
    }

    /// Congestion window (`BBRSetCwnd`).
    pub fn window_bytes(&self) -> u64 {
        let least = MIN_PIPE_CWND_SEGMENTS * self.smss_bytes;
        let bdp = self.model.bdp_bytes();
        if bdp == 0 {
            return INITIAL_WINDOW_SEGMENTS * self.smss_bytes;
        }
        let cwnd = match self.state {
            BbrState::Startup | BbrState::Drain => bdp / GAIN_UNIT * STARTUP_GAIN,
            // 2 BDP and a quarter for acknowledgement delay: samples are an eighth of the window
            // apart.
            BbrState::ProbeBw(_) => 2 * bdp + bdp / 4,
            BbrState::ProbeRtt => bdp / 2,
        };
        cwnd.min(self.inflight_hi_bytes)
            .clamp(least, WINDOW_MAX_BYTES)
    }

    /// Largest distance of two RTT samples in bytes sent.
    pub fn sample_interval_bytes(&self) -> u64 {
        self.window_bytes() / SAMPLES_PER_WINDOW
    }

    /// An acknowledgement: updates the model, the round and the state.
    pub fn on_ack(&mut self, now: Instant, sample: &AckSample) {
        self.after_rto = false;
        self.model.on_delivered(now, sample.delivered_bytes);
        let Some(rtt_sample) = &sample.rtt else {
            return;
        };
        let packet = &rtt_sample.packet;
        self.model.update_min_rtt(now, rtt_sample.rtt);
        self.model.update_max_bw(now, packet);
        self.round_not_app_limited |= !packet.app_limited;
        if packet.sent_bytes >= self.round_end_bytes {
            self.end_round(sample.sent_bytes);
        }
        self.advance_state(now, sample.inflight_bytes);
    }

    /// Bytes were lost: all of them count for their round.
    pub fn on_loss(&mut self, sample: &LossSample) {
        self.lost_in_round_bytes = self.lost_in_round_bytes.saturating_add(sample.lost_bytes);
    }

    /// The retransmission timer expired: the path may have changed, so halve the bandwidth and
    /// restart. Further expirations before an acknowledgement carry no information.
    pub fn on_rto(&mut self) {
        if std::mem::replace(&mut self.after_rto, true) {
            return;
        }
        self.model.halve_max_bw();
        (self.state, self.full_bw, self.full_bw_count) = (BbrState::Startup, 0, 0);
    }

    /// A packet is about to be sent and nothing is in flight (`BBRHandleRestartFromIdle`): the idle time
    /// before is excluded from the delivery rate.
    pub fn on_restart_from_idle(&mut self, now: Instant) {
        self.model.on_restart_from_idle(now);
    }

    /// When pacing allows the next packet; None for now.
    pub fn blocked_until(&self, now: Instant) -> Option<Instant> {
        self.pacer.blocked_until(now)
    }

    /// A packet of `bytes` was sent.
    pub fn on_sent(&mut self, now: Instant, bytes: u64) {
        let rate = self.pacing_rate_bytes_per_s().unwrap_or(0);
        self.pacer.on_sent(now, bytes, rate);
    }

    /// Pacing rate in bytes a second (`BBRSetPacingRate`); None before the first sample.
    pub fn pacing_rate_bytes_per_s(&self) -> Option<u64> {
        let pacing_gain = match self.state {
            BbrState::Startup => STARTUP_GAIN,
            BbrState::Drain => DRAIN_GAIN,
            BbrState::ProbeBw(phase) => PROBE_BW_GAINS[phase],
            BbrState::ProbeRtt => GAIN_UNIT,
        };
        match self.model.max_bw() {
            0 => None,
            bw => Some((bw * pacing_gain / GAIN_UNIT).max(self.min_pacing_rate())),
        }
    }

    /// Lowest pacing rate: the smallest window in a round trip of at least 0.1 s. A lower rate
    /// would not notice a path that got better.
    fn min_pacing_rate(&self) -> u64 {
        let rtt_ns = self.model.min_rtt_ns.clamp(100_000_000, 10_000_000_000);
        (MIN_PIPE_CWND_SEGMENTS * self.smss_bytes * 1_000_000_000 / rtt_ns).max(1)
    }

    /// Everything of the round is acknowledged; the next one ends with `sent_bytes`.
    fn end_round(&mut self, sent_bytes: u64) {
        let delivered = self.model.delivered_bytes;
        let in_round = delivered - self.round_start_delivered_bytes.min(delivered);
        let excessive_loss = self.lost_in_round_bytes > in_round / 8
            && self.lost_in_round_bytes > MIN_PIPE_CWND_SEGMENTS * self.smss_bytes;
        self.update_inflight_hi(excessive_loss);
        self.round_end_bytes = sent_bytes;
        (self.lost_in_round_bytes, self.round_start_delivered_bytes) = (0, delivered);
        // An application-limited round says nothing about the path: the filter does not advance.
        if std::mem::take(&mut self.round_not_app_limited) {
            if self.state == BbrState::Startup {
                self.check_full_bw(excessive_loss);
            }
            self.model.advance_max_bw_filter();
        }
    }

    fn update_inflight_hi(&mut self, excessive_loss: bool) {
        if excessive_loss {
            let cwnd = self.window_bytes();
            self.inflight_hi_bytes = cwnd - cwnd / 8;
        } else if self.inflight_hi_bytes != u64::MAX {
            self.inflight_hi_bytes += self.inflight_hi_bytes / 16;
            if self.inflight_hi_bytes > 3 * self.model.bdp_bytes() {
                self.inflight_hi_bytes = u64::MAX;
            }
        }
    }

    /// Whether startup filled the path (`BBRCheckFullBWReached`).
    fn check_full_bw(&mut self, excessive_loss: bool) {
        let max_bw = self.model.max_bw();
        if max_bw > self.full_bw + self.full_bw / 4 {
            (self.full_bw, self.full_bw_count) = (max_bw, 0);
        } else {
            self.full_bw_count += 1;
        }
        if excessive_loss {
            self.full_bw_count = FULL_BW_ROUNDS;
        }
    }

    fn advance_state(&mut self, now: Instant, inflight_bytes: u64) {
        let spent = now.since(self.state_since);
        let min_rtt = Duration::from_nanos(self.model.min_rtt_ns.min(1 << 40));
        let drained = inflight_bytes <= self.model.bdp_bytes();
        let min_rtt_expired = now.since(self.model.min_rtt_stamp) > MIN_RTT_FILTER_LEN;
        let next = match self.state {
            BbrState::Startup if self.full_bw_count >= FULL_BW_ROUNDS => BbrState::Drain,
            BbrState::Drain if drained => BbrState::ProbeBw(2),
            BbrState::ProbeBw(1) if drained || spent >= min_rtt => BbrState::ProbeBw(2),
            BbrState::ProbeBw(_) if min_rtt_expired => {
                (self.model.min_rtt_stamp, self.model.probe_rtt_min_delay_ns) = (now, u64::MAX);
                BbrState::ProbeRtt
            }
            BbrState::ProbeBw(phase) if phase != 1 && spent >= min_rtt => {
                BbrState::ProbeBw((phase + 1) % PROBE_BW_GAINS.len())
            }
            BbrState::ProbeRtt if spent >= PROBE_RTT_DURATION.max(min_rtt) => {
                // The path may have become longer, so an increase counts too.
                self.model.min_rtt_stamp = now;
                if self.model.probe_rtt_min_delay_ns < u64::MAX {
                    self.model.min_rtt_ns = self.model.probe_rtt_min_delay_ns;
                }
                BbrState::ProbeBw(0)
            }
            state => state,
        };
        if next != self.state {
            (self.state, self.state_since) = (next, now);
        }
    }
}

#[cfg(test)]
mod tests;
