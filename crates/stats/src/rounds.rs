//! The log-ratio of a block whose contestants took turns: the mean of the middle third of its rounds.
//!
//! In each round of a block every contestant has one turn of some milliseconds, next to those of the others. What takes a
//! processor away - another virtual machine, another program - falls into some of the turns, and a sum over turns is then
//! about which ones. The middle third of the rounds' log-ratios is not, as long as fewer than a third of them are hit on either side.

use crate::contests::Contest;
use crate::mean::Mean;
use results::phrasing::{contest_text, verb_and_object};
use results::{Plan, TURNS_SERIES, Trial};
use std::collections::BTreeMap;

/// The log-ratio of a contestant to the baseline: the mean of the middle third of the rounds' log-ratios, and of a block with a
/// control the mean of two such, one against each of the baseline's trials. Put in order together, the rounds of both would
/// make a contestant as fast as the baseline slower: a stall of its own is in two of them, and one of the baseline in one.
/// The values are those of each turn. None where a third of the rounds have no value, or a trial another number of turns.
pub fn typical_log_ratio(ours: &[f64], baseline: &[&[f64]]) -> Option<f64> {
    let of_one = |theirs: &&[f64]| log_ratios(ours, theirs).map(mean_of_middle_third);
    let ratios: Option<Vec<f64>> = baseline.iter().map(of_one).collect();
    let ratios = ratios?;
    let mean = ratios.iter().sum::<f64>() / ratios.len() as f64;
    mean.is_finite().then_some(mean)
}

/// The mean of `values` without the smallest and the largest third; a value on the edge counts by its part within. Not a number of
/// none.
fn mean_of_middle_third(mut values: Vec<f64>) -> f64 {
    values.sort_by(f64::total_cmp);
    let third = values.len() as f64 / 3.0;
    let weight = |at: usize| {
        let (begin, end) = (at as f64, at as f64 + 1.0);
        (end.min(2.0 * third) - begin.max(third)).max(0.0)
    };
    // A value of no weight may be infinite.
    let weighed = values.iter().enumerate();
    let weighed = weighed.map(|(at, value)| (weight(at), value));
    let kept = weighed.filter(|(weight, _)| *weight > 1e-9);
    kept.map(|(weight, value)| weight * value).sum::<f64>() / third
}

/// The log-ratios of two trials of a block, round by round. A round in which only one of them had messages is infinite; one
/// without messages of both is left out.
fn log_ratios(ours: &[f64], theirs: &[f64]) -> Option<Vec<f64>> {
    let pairs = ours.iter().zip(theirs);
    let ratios = pairs.map(|(one, other)| one.ln() - other.ln());
    let ratios = ratios.filter(|ratio| !ratio.is_nan()).collect();
    (ours.len() == theirs.len()).then_some(ratios)
}

/// The log-ratios of two trials of a block, round by round; None unless both had turns, at least two of them, and messages in each.
pub(crate) fn of_trials(ours: &Trial, theirs: &Trial) -> Option<Vec<f64>> {
    let ratios = log_ratios(turns(ours)?, turns(theirs)?)?;
    let usable = ratios.len() > 1 && ratios.iter().all(|ratio| ratio.is_finite());
    usable.then_some(ratios)
}

/// [`typical_log_ratio`] of trials; None without turns of all.
pub(crate) fn typical(ours: &Trial, baseline: &[&Trial]) -> Option<f64> {
    let baseline: Option<Vec<&[f64]>> = baseline.iter().map(|trial| turns(trial)).collect();
    typical_log_ratio(turns(ours)?, &baseline?)
}

/// The values of a trial's turns.
fn turns(trial: &Trial) -> Option<&[f64]> {
    trial
        .series
        .get(TURNS_SERIES)
        .map(|one| one.values.as_slice())
}

/// Contestants that moved so much less (or more) against the baseline in all their turns than in a typical round that the ratio of
/// a verdict does not show it: one sentence each, at the level of the plan for all of them together.
pub(crate) fn stalled(contests: &[Contest], plan: &Plan) -> Vec<String> {
    let asked: Vec<(&Contest, &String)> = contests
        .iter()
        .flat_map(|contest| contest.transports.iter().map(move |name| (contest, name)))
        .filter(|(_, name)| **name != plan.baseline)
        .collect();
    let alpha = plan.alpha / asked.len().max(1) as f64;
    let judge = |(contest, name): (&Contest, &String)| {
        let (typical, beyond) = beyond_typical(contest, name, &plan.baseline)?;
        let counts = beyond.mean.abs() > plan.equal_within.ln_1p() && beyond.p_value() < alpha;
        counts.then(|| sentence(contest, name, &plan.baseline, typical, beyond.mean))
    };
    asked.into_iter().filter_map(judge).collect()
}

/// The mean log-ratio of typical rounds, and that of all turns beyond it.
fn beyond_typical(contest: &Contest, name: &str, baseline: &str) -> Option<(f64, Mean)> {
    let (mut ratios, mut beyond) = (Vec::new(), Vec::new());
    for (_, ours, theirs) in contest.pairs(name, false, baseline) {
        let value = |trial: &Trial| trial.metrics.get(contest.metric).map(|value| value.ln());
        let (Some(one), Some(other)) = (value(ours), value(theirs)) else {
            continue;
        };
        if let Some(ratio) = typical(ours, &[theirs]) {
            ratios.push(ratio);
            beyond.push(one - other - ratio);
        }
    }
    Some((Mean::of(&ratios)?.mean, Mean::of(&beyond)?))
}

fn sentence(contest: &Contest, name: &str, baseline: &str, typical: f64, beyond: f64) -> String {
    let (verb, what) = verb_and_object(contest.metric);
    format!(
        "{} {name} {verb} {} the {what} of {baseline} in a typical round, which is the ratio that is judged, but {} over all its \
         turns: turns of one of the two stall more often",
        contest_text(&contest.cell),
        factor(typical),
        factor(typical + beyond)
    )
}

fn factor(log_ratio: f64) -> String {
    format!("{:.3}x", log_ratio.exp())
}

/// A contestant's log-ratios to the baseline by block, of those blocks whose trials had turns.
pub(crate) fn by_block(
    contest: &Contest,
    contestant: &str,
    control: bool,
    baseline: &str,
) -> BTreeMap<u32, f64> {
    let firsts = contest.valid_trials(baseline, false);
    let seconds = match control {
        true => BTreeMap::new(),
        false => contest.valid_trials(baseline, true),
    };
    let ratio = |(block, ours): (u32, &Trial)| {
        let first = firsts.get(&block)?;
        let baseline: Vec<&Trial> = [Some(first), seconds.get(&block)]
            .into_iter()
            .flatten()
            .copied()
            .collect();
        Some((block, typical(ours, &baseline)?))
    };
    let counted = contest.valid_trials(contestant, control);
    counted.into_iter().filter_map(ratio).collect()
}

#[cfg(test)]
mod tests {
    use super::*;
    use random::SplitMix64;

    #[test]
    fn a_minority_of_disturbed_rounds_does_not_move_the_ratio() {
        let ours = [2.0, 0.1, 2.0, 2.0, 2.0];
        let theirs = [1.0, 1.0, 1.0, 0.2, 1.0];
        let ratio = typical_log_ratio(&ours, &[&theirs]).expect("a ratio");
        assert!((ratio - 2f64.ln()).abs() < 1e-12, "{ratio}");
        // Against two trials of the baseline, it is the mean of both ratios.
        let ratio = typical_log_ratio(&[2.0, 2.0], &[&[1.0, 1.0], &[4.0, 4.0]]);
        assert!(ratio.expect("a ratio").abs() < 1e-12, "{ratio:?}");
    }

    #[test]
    fn rounds_without_messages_count_on_the_side_that_had_none() {
        let ratio = typical_log_ratio(&[0.0, 2.0, 2.0, 0.0], &[&[1.0, 2.0, 1.0, 0.0]]);
        assert_eq!(ratio, Some(0.0), "one of three is lost, one is nobody's");
        assert_eq!(typical_log_ratio(&[0.0, 0.0, 2.0], &[&[1.0; 3]]), None);
        assert_eq!(typical_log_ratio(&[1.0], &[&[1.0, 1.0]]), None);
        assert_eq!(typical_log_ratio(&[], &[&[]]), None);
    }

    /// Rates of the turns of a block, of which one in ten loses up to all of its time.
    fn turns(random: &mut SplitMix64) -> Vec<f64> {
        let turn = |_| {
            let noise = 1.0 + 0.1 * (random.unit() - 0.5);
            match random.unit() < 0.1 {
                true => noise * random.unit(),
                false => noise,
            }
        };
        (0..6).map(turn).collect()
    }

    /// Fails with log-ratios of both trials of the baseline in one order, whose mean is then thirteen standard errors below 0.
    #[test]
    fn equals_with_stalls_are_equal_to_both_trials_of_the_baseline() {
        let mut random = SplitMix64::new(11);
        let block = |_| {
            let [ours, first, second] = [(); 3].map(|()| turns(&mut random));
            typical_log_ratio(&ours, &[&first, &second]).expect("a ratio")
        };
        let ratios: Vec<f64> = (0..40_000).map(block).collect();
        let mean = ratios.iter().sum::<f64>() / ratios.len() as f64;
        let error = (crate::spread::variance(&ratios) / ratios.len() as f64).sqrt();
        assert!(mean.abs() < 3.0 * error, "{mean} +- {error}");
    }

    #[test]
    fn typical_rounds_scatter_less_than_sums_and_equals_stay_equal() {
        let mut random = SplitMix64::new(7);
        let (mut typical, mut sums) = (Vec::new(), Vec::new());
        for _ in 0..2000 {
            let (ours, theirs) = (turns(&mut random), turns(&mut random));
            typical.push(typical_log_ratio(&ours, &[&theirs]).expect("a ratio"));
            let sum = |turns: &[f64]| turns.iter().sum::<f64>();
            sums.push((sum(&ours) / sum(&theirs)).ln());
        }
        let deviation = |values: &[f64]| crate::spread::variance(values).sqrt();
        assert!(deviation(&typical) < 0.6 * deviation(&sums));
        let mean = typical.iter().sum::<f64>() / 2000.0;
        assert!(mean.abs() < 4.0 * deviation(&typical) / 2000f64.sqrt());
    }
}
