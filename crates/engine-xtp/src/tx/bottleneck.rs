//! A congestion controller that measures the bottleneck instead of waiting for it to lose packets.
//!
//! As BBR does (Cardwell et al. 2016), it keeps two estimates: the highest rate at which bytes were
//! delivered lately, and the shortest round trip. It sends at that rate, now and then a little faster
//! to see whether there is more, then slower so that the queue it made goes away; and it lets twice
//! the product of both be on the way. A lost packet says nothing about the path, one in eight does.

use crate::types::is_before;
use core::time::Duration;
use engine::Instant;
use std::collections::VecDeque;

/// What a report tells of the path.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Sight {
    /// Bytes the peer is known to have.
    pub(crate) delivered: u64,
    /// Bytes sent so far.
    pub(crate) sent: u64,
    /// The round trip and what was known when it began, if the report answers a request.
    pub(crate) trip: Option<Trip>,
}

/// A round trip.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Trip {
    pub(crate) took: Duration,
    /// Bytes sent before it began.
    pub(crate) sent: u64,
    /// Of its request.
    pub(crate) sync: u32,
}

/// What was known when a request was sent.
#[derive(Clone, Copy, Debug)]
struct Mark {
    sync: u32,
    /// Bytes the peer was known to have.
    delivered: u64,
    /// Since when.
    at: Instant,
    /// The user had nothing more to send.
    idle: bool,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Phase {
    /// The rate doubles and more each round trip.
    Startup,
    /// The queue that made goes away.
    Drain,
    /// One of the parts of a cycle.
    Probe(usize),
    /// Little is sent, to see the shortest round trip.
    Look,
}

#[derive(Clone, Debug)]
pub(crate) struct Bottleneck {
    segment: u64,
    phase: Phase,
    /// When the phase began.
    since: Instant,
    /// The highest rates of the last round trips, bytes a second.
    best: [u64; ROUNDS],
    round: usize,
    /// The round trip ends when what was sent up to here is answered.
    round_end: u64,
    /// In this round trip the user had more to send than left.
    busy: bool,
    /// The highest rate of startup, and the round trips since it grew.
    full: u64,
    flat: u32,
    shortest_ns: u64,
    /// When it was measured.
    shortest_at: Instant,
    /// The shortest since a look began.
    looked_ns: u64,
    delivered: u64,
    delivered_at: Instant,
    /// In this round trip.
    lost: u64,
    delivered_before: u64,
    /// Of the requests that were not answered yet, oldest first.
    marks: VecDeque<Mark>,
    /// Bytes on the way at most, after a round trip with many losses.
    bound: u64,
    /// Nothing was heard since a request was not answered.
    silent: bool,
    /// When what was sent is paid for.
    paid_at: Instant,
    now: Instant,
}

/// Bytes on the way before anything was measured, in packets, as RFC 6928 has it.
const INITIAL_SEGMENTS: u64 = 10;

/// The least that may be on the way, in packets.
const LEAST_SEGMENTS: u64 = 4;

/// Round trips a rate is remembered: a cycle and two more.
const ROUNDS: usize = 10;

/// Requests remembered: as many as an association does.
const MARKS_MAX: usize = 64;

/// Gains in 64ths. 185 is 2/ln 2, with which sending doubles each round trip; 22 undoes it.
const UNIT: u64 = 64;
const STARTUP_GAIN: u64 = 185;
const DRAIN_GAIN: u64 = 22;
/// A cycle: more, less, and six parts a hundredth below the estimate, so that queues go away.
const CYCLE: [u64; 8] = [80, 48, 63, 63, 63, 63, 63, 63];

/// Round trips without a quarter more that end startup.
const FLAT_ROUNDS: u32 = 3;

/// Ages of the shortest round trip after which it is measured anew, and how long that takes.
const SHORTEST_AGE: Duration = Duration::from_secs(10);
const LOOK_SPAN: Duration = Duration::from_millis(200);

/// What may be sent at once, and made up for when a timer was late.
const BURST: Duration = Duration::from_millis(2);

/// No path has more than 1 GiB in flight.
const WINDOW_MAX: u64 = 1 << 30;

/// The highest rate reckoned with: 2^36 bytes a second are 550 Gbit/s.
const RATE_MAX: u64 = 1 << 36;

impl Bottleneck {
    pub(crate) fn new(segment: u64) -> Bottleneck {
        Bottleneck {
            segment,
            phase: Phase::Startup,
            since: Instant::ZERO,
            best: [0; ROUNDS],
            round: 0,
            round_end: 0,
            busy: false,
            full: 0,
            flat: 0,
            shortest_ns: u64::MAX,
            shortest_at: Instant::ZERO,
            looked_ns: u64::MAX,
            delivered: 0,
            delivered_at: Instant::ZERO,
            lost: 0,
            delivered_before: 0,
            marks: VecDeque::new(),
            bound: u64::MAX,
            silent: false,
            paid_at: Instant::ZERO,
            now: Instant::ZERO,
        }
    }

    /// The request `sync` is sent; `idle` when the user has nothing more to send.
    pub(crate) fn on_request(&mut self, now: Instant, sync: u32, idle: bool) {
        if self.marks.len() == MARKS_MAX {
            self.marks.pop_front();
        }
        let fresh = self.delivered_at == Instant::ZERO;
        self.marks.push_back(Mark {
            sync,
            delivered: self.delivered,
            at: if fresh { now } else { self.delivered_at },
            idle,
        });
    }

    /// One beyond the last byte that may be sent: as many are on the way then as may be.
    pub(crate) fn limit(&self, acknowledged: u64) -> u64 {
        let delivered = self.delivered.max(acknowledged);
        delivered.saturating_add(self.window())
    }

    /// Bytes that may be on the way.
    pub(crate) fn window(&self) -> u64 {
        let least = LEAST_SEGMENTS * self.segment;
        let product = self.product();
        if product == 0 {
            return INITIAL_SEGMENTS * self.segment;
        }
        let window = match self.phase {
            Phase::Startup | Phase::Drain => product / UNIT * STARTUP_GAIN,
            // What is reported late: requests are an eighth of the window apart.
            Phase::Probe(_) => 2 * product + product / 4,
            Phase::Look => product / 2,
        };
        window.min(self.bound).clamp(least, WINDOW_MAX)
    }

    /// Takes in a report.
    pub(crate) fn on_report(&mut self, now: Instant, sight: &Sight) {
        self.silent = false;
        if sight.delivered > self.delivered || self.delivered_at == Instant::ZERO {
            self.delivered = self.delivered.max(sight.delivered);
            self.delivered_at = now;
        }
        let Some(trip) = &sight.trip else {
            return;
        };
        self.measure_trip(now, trip.took);
        while let Some(mark) = self.marks.front().copied() {
            if is_before(trip.sync, mark.sync) {
                break;
            }
            self.marks.pop_front();
            if mark.sync == trip.sync {
                self.measure_rate(now, &mark);
            }
        }
        if trip.sent >= self.round_end {
            self.end_round(sight.sent);
        }
        let on_way = sight.sent.saturating_sub(self.delivered);
        self.go_on(now, on_way);
    }

    /// `bytes` are known to be lost.
    pub(crate) fn on_loss(&mut self, bytes: u64) {
        self.lost = self.lost.saturating_add(bytes);
    }

    /// A request was not answered: what was known may be so no longer. Nothing is sent until one is,
    /// so more silence says nothing more.
    pub(crate) fn on_silence(&mut self) {
        if std::mem::replace(&mut self.silent, true) {
            return;
        }
        self.best = self.best.map(|rate| rate / 2);
        (self.phase, self.full, self.flat) = (Phase::Startup, 0, 0);
    }

    /// Whether a packet may be sent now; if not, when to ask again. `alone` when nothing is on the
    /// way: a time in which nothing was sent says nothing of the path.
    pub(crate) fn blocked_until(&mut self, now: Instant, alone: bool) -> Option<Instant> {
        self.now = now;
        if alone {
            self.delivered_at = now;
        }
        (self.paid_at > now + BURST).then_some(self.paid_at)
    }

    /// A packet was sent.
    pub(crate) fn spend(&mut self, octets: usize) {
        let rate = self.rate();
        if rate == 0 {
            return;
        }
        let earliest = self.now.as_nanos().saturating_sub(BURST.as_nanos() as u64);
        let from = self.paid_at.max(Instant::from_nanos(earliest));
        let span = octets as u64 * 1_000_000_000 / rate;
        self.paid_at = from + Duration::from_nanos(span);
    }

    /// Bytes a second to send at; 0 for as many as the window lets.
    fn rate(&self) -> u64 {
        let gain = match self.phase {
            Phase::Startup => STARTUP_GAIN,
            Phase::Drain => DRAIN_GAIN,
            Phase::Probe(part) => CYCLE[part],
            Phase::Look => UNIT,
        };
        match self.highest() {
            0 => 0,
            rate => (rate * gain / UNIT).max(self.least_rate()),
        }
    }

    /// The least that may be on the way in a round trip, or in a tenth of a second: slower than that
    /// nothing would be learnt of a path that got better.
    fn least_rate(&self) -> u64 {
        let trip = self.shortest_ns.clamp(100_000_000, 10_000_000_000);
        (LEAST_SEGMENTS * self.segment * 1_000_000_000 / trip).max(1)
    }

    /// The highest rate of the last round trips.
    fn highest(&self) -> u64 {
        self.best.iter().copied().max().unwrap_or(0)
    }

    /// Bytes the path holds; 0 as long as that is not known.
    fn product(&self) -> u64 {
        if self.shortest_ns == u64::MAX {
            return 0;
        }
        let product = u128::from(self.highest()) * u128::from(self.shortest_ns) / 1_000_000_000;
        product.min(u128::from(WINDOW_MAX)) as u64
    }

    fn measure_trip(&mut self, now: Instant, took: Duration) {
        let ns = u64::try_from(took.as_nanos())
            .unwrap_or(u64::MAX >> 1)
            .max(1);
        self.looked_ns = self.looked_ns.min(ns);
        if ns <= self.shortest_ns {
            (self.shortest_ns, self.shortest_at) = (ns, now);
        }
    }

    /// What was delivered since the request was sent, and since when that was counted: at least a
    /// round trip, so that answers that come together do not look like a fast path.
    fn measure_rate(&mut self, now: Instant, mark: &Mark) {
        let span = now.since(mark.at).as_nanos().max(1);
        let bytes = u128::from(self.delivered.saturating_sub(mark.delivered));
        let rate = (bytes * 1_000_000_000 / span).min(u128::from(RATE_MAX)) as u64;
        let best = &mut self.best[self.round % ROUNDS];
        *best = rate.max(*best);
        self.busy |= !mark.idle;
    }

    fn end_round(&mut self, sent: u64) {
        let came = self.delivered - self.delivered_before.min(self.delivered);
        let heavy = self.lost > came / 8 && self.lost > LEAST_SEGMENTS * self.segment;
        if heavy {
            let window = self.window();
            self.bound = window - window / 8;
        } else if self.bound != u64::MAX {
            self.bound += self.bound / 16;
            if self.bound > 3 * self.product() {
                self.bound = u64::MAX;
            }
        }
        self.round_end = sent;
        (self.lost, self.delivered_before) = (0, self.delivered);
        // A user that sends little says nothing of the path: what was found of it is kept.
        if std::mem::take(&mut self.busy) {
            if self.phase == Phase::Startup {
                self.watch_growth(heavy);
            }
            self.round = self.round.wrapping_add(1);
            self.best[self.round % ROUNDS] = 0;
        }
    }

    /// Whether startup found the bottleneck.
    fn watch_growth(&mut self, heavy: bool) {
        let highest = self.highest();
        if highest > self.full + self.full / 4 {
            (self.full, self.flat) = (highest, 0);
        } else {
            self.flat += 1;
        }
        if heavy {
            self.flat = FLAT_ROUNDS;
        }
    }

    fn go_on(&mut self, now: Instant, on_way: u64) {
        let spent = now.since(self.since);
        let trip = Duration::from_nanos(self.shortest_ns.min(1 << 40));
        let drained = on_way <= self.product();
        let next = match self.phase {
            Phase::Startup if self.flat >= FLAT_ROUNDS => Phase::Drain,
            Phase::Drain if drained => Phase::Probe(2),
            Phase::Probe(1) if drained || spent >= trip => Phase::Probe(2),
            Phase::Probe(_) if now.since(self.shortest_at) > SHORTEST_AGE => {
                (self.shortest_at, self.looked_ns) = (now, u64::MAX);
                Phase::Look
            }
            Phase::Probe(part) if part != 1 && spent >= trip => {
                Phase::Probe((part + 1) % CYCLE.len())
            }
            Phase::Look if spent >= LOOK_SPAN.max(trip) => {
                // Whatever was before: the path may have become longer.
                self.shortest_at = now;
                if self.looked_ns < u64::MAX {
                    self.shortest_ns = self.looked_ns;
                }
                Phase::Probe(0)
            }
            phase => phase,
        };
        if next != self.phase {
            (self.phase, self.since) = (next, now);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const MS: u64 = 1_000_000;

    /// A path of `rate` bytes a second and `trip_ms`, on which nothing is lost, seen for a second.
    fn after_a_second(rate: u64, trip_ms: u64) -> Bottleneck {
        let mut control = Bottleneck::new(1000);
        let (mut sent, mut asked, mut free, mut sync) = (0u64, 0u64, 0u64, 0u32);
        let mut way: VecDeque<(u64, u64, u64, u32)> = Default::default();
        for now in 0..1000 {
            let at = Instant::from_nanos(now * MS);
            while let Some(&(arrives, began, upto, sync)) = way.front()
                && arrives <= now * MS
            {
                way.pop_front();
                let trip = Trip {
                    took: Duration::from_nanos(arrives - began),
                    sent: upto,
                    sync,
                };
                let trip = Some(trip);
                let delivered = upto;
                control.on_report(
                    at,
                    &Sight {
                        delivered,
                        sent,
                        trip,
                    },
                );
            }
            while control.blocked_until(at, way.is_empty()).is_none() && sent < control.limit(0) {
                sent += 1000;
                control.spend(1000);
                free = free.max(now * MS) + 1_000_000_000_000 / rate;
                if sent - asked >= control.window() / 8 {
                    (asked, sync) = (sent, sync + 1);
                    control.on_request(at, sync, false);
                }
                way.push_back((free + trip_ms * MS, now * MS, sent, sync));
            }
        }
        control
    }

    #[test]
    fn it_finds_the_rate_and_the_round_trip_and_keeps_the_queue_short() {
        for (rate, trip_ms) in [(12_500_000, 40), (1_250_000, 10), (50_000_000, 5)] {
            let control = after_a_second(rate, trip_ms);
            let found = control.highest();
            assert!(found.abs_diff(rate) < rate / 10, "{found} of {rate}");
            let product = rate * trip_ms / 1000;
            let window = control.window();
            assert!(
                window > product && window < 3 * product,
                "{window} of {product}"
            );
            assert!(matches!(control.phase, Phase::Probe(_)), "{control:?}");
        }
    }

    #[test]
    fn a_user_that_sends_little_does_not_make_the_path_look_slow() {
        let mut control = after_a_second(12_500_000, 40);
        let found = control.highest();
        for round in 1..100u64 {
            let at = Instant::from_nanos((1000 + 50 * round) * MS);
            let sync = 100_000 + round as u32;
            control.on_request(at, sync, true);
            let sent = control.delivered + 1000;
            let trip = Some(Trip {
                took: Duration::from_millis(40),
                sent,
                sync,
            });
            let sight = Sight {
                delivered: sent,
                sent,
                trip,
            };
            control.on_report(at + Duration::from_millis(40), &sight);
        }
        assert_eq!(control.highest(), found);
    }

    #[test]
    fn one_loss_in_a_hundred_means_nothing_and_one_in_five_a_shorter_window() {
        let mut control = after_a_second(12_500_000, 40);
        control.delivered += 500_000;
        control.on_loss(5000);
        control.end_round(control.delivered);
        assert_eq!(control.bound, u64::MAX);
        let window = control.window();
        control.delivered += 500_000;
        control.on_loss(100_000);
        control.end_round(control.delivered);
        assert_eq!(control.bound, window - window / 8);
        assert!(control.window() <= control.bound);
    }
}
