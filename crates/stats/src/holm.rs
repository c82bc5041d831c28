//! Holm's correction for multiple comparisons.

/// The level of each test of a family, given their p-values, so that the family-wise error rate is
/// at most `alpha` (Holm, 1979).
///
/// The smallest p-value is compared with alpha / m, the next with alpha / (m - 1), and so on until
/// one fails; that one and all after it are judged at the level at which it failed. A test is
/// rejected when its p-value is at most its level. An absent test (NaN) counts in m.
pub fn levels(p_values: &[f64], alpha: f64) -> Vec<f64> {
    let mut order: Vec<usize> = (0..p_values.len()).collect();
    // NaN sorts last: it is never rejected.
    order.sort_by(|&a, &b| p_values[a].total_cmp(&p_values[b]));
    let mut levels = vec![alpha; p_values.len()];
    let mut failed = None;
    for (rank, &test) in order.iter().enumerate() {
        let level = failed.unwrap_or(alpha / (p_values.len() - rank) as f64);
        levels[test] = level;
        let rejected = p_values[test] <= level;
        if !rejected && failed.is_none() {
            failed = Some(level);
        }
    }
    levels
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn holm_steps_down_until_first_failure() {
        // Holm's own kind of example: 0.01 <= 0.0125, 0.013 <= 0.0167, 0.03 > 0.025.
        let p_values = [0.03, 0.01, 0.04, 0.013];
        let levels = levels(&p_values, 0.05);
        assert_eq!(levels, [0.025, 0.05 / 4.0, 0.025, 0.05 / 3.0]);
        let rejected: Vec<bool> = p_values.iter().zip(&levels).map(|(p, l)| p <= l).collect();
        assert_eq!(rejected, [false, true, false, true]);
    }

    #[test]
    fn single_test_gets_full_alpha() {
        assert_eq!(levels(&[0.2], 0.05), [0.05]);
        assert!(levels(&[], 0.05).is_empty());
    }

    #[test]
    fn absent_test_counts_in_family_size() {
        assert_eq!(levels(&[f64::NAN, 0.001], 0.05), [0.05, 0.025]);
    }
}
