//! From the trials of a run to its summary.

use crate::contests::{Contest, contests};
use crate::crossover::{crossovers, curves, fit_of};
use crate::estimate::{estimate, median};
use crate::missing::missing_baseline;
use crate::race::{judge_contests, last_block};
use crate::rounds;
use crate::warnings::warnings as warnings_of;
use results::{CellSummary, Plan, RunStatus, SCHEMA_VERSION, Status, Summary, Trial};
use samples::samples_needed;
use std::collections::{BTreeMap, BTreeSet};

/// Percentiles shown of a merged histogram, when it has the samples: the key and the quantile.
pub const QUANTILES: [(&str, f64); 5] = [
    ("0.5", 0.5),
    ("0.9", 0.9),
    ("0.99", 0.99),
    ("0.999", 0.999),
    ("0.9999", 0.9999),
];

/// Summarises the trials of a run. `status`, `reason` and `elapsed_s` are those of the run.
///
/// Pilots (block 0) are excluded; of the others only trials with status ok count, and control
/// trials count for the control alone. Percentiles of histograms in ns are given in us.
pub fn summarise(
    plan: &Plan,
    trials: &[Trial],
    status: RunStatus,
    reason: &str,
    elapsed_s: f64,
) -> Summary {
    let contests = contests(plan, trials);
    let judgement = judge_contests(plan, &contests, last_block(trials));
    let of_contest = |contest| cells(contest);
    let cells: Vec<CellSummary> = contests.iter().flat_map(of_contest).collect();
    let curves = curves(&cells);
    let mut warnings = missing_baseline(plan, &contests, trials);
    warnings.extend(other_race(plan));
    warnings.extend(warnings_of(&contests, &judgement));
    warnings.extend(rounds::stalled(&contests, plan));
    Summary {
        version: SCHEMA_VERSION,
        status,
        reason: reason.to_owned(),
        blocks: complete_blocks(trials, status),
        elapsed_s,
        warnings,
        cells,
        verdicts: judgement.verdicts,
        overall: judgement.overall,
        control: judgement.control,
        beside: judgement.beside,
        fits: curves.iter().map(fit_of).collect(),
        crossovers: crossovers(&curves),
    }
}

/// That another race ran on the machine, whose load no block cancels.
fn other_race(plan: &Plan) -> Option<String> {
    let other = plan.options.get(results::OTHER_RACE)?;
    Some(format!(
        "another race ran on this machine when this one began ({other}), so that both were \
         disturbed; race again without --regardless"
    ))
}

/// Complete blocks: all of a complete run; else the last one counts only when it has as many trials
/// as the one before.
fn complete_blocks(trials: &[Trial], status: RunStatus) -> u32 {
    let last = last_block(trials);
    let ran = |block: u32| {
        let of_block = trials.iter().filter(|trial| trial.block == block);
        of_block
            .filter(|trial| trial.status != Status::Interrupted)
            .count()
    };
    let whole = last > 1 && ran(last) >= ran(last - 1);
    if status == RunStatus::Complete || whole {
        last
    } else {
        last.saturating_sub(1)
    }
}

fn cells(contest: &Contest) -> Vec<CellSummary> {
    let transports = contest.transports.iter();
    transports
        .map(|transport| cell(contest, transport))
        .collect()
}

fn cell(contest: &Contest, transport: &str) -> CellSummary {
    let of_cell = |trial: &&&Trial| !trial.control && trial.cell.transport() == transport;
    let trials: Vec<&Trial> = contest.trials.iter().filter(of_cell).copied().collect();
    let (ok, bad): (Vec<&Trial>, Vec<&Trial>) = trials
        .into_iter()
        .partition(|trial| trial.status == Status::Ok);
    let metrics = columns(&ok, |trial| &trial.metrics).into_iter();
    let evidence = columns(&ok, |trial| &trial.evidence).into_iter();
    let (quantiles, samples) = distributions(&ok);
    CellSummary {
        cell: contest
            .cell
            .clone()
            .with(results::Cell::TRANSPORT, transport),
        trials_ok: count(ok.len()),
        trials_bad: count(bad.len()),
        metrics: metrics
            .map(|(name, values)| (name, estimate(&values)))
            .collect(),
        evidence: evidence
            .map(|(name, values)| (name, median(&values)))
            .collect(),
        quantiles,
        samples,
    }
}

fn count(len: usize) -> u32 {
    u32::try_from(len).unwrap_or(u32::MAX)
}

/// The values of every name over trials.
fn columns(
    trials: &[&Trial],
    map: impl Fn(&Trial) -> &BTreeMap<String, f64>,
) -> BTreeMap<String, Vec<f64>> {
    let mut columns: BTreeMap<String, Vec<f64>> = BTreeMap::new();
    for (name, &value) in trials.iter().flat_map(|trial| map(trial)) {
        if value.is_finite() {
            columns.entry(name.clone()).or_default().push(value);
        }
    }
    columns
}

type Quantiles = BTreeMap<String, BTreeMap<String, f64>>;

/// Percentiles of the merged histograms of some trials, and the samples behind them. Histograms are
/// merged, never averaged; one that cannot be read or holds more than a minute is left out, of
/// which [`crate::warnings`] warns.
fn distributions(trials: &[&Trial]) -> (Quantiles, BTreeMap<String, u64>) {
    let names: BTreeSet<&String> = trials
        .iter()
        .flat_map(|trial| trial.histograms.keys())
        .collect();
    let (mut quantiles, mut samples) = (Quantiles::new(), BTreeMap::new());
    for name in names {
        let mut merged = results::new_histogram();
        let mut scale = 1.0;
        for histogram in trials.iter().filter_map(|trial| trial.histograms.get(name)) {
            scale = if histogram.unit == "ns" { 1e-3 } else { 1.0 };
            let part = histogram.decode().ok();
            // The warnings report the error, by the same test.
            let _ = part.map(|part| merged.add(&part));
        }
        let shown = QUANTILES
            .iter()
            .filter(|(_, q)| merged.len() >= samples_needed(*q));
        let value = |q| merged.value_at_quantile(q) as f64 * scale;
        let shown = shown.map(|(text, q)| ((*text).to_owned(), value(*q)));
        quantiles.insert(name.clone(), shown.collect());
        samples.insert(name.clone(), merged.len());
    }
    (quantiles, samples)
}
