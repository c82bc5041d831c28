//! Each cell over many runs.

use crate::compare::{difference, in_order, metric_of};
use crate::estimate::estimate;
use crate::verdict::{Comparison, judge_means};
use results::{Cell, Estimate, Plan, Trial, Verdict};
use std::collections::BTreeMap;

/// What is kept of a run for its history: logarithms of the primary metric of each cell, in the order
/// of its plan. Trials themselves may take a hundred MiB a run.
#[derive(Clone, Debug, Default)]
pub struct RunCells(Vec<(String, Cell, Vec<f64>)>);

impl RunCells {
    /// The valid trials of a run; pilots and controls are left out.
    pub fn of(plan: &Plan, trials: &[Trial]) -> RunCells {
        let cells = in_order(plan, trials).into_iter();
        RunCells(cells.map(|(key, (cell, logs))| (key, cell, logs)).collect())
    }
}

/// One cell over runs.
#[derive(Clone, Debug, PartialEq)]
pub struct CellHistory {
    /// The cell, with its transport.
    pub cell: Cell,
    /// The metric of its verdicts.
    pub metric: String,
    /// Its value in each run; None where the run has none.
    pub values: Vec<Option<Estimate>>,
    /// Verdicts between neighbours: each run that has the cell against the one before it that has it.
    pub steps: Vec<Step>,
}

/// A verdict between two runs.
#[derive(Clone, Debug, PartialEq)]
pub struct Step {
    /// Index of the earlier run.
    pub from: usize,
    /// Index of the later run.
    pub to: usize,
    /// The later against the earlier; its baseline is `<transport> before`.
    pub verdict: Verdict,
}

/// Follows every cell through `runs`, in their order. All verdicts between neighbours are one family: the
/// probability that any of them is a false faster or slower is at most `alpha` (Holm), however many runs
/// and cells there are. As in [`crate::compare()`], a verdict says that runs differ, not why.
///
/// Cells are in the order of the last run, then those of earlier runs alone.
pub fn history(runs: &[RunCells], alpha: f64, equal_within: f64) -> Vec<CellHistory> {
    let mut cells = cells_of(runs);
    let mut comparisons = Vec::new();
    let mut means = Vec::new();
    let mut places = Vec::new();
    for (number, one) in cells.iter().enumerate() {
        for (from, to) in adjacent_runs(&one.logs) {
            comparisons.push(one.comparison());
            means.push(difference(&one.logs[to], &one.logs[from]));
            places.push((number, from, to));
        }
    }
    let verdicts = judge_means(&comparisons, &means, alpha, equal_within);
    for ((number, from, to), verdict) in places.into_iter().zip(verdicts) {
        cells[number].steps.push(Step { from, to, verdict });
    }
    cells.into_iter().map(CellLogs::finish).collect()
}

/// A cell with its logarithms by run; empty where the run has none.
struct CellLogs {
    cell: Cell,
    logs: Vec<Vec<f64>>,
    steps: Vec<Step>,
}

impl CellLogs {
    fn comparison(&self) -> Comparison {
        let transport = self.cell.transport();
        Comparison {
            contest: self.cell.without(Cell::TRANSPORT),
            metric: metric_of(&self.cell).to_owned(),
            baseline: format!("{transport} before"),
            contestant: transport,
            log_ratios: Vec::new(),
        }
    }

    fn finish(self) -> CellHistory {
        let value = |logs: &Vec<f64>| {
            let values: Vec<f64> = logs.iter().map(|log| log.exp()).collect();
            (!values.is_empty()).then(|| estimate(&values))
        };
        CellHistory {
            metric: metric_of(&self.cell).to_owned(),
            values: self.logs.iter().map(value).collect(),
            cell: self.cell,
            steps: self.steps,
        }
    }
}

fn cells_of(runs: &[RunCells]) -> Vec<CellLogs> {
    let mut cells: Vec<CellLogs> = Vec::new();
    let mut known: BTreeMap<String, usize> = BTreeMap::new();
    for (number, run) in runs.iter().enumerate().rev() {
        for (key, cell, logs) in &run.0 {
            let place = *known.entry(key.clone()).or_insert(cells.len());
            if place == cells.len() {
                cells.push(CellLogs {
                    cell: cell.clone(),
                    logs: vec![Vec::new(); runs.len()],
                    steps: Vec::new(),
                });
            }
            cells[place].logs[number].clone_from(logs);
        }
    }
    cells
}

/// Pairs of adjacent runs among those that have the cell.
fn adjacent_runs(logs: &[Vec<f64>]) -> Vec<(usize, usize)> {
    let has = |run: &usize| !logs[*run].is_empty();
    let runs: Vec<usize> = (0..logs.len()).filter(has).collect();
    runs.windows(2).map(|pair| (pair[0], pair[1])).collect()
}
