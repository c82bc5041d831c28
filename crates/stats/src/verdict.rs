//! Verdicts on a family of paired comparisons at one family-wise level.

use crate::{holm, mean::Mean, moderation};
use results::{Cell, Verdict, VerdictKind, metric};
use std::collections::BTreeMap;

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

/// Judges all `comparisons` of a family at one look, so that the probability of any false faster,
/// slower or equal is at most `alpha` (Holm). A ratio counts as equal within 1 +- `equal_within` by two
/// one-sided tests (TOST).
///
/// `earlier` has the verdicts of the look before. What was decided then stays decided, and its share
/// of the level passes to the others (Maurer and Bretz, 2013). Variances are moderated within a
/// metric ([`crate::moderation`]).
pub fn judge(
    comparisons: &[Comparison],
    earlier: &[Verdict],
    alpha: f64,
    equal_within: f64,
) -> Vec<Verdict> {
    let mut means: Vec<Option<Mean>> = comparisons
        .iter()
        .map(|comparison| Mean::of(&comparison.log_ratios))
        .collect();
    moderate_by_kind(comparisons, &mut means);
    let before: Vec<Option<&Verdict>> = comparisons
        .iter()
        .map(|comparison| {
            earlier
                .iter()
                .find(|verdict| comparison.is_decided_by(verdict))
        })
        .collect();
    let p_value = |(mean, before): (&Option<Mean>, &Option<&Verdict>)| match before {
        Some(_) => 0.0,
        None => p_value(mean, equal_within),
    };
    let p_values: Vec<f64> = means.iter().zip(&before).map(p_value).collect();
    let levels = holm::levels(&p_values, alpha);
    let judged = verdicts(comparisons, &means, &levels, equal_within);
    judged
        .into_iter()
        .zip(before)
        .map(|(now, before)| kept(now, before))
        .collect()
}

/// An earlier verdict, with the interval of now where that says the same. One over all contests stays as
/// it is: contests that were decided may run no more, and a mean over the others is another question.
fn kept(now: Verdict, before: Option<&Verdict>) -> Verdict {
    match before {
        Some(before) if before.kind != now.kind || now.contest.0.is_empty() => before.clone(),
        _ => now,
    }
}

/// Moderates the variances of comparisons of one metric; those over all contests are a kind of their
/// own.
fn moderate_by_kind(comparisons: &[Comparison], means: &mut [Option<Mean>]) {
    let mut kinds: BTreeMap<(&str, bool), Vec<&mut Mean>> = BTreeMap::new();
    for (comparison, mean) in comparisons.iter().zip(means) {
        let kind = (comparison.metric.as_str(), comparison.contest.0.is_empty());
        kinds.entry(kind).or_default().extend(mean.as_mut());
    }
    for mut means in kinds.into_values() {
        moderation::moderate(&mut means);
    }
}

impl Comparison {
    /// Whether it is what a verdict decided.
    fn is_decided_by(&self, verdict: &Verdict) -> bool {
        verdict.kind != VerdictKind::NotEnoughData
            && verdict.contest == self.contest
            && verdict.metric == self.metric
            && verdict.contestant == self.contestant
    }
}

/// Whether more of a metric is better, also of one circuit's; true for unknown ones.
pub fn more_is_better(name: &str) -> bool {
    let whole = metric::of_leg(name).map_or(name, |(measure, _)| measure);
    metric::find(whole).is_none_or(|metric| metric.more_is_better)
}

/// As [`judge`] at a single look, from means of log-ratios as they are.
pub(crate) fn judge_means(
    comparisons: &[Comparison],
    means: &[Option<Mean>],
    alpha: f64,
    equal_within: f64,
) -> Vec<Verdict> {
    let p_values = means.iter().map(|mean| p_value(mean, equal_within));
    let levels = holm::levels(&p_values.collect::<Vec<f64>>(), alpha);
    verdicts(comparisons, means, &levels, equal_within)
}

/// The smallest level at which there is a decision: that of a difference, or of equality. Of the two
/// hypotheses that these reject, at most one is true, so that a comparison has one share of the level.
fn p_value(mean: &Option<Mean>, equal_within: f64) -> f64 {
    let Some(mean) = mean else {
        return f64::NAN;
    };
    let (low, high) = band(equal_within);
    mean.p_value().min(mean.p_value_outside(low, high))
}

/// The logarithms of 1 +- `equal_within`.
fn band(equal_within: f64) -> (f64, f64) {
    ((1.0 - equal_within).ln(), (1.0 + equal_within).ln())
}

fn verdicts(
    comparisons: &[Comparison],
    means: &[Option<Mean>],
    levels: &[f64],
    equal_within: f64,
) -> Vec<Verdict> {
    let judge_one = |((comparison, mean), &level): ((&Comparison, &Option<Mean>), &f64)| match mean
    {
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
    let (low, high) = band(equal_within);
    let equal = mean.p_value_outside(low, high) <= alpha;
    // Two one-sided tests at a level are an interval at twice that level.
    let alpha = if equal { 2.0 * alpha } else { alpha };
    let (low, high) = mean.interval(alpha);
    let (low, high) = (ratio(low), ratio(high));
    let kind = match equal {
        true => VerdictKind::Equal,
        false => kind(low, high, &comparison.metric, equal_within),
    };
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

/// Total blocks after which this mean and variance would be decided; None beyond
/// [`Verdict::BLOCKS_MAX`].
/// The interval narrows with every block but for small steps where one more value is trimmed, which
/// the binary search may miss by a block or two.
fn blocks_needed(mean: &Mean, alpha: f64, equal_within: f64) -> Option<u32> {
    let (low, high) = band(equal_within);
    let decided = |n: usize| {
        let half = mean.half_width_with(n, 2.0 * alpha);
        let equal = mean.mean - half >= low && mean.mean + half <= high;
        equal || mean.mean.abs() > mean.half_width_with(n, alpha)
    };
    let most = Verdict::BLOCKS_MAX as usize;
    if !decided(most) {
        return None;
    }
    let (mut open, mut enough) = (mean.n, most.max(mean.n + 1));
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
        judge(&[comparison(log_ratios)], &[], 0.05, 0.03).remove(0)
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
        // A deviation of 5 % (trimming widens it), 3 % wanted at t about 1.8, one-sided: 11 or more.
        assert!(
            needed.is_some_and(|blocks| (11..=25).contains(&blocks)),
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
