//! The order of cells: workloads, sizes and contestants as the plan has them, numbers ascending,
//! names as they were given.

use crate::contests::rank;
use results::{Cell, Factor, Plan, Trial};
use std::cmp::Ordering;
use std::collections::BTreeMap;

/// The order of the cells of a run.
#[derive(Clone, Debug)]
pub struct CellOrder {
    workloads: Vec<String>,
    sizes: Vec<u64>,
    transports: Vec<String>,
    /// Values that are names, such as links, in the order of the first pilots, which run in the
    /// order of the plan.
    names: BTreeMap<String, usize>,
}

impl CellOrder {
    /// Of a run with these trials.
    pub fn of(plan: &Plan, trials: &[Trial]) -> CellOrder {
        let mut names = BTreeMap::new();
        for factor in trials.iter().flat_map(|trial| trial.cell.0.values()) {
            if let Factor::Text(name) = factor {
                let next = names.len();
                names.entry(name.clone()).or_insert(next);
            }
        }
        CellOrder {
            workloads: plan.workloads.clone(),
            sizes: plan.sizes.clone(),
            transports: plan.transports.clone(),
            names,
        }
    }

    /// By workload, then factors other than size and transport, then size, then transport.
    pub fn compare(&self, a: &Cell, b: &Cell) -> Ordering {
        let size = |cell: &Cell| rank(&self.sizes, &cell.size().unwrap_or(u64::MAX));
        let by_rank = |list: &[String], a: String, b: String| {
            let ranks = rank(list, &a).cmp(&rank(list, &b));
            ranks.then_with(|| a.cmp(&b))
        };
        by_rank(&self.workloads, a.workload(), b.workload())
            .then_with(|| self.compare_others(a, b))
            .then_with(|| size(a).cmp(&size(b)))
            .then_with(|| a.size().cmp(&b.size()))
            .then_with(|| by_rank(&self.transports, a.transport(), b.transport()))
    }

    /// By the factors other than workload, size and transport. A cell without a factor comes
    /// before one with it.
    fn compare_others(&self, a: &Cell, b: &Cell) -> Ordering {
        let others = |cell: &Cell| {
            let known = [Cell::WORKLOAD, Cell::SIZE, Cell::TRANSPORT];
            let mut factors = cell.0.clone();
            factors.retain(|name, _| !known.contains(&name.as_str()));
            factors
        };
        let (a, b) = (others(a), others(b));
        let mut names: Vec<&String> = a.keys().chain(b.keys()).collect();
        names.sort();
        names.dedup();
        let by_factor = |name: &&String| self.compare_factors(a.get(*name), b.get(*name));
        let found = names.iter().map(by_factor).find(|order| order.is_ne());
        found.unwrap_or(Ordering::Equal)
    }

    fn compare_factors(&self, a: Option<&Factor>, b: Option<&Factor>) -> Ordering {
        let (Some(a), Some(b)) = (a, b) else {
            return a.is_some().cmp(&b.is_some());
        };
        match (number(a), number(b)) {
            (Some(a), Some(b)) => a.total_cmp(&b),
            (a_number, b_number) => b_number.is_some().cmp(&a_number.is_some()).then_with(|| {
                let place = |factor: &Factor| self.names.get(&factor.to_string());
                place(a).cmp(&place(b))
            }),
        }
    }
}

fn number(factor: &Factor) -> Option<f64> {
    match factor {
        Factor::Integer(value) => Some(*value as f64),
        Factor::Number(value) => Some(*value),
        Factor::Text(_) => None,
    }
}
