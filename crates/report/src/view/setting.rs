//! Settings: the cells of one table and its charts.

use super::{Contestant, estimate};
use crate::{phrasing, quantity};
use results::{Cell, CellSummary, Estimate, RunData, Status, Trial, metric};
use stats::MissingResult;
use stats::warnings::without_figures;
use std::borrow::Cow;
use std::collections::{BTreeMap, BTreeSet};

/// One workload with one combination of other factors, for every transport and size.
pub(crate) struct Setting<'a> {
    /// The factors that all entries share.
    pub cell: Cell,
    /// The workload.
    pub workload: String,
    /// Its cells, sorted by contestant, then size.
    pub entries: Vec<Entry<'a>>,
}

/// One cell with its trials.
pub(crate) struct Entry<'a> {
    /// Index of the contestant.
    pub contestant: usize,
    /// The whole cell.
    pub cell: Cell,
    /// Its estimates.
    pub summary: Cow<'a, CellSummary>,
    /// Its trials without controls and pilots.
    pub trials: Vec<&'a Trial>,
    /// Why it has no result, cleaned; None when it has one.
    pub missing: Option<String>,
}

/// A column of a setting's table: a size, or a mix of sizes.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) struct Column {
    /// Bytes, when it is a plain size.
    pub size: Option<u64>,
    /// Its heading.
    pub label: String,
}

/// Factors of the open-loop workload: offered messages per second, or per cent of capacity.
const RATE_FACTORS: [&str; 2] = [Cell::RATE, Cell::LOAD_PERCENT];

impl<'a> Setting<'a> {
    /// Its columns in ascending order.
    pub fn columns(&self) -> Vec<Column> {
        let mut columns: Vec<Column> = self.entries.iter().map(Entry::column).collect();
        columns.sort();
        columns.dedup();
        columns
    }

    /// The entries of a contestant.
    pub fn entries_of(&self, contestant: usize) -> impl Iterator<Item = &Entry<'a>> {
        let entries = self.entries.iter();
        entries.filter(move |entry| entry.contestant == contestant)
    }

    /// The entry of a contestant in a column.
    pub fn entry(&self, contestant: usize, column: &Column) -> Option<&Entry<'a>> {
        self.entries_of(contestant)
            .find(|entry| entry.column() == *column)
    }

    /// The entry shown in a table's cell: of several offered rates, the one with the highest
    /// metric.
    pub fn best_entry(
        &self,
        contestant: usize,
        column: &Column,
        metric: &str,
    ) -> Option<&Entry<'a>> {
        let here = self
            .entries_of(contestant)
            .filter(|entry| entry.column() == *column);
        let value = |entry: &Entry| {
            entry
                .estimate(metric)
                .map_or(f64::NEG_INFINITY, |e| e.median)
        };
        here.max_by(|a, b| value(a).total_cmp(&value(b)))
    }

    /// Whether a contestant has several cells at one size, such as several offered rates; then no
    /// single cell represents the size.
    pub fn is_swept(&self) -> bool {
        let places = self
            .entries
            .iter()
            .map(|entry| (entry.contestant, entry.column()));
        let mut seen = BTreeSet::new();
        places.into_iter().any(|place| !seen.insert(place))
    }

    /// Entries without a result, by contestant and reason: a sentence each.
    pub fn missing(&self, label: impl Fn(usize) -> String) -> Vec<String> {
        let mut groups: Vec<(usize, &str, Vec<String>)> = Vec::new();
        for entry in &self.entries {
            let Some(reason) = &entry.missing else {
                continue;
            };
            let place = entry.column().label;
            let same = |group: &&mut (usize, &str, Vec<String>)| {
                group.0 == entry.contestant && without_figures(group.1) == without_figures(reason)
            };
            match groups.iter_mut().find(same) {
                Some(group) if group.2.contains(&place) => {}
                Some(group) => group.2.push(place),
                None => groups.push((entry.contestant, reason, vec![place])),
            }
        }
        let all = self.columns().len();
        let sentence = |(contestant, reason, places): (usize, &str, Vec<String>)| {
            let at = match places.len() == all {
                true => String::new(),
                false => format!(" at {}", places.join(", ")),
            };
            format!("{}{at} has no result: {reason}", label(contestant))
        };
        groups.into_iter().map(sentence).collect()
    }

    /// Whether any entry has the metric.
    pub fn has_metric(&self, metric: &str) -> bool {
        let mut entries = self.entries.iter();
        entries.any(|entry| entry.estimate(metric).is_some())
    }
}

impl<'a> Entry<'a> {
    /// Its column.
    pub fn column(&self) -> Column {
        let size = self.cell.size();
        let label = match size {
            Some(size) => quantity::bytes(size),
            None => quantity::clean(&self.cell.text(Cell::SIZE), 24),
        };
        Column { size, label }
    }

    /// Whether its load is a share of the contestant's own capacity.
    pub fn is_share_of_capacity(&self) -> bool {
        self.cell.0.contains_key(Cell::LOAD_PERCENT)
    }

    /// The estimate of a metric, if finite.
    pub fn estimate(&self, metric: &str) -> Option<Estimate> {
        let found = self.summary.metrics.get(metric).copied()?;
        found.median.is_finite().then_some(found)
    }

    /// The loss beside its rate, as text: `12 % lost`; None where nothing was lost.
    pub fn loss(&self) -> Option<String> {
        let lost = self.estimate(metric::LOSS_FRACTION)?.median;
        (lost > 0.0).then(|| format!("{} lost", quantity::share(lost)))
    }

    /// Valid trials.
    pub fn valid_trials(&self) -> impl Iterator<Item = &'a Trial> {
        let trials = self.trials.iter().copied();
        trials.filter(|trial| trial.status == Status::Ok)
    }

    /// A metric of every valid trial, with its block.
    pub fn points(&self, metric: &str) -> Vec<(u32, f64)> {
        let values = self.valid_trials().filter_map(|trial| {
            let value = trial.metrics.get(metric).copied()?;
            value.is_finite().then_some((trial.block, value))
        });
        values.collect()
    }
}

/// A title: the workload with the other factors.
pub(super) fn title(cell: &Cell) -> String {
    let rest = phrasing::other_factors(cell);
    let name = quantity::spaced(&cell.workload());
    match (name.is_empty(), rest.is_empty()) {
        (true, _) => rest,
        (false, true) => name,
        (false, false) => format!("{name}, {rest}"),
    }
}

/// Groups the cells of a run into settings.
pub(super) fn collect<'a>(run: &'a RunData, contestants: &[Contestant]) -> Vec<Setting<'a>> {
    let mut settings: Vec<Setting<'a>> = Vec::new();
    let missing = stats::missing_results(&run.plan, &run.trials);
    let cells = cells(run, &missing);
    let reasons: BTreeMap<String, &str> = missing
        .iter()
        .map(|one| (key(&one.cell), one.reason.as_str()))
        .collect();
    for (cell, trials) in cells {
        let name = cell.transport();
        let Some(contestant) = contestants.iter().position(|c| c.name == name) else {
            continue;
        };
        let shared = shared_factors(&cell);
        let place = settings.iter().position(|setting| setting.cell == shared);
        let place = place.unwrap_or_else(|| {
            settings.push(Setting {
                workload: shared.workload(),
                cell: shared,
                entries: Vec::new(),
            });
            settings.len() - 1
        });
        settings[place].entries.push(Entry {
            contestant,
            summary: summary(run, &cell, &trials),
            missing: reasons
                .get(&key(&cell))
                .map(|reason| quantity::clean(reason, 200)),
            cell,
            trials,
        });
    }
    let order = stats::CellOrder::of(&run.plan, &run.trials);
    settings.sort_by(|a, b| order.compare(&a.cell, &b.cell));
    for setting in &mut settings {
        setting
            .entries
            .sort_by_key(|entry| (entry.contestant, entry.column()));
    }
    settings
}

/// Every cell with a trial or a summary, in the order of the first trial, and those that were to
/// have one.
fn cells<'a>(run: &'a RunData, missing: &[MissingResult]) -> Vec<(Cell, Vec<&'a Trial>)> {
    let mut found: Vec<(Cell, Vec<&'a Trial>)> = Vec::new();
    let mut places: BTreeMap<String, usize> = BTreeMap::new();
    let mut place = |cell: &Cell, found: &mut Vec<(Cell, Vec<&'a Trial>)>| {
        *places.entry(key(cell)).or_insert_with(|| {
            found.push((cell.clone(), Vec::new()));
            found.len() - 1
        })
    };
    for trial in run.trials.iter().filter(|t| t.block > 0 && !t.control) {
        let place = place(&trial.cell, &mut found);
        found[place].1.push(trial);
    }
    for summary in run.summary.iter().flat_map(|summary| &summary.cells) {
        place(&summary.cell, &mut found);
    }
    for one in missing {
        place(&one.cell, &mut found);
    }
    found
}

fn summary<'a>(run: &'a RunData, cell: &Cell, trials: &[&Trial]) -> Cow<'a, CellSummary> {
    let mut written = run.summary.iter().flat_map(|summary| &summary.cells);
    match written.find(|summary| summary.cell == *cell) {
        Some(summary) => Cow::Borrowed(summary),
        None => Cow::Owned(estimate::of_trials(cell, trials)),
    }
}

fn shared_factors(cell: &Cell) -> Cell {
    let mut shared = cell.without(Cell::TRANSPORT).without(Cell::SIZE);
    if cell.workload() == "offered" {
        shared = RATE_FACTORS
            .iter()
            .fold(shared, |cell, rate| cell.without(rate));
    }
    shared
}

/// Maps are ordered, so equal cells give equal text.
fn key(cell: &Cell) -> String {
    format!("{:?}", cell.0)
}
