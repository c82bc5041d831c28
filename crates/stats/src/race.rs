//! The verdicts of a race, and when it may stop.

use crate::contests::{Contest, comparisons, contests, control_comparisons, overall_comparisons};
use crate::explanation;
use crate::verdict::judge;
use results::{Cell, Plan, Trial, Verdict, VerdictKind};

/// Verdicts of a race so far.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Judgement {
    /// One a contest and contestant other than the baseline.
    pub verdicts: Vec<Verdict>,
    /// One a contestant and metric, over all contests.
    pub overall: Vec<Verdict>,
    /// The A/A control, one a contest; a family of its own.
    pub control: Vec<Verdict>,
}

impl Judgement {
    /// Whether every verdict, by cell and overall, is faster, slower or equal. A race may stop
    /// then, at an interim look and nowhere else.
    pub fn decided(&self) -> bool {
        let verdicts = self.verdicts.iter().chain(&self.overall);
        verdicts
            .into_iter()
            .all(|verdict| verdict.kind != VerdictKind::NotEnoughData)
    }
}

/// Judges a race after its last block.
pub fn judge_race(plan: &Plan, trials: &[Trial]) -> Judgement {
    let blocks = trials.iter().map(|trial| trial.block).max().unwrap_or(0);
    let alpha = alpha_of_look(plan, blocks);
    judge_contests(plan, &contests(plan, trials), alpha)
}

/// Whether an interim look is planned after this many blocks.
pub fn is_look(plan: &Plan, blocks: u32) -> bool {
    plan.blocks.looks.contains(&blocks)
}

/// The level of one look: the level of the run divided by the number of looks (Bonferroni). A run
/// that ended between looks, for lack of time, uses a look it did not reach; one that went on after
/// the last look has one more.
pub fn alpha_of_look(plan: &Plan, blocks: u32) -> f64 {
    let looks = &plan.blocks.looks;
    let beyond = looks.last().is_none_or(|&last| blocks > last);
    plan.alpha / (looks.len() + usize::from(beyond)) as f64
}

pub(crate) fn judge_contests(plan: &Plan, contests: &[Contest], alpha: f64) -> Judgement {
    let mut family = comparisons(contests, &plan.baseline);
    let cells = family.len();
    family.extend(overall_comparisons(contests, &plan.baseline));
    let mut verdicts = judge(&family, alpha, plan.equal_within);
    let mut overall = verdicts.split_off(cells);
    overall.extend(overall_of_single_contests(&verdicts, &overall));
    for verdict in &mut verdicts {
        verdict.because = explanation::explain_verdict(verdict, contests);
    }
    let controls = control_comparisons(contests, &plan.baseline);
    Judgement {
        verdicts,
        overall,
        control: judge(&controls, alpha, plan.equal_within),
    }
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
