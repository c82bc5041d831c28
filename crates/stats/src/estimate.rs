//! Medians and quantiles, with their intervals.

use results::Estimate;

/// The value in the middle of `values`, the mean of the middle two when their number is even.
/// NaN when there are none.
pub fn median(values: &[f64]) -> f64 {
    quantile(values, 0.5)
}

/// The `q`-quantile of `values`, interpolated between the two values next to it (Hyndman and
/// Fan's type 7). NaN when there are none.
pub fn quantile(values: &[f64], q: f64) -> f64 {
    quantile_of_sorted(&sorted(values), q)
}

/// The three quartiles of `values`.
pub fn quartiles(values: &[f64]) -> [f64; 3] {
    let sorted = sorted(values);
    [0.25, 0.5, 0.75].map(|q| quantile_of_sorted(&sorted, q))
}

/// The median of `values` with its distribution-free 95 % interval, whose ends are two of the
/// values. Below 6 values no such interval exists, and the smallest and the largest are given.
pub fn estimate(values: &[f64]) -> Estimate {
    if values.is_empty() {
        return Estimate::default();
    }
    let sorted = sorted(values);
    let rank = median_rank(sorted.len());
    Estimate {
        median: quantile_of_sorted(&sorted, 0.5),
        low: sorted[rank],
        high: sorted[sorted.len() - 1 - rank],
        n: u32::try_from(sorted.len()).unwrap_or(u32::MAX),
    }
}

/// Index, from either end of n sorted values, of the ends of the median's 95 % interval: the
/// largest k for which fewer than k + 1 of n fair coins show heads with at most 2.5 %.
fn median_rank(n: usize) -> usize {
    if n > 1000 {
        return (0.5 * (n as f64 - 1.96 * (n as f64).sqrt())).floor() as usize;
    }
    let mut term = 0.5f64.powi(n as i32);
    let mut sum = term;
    let mut rank = 0;
    while sum <= 0.025 && rank < n / 2 {
        rank += 1;
        term *= (n - rank + 1) as f64 / rank as f64;
        sum += term;
    }
    rank.saturating_sub(1)
}

fn quantile_of_sorted(sorted: &[f64], q: f64) -> f64 {
    if sorted.is_empty() {
        return f64::NAN;
    }
    let position = q.clamp(0.0, 1.0) * (sorted.len() - 1) as f64;
    let below = position.floor() as usize;
    let above = position.ceil() as usize;
    let share = position - below as f64;
    if share == 0.0 {
        return sorted[below];
    }
    // Not `a + share * (b - a)`, which overflows between values far apart.
    (1.0 - share) * sorted[below] + share * sorted[above]
}

fn sorted(values: &[f64]) -> Vec<f64> {
    let mut sorted = values.to_vec();
    sorted.sort_by(f64::total_cmp);
    sorted
}

#[cfg(test)]
mod tests {
    use super::*;
    use random::SplitMix64;

    #[test]
    fn quartiles_are_interpolated() {
        assert_eq!(quartiles(&[4.0, 1.0, 3.0, 2.0, 5.0]), [2.0, 3.0, 4.0]);
        assert_eq!(median(&[1.0, 2.0, 4.0, 9.0]), 3.0);
        assert_eq!(quantile(&[1.0, 2.0], 0.25), 1.25);
        assert!(median(&[]).is_nan());
    }

    #[test]
    fn median_ranks_match_sign_test_tables() {
        // Printed in tables of the sign test: n, and the rank (from 1) of the lower end.
        for (n, rank) in [
            (6, 1),
            (8, 1),
            (9, 2),
            (10, 2),
            (12, 3),
            (15, 4),
            (20, 6),
            (25, 8),
            (50, 18),
            (100, 40),
        ] {
            assert_eq!(median_rank(n) + 1, rank, "n = {n}");
        }
        // Exact and approximate ranks meet.
        assert!(median_rank(1000).abs_diff(median_rank(1001)) <= 1);
    }

    #[test]
    fn median_interval_is_range_below_six_values() {
        let five = estimate(&[3.0, 9.0, 1.0, 5.0, 4.0]);
        assert_eq!(
            (five.low, five.median, five.high, five.n),
            (1.0, 4.0, 9.0, 5)
        );
        assert_eq!(estimate(&[2.0]).low, 2.0);
        assert_eq!(estimate(&[]), Estimate::default());
    }

    #[test]
    fn median_interval_has_nominal_coverage() {
        let mut random = SplitMix64::new(1);
        let covered = (0..2000).filter(|_| {
            let values: Vec<f64> = (0..12).map(|_| random.unit().powi(3)).collect();
            let interval = estimate(&values);
            (interval.low..=interval.high).contains(&0.125)
        });
        assert!(covered.count() >= 1880, "95 % of 2000 less two deviations");
    }
}
