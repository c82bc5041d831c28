//! How long a trial must be.
//!
//! Cabrera and others (1984) sent 500 to 9000 messages a run, looked at the spread over five runs
//! and settled on 4000. A pilot does the same by arithmetic: the variance of its slices and the
//! square root law give the length of a trial.

use samples::{Steady, series_mean, steady_state};

/// Estimates from a pilot.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Pilot {
    /// Seconds a trial should last, warm-up included.
    pub span_s: f64,
    /// Seconds of it that are warm-up.
    pub warm_up_s: f64,
    /// Events (messages, round trips) in that time, at the pilot's rate.
    pub events: f64,
    /// Expected relative standard error of the mean of such a trial.
    pub relative_error: f64,
    /// Why the span is what it is.
    pub bound: Bound,
}

/// Why a span is what it is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Bound {
    /// The target needs this long.
    Target,
    /// The target needs less than the shortest span allowed.
    Shortest,
    /// The target needs more than the longest span allowed.
    Longest,
    /// The pilot was too short, or never steady: the longest span, to be safe.
    Unknown,
}

/// Target precision of a trial, and bounds of its length.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct PrecisionTarget {
    /// Relative standard error of the mean of one trial. Smaller is wasted once it is below the
    /// spread between trials, a few percent.
    pub relative_error: f64,
    /// Shortest span, seconds.
    pub min_s: f64,
    /// Longest span, seconds.
    pub max_s: f64,
}

impl Default for PrecisionTarget {
    /// 1 % within 0.1 s and 10 s.
    fn default() -> Self {
        PrecisionTarget {
            relative_error: 0.01,
            min_s: 0.1,
            max_s: 10.0,
        }
    }
}

/// From the rates of a pilot's slices, `slice_s` seconds each, in events a second: how long a
/// trial must be. The standard error falls with the square root of the time, so the measured
/// part of the pilot is stretched by the square of error over target.
pub fn pilot(slices: &[f64], slice_s: f64, wanted: &PrecisionTarget) -> Pilot {
    let Steady::From(cut) = steady_state(slices) else {
        return unknown(slices, wanted);
    };
    let measured = &slices[cut..];
    let Some(series) = series_mean(measured) else {
        return unknown(slices, wanted);
    };
    let warm_up_s = cut as f64 * slice_s;
    let measured_s = measured.len() as f64 * slice_s;
    let stretch = (series.relative_error() / wanted.relative_error).powi(2);
    let needed_s = warm_up_s + measured_s * stretch;
    // The shortest span excludes the warm-up.
    let shortest_s = (warm_up_s + wanted.min_s).min(wanted.max_s);
    let (span_s, bound) = match needed_s {
        needed if needed.is_nan() || needed > wanted.max_s => (wanted.max_s, Bound::Longest),
        needed if needed < shortest_s => (shortest_s, Bound::Shortest),
        needed => (needed, Bound::Target),
    };
    let left_s = (span_s - warm_up_s).max(slice_s);
    Pilot {
        span_s,
        warm_up_s,
        events: series.mean * span_s,
        relative_error: series.relative_error() * (measured_s / left_s).sqrt(),
        bound,
    }
}

fn unknown(slices: &[f64], wanted: &PrecisionTarget) -> Pilot {
    let rate = slices.iter().sum::<f64>() / slices.len().max(1) as f64;
    Pilot {
        span_s: wanted.max_s,
        warm_up_s: 0.0,
        events: rate * wanted.max_s,
        relative_error: f64::INFINITY,
        bound: Bound::Unknown,
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use random::SplitMix64;

    /// Slices around 1000 events a second with a relative deviation of `noise`.
    fn slices(seed: u64, noise: f64, len: usize) -> Vec<f64> {
        let mut random = SplitMix64::new(seed);
        let mut slice = || (random.unit() + random.unit() - 1.0) * 6f64.sqrt() * noise;
        (0..len).map(|_| 1000.0 * (1.0 + slice())).collect()
    }

    #[test]
    fn trial_length_grows_with_noise_squared() {
        let wanted = PrecisionTarget {
            min_s: 0.01,
            max_s: 1e6,
            ..PrecisionTarget::default()
        };
        let calm = pilot(&slices(1, 0.1, 200), 0.01, &wanted);
        let wild = pilot(&slices(1, 0.3, 200), 0.01, &wanted);
        assert_eq!((calm.bound, wild.bound), (Bound::Target, Bound::Target));
        let ratio = (wild.span_s - wild.warm_up_s) / (calm.span_s - calm.warm_up_s);
        assert!((ratio - 9.0).abs() < 0.5, "{ratio}");
        // 10 % a slice to 1 %: a hundred slices of 10 ms.
        assert!((0.6..1.6).contains(&calm.span_s), "{calm:?}");
        assert!((calm.relative_error - 0.01).abs() < 1e-9);
    }

    #[test]
    fn trial_of_pilot_length_meets_target() {
        let wanted = PrecisionTarget {
            min_s: 0.01,
            max_s: 100.0,
            ..PrecisionTarget::default()
        };
        let len = (pilot(&slices(7, 0.2, 100), 0.01, &wanted).span_s / 0.01) as usize;
        let means = (100..400).map(|seed| {
            let trial = slices(seed, 0.2, len);
            trial.iter().sum::<f64>() / len as f64 / 1000.0
        });
        let within = means.filter(|mean| (mean - 1.0).abs() < 0.02).count();
        assert!(within >= 270, "{within} of 300 within two standard errors");
    }

    #[test]
    fn pilot_bounds_hold_and_are_reported() {
        let wanted = PrecisionTarget::default();
        let calm = pilot(&slices(2, 0.001, 100), 0.01, &wanted);
        assert_eq!(calm.bound, Bound::Shortest);
        assert!(calm.span_s >= wanted.min_s && calm.relative_error < 0.01);
        let wild = pilot(&slices(2, 2.0, 100), 0.01, &wanted);
        assert_eq!((wild.bound, wild.span_s), (Bound::Longest, wanted.max_s));
        assert!(wild.relative_error > 0.01);
        let short = pilot(&[1000.0; 3], 0.01, &wanted);
        assert_eq!((short.bound, short.span_s), (Bound::Unknown, wanted.max_s));
    }

    #[test]
    fn warm_up_is_added_to_span() {
        let mut series = slices(3, 0.02, 100);
        series[..20].fill(100.0);
        let found = pilot(&series, 0.01, &PrecisionTarget::default());
        assert!(found.warm_up_s >= 0.2, "{found:?}");
        assert!(found.span_s >= found.warm_up_s + 0.1 - 1e-12);
    }
}
