//! Sweeps of a load: cells that differ in nothing else but the transport.

use super::grids::LoadGrid;
use super::{Entry, Setting, View};
use crate::{phrasing, quantity};
use results::{Cell, Factor};
use std::collections::BTreeSet;

/// Factors that are loads, with their description. Where one is varied the others are zero.
pub(crate) const LOADS: [(&str, &str); 5] = [
    ("sender_load", "load on the sending host"),
    ("receiver_load", "load on the receiving host"),
    ("link_load", "load on the link"),
    (Cell::LOAD_PERCENT, "offered load, % of its own capacity"),
    (Cell::RATE, "offered load, messages a second"),
];

/// A factor that is swept like a load and is never zero: others are varied at each of its values.
const CLIENTS: (&str, &str) = (Cell::CLIENTS, "clients");

/// Cells that differ only in transport and one load.
pub(crate) struct LoadSweep<'v> {
    /// Workload, size and other factors.
    pub title: String,
    /// What the load is.
    pub load: String,
    /// The factor.
    pub factor: String,
    /// The workload.
    pub workload: String,
    /// Values of the load, ascending, each with the cells there and their settings.
    pub steps: Vec<Step<'v>>,
}

/// One value of a load.
pub(crate) struct Step<'v> {
    /// The load.
    pub load: f64,
    /// Its cells.
    pub entries: Vec<(&'v Setting<'v>, &'v Entry<'v>)>,
}

impl Step<'_> {
    /// Its heading: `30`, `10 k`.
    pub fn label(&self) -> String {
        load_text(self.load)
    }
}

/// A load as a heading.
pub(crate) fn load_text(load: f64) -> String {
    match load {
        load if load >= 10_000.0 => quantity::si(load, ""),
        load => quantity::short(load),
    }
}

impl<'v> LoadSweep<'v> {
    /// What is swept, as a noun.
    pub fn noun(&self) -> &str {
        match self.factor.as_str() {
            Cell::CLIENTS => "the number of clients",
            factor if is_load(factor) => "the load",
            _ => &self.load,
        }
    }

    /// A step, or several, within a sentence: `at load 2, 3`, `with 16 clients`.
    pub fn place(&self, steps: &str) -> String {
        match self.factor.as_str() {
            Cell::CLIENTS => format!("with {steps} clients"),
            factor if is_load(factor) => format!("at load {steps}"),
            _ => format!("with {} {steps}", self.load),
        }
    }

    /// The cell of a contestant at a step.
    pub fn entry(
        &self,
        step: usize,
        contestant: usize,
    ) -> Option<(&'v Setting<'v>, &'v Entry<'v>)> {
        let mut entries = self.steps[step].entries.iter();
        entries
            .find(|(_, entry)| entry.contestant == contestant)
            .copied()
    }

    /// Contestants that take part, ascending.
    pub fn contestants(&self) -> Vec<usize> {
        let entries = self.steps.iter().flat_map(|step| &step.entries);
        let mut all: Vec<usize> = entries.map(|(_, entry)| entry.contestant).collect();
        all.sort_unstable();
        all.dedup();
        all
    }
}

impl View<'_> {
    /// The sweeps of loads, and those of every other number that was varied but the message size.
    pub fn number_sweeps(&self) -> Vec<LoadSweep<'_>> {
        let cells = self.entries().map(|(_, entry)| &entry.cell);
        let names = cells.flat_map(|cell| cell.0.keys());
        let known = |name: &str| is_load(name) || [Cell::CLIENTS, Cell::SIZE].contains(&name);
        let others: BTreeSet<&String> = names.filter(|name| !known(name)).collect();
        let swept = others
            .into_iter()
            .flat_map(|name| self.sweeps_of(name, &quantity::spaced(name)));
        self.load_sweeps().into_iter().chain(swept).collect()
    }

    /// The sweeps of each load with every other load zero, in the order of the plan; those of clients
    /// last.
    pub fn load_sweeps(&self) -> Vec<LoadSweep<'_>> {
        let factors = LOADS.iter().chain([&CLIENTS]);
        factors
            .flat_map(|(factor, load)| self.sweeps_of(factor, load))
            .collect()
    }

    fn sweeps_of(&self, factor: &str, load: &str) -> Vec<LoadSweep<'_>> {
        let mut sweeps: Vec<LoadSweep> = Vec::new();
        for (setting, entry) in self.entries() {
            let Some(value) = load_of(&entry.cell, factor) else {
                continue;
            };
            if LOADS
                .iter()
                .any(|(name, _)| *name != factor && other_load(&entry.cell, name))
            {
                continue;
            }
            let title = self.sweep_title(&entry.cell.without(factor));
            let at = sweeps.iter().position(|sweep| sweep.title == title);
            let at = at.unwrap_or_else(|| {
                sweeps.push(LoadSweep {
                    workload: entry.cell.workload(),
                    steps: Vec::new(),
                    title,
                    load: load.to_owned(),
                    factor: factor.to_owned(),
                });
                sweeps.len() - 1
            });
            let steps = &mut sweeps[at].steps;
            match steps.iter_mut().find(|step| step.load == value) {
                Some(step) => step.entries.push((setting, entry)),
                None => steps.push(Step {
                    load: value,
                    entries: vec![(setting, entry)],
                }),
            }
        }
        sweeps.retain(|sweep| sweep.steps.len() > 1);
        for sweep in &mut sweeps {
            sweep.steps.sort_by(|a, b| a.load.total_cmp(&b.load));
        }
        sweeps
    }

    pub(super) fn entries(&self) -> impl Iterator<Item = (&Setting<'_>, &Entry<'_>)> {
        let settings = self.settings.iter();
        settings.flat_map(|setting| setting.entries.iter().map(move |entry| (setting, entry)))
    }

    pub(super) fn sweep_title(&self, cell: &Cell) -> String {
        let rest = LOADS
            .iter()
            .fold(cell.without(Cell::TRANSPORT), |rest, (name, _)| {
                rest.without(name)
            });
        let place = phrasing::place(&self.varied(&rest));
        let title = format!("{} {place}", quantity::spaced(&rest.workload()));
        title.trim().to_owned()
    }

    /// Whether all cells of a setting stand in one of the sweeps or grids.
    pub fn is_swept(&self, setting: &Setting, sweeps: &[LoadSweep], grids: &[LoadGrid]) -> bool {
        let covered = |entry: &Entry| {
            let mut steps = sweeps.iter().flat_map(|sweep| &sweep.steps);
            let in_sweep = steps.any(|step| {
                step.entries
                    .iter()
                    .any(|(_, other)| std::ptr::eq(*other, entry))
            });
            in_sweep || grids.iter().any(|grid| grid.has(entry))
        };
        setting.entries.iter().all(covered)
    }
}

fn is_load(factor: &str) -> bool {
    LOADS.iter().any(|(name, _)| *name == factor)
}

pub(super) fn load_of(cell: &Cell, factor: &str) -> Option<f64> {
    match cell.0.get(factor)? {
        Factor::Integer(value) => Some(*value as f64),
        Factor::Number(value) if value.is_finite() => Some(*value),
        _ => None,
    }
}

fn other_load(cell: &Cell, name: &str) -> bool {
    load_of(cell, name).is_some_and(|load| load != 0.0)
}
