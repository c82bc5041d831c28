//! BBR over a modelled pipe: a bottleneck of constant rate, a constant delay, no loss.

use super::*;
use crate::sample::RttSample;
use std::collections::VecDeque;

const MS: u64 = 1_000_000;
const SEGMENT: u64 = 1000;

/// A segment on its way, or its acknowledgement on the way back.
struct InTransit {
    arrives_ns: u64,
    sent_ns: u64,
    packet: PacketState,
}

/// A pipe, with the sender that fills it.
struct Pipe {
    rate_bytes_per_s: u64,
    rtt_ms: u64,
    now_ms: u64,
    sent_bytes: u64,
    /// When the bottleneck is free again.
    free_ns: u64,
    in_transit: VecDeque<InTransit>,
    /// States seen, in order, without repetition.
    states: Vec<BbrState>,
}

impl Pipe {
    fn new(rate_bytes_per_s: u64, rtt_ms: u64) -> Pipe {
        Pipe {
            rate_bytes_per_s,
            rtt_ms,
            now_ms: 0,
            sent_bytes: 0,
            free_ns: 0,
            in_transit: VecDeque::new(),
            states: Vec::new(),
        }
    }

    /// Runs for `span_ms` in steps of a millisecond.
    fn run(&mut self, control: &mut Bbr, span_ms: u64) {
        for _ in 0..span_ms {
            let now = Instant::from_nanos(self.now_ms * MS);
            self.acknowledge(control, now);
            self.send(control, now);
            if self.states.last() != Some(&control.state) {
                self.states.push(control.state);
            }
            self.now_ms += 1;
        }
    }

    fn acknowledge(&mut self, control: &mut Bbr, now: Instant) {
        while let Some(front) = self.in_transit.front()
            && front.arrives_ns <= now.as_nanos()
        {
            let rtt = Duration::from_nanos(front.arrives_ns - front.sent_ns);
            let packet = front.packet;
            self.in_transit.pop_front();
            let sample = AckSample {
                acked_bytes: SEGMENT,
                delivered_bytes: packet.sent_bytes,
                sent_bytes: self.sent_bytes,
                inflight_bytes: self.sent_bytes - packet.sent_bytes,
                rtt: Some(RttSample { rtt, packet }),
            };
            control.on_ack(now, &sample);
        }
    }

    fn send(&mut self, control: &mut Bbr, now: Instant) {
        while control.blocked_until(now).is_none() && self.inflight_bytes() < control.window_bytes()
        {
            if self.in_transit.is_empty() {
                control.on_restart_from_idle(now);
            }
            self.sent_bytes += SEGMENT;
            let serialization_ns = SEGMENT * 1_000_000_000 / self.rate_bytes_per_s;
            self.free_ns = self.free_ns.max(now.as_nanos()) + serialization_ns;
            self.in_transit.push_back(InTransit {
                arrives_ns: self.free_ns + self.rtt_ms * MS,
                sent_ns: now.as_nanos(),
                packet: control.packet_state(now, self.sent_bytes, false),
            });
            control.on_sent(now, SEGMENT);
        }
    }

    fn inflight_bytes(&self) -> u64 {
        self.in_transit.len() as u64 * SEGMENT
    }
}

/// The controller after a second on a pipe.
fn after_a_second(rate_bytes_per_s: u64, rtt_ms: u64) -> (Bbr, Pipe) {
    let mut control = Bbr::new(SEGMENT);
    let mut pipe = Pipe::new(rate_bytes_per_s, rtt_ms);
    pipe.run(&mut control, 1000);
    (control, pipe)
}

#[test]
fn bbr_finds_bandwidth_and_min_rtt_and_bounds_inflight() {
    for (rate, rtt_ms) in [(12_500_000, 40), (1_250_000, 10), (50_000_000, 5)] {
        let (control, pipe) = after_a_second(rate, rtt_ms);
        let max_bw = control.model.max_bw();
        assert!(max_bw.abs_diff(rate) < rate / 10, "{max_bw} of {rate}");
        let min_rtt_ns = control.model.min_rtt_ns;
        assert!(min_rtt_ns.abs_diff(rtt_ms * MS) < MS, "{min_rtt_ns} ns");
        let bdp = rate * rtt_ms / 1000;
        let cwnd = control.window_bytes();
        assert!(cwnd > bdp && cwnd < 3 * bdp, "{cwnd} of {bdp}");
        assert!(pipe.inflight_bytes() <= cwnd, "{}", pipe.inflight_bytes());
        assert!(matches!(control.state, BbrState::ProbeBw(_)), "{control:?}");
    }
}

/// Milliseconds until the bandwidth estimate is nine tenths of the bottleneck's.
fn startup_span_ms(control: &mut Bbr, pipe: &mut Pipe) -> u64 {
    while control.model.max_bw() < pipe.rate_bytes_per_s / 10 * 9 {
        pipe.run(control, 1);
        assert!(pipe.now_ms < 10_000, "{control:?}");
    }
    pipe.now_ms
}

#[test]
fn startup_doubles_bandwidth_each_round_then_drains() {
    let mut control = Bbr::new(SEGMENT);
    // Ten segments in 40 ms are 250 kB/s, an eighth of the first rate and a 256th of the second.
    let mut slow = Pipe::new(2_000_000, 40);
    let slow_ms = startup_span_ms(&mut Bbr::new(SEGMENT), &mut slow);
    let mut fast = Pipe::new(64_000_000, 40);
    let fast_ms = startup_span_ms(&mut control, &mut fast);
    // Five doublings more, of a round trip each.
    assert!(
        (180..=260).contains(&(fast_ms - slow_ms)),
        "{slow_ms} {fast_ms}"
    );
    fast.run(&mut control, 1000);
    let first = [BbrState::Startup, BbrState::Drain, BbrState::ProbeBw(2)];
    assert_eq!(fast.states[..3], first);
}

#[test]
fn probe_bw_paces_a_quarter_above_then_below_bandwidth() {
    let (mut control, mut pipe) = after_a_second(12_500_000, 40);
    let mut highest = 0;
    let mut lowest = u64::MAX;
    for _ in 0..400 {
        pipe.run(&mut control, 1);
        let rate = control.pacing_rate_bytes_per_s().expect("a bandwidth");
        (highest, lowest) = (highest.max(rate), lowest.min(rate));
    }
    let within = |rate: u64, expected: u64| rate.abs_diff(expected) < expected / 20;
    assert!(within(highest, 12_500_000 * 5 / 4), "{highest}");
    assert!(within(lowest, 12_500_000 * 3 / 4), "{lowest}");
}

#[test]
fn min_rtt_of_ten_seconds_starts_probe_rtt_which_finds_longer_path() {
    let (mut control, mut pipe) = after_a_second(1_250_000, 10);
    pipe.rtt_ms = 30;
    pipe.states.clear();
    pipe.run(&mut control, 12_000);
    assert!(pipe.states.contains(&BbrState::ProbeRtt), "{control:?}");
    assert!(matches!(control.state, BbrState::ProbeBw(_)), "{control:?}");
    let min_rtt_ns = control.model.min_rtt_ns;
    assert!((30 * MS..40 * MS).contains(&min_rtt_ns), "{min_rtt_ns} ns");
}

#[test]
fn app_limited_samples_keep_max_bw() {
    let (mut control, _) = after_a_second(12_500_000, 40);
    let found = control.model.max_bw();
    for round in 1..100u64 {
        let at = Instant::from_nanos((1000 + 50 * round) * MS);
        let sent_bytes = control.model.delivered_bytes + SEGMENT;
        let packet = control.packet_state(at, sent_bytes, true);
        let rtt = Duration::from_millis(40);
        let sample = AckSample {
            acked_bytes: SEGMENT,
            delivered_bytes: sent_bytes,
            sent_bytes,
            inflight_bytes: 0,
            rtt: Some(RttSample { rtt, packet }),
        };
        control.on_ack(at + rtt, &sample);
    }
    assert_eq!(control.model.max_bw(), found);
}

#[test]
fn idle_time_is_not_part_of_delivery_rate() {
    let (mut control, mut pipe) = after_a_second(12_500_000, 40);
    let found = control.model.max_bw();
    // Everything arrives, then an hour passes.
    pipe.now_ms += 100;
    pipe.acknowledge(&mut control, Instant::from_nanos(pipe.now_ms * MS));
    assert!(pipe.in_transit.is_empty());
    pipe.now_ms += 3_600_000;
    let later = Instant::from_nanos(pipe.now_ms * MS);
    control.on_restart_from_idle(later);
    assert_eq!(control.packet_state(later, 0, false).delivered_at, later);
    pipe.run(&mut control, 1000);
    let max_bw = control.model.max_bw();
    assert!(max_bw.abs_diff(found) < found / 10, "{max_bw} of {found}");
}

#[test]
fn excessive_loss_lowers_inflight_hi() {
    let lost = |lost_bytes: u64| LossSample {
        lost_bytes,
        starts_recovery: true,
    };
    let (mut control, _) = after_a_second(12_500_000, 40);
    control.end_round(control.model.delivered_bytes);
    control.model.delivered_bytes += 500_000;
    control.on_loss(&lost(5000));
    control.end_round(control.model.delivered_bytes);
    assert_eq!(control.inflight_hi_bytes, u64::MAX);
    let cwnd = control.window_bytes();
    control.model.delivered_bytes += 500_000;
    control.on_loss(&lost(100_000));
    control.end_round(control.model.delivered_bytes);
    assert_eq!(control.inflight_hi_bytes, cwnd - cwnd / 8);
    assert_eq!(control.window_bytes(), control.inflight_hi_bytes);
}

#[test]
fn rto_halves_bandwidth_once_until_acknowledgement() {
    let (mut control, mut pipe) = after_a_second(12_500_000, 40);
    let found = control.model.max_bw();
    for _ in 0..3 {
        control.on_rto();
        assert_eq!(control.model.max_bw(), found / 2);
        assert_eq!(control.state, BbrState::Startup);
    }
    pipe.run(&mut control, 1000);
    let max_bw = control.model.max_bw();
    assert!(max_bw.abs_diff(found) < found / 10, "{max_bw} of {found}");
    control.on_rto();
    assert!(control.model.max_bw() < found * 6 / 10);
}
