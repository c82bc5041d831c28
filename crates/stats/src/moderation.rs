//! Variances moderated across the comparisons of a race (empirical Bayes; Smyth, 2004, "limma").
//!
//! Three or five blocks say little about the noise of one comparison, and a t interval of two or four
//! degrees of freedom is wide for that reason alone. The other comparisons of the same metric ran on
//! the same machine. Their variances s^2 are taken as draws from a prior, v0 * d0 / chi-squared(d0),
//! and each comparison gets
//!
//! * the variance (d0 v0 + d s^2) / (d0 + d),
//! * and d0 + d degrees of freedom.
//!
//! v0 and d0 come from the mean and the variance of ln s^2. Where variances differ by more than chance,
//! d0 is small, and the rule is close to that of one comparison alone.
//!
//! That rule alone breaks the level where one contestant is noisier than the others, since its variance
//! is drawn towards theirs. Three restrictions keep it (docs/method.md, section 8): a bound above the
//! variance of ln s^2 is used, and not its estimate; no standard error becomes smaller than a
//! comparison's own; and fewer than [`COMPARISONS_MIN`] comparisons are left as they are.

use crate::mean::Mean;
use crate::polygamma::{digamma, trigamma, trigamma_inverse};

/// What the variances of a race have in common.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Prior {
    /// The typical variance of one log-ratio.
    pub variance: f64,
    /// Degrees of freedom that it is worth.
    pub df: f64,
}

/// Fewest comparisons that a prior is estimated from: with six of them, of which one is three times as
/// noisy, one race in ten had a false verdict.
pub const COMPARISONS_MIN: usize = 12;

/// Standard deviations that the bound on the variance of ln s^2 lies above its estimate.
const BOUND_DEVIATIONS: f64 = 2.0;

/// Most degrees of freedom of a prior.
const DF_MAX: f64 = 30.0;

/// The prior of comparisons with these (variance, degrees of freedom); None for fewer than
/// [`COMPARISONS_MIN`].
pub fn prior(variances: &[(f64, f64)]) -> Option<Prior> {
    if variances.len() < COMPARISONS_MIN {
        return None;
    }
    let count = variances.len() as f64;
    let centred =
        |&(variance, df): &(f64, f64)| variance.ln() - digamma(df / 2.0) + (df / 2.0).ln();
    let logs: Vec<f64> = variances.iter().map(centred).collect();
    let mean = logs.iter().sum::<f64>() / count;
    let squares: f64 = logs.iter().map(|log| (log - mean).powi(2)).sum();
    let sampling = variances
        .iter()
        .map(|(_, df)| trigamma(df / 2.0))
        .sum::<f64>()
        / count;
    let bound = 1.0 + BOUND_DEVIATIONS * (2.0 / (count - 1.0)).sqrt();
    let excess = bound * squares / (count - 1.0) - sampling;
    let df = match excess > 0.0 {
        true => (2.0 * trigamma_inverse(excess)).min(DF_MAX),
        false => DF_MAX,
    };
    let variance = (mean + digamma(df / 2.0) - (df / 2.0).ln()).exp();
    Some(Prior { variance, df })
}

/// Moderates the means of comparisons of one kind.
pub(crate) fn moderate(means: &mut [&mut Mean]) {
    let variances: Vec<(f64, f64)> = means
        .iter()
        .map(|mean| (mean.variance(), mean.df))
        .collect();
    if let Some(prior) = prior(&variances) {
        for mean in means {
            **mean = mean.moderated(prior);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use random::SplitMix64;

    /// A sample variance with 4 degrees of freedom around 1.
    fn draw(random: &mut SplitMix64) -> f64 {
        let mut normal = || {
            let radius = (-2.0 * (1.0 - random.unit()).ln()).sqrt();
            radius * (std::f64::consts::TAU * random.unit()).cos()
        };
        (0..4).map(|_| normal().powi(2)).sum::<f64>() / 4.0
    }

    #[test]
    fn equal_variances_give_a_strong_prior_and_unlike_ones_a_weak_one() {
        let mut random = SplitMix64::new(3);
        let same: Vec<(f64, f64)> = (0..200).map(|_| (draw(&mut random), 4.0)).collect();
        let found = prior(&same).expect("many comparisons");
        assert!(found.df > 10.0, "{found:?}");
        assert!((found.variance - 1.0).abs() < 0.2, "{found:?}");
        let unlike: Vec<(f64, f64)> = same
            .iter()
            .enumerate()
            .map(|(at, (variance, df))| (variance * [1.0, 1.0, 9.0][at % 3], *df))
            .collect();
        let weak = prior(&unlike).expect("many comparisons");
        assert!(weak.df < 0.6 * found.df && weak.df < 6.0, "{weak:?}");
    }

    #[test]
    fn few_comparisons_give_a_weak_prior_or_none() {
        let mut random = SplitMix64::new(4);
        let twelve: Vec<(f64, f64)> = (0..12).map(|_| (draw(&mut random), 4.0)).collect();
        assert_eq!(prior(&twelve[..COMPARISONS_MIN - 1]), None);
        let weak = prior(&twelve).expect("enough comparisons");
        let stronger = prior(&twelve.repeat(6)).expect("enough comparisons");
        assert!(weak.df < stronger.df, "{weak:?} {stronger:?}");
    }

    #[test]
    fn noisy_comparison_keeps_its_own_error() {
        let noisy = Mean::of(&[0.3, -0.3, 0.2, -0.2, 0.0]).expect("five values");
        let prior = Prior {
            variance: 0.0009,
            df: 8.0,
        };
        assert_eq!(noisy.moderated(prior).standard_error, noisy.standard_error);
    }

    #[test]
    fn moderated_variance_lies_between_and_has_more_degrees() {
        let quiet = Mean::of(&[0.01, 0.011, 0.012, 0.011, 0.010]).expect("five values");
        let prior = Prior {
            variance: 0.0009,
            df: 8.0,
        };
        let moderated = quiet.moderated(prior);
        assert_eq!(moderated.df, 12.0);
        assert_eq!(moderated.mean, quiet.mean);
        let expected = (8.0 * 0.0009 + 4.0 * quiet.variance()) / 12.0;
        assert!((moderated.variance() / expected - 1.0).abs() < 1e-12);
        let n = moderated.n;
        let (low, high) = moderated.interval(0.05);
        let half = moderated.half_width_with(n, 0.05);
        assert!((half - (high - low) / 2.0).abs() < 1e-12);
    }
}
