//! What the samples of one trial say by themselves: where its warm-up ends, the error of its mean, how fairly it
//! shared, and which percentiles it may show.
//!
//! Load generators ask while they measure, crate `stats` asks of what they stored, and the simulator of its
//! outcomes. Whatever compares trials with one another is in crate `stats`.
#![forbid(unsafe_code)]

pub mod series;
pub mod steady;

pub use series::{SeriesMean, series_mean};
pub use steady::{Steady, steady_state};

/// Jain's fairness index of shares: 1 when all are equal, 1/n when one has everything, and 1 when
/// all are 0. (Jain, Chiu and Hawe, DEC-TR-301, 1984.)
pub fn jain(shares: &[f64]) -> f64 {
    let sum: f64 = shares.iter().sum();
    let squares: f64 = shares.iter().map(|share| share * share).sum();
    if squares == 0.0 {
        return 1.0;
    }
    sum * sum / (shares.len() as f64 * squares)
}

/// Samples a percentile needs before it may be shown: 10 / (1 - q), so that about ten samples
/// lie beyond it.
pub fn samples_needed(q: f64) -> u64 {
    // 1 - 0.9 is a little below 0.1 in floating point; the margin corrects it before rounding up.
    (10.0 / (1.0 - q) - 1e-6).ceil() as u64
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn jain_index_ranges_from_one_nth_to_one() {
        assert_eq!(jain(&[5.0, 5.0, 5.0, 5.0]), 1.0);
        assert_eq!(jain(&[8.0, 0.0, 0.0, 0.0]), 0.25);
        assert_eq!(jain(&[]), 1.0);
    }

    #[test]
    fn percentile_needs_ten_samples_beyond_it() {
        let needed = [0.5, 0.9, 0.99, 0.999, 0.9999].map(samples_needed);
        assert_eq!(needed, [20, 100, 1000, 10_000, 100_000]);
    }
}
