//! Verdicts on a family of paired comparisons at one family-wise level.

use crate::{holm, mean::Mean};
use results::{Cell, Verdict, VerdictKind, metric};

/// One comparison: a contestant against the baseline in one contest, or over all of them.
#[derive(Clone, Debug, PartialEq)]
pub struct Comparison {
    /// The cell without the transport; empty for an overall comparison.
    pub contest: Cell,
    /// The measure compared.
    pub metric: String,
    /// The contestant.
    pub contestant: String,
    /// The baseline.
    pub baseline: String,
    /// ln(contestant / baseline), one a block with valid trials of both.
    pub log_ratios: Vec<f64>,
}

/// Fewest pairs of a decision.
pub const PAIRS_MIN: usize = 3;

/// Most blocks that are advised.
pub const BLOCKS_MAX: usize = 1000;

/// Judges all `comparisons` of a family so that the probability of any false faster or slower is at
/// most `alpha` (Holm). A ratio counts as equal when its whole interval lies within 1 +-
/// `equal_within` (TOST).
pub fn judge(comparisons: &[Comparison], alpha: f64, equal_within: f64) -> Vec<Verdict> {
    let means: Vec<Option<Mean>> = comparisons
        .iter()
        .map(|comparison| Mean::of(&comparison.log_ratios))
        .collect();
    judge_means(comparisons, &means, alpha, equal_within)
}

/// Whether more of a metric is better; true for unknown ones.
pub fn more_is_better(name: &str) -> bool {
    metric::find(name).is_none_or(|metric| metric.more_is_better)
}

/// As [`judge`], from means of log-ratios.
pub(crate) fn judge_means(
    comparisons: &[Comparison],
    means: &[Option<Mean>],
    alpha: f64,
    equal_within: f64,
) -> Vec<Verdict> {
    let p_value = |mean: &Option<Mean>| mean.as_ref().map_or(f64::NAN, Mean::p_value);
    let p_values: Vec<f64> = means.iter().map(p_value).collect();
    let levels = holm::levels(&p_values, alpha);
    let judge_one = |((comparison, mean), level): ((&Comparison, &Option<Mean>), f64)| match mean {
        Some(mean) => verdict(comparison, mean, level, equal_within),
        None => undecided_verdict(comparison, level),
    };
    comparisons
        .iter()
        .zip(means)
        .zip(levels)
        .map(judge_one)
        .collect()
}

/// The verdict for an interval (`low`, `high`) of the ratio of `metric`.
pub fn kind(low: f64, high: f64, metric: &str, equal_within: f64) -> VerdictKind {
    if low >= 1.0 - equal_within && high <= 1.0 + equal_within {
        VerdictKind::Equal
    } else if low <= 1.0 && high >= 1.0 {
        VerdictKind::NotEnoughData
    } else if (low > 1.0) == more_is_better(metric) {
        VerdictKind::Faster
    } else {
        VerdictKind::Slower
    }
}

/// Limit of all interval ends, since a result file has no infinity.
const RATIO_MAX: f64 = 1e6;

fn verdict(comparison: &Comparison, mean: &Mean, alpha: f64, equal_within: f64) -> Verdict {
    let (low, high) = mean.interval(alpha);
    let (low, high) = (ratio(low), ratio(high));
    let kind = kind(low, high, &comparison.metric, equal_within);
    let undecided = kind == VerdictKind::NotEnoughData;
    Verdict {
        kind,
        ratio: ratio(mean.mean),
        low,
        high,
        pairs: u32::try_from(mean.n).unwrap_or(u32::MAX),
        blocks_needed: undecided
            .then(|| blocks_needed(mean, alpha, equal_within))
            .flatten(),
        ..undecided_verdict(comparison, alpha)
    }
}

/// The verdict with too few pairs.
fn undecided_verdict(comparison: &Comparison, alpha: f64) -> Verdict {
    let logs = &comparison.log_ratios;
    let mean = logs.iter().sum::<f64>() / logs.len().max(1) as f64;
    Verdict {
        contest: comparison.contest.clone(),
        metric: comparison.metric.clone(),
        contestant: comparison.contestant.clone(),
        baseline: comparison.baseline.clone(),
        kind: VerdictKind::NotEnoughData,
        ratio: ratio(mean),
        low: 1.0 / RATIO_MAX,
        high: RATIO_MAX,
        alpha,
        pairs: u32::try_from(logs.len()).unwrap_or(u32::MAX),
        blocks_needed: None,
        because: String::new(),
    }
}

fn ratio(log: f64) -> f64 {
    log.exp().clamp(1.0 / RATIO_MAX, RATIO_MAX)
}

/// Total blocks after which this mean and variance would be decided; None beyond [`BLOCKS_MAX`].
/// The interval narrows with every block but for small steps where one more value is trimmed, which
/// the binary search may miss by a block or two.
fn blocks_needed(mean: &Mean, alpha: f64, equal_within: f64) -> Option<u32> {
    let decided = |n: usize| {
        let half = mean.half_width_with(n, alpha);
        let within = |end: f64| (end.exp() - 1.0).abs() <= equal_within;
        mean.mean.abs() > half || within(mean.mean - half) && within(mean.mean + half)
    };
    if !decided(BLOCKS_MAX) {
        return None;
    }
    let (mut open, mut enough) = (mean.n, BLOCKS_MAX.max(mean.n + 1));
    while enough - open > 1 {
        let middle = open.midpoint(enough);
        if decided(middle) {
            enough = middle;
        } else {
            open = middle;
        }
    }
    u32::try_from(enough).ok()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::distribution::student_quantile;

    fn comparison(log_ratios: &[f64]) -> Comparison {
        Comparison {
            contest: Cell::default(),
            metric: metric::MESSAGES_PER_S.to_owned(),
            contestant: "udp".into(),
            baseline: "tcp".into(),
            log_ratios: log_ratios.to_vec(),
        }
    }

    fn alone(log_ratios: &[f64]) -> Verdict {
        judge(&[comparison(log_ratios)], 0.05, 0.03).remove(0)
    }

    #[test]
    fn verdict_interval_is_paired_t() {
        let logs = [0.30, 0.34, 0.32, 0.31, 0.33];
        let verdict = alone(&logs);
        let half = student_quantile(0.975, 4.0) * (0.001f64 / 4.0 / 5.0).sqrt();
        assert!((verdict.ratio - 0.32f64.exp()).abs() < 1e-12);
        assert!((verdict.low - (0.32 - half).exp()).abs() < 1e-12);
        assert!((verdict.high - (0.32 + half).exp()).abs() < 1e-12);
        assert_eq!(
            (verdict.kind, verdict.pairs, verdict.alpha),
            (VerdictKind::Faster, 5, 0.05)
        );
        assert_eq!(verdict.blocks_needed, None);
    }

    #[test]
    fn verdict_kind_follows_interval_and_metric_direction() {
        for (low, high, more, less) in [
            (1.1, 1.2, VerdictKind::Faster, VerdictKind::Slower),
            (0.8, 0.9, VerdictKind::Slower, VerdictKind::Faster),
            (0.97, 1.03, VerdictKind::Equal, VerdictKind::Equal),
            (1.01, 1.02, VerdictKind::Equal, VerdictKind::Equal),
            (
                0.9,
                1.02,
                VerdictKind::NotEnoughData,
                VerdictKind::NotEnoughData,
            ),
            (1.01, 1.05, VerdictKind::Faster, VerdictKind::Slower),
        ] {
            assert_eq!(kind(low, high, metric::MESSAGES_PER_S, 0.03), more);
            assert_eq!(kind(low, high, metric::DELAY_P50_US, 0.03), less);
        }
    }

    #[test]
    fn blocks_needed_is_sufficient_and_minimal() {
        let logs = [0.10, -0.05, 0.12, 0.02, 0.01];
        let verdict = alone(&logs);
        assert_eq!(verdict.kind, VerdictKind::NotEnoughData);
        let needed = verdict.blocks_needed.expect("within 1000") as usize;
        assert!(needed > 5);
        let mean = Mean::of(&logs).expect("five values");
        assert!(mean.half_width_with(needed, 0.05) < 0.04);
        assert!(mean.half_width_with(needed - 2, 0.05) > 0.03);
    }

    #[test]
    fn equality_needs_interval_within_band() {
        let needed = alone(&[0.05, -0.05, 0.05, -0.05, 0.0]).blocks_needed;
        // A deviation of 5 % (trimming widens it), 3 % wanted at t about 2.1: 12 or more.
        assert!(
            needed.is_some_and(|blocks| (12..=30).contains(&blocks)),
            "{needed:?}"
        );
        let hopeless = alone(&[2.0, -2.0, 1.0, -1.0, 0.0]).blocks_needed;
        assert_eq!(hopeless, None);
    }

    #[test]
    fn two_pairs_are_undecided() {
        let verdict = alone(&[1.0, 1.0]);
        assert_eq!(
            (verdict.kind, verdict.pairs),
            (VerdictKind::NotEnoughData, 2)
        );
        assert!(verdict.low < 0.001 && verdict.high > 1000.0);
    }

    #[test]
    fn extreme_ratios_stay_finite() {
        let verdict = alone(&[600.0, -600.0, 700.0]);
        assert!(verdict.low > 0.0 && verdict.high.is_finite());
    }
}
