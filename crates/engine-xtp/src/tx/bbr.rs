//! BBR congestion control, reduced (Cardwell et al. 2016, draft-ietf-ccwg-bbr; 0011).
//!
//! It estimates the bottleneck bandwidth (windowed maximum of the delivery rate) and the minimum
//! RTT, paces at that bandwidth, probes for more and drains the queue afterwards. About twice the
//! bandwidth-delay product (BDP) may be in flight. Random loss is ignored; one packet in eight lost
//! in a round lowers `inflight_hi`.

use crate::numbers::sync_before;
use core::time::Duration;
use engine::Instant;
use std::collections::VecDeque;

/// What a control packet acknowledges.
#[derive(Clone, Copy, Debug)]
pub(crate) struct AckSample {
    /// Bytes that the peer has.
    pub(crate) delivered: u64,
    /// Bytes sent so far.
    pub(crate) sent: u64,
    /// An RTT sample, if the control packet answers a status request.
    pub(crate) rtt_sample: Option<RttSample>,
}

/// An RTT sample.
#[derive(Clone, Copy, Debug)]
pub(crate) struct RttSample {
    pub(crate) rtt: Duration,
    /// Bytes sent before its status request.
    pub(crate) sent: u64,
    /// Sync of its status request.
    pub(crate) sync: u32,
}

/// State when a status request was sent, for the delivery rate.
#[derive(Clone, Copy, Debug)]
struct RequestSample {
    sync: u32,
    /// Bytes that the peer had.
    delivered: u64,
    /// When they were delivered.
    at: Instant,
    /// The user had nothing more to send.
    app_limited: bool,
}

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

#[derive(Clone, Debug)]
pub(crate) struct Bbr {
    mss: u64,
    state: BbrState,
    /// When the state was entered.
    state_since: Instant,
    /// Highest delivery rate of each of the last rounds, bytes a second.
    max_bw_filter: [u64; MAX_BW_FILTER_LEN],
    round_count: usize,
    /// The round ends when everything sent up to here is acknowledged.
    round_end: u64,
    /// A sample of this round was not application-limited.
    round_not_app_limited: bool,
    /// Highest bandwidth in startup, and rounds since it grew by a quarter.
    full_bw: u64,
    full_bw_count: u32,
    min_rtt_ns: u64,
    /// When the minimum RTT was measured.
    min_rtt_at: Instant,
    /// Minimum RTT since ProbeRTT began.
    probe_rtt_min_ns: u64,
    delivered: u64,
    delivered_at: Instant,
    /// Bytes lost in this round.
    lost_in_round: u64,
    round_start_delivered: u64,
    /// Samples of outstanding status requests, oldest first.
    request_samples: VecDeque<RequestSample>,
    /// Upper bound of bytes in flight after a round with excessive loss.
    inflight_hi: u64,
    /// WTIMER expired and nothing was received since.
    wtimer_expired: bool,
    /// Pacing: when the next packet may be sent.
    pacing_release: Instant,
    now: Instant,
}

/// Initial window in packets (RFC 6928).
const INITIAL_CWND_SEGMENTS: u64 = 10;

/// Smallest window in packets (BBR.MinPipeCwnd).
const MIN_PIPE_CWND_SEGMENTS: u64 = 4;

/// Rounds in the bandwidth filter: a gain cycle and two more (BBR.MaxBwFilterLen).
const MAX_BW_FILTER_LEN: usize = 10;

/// Limit of request samples, as of outstanding status requests.
const REQUEST_SAMPLES_MAX: usize = 64;

/// Gains in 64ths. 185 is 2/ln 2, which doubles the rate each round; 22 is its inverse.
const GAIN_UNIT: u64 = 64;
const STARTUP_GAIN: u64 = 185;
const DRAIN_GAIN: u64 = 22;
/// Gain cycle of ProbeBW: up, down, then six rounds of cruising just below the estimate, so that
/// queues drain.
const PROBE_BW_GAINS: [u64; 8] = [80, 48, 63, 63, 63, 63, 63, 63];

/// Rounds without a quarter more bandwidth that end startup.
const FULL_BW_ROUNDS: u32 = 3;

/// Age of the minimum RTT that starts ProbeRTT, and the duration of ProbeRTT.
const MIN_RTT_FILTER_LEN: Duration = Duration::from_secs(10);
const PROBE_RTT_DURATION: Duration = Duration::from_millis(200);

/// Burst that pacing allows, which also makes up for late timers.
const PACING_BURST: Duration = Duration::from_millis(2);

/// Largest window: no path has more than 1 GiB in flight.
const CWND_MAX: u64 = 1 << 30;

/// Highest bandwidth: 2^36 bytes a second are 550 Gbit/s.
const BW_MAX: u64 = 1 << 36;

impl Bbr {
    pub(crate) fn new(mss: u64) -> Bbr {
        Bbr {
            mss,
            state: BbrState::Startup,
            state_since: Instant::ZERO,
            max_bw_filter: [0; MAX_BW_FILTER_LEN],
            round_count: 0,
            round_end: 0,
            round_not_app_limited: false,
            full_bw: 0,
            full_bw_count: 0,
            min_rtt_ns: u64::MAX,
            min_rtt_at: Instant::ZERO,
            probe_rtt_min_ns: u64::MAX,
            delivered: 0,
            delivered_at: Instant::ZERO,
            lost_in_round: 0,
            round_start_delivered: 0,
            request_samples: VecDeque::new(),
            inflight_hi: u64::MAX,
            wtimer_expired: false,
            pacing_release: Instant::ZERO,
            now: Instant::ZERO,
        }
    }

    /// Status request `sync` is sent; `app_limited` when the user has nothing more to send.
    pub(crate) fn on_status_request(&mut self, now: Instant, sync: u32, app_limited: bool) {
        if self.request_samples.len() == REQUEST_SAMPLES_MAX {
            self.request_samples.pop_front();
        }
        let fresh = self.delivered_at == Instant::ZERO;
        self.request_samples.push_back(RequestSample {
            sync,
            delivered: self.delivered,
            at: if fresh { now } else { self.delivered_at },
            app_limited,
        });
    }

    /// Bytes below this may be sent: what was delivered plus the window. Bytes in flight are those
    /// not delivered; acknowledgement would stop at the first gap (0011).
    pub(crate) fn send_limit(&self, acknowledged: u64) -> u64 {
        let delivered = self.delivered.max(acknowledged);
        delivered.saturating_add(self.cwnd())
    }

    /// Congestion window.
    pub(crate) fn cwnd(&self) -> u64 {
        let least = MIN_PIPE_CWND_SEGMENTS * self.mss;
        let bdp = self.bdp();
        if bdp == 0 {
            return INITIAL_CWND_SEGMENTS * self.mss;
        }
        let cwnd = match self.state {
            BbrState::Startup | BbrState::Drain => bdp / GAIN_UNIT * STARTUP_GAIN,
            // 2 BDP and a quarter for acknowledgement delay: requests are an eighth of the window
            // apart.
            BbrState::ProbeBw(_) => 2 * bdp + bdp / 4,
            BbrState::ProbeRtt => bdp / 2,
        };
        cwnd.min(self.inflight_hi).clamp(least, CWND_MAX)
    }

    /// Processes a control packet.
    pub(crate) fn on_ack_sample(&mut self, now: Instant, sample: &AckSample) {
        self.wtimer_expired = false;
        if sample.delivered > self.delivered || self.delivered_at == Instant::ZERO {
            self.delivered = self.delivered.max(sample.delivered);
            self.delivered_at = now;
        }
        let Some(rtt_sample) = &sample.rtt_sample else {
            return;
        };
        self.update_min_rtt(now, rtt_sample.rtt);
        while let Some(request) = self.request_samples.front().copied() {
            if sync_before(rtt_sample.sync, request.sync) {
                break;
            }
            self.request_samples.pop_front();
            if request.sync == rtt_sample.sync {
                self.update_max_bw(now, &request);
            }
        }
        if rtt_sample.sent >= self.round_end {
            self.end_round(sample.sent);
        }
        let inflight = sample.sent.saturating_sub(self.delivered);
        self.advance_state(now, inflight);
    }

    /// `bytes` were lost.
    pub(crate) fn on_loss(&mut self, bytes: u64) {
        self.lost_in_round = self.lost_in_round.saturating_add(bytes);
    }

    /// WTIMER expired: the path may have changed, so halve the bandwidth and restart. Data stop
    /// until a request is answered, so further expirations carry no information.
    pub(crate) fn on_wtimer_expired(&mut self) {
        if std::mem::replace(&mut self.wtimer_expired, true) {
            return;
        }
        self.max_bw_filter = self.max_bw_filter.map(|rate| rate / 2);
        (self.state, self.full_bw, self.full_bw_count) = (BbrState::Startup, 0, 0);
    }

    /// When pacing allows the next packet; None for now. With `nothing_in_flight`, the idle time
    /// before is excluded from the delivery rate.
    pub(crate) fn blocked_until(
        &mut self,
        now: Instant,
        nothing_in_flight: bool,
    ) -> Option<Instant> {
        self.now = now;
        if nothing_in_flight {
            self.delivered_at = now;
        }
        (self.pacing_release > now + PACING_BURST).then_some(self.pacing_release)
    }

    /// A packet was sent: advances the pacing release time.
    pub(crate) fn on_packet_sent(&mut self, octets: usize) {
        let rate = self.pacing_rate();
        if rate == 0 {
            return;
        }
        let earliest = self
            .now
            .as_nanos()
            .saturating_sub(PACING_BURST.as_nanos() as u64);
        let from = self.pacing_release.max(Instant::from_nanos(earliest));
        let span = octets as u64 * 1_000_000_000 / rate;
        self.pacing_release = from + Duration::from_nanos(span);
    }

    /// Pacing rate in bytes a second; 0 for no pacing, before the first sample.
    fn pacing_rate(&self) -> u64 {
        let gain = match self.state {
            BbrState::Startup => STARTUP_GAIN,
            BbrState::Drain => DRAIN_GAIN,
            BbrState::ProbeBw(part) => PROBE_BW_GAINS[part],
            BbrState::ProbeRtt => GAIN_UNIT,
        };
        match self.max_bw() {
            0 => 0,
            rate => (rate * gain / GAIN_UNIT).max(self.min_pacing_rate()),
        }
    }

    /// Lowest pacing rate: the smallest window in a round trip of at least 0.1 s. A lower rate
    /// would not notice a path that got better.
    fn min_pacing_rate(&self) -> u64 {
        let rtt_ns = self.min_rtt_ns.clamp(100_000_000, 10_000_000_000);
        (MIN_PIPE_CWND_SEGMENTS * self.mss * 1_000_000_000 / rtt_ns).max(1)
    }

    /// Bandwidth estimate: the maximum of the filter.
    fn max_bw(&self) -> u64 {
        self.max_bw_filter.iter().copied().max().unwrap_or(0)
    }

    /// Bandwidth-delay product in bytes; 0 while unknown.
    fn bdp(&self) -> u64 {
        if self.min_rtt_ns == u64::MAX {
            return 0;
        }
        let bdp = u128::from(self.max_bw()) * u128::from(self.min_rtt_ns) / 1_000_000_000;
        bdp.min(u128::from(CWND_MAX)) as u64
    }

    fn update_min_rtt(&mut self, now: Instant, rtt: Duration) {
        let ns = u64::try_from(rtt.as_nanos())
            .unwrap_or(u64::MAX >> 1)
            .max(1);
        self.probe_rtt_min_ns = self.probe_rtt_min_ns.min(ns);
        if ns <= self.min_rtt_ns {
            (self.min_rtt_ns, self.min_rtt_at) = (ns, now);
        }
    }

    /// Delivery rate since the state recorded with the request. The interval is at least a round
    /// trip, so that compressed acknowledgements do not inflate the rate.
    fn update_max_bw(&mut self, now: Instant, request: &RequestSample) {
        let span = now.since(request.at).as_nanos().max(1);
        let bytes = u128::from(self.delivered.saturating_sub(request.delivered));
        let rate = (bytes * 1_000_000_000 / span).min(u128::from(BW_MAX)) as u64;
        let max_bw = &mut self.max_bw_filter[self.round_count % MAX_BW_FILTER_LEN];
        *max_bw = rate.max(*max_bw);
        self.round_not_app_limited |= !request.app_limited;
    }

    fn end_round(&mut self, sent: u64) {
        let delivered = self.delivered - self.round_start_delivered.min(self.delivered);
        let excessive_loss = self.lost_in_round > delivered / 8
            && self.lost_in_round > MIN_PIPE_CWND_SEGMENTS * self.mss;
        if excessive_loss {
            let cwnd = self.cwnd();
            self.inflight_hi = cwnd - cwnd / 8;
        } else if self.inflight_hi != u64::MAX {
            self.inflight_hi += self.inflight_hi / 16;
            if self.inflight_hi > 3 * self.bdp() {
                self.inflight_hi = u64::MAX;
            }
        }
        self.round_end = sent;
        (self.lost_in_round, self.round_start_delivered) = (0, self.delivered);
        // An application-limited round says nothing about the path: the filter does not advance.
        if std::mem::take(&mut self.round_not_app_limited) {
            if self.state == BbrState::Startup {
                self.check_full_bw(excessive_loss);
            }
            self.round_count = self.round_count.wrapping_add(1);
            self.max_bw_filter[self.round_count % MAX_BW_FILTER_LEN] = 0;
        }
    }

    /// Whether startup filled the path (BBRCheckFullBWReached).
    fn check_full_bw(&mut self, excessive_loss: bool) {
        let max_bw = self.max_bw();
        if max_bw > self.full_bw + self.full_bw / 4 {
            (self.full_bw, self.full_bw_count) = (max_bw, 0);
        } else {
            self.full_bw_count += 1;
        }
        if excessive_loss {
            self.full_bw_count = FULL_BW_ROUNDS;
        }
    }

    fn advance_state(&mut self, now: Instant, inflight: u64) {
        let spent = now.since(self.state_since);
        let min_rtt = Duration::from_nanos(self.min_rtt_ns.min(1 << 40));
        let drained = inflight <= self.bdp();
        let next = match self.state {
            BbrState::Startup if self.full_bw_count >= FULL_BW_ROUNDS => BbrState::Drain,
            BbrState::Drain if drained => BbrState::ProbeBw(2),
            BbrState::ProbeBw(1) if drained || spent >= min_rtt => BbrState::ProbeBw(2),
            BbrState::ProbeBw(_) if now.since(self.min_rtt_at) > MIN_RTT_FILTER_LEN => {
                (self.min_rtt_at, self.probe_rtt_min_ns) = (now, u64::MAX);
                BbrState::ProbeRtt
            }
            BbrState::ProbeBw(part) if part != 1 && spent >= min_rtt => {
                BbrState::ProbeBw((part + 1) % PROBE_BW_GAINS.len())
            }
            BbrState::ProbeRtt if spent >= PROBE_RTT_DURATION.max(min_rtt) => {
                // The path may have become longer, so an increase counts too.
                self.min_rtt_at = now;
                if self.probe_rtt_min_ns < u64::MAX {
                    self.min_rtt_ns = self.probe_rtt_min_ns;
                }
                BbrState::ProbeBw(0)
            }
            phase => phase,
        };
        if next != self.state {
            (self.state, self.state_since) = (next, now);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const MS: u64 = 1_000_000;

    /// The state after a second on a lossless path of `rate` bytes a second and `rtt_ms`.
    fn after_a_second(rate: u64, rtt_ms: u64) -> Bbr {
        let mut control = Bbr::new(1000);
        let (mut sent, mut last_request, mut free, mut sync) = (0u64, 0u64, 0u64, 0u32);
        let mut in_transit: VecDeque<(u64, u64, u64, u32)> = Default::default();
        for now in 0..1000 {
            let at = Instant::from_nanos(now * MS);
            while let Some(&(arrives, began, upto, sync)) = in_transit.front()
                && arrives <= now * MS
            {
                in_transit.pop_front();
                let rtt_sample = RttSample {
                    rtt: Duration::from_nanos(arrives - began),
                    sent: upto,
                    sync,
                };
                let rtt_sample = Some(rtt_sample);
                let delivered = upto;
                control.on_ack_sample(
                    at,
                    &AckSample {
                        delivered,
                        sent,
                        rtt_sample,
                    },
                );
            }
            while control.blocked_until(at, in_transit.is_empty()).is_none()
                && sent < control.send_limit(0)
            {
                sent += 1000;
                control.on_packet_sent(1000);
                free = free.max(now * MS) + 1_000_000_000_000 / rate;
                if sent - last_request >= control.cwnd() / 8 {
                    (last_request, sync) = (sent, sync + 1);
                    control.on_status_request(at, sync, false);
                }
                in_transit.push_back((free + rtt_ms * MS, now * MS, sent, sync));
            }
        }
        control
    }

    #[test]
    fn bbr_finds_bandwidth_and_bounds_queue() {
        for (rate, rtt_ms) in [(12_500_000, 40), (1_250_000, 10), (50_000_000, 5)] {
            let control = after_a_second(rate, rtt_ms);
            let found = control.max_bw();
            assert!(found.abs_diff(rate) < rate / 10, "{found} of {rate}");
            let bdp = rate * rtt_ms / 1000;
            let cwnd = control.cwnd();
            assert!(cwnd > bdp && cwnd < 3 * bdp, "{cwnd} of {bdp}");
            assert!(matches!(control.state, BbrState::ProbeBw(_)), "{control:?}");
        }
    }

    #[test]
    fn app_limited_samples_keep_max_bw() {
        let mut control = after_a_second(12_500_000, 40);
        let found = control.max_bw();
        for round in 1..100u64 {
            let at = Instant::from_nanos((1000 + 50 * round) * MS);
            let sync = 100_000 + round as u32;
            control.on_status_request(at, sync, true);
            let sent = control.delivered + 1000;
            let rtt_sample = Some(RttSample {
                rtt: Duration::from_millis(40),
                sent,
                sync,
            });
            let sample = AckSample {
                delivered: sent,
                sent,
                rtt_sample,
            };
            control.on_ack_sample(at + Duration::from_millis(40), &sample);
        }
        assert_eq!(control.max_bw(), found);
    }

    #[test]
    fn excessive_loss_lowers_inflight_hi() {
        let mut control = after_a_second(12_500_000, 40);
        control.delivered += 500_000;
        control.on_loss(5000);
        control.end_round(control.delivered);
        assert_eq!(control.inflight_hi, u64::MAX);
        let cwnd = control.cwnd();
        control.delivered += 500_000;
        control.on_loss(100_000);
        control.end_round(control.delivered);
        assert_eq!(control.inflight_hi, cwnd - cwnd / 8);
        assert!(control.cwnd() <= control.inflight_hi);
    }
}
