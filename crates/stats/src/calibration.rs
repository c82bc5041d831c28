//! What races of a contestant against itself say of a machine: how often they say something false, and how
//! small a difference shows in which time.
//!
//! One long race has blocks one after the other. Ten neighbouring blocks are a race: they are fresh
//! starts, looked at as a short race would be. The rate of false verdicts is then that of real races
//! here, not of simulated ones.

use crate::contests::{Contest, comparisons, contests};
use crate::distribution::normal_quantile;
use crate::mean::Mean;
use crate::race::{judge_race, last_block, levels_of_plan};
use results::{BlockPlan, Cell, Plan, RunData, Trial, VerdictKind};

/// Blocks of each race, and its looks.
pub const BLOCKS: u32 = 10;
const LOOKS: [u32; 3] = [3, 5, 10];

/// Times for which the smallest difference is given, seconds.
pub const TIMES_S: [f64; 3] = [10.0, 60.0, 600.0];

/// One contest of a calibration.
#[derive(Clone, Debug, PartialEq)]
pub struct Calibration {
    /// The cell without the transport.
    pub contest: Cell,
    /// Races of [`BLOCKS`] blocks.
    pub races: u32,
    /// Those that said faster or slower.
    pub wrong: u32,
    /// Share of races that would, as an interval of 95 % (Wilson, 1927).
    pub rate: (f64, f64),
    /// For each of [`TIMES_S`], the ratio from which on a difference shows, 0.012 for 1.2 %; None where
    /// there is no time for three blocks.
    pub smallest: [Option<f64>; 3],
}

/// The contests of a run of two equal contestants, one calibration each. A contest that has too few
/// blocks for one race is left out.
pub fn calibrate(run: &RunData) -> Vec<Calibration> {
    let blocks = f64::from(last_block(&run.trials).max(1));
    let of_race = short_plan(&run.plan);
    let all = contests(&run.plan, &run.trials);
    // What a block of this contest alone takes, all contests of a block taking alike.
    let elapsed_s = run
        .summary
        .as_ref()
        .map_or(0.0, |summary| summary.elapsed_s);
    let block_s = elapsed_s / blocks / all.len().max(1) as f64;
    let each = all
        .iter()
        .filter_map(|contest| one(contest, &of_race, block_s));
    each.collect()
}

fn short_plan(plan: &Plan) -> Plan {
    Plan {
        blocks: BlockPlan {
            min: LOOKS[0],
            max: BLOCKS,
            looks: LOOKS.to_vec(),
        },
        ..plan.clone()
    }
}

fn one(contest: &Contest, plan: &Plan, block_s: f64) -> Option<Calibration> {
    let verdicts: Vec<bool> = races(contest).map(|race| is_wrong(plan, &race)).collect();
    let races = verdicts.len() as u32;
    let wrong = verdicts.iter().filter(|wrong| **wrong).count() as u32;
    let pairs = comparisons(std::slice::from_ref(contest), &plan.baseline);
    let mean = Mean::of(&pairs.first()?.log_ratios)?;
    let alpha = *levels_of_plan(plan).last()?;
    let smallest = TIMES_S.map(|time_s| {
        let blocks = (time_s / block_s.max(1e-9)) as usize;
        (blocks >= LOOKS[0] as usize).then(|| mean.half_width_with(blocks, alpha).exp() - 1.0)
    });
    (races > 0).then(|| Calibration {
        contest: contest.cell.clone(),
        races,
        wrong,
        rate: wilson(wrong, races),
        smallest,
    })
}

/// The trials of each race: ten blocks, counted from 1.
fn races(contest: &Contest) -> impl Iterator<Item = Vec<Trial>> {
    let last = contest.trials.iter().map(|trial| trial.block).max();
    let whole = last.unwrap_or(0) / BLOCKS;
    (0..whole).map(|race| {
        let from = race * BLOCKS;
        let within = |trial: &&&Trial| (from + 1..=from + BLOCKS).contains(&trial.block);
        let trials = contest.trials.iter().filter(within);
        let counted = trials.map(|trial| Trial {
            block: trial.block - from,
            ..(*trial).clone()
        });
        counted.collect()
    })
}

/// Whether a race of two equal contestants says that they differ.
fn is_wrong(plan: &Plan, trials: &[Trial]) -> bool {
    let verdicts = judge_race(plan, trials).verdicts;
    verdicts
        .iter()
        .any(|verdict| matches!(verdict.kind, VerdictKind::Faster | VerdictKind::Slower))
}

/// Wilson's interval of a share, at 95 %.
fn wilson(count: u32, of: u32) -> (f64, f64) {
    let (n, z) = (f64::from(of.max(1)), normal_quantile(0.975));
    let share = f64::from(count) / n;
    let middle = (share + z * z / (2.0 * n)) / (1.0 + z * z / n);
    let half = z * (share * (1.0 - share) / n + z * z / (4.0 * n * n)).sqrt() / (1.0 + z * z / n);
    ((middle - half).max(0.0), (middle + half).min(1.0))
}
