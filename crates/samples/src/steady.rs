//! Where the warm-up of a trial ends: MSER-5.
//!
//! The start of a series is truncated so that the mean of the rest has the smallest standard error
//! (White, 1997; in batches of five slices, White, Cobb and Spratt, 2000). A short cut leaves the
//! slow start and its variance; a long one leaves few values. When the best cut lies in the last
//! half, the series did not reach a steady state.

/// Steady state of a series of slices.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Steady {
    /// Steady from this slice on; 0 without visible warm-up.
    From(usize),
    /// It still changed in its last half.
    Never,
    /// Too few slices ([`SLICES_MIN`]).
    TooShort,
}

/// Fewest slices of a decision.
pub const SLICES_MIN: usize = 10;

/// Slices of a batch, when there are at least [`BATCHES_MIN`] of them.
const BATCH: usize = 5;

/// Fewest batches; with fewer, single slices are used.
const BATCHES_MIN: usize = 10;

/// Share of the batches that is never cut: a few last values may agree by chance.
const KEPT_MIN: f64 = 0.25;

/// A best cut in the last half means no steady state only when the level after it differs from the
/// level before by this many standard errors ...
const LEVEL_ERRORS: f64 = 5.0;

/// ... and by this share. Chance alone puts the best cut into the last half for 1 in 8 series of
/// 100 slices of pure noise, and a drift of a percent is less than trials differ by.
const LEVEL_SHARE: f64 = 0.02;

/// Finds the end of the warm-up of a series of rates, one a slice of equal length.
pub fn steady_state(slices: &[f64]) -> Steady {
    if slices.len() < SLICES_MIN || slices.iter().any(|value| !value.is_finite()) {
        return Steady::TooShort;
    }
    let batch = if slices.len() >= BATCH * BATCHES_MIN {
        BATCH
    } else {
        1
    };
    // Slices that do not fill a batch are dropped at the start, where the warm-up is.
    let rest = slices.len() % batch;
    let means: Vec<f64> = slices[rest..]
        .chunks_exact(batch)
        .map(|chunk| chunk.iter().sum::<f64>() / batch as f64)
        .collect();
    let errors = squared_errors(&means);
    let half = means.len() / 2;
    let (cut, least) = smallest(&errors[..half]);
    let (late, late_error) = smallest(&errors[half..]);
    if late_error < least && differs(&means[cut..half + late], &means[half + late..]) {
        return Steady::Never;
    }
    Steady::From(if cut == 0 { 0 } else { rest + cut * batch })
}

/// Whether the levels of two stretches differ significantly and relevantly.
fn differs(before: &[f64], after: &[f64]) -> bool {
    let mean = |values: &[f64]| values.iter().sum::<f64>() / values.len() as f64;
    let square = |values: &[f64]| {
        let (mean, n) = (mean(values), values.len() as f64);
        let squares: f64 = values.iter().map(|value| (value - mean).powi(2)).sum();
        squares / (n * (n - 1.0).max(1.0))
    };
    let step = (mean(after) - mean(before)).abs();
    let error = (square(before) + square(after)).sqrt();
    step > LEVEL_ERRORS * error && step > LEVEL_SHARE * mean(after).abs()
}

/// The squared standard error of the mean of what each cut leaves, from cut 0 to the last that
/// leaves [`KEPT_MIN`]: the sum of squares over the square of the count.
fn squared_errors(values: &[f64]) -> Vec<f64> {
    let kept_min = ((values.len() as f64 * KEPT_MIN) as usize).max(3);
    let mut errors = Vec::with_capacity(values.len());
    let (mut count, mut mean, mut squares) = (0.0, 0.0, 0.0);
    // From the end, adding one value at a time (Welford).
    for (kept, value) in values.iter().rev().enumerate() {
        count += 1.0;
        let off = value - mean;
        mean += off / count;
        squares += off * (value - mean);
        if kept + 1 >= kept_min {
            errors.push(squares / (count * count));
        }
    }
    errors.reverse();
    errors
}

/// Index and value of the smallest; the first of equal ones.
fn smallest(values: &[f64]) -> (usize, f64) {
    let ordered = values.iter().copied().enumerate();
    ordered
        .min_by(|a, b| a.1.total_cmp(&b.1))
        .unwrap_or((0, f64::INFINITY))
}

#[cfg(test)]
mod tests {
    use super::*;
    use random::SplitMix64;

    fn noisy(seed: u64, level: impl Fn(usize) -> f64, len: usize) -> Vec<f64> {
        let mut random = SplitMix64::new(seed);
        let noise = |random: &mut SplitMix64| 0.05 * (random.unit() + random.unit() - 1.0);
        (0..len)
            .map(|slice| level(slice) * (1.0 + noise(&mut random)))
            .collect()
    }

    #[test]
    fn mser_cuts_slow_start() {
        for seed in 0..50 {
            let series = noisy(seed, |slice| if slice < 23 { 40.0 } else { 100.0 }, 100);
            let Steady::From(cut) = steady_state(&series) else {
                panic!("steady from 23 on")
            };
            assert!((20..=45).contains(&cut), "seed {seed}: cut at {cut}");
        }
    }

    #[test]
    fn mser_cuts_gradual_start() {
        let rise = |slice: usize| 100.0 * (1.0 - (-(slice as f64) / 8.0).exp());
        let Steady::From(cut) = steady_state(&noisy(3, rise, 200)) else {
            panic!("steady soon")
        };
        assert!((15..=60).contains(&cut), "cut at {cut}");
    }

    #[test]
    fn pure_noise_is_steady() {
        let never = (0..1000).filter(|&seed| {
            let series = noisy(seed, |_| 100.0, 100);
            steady_state(&series) == Steady::Never
        });
        let never = never.count();
        assert!(never <= 5, "{never} of 1000");
    }

    #[test]
    fn late_level_shift_is_not_steady() {
        for seed in 0..50 {
            let series = noisy(seed, |slice| if slice < 70 { 60.0 } else { 100.0 }, 100);
            assert_eq!(steady_state(&series), Steady::Never, "seed {seed}");
        }
    }

    #[test]
    fn few_slices_are_unbatched_and_fewer_rejected() {
        let mut series = noisy(5, |_| 100.0, 20);
        series[0] = 10.0;
        assert!(matches!(steady_state(&series), Steady::From(1..=6)));
        assert_eq!(steady_state(&series[..9]), Steady::TooShort);
        assert_eq!(steady_state(&[f64::NAN; 20]), Steady::TooShort);
    }
}
