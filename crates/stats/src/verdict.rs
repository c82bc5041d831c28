//! Verdicts: what a family of paired comparisons says at one family-wise level.

use crate::{holm, mean::Mean};
use results::{Cell, Verdict, VerdictKind, metric};

/// One comparison: a contestant against the baseline in one contest, or over all of them.
#[derive(Clone, Debug, PartialEq)]
pub struct Question {
    /// The cell without the transport; empty for an overall question.
    pub contest: Cell,
    /// The measure compared.
    pub metric: String,
    /// The contestant.
    pub contestant: String,
    /// What it is compared with.
    pub baseline: String,
    /// ln(contestant / baseline), one a block in which both counted.
    pub log_ratios: Vec<f64>,
}

/// Pairs below which nothing is decided.
pub const PAIRS_MIN: usize = 3;

/// Blocks beyond which "more blocks would do" is no advice.
pub const BLOCKS_MAX: usize = 1000;

/// Answers all `questions` of a family so that the probability of any false faster or slower is
/// at most `alpha` (Holm). A ratio counts as equal when its whole interval lies within 1 +-
/// `equal_within`.
pub fn judge(questions: &[Question], alpha: f64, equal_within: f64) -> Vec<Verdict> {
    let means: Vec<Option<Mean>> = questions
        .iter()
        .map(|question| Mean::of(&question.log_ratios))
        .collect();
    answers(questions, &means, alpha, equal_within)
}

/// Whether more of a metric is better; yes for one nobody knows.
pub fn more_is_better(name: &str) -> bool {
    metric::find(name).is_none_or(|metric| metric.more_is_better)
}

/// As [`judge`], from means of log-ratios that are there already.
pub(crate) fn answers(
    questions: &[Question],
    means: &[Option<Mean>],
    alpha: f64,
    equal_within: f64,
) -> Vec<Verdict> {
    let p_value = |mean: &Option<Mean>| mean.as_ref().map_or(f64::NAN, Mean::p_value);
    let p_values: Vec<f64> = means.iter().map(p_value).collect();
    let levels = holm::levels(&p_values, alpha);
    let answer = |((question, mean), level): ((&Question, &Option<Mean>), f64)| match mean {
        Some(mean) => answer(question, mean, level, equal_within),
        None => unknown(question, level),
    };
    questions
        .iter()
        .zip(means)
        .zip(levels)
        .map(answer)
        .collect()
}

/// What an interval (`low`, `high`) of the ratio says about `metric`.
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

/// Ends of an interval that knows nothing, and of every other: a result file has no infinity.
const RATIO_MAX: f64 = 1e6;

fn answer(question: &Question, mean: &Mean, alpha: f64, equal_within: f64) -> Verdict {
    let (low, high) = mean.interval(alpha);
    let (low, high) = (ratio(low), ratio(high));
    let kind = kind(low, high, &question.metric, equal_within);
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
        ..unknown(question, alpha)
    }
}

/// The verdict before there are pairs enough for any other.
fn unknown(question: &Question, alpha: f64) -> Verdict {
    let logs = &question.log_ratios;
    let mean = logs.iter().sum::<f64>() / logs.len().max(1) as f64;
    Verdict {
        contest: question.contest.clone(),
        metric: question.metric.clone(),
        contestant: question.contestant.clone(),
        baseline: question.baseline.clone(),
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

/// Blocks, in all, after which a mean and a spread like these would be decided; None beyond
/// [`BLOCKS_MAX`]. The interval narrows with every block but for small steps where one more
/// value is trimmed, which a search by halving may miss by a block or two.
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
