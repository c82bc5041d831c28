//! Circuits that ran beside others, against one circuit of their transport alone.
//!
//! `race tcp udp tcp+udp` has both a circuit of TCP beside one of UDP and one that has the medium to itself;
//! `race tcp --circuits 1,2` has each of two beside one. Blocks pair them, as they pair contestants, also where the two
//! belong to different contests. A question of its own, and therefore a family of its own at the level of the race.

use crate::contests::Contest;
use crate::verdict::Comparison;
use results::Cell;
use results::metric::{DELAY_P50_US, LEG_NUMBER, MESSAGES_PER_S, of_leg};
use std::collections::{BTreeMap, BTreeSet};

/// One comparison for each circuit that was measured beside others, and alone in the same blocks.
pub(crate) fn comparisons(contests: &[Contest]) -> Vec<Comparison> {
    let judged = contests
        .iter()
        .filter(|contest| matches!(contest.metric, MESSAGES_PER_S | DELAY_P50_US));
    judged
        .flat_map(|contest| of_contest(contests, contest))
        .collect()
}

fn of_contest(contests: &[Contest], contest: &Contest) -> Vec<Comparison> {
    let Some(alone) = contests.iter().find(|other| is_alone(other, contest)) else {
        return Vec::new();
    };
    let mut comparisons = Vec::new();
    for contestant in &contest.transports {
        let beside = contest.valid_trials(contestant, false);
        let names = beside.values().flat_map(|trial| trial.metrics.keys());
        let names: BTreeSet<&String> = names.collect();
        for name in names {
            let Some((_, leg)) = of_leg(name).filter(|(measure, _)| *measure == contest.metric)
            else {
                continue;
            };
            let Some(transport) = transport_of(leg, contestant, circuits(&contest.cell)) else {
                continue;
            };
            let values: BTreeMap<u32, f64> = beside
                .iter()
                .filter_map(|(block, trial)| Some((*block, *trial.metrics.get(name)?)))
                .collect();
            let log_ratios = log_ratios(&values, alone, transport);
            if !log_ratios.is_empty() {
                comparisons.push(Comparison {
                    contest: contest.cell.clone(),
                    metric: name.clone(),
                    contestant: contestant.clone(),
                    baseline: transport.to_owned(),
                    log_ratios,
                });
            }
        }
    }
    comparisons
}

/// Whether a contest is that of single circuits under the same conditions.
fn is_alone(other: &Contest, contest: &Contest) -> bool {
    other.metric == contest.metric
        && circuits(&other.cell) == 1
        && other.cell.without(Cell::CIRCUITS) == contest.cell.without(Cell::CIRCUITS)
}

/// Circuits of each transport; a cell without the factor has one.
fn circuits(cell: &Cell) -> u64 {
    let circuits = cell.integer(Cell::CIRCUITS).unwrap_or(1);
    u64::try_from(circuits).unwrap_or(1)
}

/// The transport of a single circuit that ran beside others; None for what all circuits of a transport did together, and
/// for one that ran alone.
fn transport_of<'a>(leg: &'a str, contestant: &str, circuits: u64) -> Option<&'a str> {
    match leg.rsplit_once(LEG_NUMBER) {
        Some((transport, number)) if number.parse::<u32>().is_ok() => Some(transport),
        _ => {
            let parts: Vec<&str> = contestant.split('+').collect();
            let of_it = parts.iter().filter(|part| **part == leg).count();
            (circuits == 1 && of_it == 1 && parts.len() > 1).then_some(leg)
        }
    }
}

/// ln(beside / alone), one a block with valid trials of both.
fn log_ratios(beside: &BTreeMap<u32, f64>, alone: &Contest, transport: &str) -> Vec<f64> {
    let trials = alone.valid_trials(transport, false);
    let ratio = |(block, value): (&u32, &f64)| {
        let single = trials.get(block)?.metrics.get(alone.metric)?;
        let ratio = value.ln() - single.ln();
        ratio.is_finite().then_some(ratio)
    };
    beside.iter().filter_map(ratio).collect()
}
