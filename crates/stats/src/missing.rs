//! Cells without a result: what was asked for and has no valid trial, and why.

use crate::contests::{Contest, cell_key, contests};
use crate::warnings::without_figures;
use results::{Cell, Plan, Status, Trial};
use std::collections::BTreeMap;

/// A cell without a valid trial.
#[derive(Clone, Debug, PartialEq)]
pub struct MissingResult {
    /// The cell, with its transport.
    pub cell: Cell,
    /// Why there is no result, without a full stop.
    pub reason: String,
}

/// All cells of a run without a valid trial, in the order of the plan.
pub fn missing_results(plan: &Plan, trials: &[Trial]) -> Vec<MissingResult> {
    let mut pilots = BTreeMap::new();
    for pilot in trials.iter().filter(|trial| trial.block == 0) {
        let key = (pilot.cell.transport(), cell_key(&shape(&pilot.cell)));
        pilots.entry(key).or_insert(pilot);
    }
    let mut missing = Vec::new();
    for contest in contests(plan, trials) {
        for transport in &contest.transports {
            let own = |trial: &&&Trial| !trial.control && trial.cell.transport() == *transport;
            let mut ran = contest.trials.iter().filter(own);
            if ran.clone().any(|trial| trial.status == Status::Ok) {
                continue;
            }
            let failed = ran.find(|trial| !trial.reason.is_empty());
            let pilot = || pilots.get(&(transport.clone(), cell_key(&shape(&contest.cell))));
            missing.push(MissingResult {
                reason: match failed {
                    Some(trial) => trial.reason.clone(),
                    None => pilot_reason(pilot().copied()),
                },
                cell: contest
                    .cell
                    .clone()
                    .with(Cell::TRANSPORT, transport.as_str()),
            });
        }
    }
    missing
}

/// Why a cell has no trial: what its pilot says.
fn pilot_reason(pilot: Option<&Trial>) -> String {
    match pilot {
        Some(pilot) if pilot.status != Status::Ok => format!("its pilot failed: {}", pilot.reason),
        _ => "the race ended before".into(),
    }
}

/// A cell without what one pilot covers: the transport, and the loads of a sweep.
pub(crate) fn shape(cell: &Cell) -> Cell {
    cell.without(Cell::TRANSPORT)
        .without(Cell::LOAD_PERCENT)
        .without(Cell::RATE)
}

/// Sentences on contests whose baseline has no result, so that nothing is judged there.
pub(crate) fn missing_baseline(plan: &Plan, contests: &[Contest], trials: &[Trial]) -> Vec<String> {
    let missing = missing_results(plan, trials);
    let baseline = |one: &&MissingResult| one.cell.transport() == plan.baseline;
    let concerns = |one: &&MissingResult| {
        let cell = one.cell.without(Cell::TRANSPORT);
        let contest = contests.iter().find(|contest| contest.cell == cell);
        // Loads of a sweep that the sender could not offer are beyond its peak.
        let ran = |contest: &Contest| {
            let mut trials = contest.trials.iter();
            trials.any(|trial| trial.cell.transport() == plan.baseline)
        };
        let swept = one.cell.0.contains_key(Cell::LOAD_PERCENT);
        contest.is_some_and(|found| found.transports.len() > 1 && !(swept && ran(found)))
    };
    let mut sentences: Vec<(String, Vec<String>)> = Vec::new();
    for one in missing.iter().filter(baseline).filter(concerns) {
        let place = results::phrasing::contest_text(&one.cell);
        let place = format!("{} {place}", one.cell.workload());
        let same = |reason: &str| without_figures(reason) == without_figures(&one.reason);
        match sentences.iter_mut().find(|(reason, _)| same(reason)) {
            Some((_, places)) => places.push(place),
            None => sentences.push((one.reason.clone(), vec![place])),
        }
    }
    let sentence = |(reason, places): (String, Vec<String>)| {
        let more = match places.len() - 1 {
            0 => String::new(),
            more => format!(" and {more} more"),
        };
        let baseline = &plan.baseline;
        let place = &places[0];
        format!(
            "the baseline {baseline} has no result in {place}{more}, so nothing is judged there: \
             {reason}; choose another with --baseline"
        )
    };
    sentences.into_iter().map(sentence).collect()
}
