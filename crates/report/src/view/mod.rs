//! A run arranged for reports: contestants in a fixed order, cells grouped into settings.

mod estimate;
pub(crate) mod grids;
pub(crate) mod loads;
mod setting;

pub(crate) use estimate::geometric_mean;
pub(crate) use setting::{Column, Entry, Setting};

use crate::{phrasing, quantity};
use results::{Cell, RunData, Status, Trial, Verdict, metric};
use std::collections::BTreeMap;

/// A run arranged for reports.
pub(crate) struct View<'a> {
    /// The run as read.
    pub run: &'a RunData,
    /// Every contestant in the order of the plan; the index selects the colour in charts.
    pub contestants: Vec<Contestant>,
    /// Index of the baseline; None when it never ran.
    pub baseline: Option<usize>,
    /// One entry per workload and combination of factors other than transport and size.
    pub settings: Vec<Setting<'a>>,
    /// Factors with one value in the whole run; said once.
    shared: Cell,
}

/// A contestant of the race.
pub(crate) struct Contestant {
    /// Its name in the files.
    pub name: String,
    /// Its name, cleaned for printing.
    pub label: String,
    /// Its class; empty when the run has none.
    pub class: String,
}

/// Maximum number of contestants in a report; a race has fewer than twenty.
const CONTESTANTS_MAX: usize = 64;

impl<'a> View<'a> {
    /// Arranges a run.
    pub fn new(run: &'a RunData) -> View<'a> {
        let contestants = contestants(run);
        let baseline = contestants
            .iter()
            .position(|contestant| contestant.name == run.plan.baseline);
        let settings = setting::collect(run, &contestants);
        let shared = shared(&settings);
        View {
            run,
            contestants,
            baseline,
            settings,
            shared,
        }
    }

    /// A contestant's printable name.
    pub fn label(&self, contestant: usize) -> &str {
        &self.contestants[contestant].label
    }

    /// The factors that have one value in the whole run, as text; None without any.
    pub fn shared_factors(&self) -> Option<String> {
        let text = phrasing::other_factors(&self.shared);
        (!text.is_empty()).then_some(text)
    }

    /// A cell without the factors of [`View::shared_factors`].
    pub fn varied(&self, cell: &Cell) -> Cell {
        let mut cell = cell.clone();
        cell.0.retain(|name, _| !self.shared.0.contains_key(name));
        cell
    }

    /// The title of a setting: its workload, and the factors that vary.
    pub fn title(&self, setting: &Setting) -> String {
        setting::title(&self.varied(&setting.cell))
    }

    /// Whether a contestant may lose messages, by its class; None if unknown.
    pub fn may_lose(&self, name: &str) -> Option<bool> {
        let contestant = self.contestants.iter().find(|c| c.name == name)?;
        let class = contestant.class.to_lowercase();
        let loses = ["unreliable", "may lose", "not reliable"];
        match loses.iter().any(|word| class.contains(word)) {
            true => Some(true),
            false => class.contains("reliable").then_some(false),
        }
    }

    /// The verdict on an entry's contestant, if any. A sweep of loads in per cent of capacity has
    /// one verdict, on its peak.
    pub fn verdict(&self, entry: &Entry, metric: &str) -> Option<&'a Verdict> {
        let contest = entry.cell.without(Cell::TRANSPORT);
        let (contest, metric) = match (entry.is_share_of_capacity(), metric) {
            (true, metric::DELIVERED_PER_S) => {
                (contest.without(Cell::LOAD_PERCENT), metric::PEAK_PER_S)
            }
            _ => (contest, metric),
        };
        let name = &self.contestants[entry.contestant].name;
        let summary = self.run.summary.as_ref()?;
        summary.verdicts.iter().find(|verdict| {
            verdict.metric == metric && verdict.contestant == *name && verdict.contest == contest
        })
    }

    /// An entry's ratio to the baseline: the verdict's, else that of the medians, which is no
    /// verdict. None for the baseline itself.
    pub fn ratio(&self, setting: &Setting, entry: &Entry, metric: &str) -> Option<f64> {
        let baseline = self
            .baseline
            .filter(|baseline| *baseline != entry.contestant)?;
        let ratio = match self.verdict(entry, metric) {
            Some(verdict) => verdict.ratio,
            // Each contestant was offered another rate.
            None if entry.is_share_of_capacity() => return None,
            None => {
                let base = setting.best_entry(baseline, &entry.column(), metric)?;
                entry.estimate(metric)?.median / base.estimate(metric)?.median
            }
        };
        ratio.is_finite().then_some(ratio)
    }

    /// Every trial but the pilots: those that figures and sentences count.
    pub fn counted_trials(&self) -> impl Iterator<Item = &'a Trial> {
        self.run.trials.iter().filter(|trial| trial.block > 0)
    }

    /// Counted trials that are invalid, were aborted or were disturbed.
    pub fn marked_trials(&self) -> impl Iterator<Item = &'a Trial> {
        let marked = |trial: &&Trial| trial.status != Status::Ok || !trial.disturbed.is_empty();
        self.counted_trials().filter(marked)
    }

    /// Pilots that failed or were invalid.
    pub fn failed_pilots(&self) -> impl Iterator<Item = &'a Trial> {
        let trials = self.run.trials.iter();
        trials.filter(|trial| trial.block == 0 && trial.status != Status::Ok)
    }
}

/// The factors that all settings share, but for the workload and loads, which may be one of a sweep.
fn shared(settings: &[Setting]) -> Cell {
    let mut shared = match settings.first() {
        Some(first) => first.cell.without(Cell::WORKLOAD),
        None => Cell::default(),
    };
    let is_shared = |name: &String, value: &results::Factor| {
        !loads::LOADS.iter().any(|(load, _)| load == name)
            && settings
                .iter()
                .all(|setting| setting.cell.0.get(name) == Some(value))
    };
    shared.0.retain(|name, value| is_shared(name, value));
    shared
}

fn contestants(run: &RunData) -> Vec<Contestant> {
    let planned = run.plan.transports.iter().cloned();
    let seen = run.trials.iter().map(|trial| trial.cell.transport());
    let mut found: Vec<Contestant> = Vec::new();
    let mut known = BTreeMap::new();
    for name in planned.chain(seen) {
        if name.is_empty() || found.len() == CONTESTANTS_MAX || known.contains_key(&name) {
            continue;
        }
        known.insert(name.clone(), ());
        let class = run.plan.options.get(&format!("class.{name}"));
        found.push(Contestant {
            label: quantity::label(&name),
            class: class
                .map(|class| quantity::clean(class, 200))
                .unwrap_or_default(),
            name,
        });
    }
    found
}
