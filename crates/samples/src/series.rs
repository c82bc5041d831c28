//! The mean of an autocorrelated series.
//!
//! Rates of neighbouring slices are correlated, so that n slices have less information than n
//! independent values. Batch means correct this: slices are joined into batches until the batches
//! are nearly uncorrelated, and give the standard error (Conway, 1963; Law and Kelton).

/// The mean of a series with its standard error.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct SeriesMean {
    /// The mean.
    pub mean: f64,
    /// Its standard error, corrected for autocorrelation.
    pub standard_error: f64,
    /// Lag-1 autocorrelation of the slices, -1 to 1.
    pub lag1: f64,
    /// Slices of a batch.
    pub batch: usize,
}

impl SeriesMean {
    /// Standard error over mean; infinite for a mean of 0.
    pub fn relative_error(&self) -> f64 {
        if self.mean == 0.0 {
            return f64::INFINITY;
        }
        (self.standard_error / self.mean).abs()
    }
}

/// Fewest batches.
const BATCHES_MIN: usize = 8;

/// Batches with a lag-1 autocorrelation below this count as independent.
const LAG1_MAX: f64 = 0.1;

/// The mean of `slices` with its standard error; None for fewer than 4.
pub fn series_mean(slices: &[f64]) -> Option<SeriesMean> {
    if slices.len() < 4 || slices.iter().any(|value| !value.is_finite()) {
        return None;
    }
    let mut batch = 1;
    let mut means = slices.to_vec();
    while lag1(&means) > LAG1_MAX && slices.len() / (2 * batch) >= BATCHES_MIN {
        batch *= 2;
        means = slices.chunks_exact(batch).map(mean).collect();
    }
    // Remaining autocorrelation is corrected as for a first-order autoregressive process.
    let left = lag1(&means).clamp(0.0, 0.9);
    let inflation = (1.0 + left) / (1.0 - left);
    let count = means.len() as f64;
    let variance = squares(&means) / (count - 1.0);
    Some(SeriesMean {
        mean: mean(slices),
        standard_error: (inflation * variance / count).sqrt(),
        lag1: lag1(slices),
        batch,
    })
}

/// Lag-1 autocorrelation; 0 for constant values.
pub fn lag1(values: &[f64]) -> f64 {
    let mean = mean(values);
    let products = values
        .windows(2)
        .map(|pair| (pair[0] - mean) * (pair[1] - mean));
    let squares = squares(values);
    if squares > 0.0 {
        products.sum::<f64>() / squares
    } else {
        0.0
    }
}

fn mean(values: &[f64]) -> f64 {
    values.iter().sum::<f64>() / values.len().max(1) as f64
}

fn squares(values: &[f64]) -> f64 {
    let mean = mean(values);
    values.iter().map(|value| (value - mean).powi(2)).sum()
}

#[cfg(test)]
mod tests {
    use super::*;
    use random::SplitMix64;

    /// A first-order process of correlation `r` around 100, deviation of the steps 1/sqrt(6).
    fn process(seed: u64, r: f64, len: usize) -> Vec<f64> {
        let mut random = SplitMix64::new(seed);
        let mut state = 0.0;
        let mut step = || {
            state = r * state + random.unit() + random.unit() - 1.0;
            100.0 + state
        };
        // The first steps forget the start at 0.
        let all: Vec<f64> = (0..50 + len).map(|_| step()).collect();
        all[50..].to_vec()
    }

    #[test]
    fn lag1_of_known_series() {
        assert!((lag1(&[1.0, 2.0, 3.0, 4.0, 5.0]) - 0.4).abs() < 1e-12);
        assert_eq!(lag1(&[7.0; 5]), 0.0);
        assert!((lag1(&process(1, 0.7, 5000)) - 0.7).abs() < 0.05);
    }

    #[test]
    fn independent_slices_give_iid_standard_error() {
        let series = series_mean(&process(2, 0.0, 400)).expect("400 slices");
        let usual = (1.0 / 6.0 / 400.0f64).sqrt();
        assert!(
            (series.standard_error / usual - 1.0).abs() < 0.25,
            "{series:?}"
        );
    }

    #[test]
    fn correlated_slices_inflate_standard_error() {
        // The true standard error of the mean is that of the steps over 1 - r.
        let truth = (1.0 / 6.0 / 400.0f64).sqrt() / 0.3;
        let errors = (0..200).map(|seed| {
            let series = series_mean(&process(seed, 0.7, 400)).expect("400 slices");
            series.standard_error / truth
        });
        let mut errors: Vec<f64> = errors.collect();
        errors.sort_by(f64::total_cmp);
        let typical = errors[errors.len() / 2];
        assert!((0.85..1.25).contains(&typical), "{typical}");
    }

    #[test]
    fn series_mean_needs_four_slices() {
        assert_eq!(series_mean(&[1.0, 2.0, 3.0]), None);
        assert_eq!(
            series_mean(&[0.0; 4]).map(|s| s.relative_error()),
            Some(f64::INFINITY)
        );
    }
}
