//! Comparison of two runs.

use crate::contests::cell_key;
use crate::mean::Mean;
use crate::order::CellOrder;
use crate::peak;
use crate::verdict::{Comparison, judge_means, more_is_better};
use results::{Cell, Plan, Status, Trial, Verdict, metric};
use std::collections::BTreeMap;

/// Compares the cells that both runs have, in the order of the `plan` of `after`: `after` against `before`, each on the primary metric of
/// its workload. Blocks of different runs are not paired, so the logarithms are compared by Welch's
/// t test (on trimmed means, as Yuen, 1974); Holm's correction keeps the family-wise error at
/// `alpha`. In each verdict the baseline is `<transport> before`.
///
/// Trials of one run share the state of the machine. A verdict here says that the runs differ, not
/// whether the software or the machine changed in between.
pub fn compare(
    plan: &Plan,
    before: &[Trial],
    after: &[Trial],
    alpha: f64,
    equal_within: f64,
) -> Vec<Verdict> {
    let old = logarithms(before);
    let mut comparisons = Vec::new();
    let mut means = Vec::new();
    for (name, (cell, values)) in in_order(plan, after) {
        let Some((_, others)) = old.get(&name) else {
            continue;
        };
        let transport = cell.transport();
        comparisons.push(Comparison {
            contest: cell.without(Cell::TRANSPORT),
            metric: metric_of(&cell).to_owned(),
            baseline: format!("{transport} before"),
            contestant: transport,
            log_ratios: Vec::new(),
        });
        means.push(difference(&values, others));
    }
    judge_means(&comparisons, &means, alpha, equal_within)
}

/// The verdicts that are significantly worse than `threshold` (0.03 for 3 %): the whole interval
/// lies beyond it.
pub fn worse_than(verdicts: &[Verdict], threshold: f64) -> Vec<&Verdict> {
    let worse = |verdict: &&Verdict| {
        if more_is_better(&verdict.metric) {
            verdict.high < 1.0 - threshold
        } else {
            verdict.low > 1.0 + threshold
        }
    };
    verdicts.iter().filter(worse).collect()
}

/// The metric by which two runs compare a cell. Loads in per cent are one cell, compared by its
/// peak; every other cell of an open loop has its rate.
pub(crate) fn metric_of(cell: &Cell) -> &'static str {
    match metric::primary(&cell.workload()) {
        metric::DELIVERED_PER_S if !cell.0.contains_key(Cell::RATE) => metric::PEAK_PER_S,
        primary => primary,
    }
}

type Logarithms = BTreeMap<String, (Cell, Vec<f64>)>;

/// Logarithms of the metric of valid trials, by cell.
fn logarithms(trials: &[Trial]) -> Logarithms {
    let mut cells = Logarithms::new();
    let counts = |trial: &&Trial| trial.status == Status::Ok && trial.block > 0 && !trial.control;
    let mut sweeps: BTreeMap<String, (Cell, Vec<&Trial>)> = BTreeMap::new();
    let mut put = |cell: Cell, log: f64| {
        if log.is_finite() {
            let entry = cells.entry(cell_key(&cell));
            entry.or_insert_with(|| (cell, Vec::new())).1.push(log);
        }
    };
    let of_sweep = |trial: &Trial| trial.cell.0.contains_key(Cell::LOAD_PERCENT);
    let late = |trial: &Trial| {
        trial.is_generator_late() && of_sweep(trial) && trial.block > 0 && !trial.control
    };
    for trial in trials.iter().filter(|trial| counts(trial) || late(trial)) {
        if of_sweep(trial) {
            // The same share is another rate in each run.
            let cell = trial.cell.without(Cell::LOAD_PERCENT);
            let sweep = sweeps.entry(cell_key(&cell));
            sweep.or_insert_with(|| (cell, Vec::new())).1.push(trial);
            continue;
        }
        let name = metric_of(&trial.cell);
        let log = trial.metrics.get(name).map_or(f64::NAN, |value| value.ln());
        put(trial.cell.clone(), log);
    }
    for (cell, trials) in sweeps.into_values() {
        let peaks = peak::by_block(trials.into_iter());
        peaks.values().for_each(|peak| put(cell.clone(), peak.ln()));
    }
    cells
}

/// The cells in the order of the plan.
pub(crate) fn in_order(plan: &Plan, trials: &[Trial]) -> Vec<(String, (Cell, Vec<f64>))> {
    let order = CellOrder::of(plan, trials);
    let mut cells: Vec<_> = logarithms(trials).into_iter().collect();
    cells.sort_by(|(_, (a, _)), (_, (b, _))| order.compare(a, b));
    cells
}

/// The cells that only one of two runs has a result in: those of `run` without `other`.
pub fn only_in(plan: &Plan, run: &[Trial], other: &[Trial]) -> Vec<Cell> {
    let known = logarithms(other);
    let cells = in_order(plan, run).into_iter();
    let alone = cells.filter(|(name, _)| !known.contains_key(name));
    alone.map(|(_, (cell, _))| cell).collect()
}

/// The difference of two means with Welch's degrees of freedom.
pub(crate) fn difference(values: &[f64], others: &[f64]) -> Option<Mean> {
    let (ours, theirs) = (Mean::of(values)?, Mean::of(others)?);
    let (our_square, their_square) = (ours.standard_error.powi(2), theirs.standard_error.powi(2));
    let sum = our_square + their_square;
    Some(Mean {
        mean: ours.mean - theirs.mean,
        standard_error: sum.sqrt(),
        df: sum.powi(2) / (our_square.powi(2) / ours.df + their_square.powi(2) / theirs.df),
        prior_df: 0.0,
        n: ours.n.min(theirs.n),
    })
}
