//! Each cell over many runs, as text and as a page.

use super::charts::Figure;
use super::comparison::totals_line;
use crate::chart::{glyph, history};
use crate::verdict_summary::kind;
use crate::{phrasing, quantity};
use results::{Cell, FactChange, Verdict};
use serde::Serialize;
use stats::CellHistory;

/// A run in a history.
#[derive(Clone, Debug, Default)]
pub struct HistoryRun {
    /// Its name: a label, or its folder.
    pub name: String,
    /// Start of its first trial, seconds since 1970.
    pub started_s: f64,
    /// Its labels, `KEY=TEXT` each.
    pub labels: Vec<String>,
    /// What differs from the machine and build of the run before.
    pub changes: Vec<FactChange>,
}

/// A history as lines: the runs with what changed, each cell, and the totals.
pub fn history_text(runs: &[HistoryRun], cells: &[CellHistory]) -> String {
    let mut text = String::new();
    for (number, run) in runs.iter().enumerate() {
        let row = run_row(number, run);
        text.push_str(&format!("{:>3}  {}", row.number, row.name));
        let rest = [row.when, row.labels]
            .into_iter()
            .filter(|text| !text.is_empty());
        rest.for_each(|part| text.push_str(&format!("  {part}")));
        text.push('\n');
        for change in row.changes {
            text.push_str(&format!("       changed: {change}\n"));
        }
    }
    for one in cells {
        text.push_str(&format!("\n{}\n", cell_title(one)));
        for (run, value) in values(one)
            .into_iter()
            .enumerate()
            .filter(|(_, value)| !value.median.is_empty())
        {
            let change = [value.sign, value.change.as_str()].join(" ");
            text.push_str(&format!(
                "{:>3}  {:<13} {}\n",
                run + 1,
                value.median,
                change.trim()
            ));
        }
    }
    let verdicts: Vec<Verdict> = verdicts(cells).cloned().collect();
    text.push_str(&format!(
        "\n{}, over {} runs\n",
        totals_line(&verdicts),
        runs.len()
    ));
    text.lines()
        .map(|line| format!("{}\n", line.trim_end()))
        .collect()
}

/// A history as a complete HTML document without external resources and scripts.
pub fn history_html(runs: &[HistoryRun], cells: &[CellHistory]) -> String {
    let names = transports(cells);
    let changed: Vec<usize> = (0..runs.len())
        .filter(|&run| !runs[run].changes.is_empty())
        .collect();
    let verdicts: Vec<Verdict> = verdicts(cells).cloned().collect();
    let legend = names.iter().enumerate().map(|(place, name)| LegendItem {
        label: quantity::label(name),
        glyph: glyph(place),
    });
    super::render(
        "history.html",
        &Page {
            sum: totals_line(&verdicts),
            runs: runs
                .iter()
                .enumerate()
                .map(|(number, run)| run_row(number, run))
                .collect(),
            changed: !changed.is_empty(),
            legend: legend.collect(),
            contests: contests(cells, &names, runs.len(), &changed),
            style: super::STYLE,
        },
    )
}

#[derive(Serialize)]
struct Page {
    sum: String,
    runs: Vec<RunRow>,
    changed: bool,
    legend: Vec<LegendItem>,
    contests: Vec<ContestSection>,
    style: &'static str,
}

#[derive(Serialize)]
struct LegendItem {
    label: String,
    glyph: String,
}

#[derive(Serialize)]
struct RunRow {
    number: usize,
    name: String,
    when: String,
    labels: String,
    changes: Vec<String>,
}

/// A contest: its chart, and a row a transport.
#[derive(Serialize)]
struct ContestSection {
    title: String,
    measure: String,
    figures: Vec<Figure>,
    rows: Vec<CellRow>,
}

#[derive(Serialize)]
struct CellRow {
    label: String,
    glyph: String,
    values: Vec<Value>,
}

/// A cell's value in one run, and the verdict on it against the run before.
#[derive(Clone, Default, Serialize)]
struct Value {
    median: String,
    change: String,
    range: String,
    kind: &'static str,
    sign: &'static str,
}

/// Changes of the machine shown for a run; a new machine differs in everything.
const CHANGES_MAX: usize = 12;

fn run_row(number: usize, run: &HistoryRun) -> RunRow {
    let mut changes: Vec<String> = run
        .changes
        .iter()
        .take(CHANGES_MAX)
        .map(change_text)
        .collect();
    if let Some(more @ 1..) = run.changes.len().checked_sub(CHANGES_MAX) {
        changes.push(format!("and {more} more"));
    }
    RunRow {
        number: number + 1,
        name: quantity::clean(&run.name, 120),
        when: quantity::date(run.started_s).unwrap_or_default(),
        labels: quantity::clean(&run.labels.join(", "), 300),
        changes,
    }
}

/// `kernel release 6.1.0 -> 6.8.0`.
fn change_text(change: &FactChange) -> String {
    let value = |value: &Option<String>| match value {
        Some(value) => quantity::clean(value, 120),
        None => "unknown".to_owned(),
    };
    let name = quantity::clean(&format!("{} {}", change.group, change.name), 100);
    format!(
        "{name}: {} \u{2192} {}",
        value(&change.before),
        value(&change.after)
    )
}

fn verdicts(cells: &[CellHistory]) -> impl Iterator<Item = &Verdict> {
    cells
        .iter()
        .flat_map(|one| one.steps.iter().map(|step| &step.verdict))
}

fn transports(cells: &[CellHistory]) -> Vec<String> {
    let mut names: Vec<String> = Vec::new();
    for name in cells.iter().map(|one| one.cell.transport()) {
        if !names.contains(&name) {
            names.push(name);
        }
    }
    names
}

/// `throughput at 64 B, tcp: message rate`.
fn cell_title(one: &CellHistory) -> String {
    let transport = quantity::label(&one.cell.transport());
    let noun = phrasing::metric_noun(&one.metric);
    format!("{}, {transport}: {noun}", contest_title(&one.cell))
}

fn contest_title(cell: &Cell) -> String {
    let workload = quantity::spaced(&cell.workload());
    let place = phrasing::place(&cell.without(Cell::TRANSPORT));
    format!("{workload} {place}").trim().to_owned()
}

fn values(one: &CellHistory) -> Vec<Value> {
    let mut values: Vec<Value> = one
        .values
        .iter()
        .map(|value| match value {
            Some(value) => Value {
                median: quantity::measure(&one.metric, value.median),
                range: format!(
                    "{} \u{2026} {}",
                    quantity::measure(&one.metric, value.low),
                    quantity::measure(&one.metric, value.high)
                ),
                ..Value::default()
            },
            None => Value::default(),
        })
        .collect();
    for step in &one.steps {
        let (kind, sign) = kind(step.verdict.kind);
        let value = &mut values[step.to];
        (value.kind, value.sign) = (kind, sign);
        // Too few trials for an interval have no mean either.
        value.change = match step.verdict.pairs {
            0 => String::new(),
            _ => quantity::change(step.verdict.ratio),
        };
    }
    values
}

fn contests(
    cells: &[CellHistory],
    names: &[String],
    runs: usize,
    changed: &[usize],
) -> Vec<ContestSection> {
    let mut titles: Vec<(String, Vec<&CellHistory>)> = Vec::new();
    for one in cells {
        let title = contest_title(&one.cell);
        match titles.iter_mut().find(|(known, _)| *known == title) {
            Some((_, same)) => same.push(one),
            None => titles.push((title, vec![one])),
        }
    }
    let section = |(title, same): (String, Vec<&CellHistory>)| {
        let place = |one: &CellHistory| {
            let name = one.cell.transport();
            names
                .iter()
                .position(|known| *known == name)
                .unwrap_or_default()
        };
        let curves: Vec<history::Curve> = same
            .iter()
            .map(|one| (place(one), &one.values[..]))
            .collect();
        let metric = same.first().map_or("", |one| one.metric.as_str());
        let label = |name: usize| {
            names
                .get(name)
                .map(|name| quantity::label(name))
                .unwrap_or_default()
        };
        let plot = history::chart(metric, &curves, runs, changed);
        ContestSection {
            figures: plot
                .iter()
                .map(|plot| Figure::with_numbers("", plot, label))
                .collect(),
            measure: super::workload::capital(&phrasing::metric_noun(metric)),
            rows: same
                .iter()
                .map(|one| CellRow {
                    label: quantity::label(&one.cell.transport()),
                    glyph: glyph(place(one)),
                    values: values(one),
                })
                .collect(),
            title: super::workload::capital(&title),
        }
    };
    titles.into_iter().map(section).collect()
}
