//! A congestion controller that measures the bottleneck instead of waiting for it to lose packets.
//!
//! As BBR does (Cardwell et al. 2016), it keeps two estimates: the highest rate at which bytes were
//! delivered lately, and the shortest round trip. It sends at that rate, now and then a little faster
//! to see whether there is more, then slower so that the queue it made goes away; and it lets twice
//! the product of both be on the way. A lost packet says nothing about the path, one in eight does.

use crate::numbers::sync_before;
use core::time::Duration;
use engine::Instant;
use std::collections::VecDeque;

/// What a report tells of the path.
#[derive(Clone, Copy, Debug)]
pub(crate) struct AckSample {
    /// Bytes the peer is known to have.
    pub(crate) delivered: u64,
    /// Bytes sent so far.
    pub(crate) sent: u64,
    /// The round trip and what was known when it began, if the report answers a request.
    pub(crate) rtt_sample: Option<RttSample>,
}

/// A round trip.
#[derive(Clone, Copy, Debug)]
pub(crate) struct RttSample {
    pub(crate) rtt: Duration,
    /// Bytes sent before it began.
    pub(crate) sent: u64,
    /// Of its request.
    pub(crate) sync: u32,
}

/// What was known when a request was sent.
#[derive(Clone, Copy, Debug)]
struct RequestSample {
    sync: u32,
    /// Bytes the peer was known to have.
    delivered: u64,
    /// Since when.
    at: Instant,
    /// The user had nothing more to send.
    app_limited: bool,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum BbrState {
    /// The rate doubles and more each round trip.
    Startup,
    /// The queue that made goes away.
    Drain,
    /// One of the parts of a cycle.
    ProbeBw(usize),
    /// Little is sent, to see the shortest round trip.
    ProbeRtt,
}

#[derive(Clone, Debug)]
pub(crate) struct Bbr {
    mss: u64,
    state: BbrState,
    /// When the phase began.
    state_since: Instant,
    /// The highest rates of the last round trips, bytes a second.
    max_bw_filter: [u64; MAX_BW_FILTER_LEN],
    round_count: usize,
    /// The round trip ends when what was sent up to here is answered.
    round_end: u64,
    /// In this round trip the user had more to send than left.
    round_not_app_limited: bool,
    /// The highest rate of startup, and the round trips since it grew.
    full_bw: u64,
    full_bw_count: u32,
    min_rtt_ns: u64,
    /// When it was measured.
    min_rtt_at: Instant,
    /// The shortest since a look began.
    probe_rtt_min_ns: u64,
    delivered: u64,
    delivered_at: Instant,
    /// In this round trip.
    lost_in_round: u64,
    round_start_delivered: u64,
    /// Of the requests that were not answered yet, oldest first.
    request_samples: VecDeque<RequestSample>,
    /// Bytes on the way at most, after a round trip with many losses.
    inflight_hi: u64,
    /// Nothing was heard since a request was not answered.
    wtimer_expired: bool,
    /// When what was sent is paid for.
    pacing_release: Instant,
    now: Instant,
}

/// Bytes on the way before anything was measured, in packets, as RFC 6928 has it.
const INITIAL_CWND_SEGMENTS: u64 = 10;

/// The least that may be on the way, in packets.
const MIN_PIPE_CWND_SEGMENTS: u64 = 4;

/// Round trips a rate is remembered: a cycle and two more.
const MAX_BW_FILTER_LEN: usize = 10;

/// Requests remembered: as many as an association does.
const REQUEST_SAMPLES_MAX: usize = 64;

/// Gains in 64ths. 185 is 2/ln 2, with which sending doubles each round trip; 22 undoes it.
const GAIN_UNIT: u64 = 64;
const STARTUP_GAIN: u64 = 185;
const DRAIN_GAIN: u64 = 22;
/// A cycle: more, less, and six parts a hundredth below the estimate, so that queues go away.
const PROBE_BW_GAINS: [u64; 8] = [80, 48, 63, 63, 63, 63, 63, 63];

/// Round trips without a quarter more that end startup.
const FULL_BW_ROUNDS: u32 = 3;

/// Ages of the shortest round trip after which it is measured anew, and how long that takes.
const MIN_RTT_FILTER_LEN: Duration = Duration::from_secs(10);
const PROBE_RTT_DURATION: Duration = Duration::from_millis(200);

/// What may be sent at once, and made up for when a timer was late.
const PACING_BURST: Duration = Duration::from_millis(2);

/// No path has more than 1 GiB in flight.
const CWND_MAX: u64 = 1 << 30;

/// The highest rate reckoned with: 2^36 bytes a second are 550 Gbit/s.
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

    /// The request `sync` is sent; `idle` when the user has nothing more to send.
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

    /// One beyond the last byte that may be sent: as many are on the way then as may be.
    pub(crate) fn send_limit(&self, acknowledged: u64) -> u64 {
        let delivered = self.delivered.max(acknowledged);
        delivered.saturating_add(self.cwnd())
    }

    /// Bytes that may be on the way.
    pub(crate) fn cwnd(&self) -> u64 {
        let least = MIN_PIPE_CWND_SEGMENTS * self.mss;
        let bdp = self.bdp();
        if bdp == 0 {
            return INITIAL_CWND_SEGMENTS * self.mss;
        }
        let cwnd = match self.state {
            BbrState::Startup | BbrState::Drain => bdp / GAIN_UNIT * STARTUP_GAIN,
            // What is reported late: requests are an eighth of the window apart.
            BbrState::ProbeBw(_) => 2 * bdp + bdp / 4,
            BbrState::ProbeRtt => bdp / 2,
        };
        cwnd.min(self.inflight_hi).clamp(least, CWND_MAX)
    }

    /// Takes in a report.
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

    /// `bytes` are known to be lost.
    pub(crate) fn on_loss(&mut self, bytes: u64) {
        self.lost_in_round = self.lost_in_round.saturating_add(bytes);
    }

    /// A request was not answered: what was known may be so no longer. Nothing is sent until one is,
    /// so more silence says nothing more.
    pub(crate) fn on_wtimer_expired(&mut self) {
        if std::mem::replace(&mut self.wtimer_expired, true) {
            return;
        }
        self.max_bw_filter = self.max_bw_filter.map(|rate| rate / 2);
        (self.state, self.full_bw, self.full_bw_count) = (BbrState::Startup, 0, 0);
    }

    /// Whether a packet may be sent now; if not, when to ask again. `alone` when nothing is on the
    /// way: a time in which nothing was sent says nothing of the path.
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

    /// A packet was sent.
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

    /// Bytes a second to send at; 0 for as many as the window lets.
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

    /// The least that may be on the way in a round trip, or in a tenth of a second: slower than that
    /// nothing would be learnt of a path that got better.
    fn min_pacing_rate(&self) -> u64 {
        let rtt_ns = self.min_rtt_ns.clamp(100_000_000, 10_000_000_000);
        (MIN_PIPE_CWND_SEGMENTS * self.mss * 1_000_000_000 / rtt_ns).max(1)
    }

    /// The highest rate of the last round trips.
    fn max_bw(&self) -> u64 {
        self.max_bw_filter.iter().copied().max().unwrap_or(0)
    }

    /// Bytes the path holds; 0 as long as that is not known.
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

    /// What was delivered since the request was sent, and since when that was counted: at least a
    /// round trip, so that answers that come together do not look like a fast path.
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
        // A user that sends little says nothing of the path: what was found of it is kept.
        if std::mem::take(&mut self.round_not_app_limited) {
            if self.state == BbrState::Startup {
                self.check_full_bw(excessive_loss);
            }
            self.round_count = self.round_count.wrapping_add(1);
            self.max_bw_filter[self.round_count % MAX_BW_FILTER_LEN] = 0;
        }
    }

    /// Whether startup found the bottleneck.
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
                // Whatever was before: the path may have become longer.
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

    /// A path of `rate` bytes a second and `trip_ms`, on which nothing is lost, seen for a second.
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
