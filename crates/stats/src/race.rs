//! The verdicts of a race, and when it may stop.

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

/// The level of one look: the level of the run divided by the number of looks (Bonferroni). A plan whose
/// last look is not its end has one more.
pub fn alpha_of_look(plan: &Plan) -> f64 {
    let BlockPlan { looks, max, .. } = &plan.blocks;
    let beyond = looks.last().is_none_or(|last| max > last);
    plan.alpha / (looks.len() + usize::from(beyond)) as f64
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
    for look in looks {
        let seen: Vec<Contest> = contests.iter().map(|contest| contest.until(look)).collect();
        judgement = judge_look(plan, &seen, &judgement);
    }
    judgement.overall = overall_verdicts(&judgement);
    for verdict in &mut judgement.verdicts {
        verdict.because = explanation::explain_verdict(verdict, contests);
    }
    judgement
}

/// One look, after `earlier`.
fn judge_look(plan: &Plan, contests: &[Contest], earlier: &Judgement) -> Judgement {
    let alpha = alpha_of_look(plan);
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
