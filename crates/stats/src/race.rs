//! The verdicts of a race, and when it may stop.

use crate::beside;
use crate::contests::{Contest, comparisons, contests, control_comparisons, overall_comparisons};
use crate::explanation;
use crate::verdict::judge;
use results::{BlockPlan, Cell, Plan, Trial, Verdict, VerdictKind, metric};

/// Verdicts of a race so far.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Judgement {
    /// One a contest and contestant other than the baseline.
    pub verdicts: Vec<Verdict>,
    /// One a contestant and metric, over all contests.
    pub overall: Vec<Verdict>,
    /// The A/A control, one a contest; a family of its own.
    pub control: Vec<Verdict>,
    /// Circuits beside others against one of their transport alone; a family of its own.
    pub beside: Vec<Verdict>,
}

impl Judgement {
    /// Whether a contest, a cell without the transport, needs no further trial: all its verdicts are
    /// decided, and the overall ones of their metric.
    pub fn is_settled(&self, contest: &Cell) -> bool {
        let swept = contest.without(Cell::LOAD_PERCENT);
        let own = |verdict: &&Verdict| {
            verdict.contest == *contest
                || verdict.metric == metric::PEAK_PER_S && verdict.contest == swept
        };
        let own: Vec<&Verdict> = self.verdicts.iter().filter(own).collect();
        let same = |verdict: &&Verdict| own.iter().any(|one| one.metric == verdict.metric);
        let mut all = own.iter().copied().chain(self.overall.iter().filter(same));
        !own.is_empty() && all.all(|verdict| verdict.kind != VerdictKind::NotEnoughData)
    }

    /// Whether every verdict, by cell and overall, is faster, slower or equal. A race may stop
    /// then, at an interim look and nowhere else.
    pub fn decided(&self) -> bool {
        let verdicts = self.verdicts.iter().chain(&self.overall);
        verdicts
            .into_iter()
            .all(|verdict| verdict.kind != VerdictKind::NotEnoughData)
    }
}

/// Judges a race after its last block: takes its looks again one after the other, since what one
/// decided stays decided, and the trials after it may lack the contests that were.
pub fn judge_race(plan: &Plan, trials: &[Trial]) -> Judgement {
    judge_contests(plan, &contests(plan, trials), last_block(trials))
}

/// Whether an interim look is planned after this many blocks.
pub fn is_look(plan: &Plan, blocks: u32) -> bool {
    plan.blocks.looks.contains(&blocks)
}

/// The level of each of `looks` looks (Bonferroni): half of `alpha` at the last one, where what was too small for the others
/// is decided, and equal shares of the other half at those before.
pub fn levels_of_looks(alpha: f64, looks: usize) -> Vec<f64> {
    match looks.saturating_sub(1) {
        0 => vec![alpha; looks],
        interim => {
            let mut levels = vec![alpha / 2.0 / interim as f64; interim];
            levels.push(alpha / 2.0);
            levels
        }
    }
}

/// The level of each look of a plan. One whose last look is not its end has one look more.
pub(crate) fn levels_of_plan(plan: &Plan) -> Vec<f64> {
    let BlockPlan { looks, max, .. } = &plan.blocks;
    let beyond = looks.last().is_none_or(|last| max > last);
    levels_of_looks(plan.alpha, looks.len() + usize::from(beyond))
}

/// What a race has left of its level.
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum UnspentLevel {
    /// The shares of the looks that it did not take.
    Part(f64),
    /// Nothing: it took all its looks.
    Nothing,
}

/// The level that a race which ended early has not spent. One that ended between two looks took one, in
/// the place of the look it did not reach.
pub fn unspent_level(plan: &Plan, trials: &[Trial]) -> UnspentLevel {
    let blocks = last_block(trials);
    let looks = &plan.blocks.looks;
    let taken = looks.iter().filter(|look| **look <= blocks).count();
    let between = blocks > 0 && !looks.contains(&blocks);
    let taken = taken + usize::from(between);
    match levels_of_plan(plan).get(taken..) {
        None | Some([]) => UnspentLevel::Nothing,
        Some(left) => UnspentLevel::Part(left.iter().sum()),
    }
}

pub(crate) fn last_block(trials: &[Trial]) -> u32 {
    trials.iter().map(|trial| trial.block).max().unwrap_or(0)
}

/// Judges after `blocks` blocks, look by look; a race that ended between two looks has one there, in
/// the place of the look it did not reach.
pub(crate) fn judge_contests(plan: &Plan, contests: &[Contest], blocks: u32) -> Judgement {
    let looks = plan.blocks.looks.iter().copied();
    let mut looks: Vec<u32> = looks.filter(|&look| look < blocks).collect();
    looks.push(blocks);
    let mut judgement = Judgement::default();
    for (look, alpha) in looks.into_iter().zip(levels_of_plan(plan)) {
        let seen: Vec<Contest> = contests.iter().map(|contest| contest.until(look)).collect();
        judgement = judge_look(plan, &seen, alpha, &judgement);
    }
    judgement.overall = overall_verdicts(&judgement);
    for verdict in &mut judgement.verdicts {
        verdict.because = explanation::explain_verdict(verdict, contests);
    }
    judgement
}

/// One look at level `alpha`, after `earlier`.
fn judge_look(plan: &Plan, contests: &[Contest], alpha: f64, earlier: &Judgement) -> Judgement {
    let mut family = comparisons(contests, &plan.baseline);
    let cells = family.len();
    family.extend(overall_comparisons(contests, &plan.baseline));
    let before = [earlier.verdicts.as_slice(), &earlier.overall].concat();
    let mut verdicts = judge(&family, &before, alpha, plan.equal_within);
    let overall = verdicts.split_off(cells);
    let controls = control_comparisons(contests, &plan.baseline);
    Judgement {
        verdicts,
        overall,
        control: judge(&controls, &earlier.control, alpha, plan.equal_within),
        beside: judge(
            &beside::comparisons(contests),
            &earlier.beside,
            alpha,
            plan.equal_within,
        ),
    }
}

/// The overall verdicts, also of contestants with a single contest.
fn overall_verdicts(judgement: &Judgement) -> Vec<Verdict> {
    let alone = overall_of_single_contests(&judgement.verdicts, &judgement.overall);
    [judgement.overall.as_slice(), &alone].concat()
}

/// A contestant with a single contest of a metric needs no overall comparison: its verdict is the
/// overall one.
fn overall_of_single_contests(verdicts: &[Verdict], overall: &[Verdict]) -> Vec<Verdict> {
    let same = |a: &Verdict, b: &Verdict| a.metric == b.metric && a.contestant == b.contestant;
    let alone = |verdict: &&Verdict| {
        let twice = verdicts.iter().filter(|other| same(verdict, other)).count() > 1;
        !twice && !overall.iter().any(|other| same(verdict, other))
    };
    let spread = |verdict: &Verdict| Verdict {
        contest: Cell::default(),
        ..verdict.clone()
    };
    verdicts.iter().filter(alone).map(spread).collect()
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::collections::BTreeMap;

    fn plan(looks: &[u32], max: u32) -> Plan {
        Plan {
            version: results::SCHEMA_VERSION,
            command: Vec::new(),
            seed: 1,
            transports: vec!["tcp".into(), "udp".into()],
            baseline: "tcp".into(),
            control: false,
            workloads: vec!["throughput".into()],
            sizes: vec![64],
            blocks: BlockPlan {
                min: 1,
                max,
                looks: looks.to_vec(),
            },
            alpha: 0.05,
            equal_within: 0.03,
            time_s: 1.0,
            trial_s: 0.0,
            options: BTreeMap::new(),
        }
    }

    /// A trial of the last block; a pilot for 0.
    fn until(block: u32) -> Vec<Trial> {
        vec![Trial::empty(0, block, Cell::default())]
    }

    #[test]
    fn looks_that_were_not_taken_leave_their_share_of_the_level() {
        let plan_of_four = plan(&[3, 5, 10, 20], 20);
        let sixth = 1.0 / 6.0;
        for (blocks, share) in [
            (0, 1.0),
            (2, 5.0 * sixth),
            (3, 5.0 * sixth),
            (4, 4.0 * sixth),
            (5, 4.0 * sixth),
            (10, 0.5),
            (12, 0.0),
            (20, 0.0),
        ] {
            let left = match unspent_level(&plan_of_four, &until(blocks)) {
                UnspentLevel::Part(alpha) => alpha,
                UnspentLevel::Nothing => 0.0,
            };
            assert!((left - 0.05 * share).abs() < 1e-12, "{blocks}: {left}");
        }
        // A plan whose last look is not its end has one look more.
        let left = unspent_level(&plan(&[3], 10), &until(3));
        assert_eq!(left, UnspentLevel::Part(0.025));
    }
}
