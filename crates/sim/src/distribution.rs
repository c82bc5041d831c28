//! Random lengths and times by integer arithmetic alone, equal on every machine.

use engine::SplitMix64;

/// Distribution of lengths, or of times between two messages.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Distribution {
    /// Always this.
    Fixed(u64),
    /// All values from `min` to `max`, both included, equally likely.
    Uniform {
        /// Minimum.
        min: u64,
        /// Maximum.
        max: u64,
    },
    /// Exponential with this mean.
    Exponential(u64),
}

impl Distribution {
    /// The next value.
    pub fn draw(&self, random: &mut SplitMix64) -> u64 {
        match *self {
            Distribution::Fixed(value) => value,
            Distribution::Uniform { min, max } => {
                let width = max.saturating_sub(min).saturating_add(1);
                min + random.below(width)
            }
            Distribution::Exponential(mean) => exponential(mean, random),
        }
    }

    /// The same with all values `factor` times as large, rounded.
    pub fn scaled(&self, factor: f64) -> Distribution {
        let scale = |value: u64| (value as f64 * factor).round() as u64;
        match *self {
            Distribution::Fixed(value) => Distribution::Fixed(scale(value)),
            Distribution::Uniform { min, max } => Distribution::Uniform {
                min: scale(min),
                max: scale(max),
            },
            Distribution::Exponential(mean) => Distribution::Exponential(scale(mean)),
        }
    }

    /// The mean.
    pub fn mean(&self) -> f64 {
        match *self {
            Distribution::Fixed(value) | Distribution::Exponential(value) => value as f64,
            Distribution::Uniform { min, max } => (min as f64 + max as f64) / 2.0,
        }
    }
}

/// An exponential variate by comparisons of uniform ones (von Neumann, 1951).
///
/// A run u1 > u2 > ... ends after n numbers; n is odd with probability e^-u1. Then u1 is the
/// fraction, and the rounds that failed before, each with probability 1/e, are the integer part.
fn exponential(mean: u64, random: &mut SplitMix64) -> u64 {
    let mut whole = 0u128;
    loop {
        let first = random.next_u64();
        let mut last = first;
        let mut odd = true;
        loop {
            let next = random.next_u64();
            if next >= last {
                break;
            }
            last = next;
            odd = !odd;
        }
        if odd {
            let units = (whole << 64) | u128::from(first);
            return scaled(mean, units);
        }
        whole += 1;
    }
}

/// `mean` times `units` / 2^64. `units` stays far below 2^72, so a mean below 2^56 fits.
fn scaled(mean: u64, units: u128) -> u64 {
    let (high, low) = ((units >> 64) as u64, units as u64);
    let fraction = (u128::from(mean) * u128::from(low)) >> 64;
    mean.saturating_mul(high).saturating_add(fraction as u64)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn exponential_variates_match_mean_variance_and_median() {
        let mut random = SplitMix64::new(1);
        let mean = 1_000_000u64;
        let draws: Vec<f64> = (0..200_000)
            .map(|_| Distribution::Exponential(mean).draw(&mut random) as f64 / mean as f64)
            .collect();
        let count = draws.len() as f64;
        let average = draws.iter().sum::<f64>() / count;
        let square = draws.iter().map(|x| x * x).sum::<f64>() / count;
        // Standard errors: 1/sqrt(n) of the mean, sqrt(20/n) of the mean square 2.
        assert!((average - 1.0).abs() < 5.0 / count.sqrt(), "{average}");
        assert!(
            (square - 2.0).abs() < 5.0 * (20.0 / count).sqrt(),
            "{square}"
        );
        for (limit, share) in [(0.5f64, 0.5), (0.1, 0.1), (0.001, 0.001)]
            .map(|(q, share): (f64, f64)| (-q.ln(), share))
        {
            let above = draws.iter().filter(|x| **x > limit).count() as f64 / count;
            let deviation = (share * (1.0 - share) / count).sqrt();
            assert!((above - share).abs() < 5.0 * deviation, "{limit}: {above}");
        }
    }

    #[test]
    fn uniform_values_reach_both_ends() {
        let mut random = SplitMix64::new(2);
        let distribution = Distribution::Uniform { min: 3, max: 6 };
        let mut seen = [0; 10];
        for _ in 0..1000 {
            seen[distribution.draw(&mut random) as usize] += 1;
        }
        assert!(seen[3..=6].iter().all(|n| *n > 150), "{seen:?}");
        assert_eq!(seen.iter().sum::<i32>(), seen[3..=6].iter().sum::<i32>());
    }
}
