//! Estimate of another host's clock offset, with an error bound.
//!
//! The agent reads its clock between our request and its reply, so each round trip bounds the
//! offset by an interval as long as the round trip. All intervals hold at once; since clocks drift,
//! an interval widens with its distance in time.
//!
//! Samples that contradict each other show that a clock was stepped, or drifts faster than the
//! limit. Samples before that moment are discarded, and no bound spans it.

use loadgen::ClockOffset;
use std::collections::VecDeque;

/// Drift limit between two clocks, ppm: NTP slews by 500 at most, and crystals differ by up to 100.
/// A faster drift makes samples contradict each other.
const DRIFT_PPM: i128 = 600;

/// Samples kept: those of the longest trial, at ten samples a second.
const SAMPLES_MAX: usize = 2048;

/// The clock samples of a session.
#[derive(Clone, Debug, Default)]
pub struct ClockEstimator {
    samples: VecDeque<ClockSample>,
    min_rtt_ns: Option<u64>,
    /// Bounds at the time of the last sample: the upper, and the negated lower one.
    latest_bounds: Option<[BoundPoint; 2]>,
    /// Local time of the last sample that contradicted earlier ones.
    jumped_at_ns: Option<i64>,
}

#[derive(Clone, Copy, Debug)]
struct ClockSample {
    sent_ns: i64,
    theirs_ns: i64,
    received_ns: i64,
}

impl ClockSample {
    /// Upper bound of the offset: the remote clock was read right after the request was sent.
    fn upper_bound(&self) -> BoundPoint {
        BoundPoint {
            at_ns: self.sent_ns,
            value_ns: self.theirs_ns - self.sent_ns,
        }
    }

    /// Negated lower bound: the remote clock was read right before the reply arrived.
    fn negated_lower_bound(&self) -> BoundPoint {
        BoundPoint {
            at_ns: self.received_ns,
            value_ns: self.received_ns - self.theirs_ns,
        }
    }
}

/// An upper bound of the offset at a time.
#[derive(Clone, Copy, Debug)]
struct BoundPoint {
    at_ns: i64,
    value_ns: i64,
}

impl ClockEstimator {
    /// Adds a round trip: sent at `sent_ns` and received at `received_ns` on the local clock, with
    /// the remote reading `theirs_ns`.
    pub fn add_sample(&mut self, sent_ns: u64, theirs_ns: u64, received_ns: u64) {
        // A remote clock may report anything; values out of range are ignored.
        let (Some(sent_ns), Some(theirs_ns), Some(received_ns)) = (
            representable(sent_ns),
            representable(theirs_ns),
            representable(received_ns),
        ) else {
            return;
        };
        if received_ns < sent_ns {
            return;
        }
        let trip = ClockSample {
            sent_ns,
            theirs_ns,
            received_ns,
        };
        let taken_ns = received_ns.abs_diff(sent_ns);
        self.min_rtt_ns = Some(self.min_rtt_ns.unwrap_or(u64::MAX).min(taken_ns));
        if self.is_contradicted_by_sample(trip) {
            self.samples.clear();
            self.latest_bounds = None;
            self.jumped_at_ns = Some(received_ns);
        }
        if self.samples.len() == SAMPLES_MAX {
            self.samples.pop_front();
        }
        self.samples.push_back(trip);
        let new = [trip.upper_bound(), trip.negated_lower_bound()];
        self.latest_bounds = Some(match self.latest_bounds {
            Some([most, least]) => [tightened(new[0], most), tightened(new[1], least)],
            None => new,
        });
    }

    /// Whether the lower bound of one exceeds the upper bound of the other.
    fn is_contradicted_by_sample(&self, trip: ClockSample) -> bool {
        let Some(before) = self.latest_bounds else {
            return false;
        };
        let now = |point: BoundPoint| point.value_ns + max_drift_ns(trip.received_ns - point.at_ns);
        let [most_ns, least_turned_ns] = before.map(now);
        -least_turned_ns > now(trip.upper_bound()) || most_ns < -now(trip.negated_lower_bound())
    }

    /// The offset at `now_ns` by all samples since the last step; None without samples.
    pub fn offset(&self, now_ns: u64) -> Option<ClockOffset> {
        let at = representable(now_ns)?;
        let (low, high) = self.range((at, at))?;
        Some(ClockOffset {
            at_ns: now_ns,
            offset_ns: low + (high - low) / 2,
            bound_ns: high.abs_diff(low).div_ceil(2),
        })
    }

    /// Largest deviation of the offset from `first` until `now_ns`; None if a clock was stepped in
    /// between.
    pub fn error_bound_since(&self, first: ClockOffset, now_ns: u64) -> Option<u64> {
        let (from, to) = (representable(first.at_ns)?, representable(now_ns)?);
        if self.jumped_at_ns.is_some_and(|jumped_ns| jumped_ns > from) {
            return None;
        }
        let (low, high) = self.range((from, to))?;
        let bound_ns = high
            .abs_diff(first.offset_ns)
            .max(low.abs_diff(first.offset_ns));
        Some(bound_ns)
    }

    /// Lower and upper bound of the offset over a time span.
    fn range(&self, span_ns: (i64, i64)) -> Option<(i64, i64)> {
        let high = max_over_span(
            self.samples.iter().map(ClockSample::upper_bound).collect(),
            span_ns,
        )?;
        let low = max_over_span(
            self.samples
                .iter()
                .map(ClockSample::negated_lower_bound)
                .collect(),
            span_ns,
        )?;
        Some((-low, high))
    }

    /// The minimum RTT, ns; 0 before the first sample.
    pub fn min_rtt_ns(&self) -> u64 {
        self.min_rtt_ns.unwrap_or(0)
    }
}

/// The time as i64, if below 36 years, so that sums cannot overflow.
fn representable(ns: u64) -> Option<i64> {
    i64::try_from(ns).ok().filter(|&ns| ns < 1 << 60)
}

/// Largest drift between two clocks in a time, ns.
fn max_drift_ns(time_ns: i64) -> i64 {
    (i128::from(time_ns.abs()) * DRIFT_PPM / 1_000_000) as i64 + 1
}

/// Maximum over a span of a value that at each point's time was at most the point's, and changes no
/// faster than clocks drift. Points are sorted by time.
fn max_over_span(mut points: Vec<BoundPoint>, (from, to): (i64, i64)) -> Option<i64> {
    let (first, last) = (*points.first()?, *points.last()?);
    // Extrapolate to the ends of the span.
    let end = |point: BoundPoint, at_ns: i64| BoundPoint {
        at_ns,
        value_ns: point
            .value_ns
            .saturating_add(max_drift_ns(at_ns - point.at_ns)),
    };
    if from < first.at_ns {
        points.insert(0, end(first, from));
    }
    if to > last.at_ns {
        points.push(end(last, to));
    }
    // Forward pass, then backward pass.
    for at in 1..points.len() {
        points[at] = tightened(points[at], points[at - 1]);
    }
    for at in (1..points.len()).rev() {
        points[at - 1] = tightened(points[at - 1], points[at]);
    }
    let inside = |point: &&BoundPoint| (from..=to).contains(&point.at_ns);
    let values = points.iter().filter(inside).map(|point| point.value_ns);
    let between = points.windows(2).filter_map(|pair| peak(pair, from, to));
    values.chain(between).max()
}

/// The point, lowered to what its neighbour allows.
fn tightened(point: BoundPoint, neighbour: BoundPoint) -> BoundPoint {
    let reach = max_drift_ns(point.at_ns - neighbour.at_ns);
    BoundPoint {
        value_ns: point.value_ns.min(neighbour.value_ns.saturating_add(reach)),
        ..point
    }
}

/// Maximum between two points, within the span.
fn peak(pair: &[BoundPoint], from: i64, to: i64) -> Option<i64> {
    let (one, other) = (pair[0], pair[1]);
    let (from, to) = (from.max(one.at_ns), to.min(other.at_ns));
    if from > to {
        return None;
    }
    // Rises from the first and falls to the second, both at the drift limit.
    let rising = one.value_ns.saturating_add(max_drift_ns(to - one.at_ns));
    let falling = other
        .value_ns
        .saturating_add(max_drift_ns(other.at_ns - from));
    let middle = (one.value_ns + other.value_ns + max_drift_ns(other.at_ns - one.at_ns)) / 2 + 1;
    Some(rising.min(falling).min(middle))
}

#[cfg(test)]
mod tests {
    use super::*;

    /// A fixed pseudorandom sequence.
    struct Random(u64);

    impl Random {
        fn below(&mut self, most: u64) -> u64 {
            self.0 = self
                .0
                .wrapping_mul(6_364_136_223_846_793_005)
                .wrapping_add(1_442_695_040_888_963_407);
            (self.0 >> 33) % most
        }
    }

    /// A simulated remote clock: its offset and drift.
    struct RemoteClock {
        offset_ns: f64,
        ppm: f64,
        now_ns: u64,
    }

    impl RemoteClock {
        fn new(offset_ns: i64, ppm: f64) -> RemoteClock {
            RemoteClock {
                offset_ns: offset_ns as f64,
                ppm,
                now_ns: 10_000_000_000,
            }
        }

        fn pass(&mut self, time_ns: u64) {
            self.now_ns += time_ns;
            self.offset_ns += time_ns as f64 * self.ppm * 1e-6;
        }

        /// A round trip with the given one-way delays.
        fn trip(&mut self, book: &mut ClockEstimator, there_ns: u64, back_ns: u64) {
            let sent_ns = self.now_ns;
            self.pass(there_ns);
            let theirs_ns = self.now_ns.checked_add_signed(self.offset_ns as i64);
            let theirs_ns = theirs_ns.expect("in range");
            self.pass(back_ns);
            book.add_sample(sent_ns, theirs_ns, self.now_ns);
        }

        fn is_within(&self, offset: ClockOffset, bound_ns: u64) -> bool {
            // 2 ns for floating-point rounding.
            (self.offset_ns - offset.offset_ns as f64).abs() <= bound_ns as f64 + 2.0
        }
    }

    #[test]
    fn offset_bound_holds_with_asymmetric_delays() {
        let mut random = Random(7);
        for _ in 0..500 {
            let mut far = RemoteClock::new(random.below(2_000_000_000) as i64 - 1_000_000_000, 0.0);
            let mut book = ClockEstimator::default();
            for _ in 0..20 {
                let (there, back) = (random.below(5_000_000), random.below(5_000_000));
                far.trip(&mut book, there, back);
                far.pass(100_000_000);
            }
            let found = book.offset(far.now_ns).expect("readings");
            assert!(far.is_within(found, found.bound_ns));
            assert!(found.bound_ns <= book.min_rtt_ns() / 2 + 1_300_000);
        }
    }

    #[test]
    fn offset_bound_holds_under_ntp_slew() {
        let mut random = Random(11);
        // A LAN, a metropolitan network, and an ocean whose delay is all in one direction.
        for (there_ns, back_ns) in [(20_000, 30_000), (4_000_000, 1_000_000), (150_000_000, 1)] {
            for ppm in [-500.0, -300.0, 300.0, 500.0] {
                let mut far = RemoteClock::new(-123_456_789, ppm);
                let mut book = ClockEstimator::default();
                far.trip(&mut book, there_ns, back_ns);
                let first = book.offset(far.now_ns).expect("a reading");
                let mut worst: f64 = 0.0;
                for turn in 0..600 {
                    far.pass(100_000_000);
                    let apart = (far.offset_ns - first.offset_ns as f64).abs();
                    worst = worst.max(apart);
                    let wait = random.below(1_000_000);
                    far.trip(&mut book, there_ns + wait, back_ns);
                    let now = book.offset(far.now_ns).expect("readings");
                    assert!(far.is_within(now, now.bound_ns), "{ppm} after {turn}");
                    // NTP may reverse the slew at any time.
                    far.ppm = if turn % 150 == 149 { -far.ppm } else { far.ppm };
                }
                let since = book.error_bound_since(first, far.now_ns).expect("no jump");
                assert!(since as f64 + 2.0 >= worst, "{since} for {worst}");
                assert!((since as f64) < worst + 1e6 + (there_ns + back_ns) as f64);
            }
        }
    }

    #[test]
    fn offset_bound_covers_time_between_samples() {
        // 150 us forth and back, between two samples.
        let (mut far, mut book) = (RemoteClock::new(0, 500.0), ClockEstimator::default());
        far.ppm = 0.0;
        far.trip(&mut book, 10_000, 10_000);
        let first = book.offset(far.now_ns).expect("a reading");
        for ppm in [500.0, -500.0] {
            far.ppm = ppm;
            far.pass(300_000_000);
        }
        far.ppm = 0.0;
        far.trip(&mut book, 10_000, 10_000);
        let since = book.error_bound_since(first, far.now_ns).expect("no jump");
        assert!((150_000..=200_200).contains(&since), "{since}");
    }

    #[test]
    fn clock_step_resets_samples_and_bound() {
        let (mut far, mut book) = (RemoteClock::new(5_000_000, 50.0), ClockEstimator::default());
        assert_eq!(book.offset(far.now_ns), None);
        let mut read = |far: &mut RemoteClock| {
            for _ in 0..8 {
                far.pass(100_000_000);
                far.trip(&mut book, 300_000, 100_000);
            }
            let now = book.offset(far.now_ns).expect("readings");
            assert!(far.is_within(now, now.bound_ns));
            assert!(now.bound_ns < 300_000, "{}", now.bound_ns);
            (now, book.clone())
        };
        let (before, _) = read(&mut far);
        far.offset_ns += 1e9;
        let (after, book) = read(&mut far);
        assert_eq!(book.error_bound_since(before, far.now_ns), None);
        far.pass(1_000_000);
        assert!(book.error_bound_since(after, far.now_ns).is_some());
    }

    #[test]
    fn excessive_drift_yields_no_bound_over_time() {
        let (mut far, mut book) = (RemoteClock::new(0, 80_000.0), ClockEstimator::default());
        far.trip(&mut book, 10_000, 10_000);
        let first = book.offset(far.now_ns).expect("a reading");
        for _ in 0..5 {
            far.pass(100_000_000);
            far.trip(&mut book, 10_000, 10_000);
        }
        let now = book.offset(far.now_ns).expect("the last reading");
        assert!(far.is_within(now, now.bound_ns + 1000));
        assert_eq!(book.error_bound_since(first, far.now_ns), None);
    }

    #[test]
    fn impossible_samples_ignored() {
        let mut book = ClockEstimator::default();
        book.add_sample(5, u64::MAX, 6);
        book.add_sample(6, 1, 5);
        assert_eq!(book.offset(10), None);
        assert_eq!(book.min_rtt_ns(), 0);
        // The largest representable times must not overflow.
        book.add_sample(1, (1 << 60) - 1, 2);
        book.add_sample((1 << 60) - 2, 0, (1 << 60) - 1);
        assert!(book.offset(u64::MAX).is_none() && book.offset((1 << 60) - 1).is_some());
    }

    #[test]
    fn sample_count_limited() {
        let (mut far, mut book) = (RemoteClock::new(0, 0.0), ClockEstimator::default());
        far.trip(&mut book, 10_000, 10_000);
        let first = book.offset(far.now_ns).expect("a reading");
        for _ in 0..2 * SAMPLES_MAX {
            far.trip(&mut book, 10_000, 10_000);
        }
        assert_eq!(book.samples.len(), SAMPLES_MAX);
        assert!(book.error_bound_since(first, far.now_ns).expect("no jump") >= 10_000);
    }
}
