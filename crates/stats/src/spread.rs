//! Where the scatter of ratios comes from, in races whose contestants take turns: the start of the
//! processes, or the moments within a start.
//!
//! Each round of a block gives a log-ratio d of contestant and baseline. With R rounds in a block, the
//! variance of the block's mean is that between starts plus that within them divided by R (the one-way
//! random-effects model; Searle, Casella and McCulloch, *Variance Components*, 1992, section 3.2):
//!
//! * within = the mean of the blocks' sample variances of d;
//! * between = the sample variance of the blocks' means - within / R, not below 0.

use crate::contests::contests;
use crate::estimate::median;
use crate::rounds;
use results::{Cell, Plan, Trial};

/// Scatter of a contestant's ratio to the baseline.
#[derive(Clone, Debug, PartialEq)]
pub struct Spread {
    /// The contest.
    pub contest: Cell,
    /// The contestant.
    pub contestant: String,
    /// Whether it is the baseline's second run.
    pub control: bool,
    /// Standard deviation between starts, of log-ratios.
    pub between: f64,
    /// Standard deviation of one round within a start, of log-ratios.
    pub within: f64,
    /// Rounds of a block, the mean.
    pub rounds: f64,
    /// Standard deviation of what is judged, the log-ratio of a block's typical rounds.
    pub of_block: f64,
}

/// The scatter of every contestant and of the control in every contest with at least two blocks in
/// turns.
pub fn spreads(plan: &Plan, trials: &[Trial]) -> Vec<Spread> {
    let mut all = Vec::new();
    for contest in contests(plan, trials) {
        let mut lineup: Vec<(&str, bool)> = vec![(&plan.baseline, true)];
        let others = contest.transports.iter().map(String::as_str);
        lineup.extend(
            others
                .filter(|name| *name != plan.baseline)
                .map(|name| (name, false)),
        );
        for (contestant, control) in lineup {
            let pairs = contest.pairs(contestant, control, &plan.baseline);
            let blocks = pairs
                .iter()
                .filter_map(|(_, ours, theirs)| rounds::of_trials(ours, theirs));
            let blocks: Vec<Vec<f64>> = blocks.collect();
            let judged = pairs.iter();
            let judged = judged.filter_map(|(_, ours, theirs)| rounds::typical(ours, &[theirs]));
            let judged: Vec<f64> = judged.collect();
            all.extend(components(&blocks).map(|(between, within, rounds)| Spread {
                of_block: variance(&judged).sqrt(),
                contest: contest.cell.clone(),
                contestant: contestant.to_owned(),
                control,
                between,
                within,
                rounds,
            }));
        }
    }
    all
}

/// One sentence on all of them, by their medians; None where nothing ran in turns.
pub fn sentence(spreads: &[Spread]) -> Option<String> {
    if spreads.is_empty() {
        return None;
    }
    let of = |value: fn(&Spread) -> f64| {
        let values: Vec<f64> = spreads.iter().map(value).collect();
        median(&values)
    };
    let percent = |value: f64| format!("{:.2} %", value * 100.0);
    Some(format!(
        "Ratios scatter by {} between starts and by {} between the rounds of a start, of which a \
         block has {:.0}; the mean of their middle third, which is judged, by {} (medians over {}).",
        percent(of(|one| one.between)),
        percent(of(|one| one.within)),
        of(|one| one.rounds),
        percent(of(|one| one.of_block)),
        match spreads.len() {
            1 => "1 comparison".to_owned(),
            count => format!("{count} comparisons"),
        }
    ))
}

/// Standard deviations between and within blocks, and the mean number of rounds; None with fewer than
/// two blocks.
fn components(blocks: &[Vec<f64>]) -> Option<(f64, f64, f64)> {
    if blocks.len() < 2 {
        return None;
    }
    let count = blocks.len() as f64;
    let rounds = blocks.iter().map(Vec::len).sum::<usize>() as f64 / count;
    let within = blocks.iter().map(|block| variance(block)).sum::<f64>() / count;
    let means: Vec<f64> = blocks.iter().map(|block| mean(block)).collect();
    let between = (variance(&means) - within / rounds).max(0.0);
    Some((between.sqrt(), within.sqrt(), rounds))
}

fn mean(values: &[f64]) -> f64 {
    values.iter().sum::<f64>() / values.len().max(1) as f64
}

/// The sample variance; 0 of one value.
pub fn variance(values: &[f64]) -> f64 {
    let mean = mean(values);
    let squares = values.iter().map(|value| (value - mean).powi(2));
    squares.sum::<f64>() / (values.len().max(2) - 1) as f64
}

#[cfg(test)]
mod tests {
    use super::*;
    use random::SplitMix64;

    fn normal(random: &mut SplitMix64) -> f64 {
        let radius = (-2.0 * (1.0 - random.unit()).ln()).sqrt();
        radius * (std::f64::consts::TAU * random.unit()).cos()
    }

    /// Blocks of 12 rounds with these standard deviations.
    fn blocks(between: f64, within: f64) -> Vec<Vec<f64>> {
        let mut random = SplitMix64::new(5);
        let block = |_| {
            let start = between * normal(&mut random);
            (0..12)
                .map(|_| start + within * normal(&mut random))
                .collect()
        };
        (0..400).map(block).collect()
    }

    #[test]
    fn components_are_distinguished() {
        for (between, within) in [(0.02, 0.05), (0.05, 0.02)] {
            let found = components(&blocks(between, within)).expect("two blocks");
            assert!((found.0 / between - 1.0).abs() < 0.12, "{found:?}");
            assert!((found.1 / within - 1.0).abs() < 0.05, "{found:?}");
            assert_eq!(found.2, 12.0);
        }
        let same = components(&blocks(0.0, 0.03)).expect("two blocks");
        assert!(same.0 < 0.004, "{same:?}");
        assert_eq!(components(&blocks(0.1, 0.1)[..1]), None);
    }

    #[test]
    fn sentence_names_both_parts_and_their_sum() {
        let spread = Spread {
            contest: Cell::default(),
            contestant: "udp".into(),
            control: false,
            between: 0.003,
            within: 0.016,
            rounds: 16.0,
            of_block: 0.005,
        };
        assert_eq!(
            sentence(&[spread]).as_deref(),
            Some(
                "Ratios scatter by 0.30 % between starts and by 1.60 % between the rounds of a \
                 start, of which a block has 16; the mean of their middle third, which is judged, by \
                 0.50 % (medians over 1 comparison)."
            )
        );
        assert_eq!(sentence(&[]), None);
    }
}
