//! Sweeps of a load on a terminal: a row per contestant, a column per load, and a curve of blocks.

use super::extra::Extra;
use super::{BOLD, PLAIN, folded, new_table, ratio_of, table_width, value_text, wrap};
use crate::view::grids::LoadGrid;
use crate::view::loads::{LoadSweep, Step, load_text};
use crate::view::{Entry, View};
use comfy_table::{Cell, CellAlignment};
use results::metric;
use stats::warnings::without_figures;

/// Heights of a curve, an eighth of a line each.
const BLOCKS: [char; 8] = [
    '\u{2581}', '\u{2582}', '\u{2583}', '\u{2584}', '\u{2585}', '\u{2586}', '\u{2587}', '\u{2588}',
];

/// The matrices of all sweeps, each with a heading and what is missing.
pub(super) fn matrices(
    view: &View,
    sweeps: &[LoadSweep],
    width: usize,
    extras: &[Extra],
) -> String {
    let mut text = String::new();
    for sweep in sweeps {
        let name = metric::primary(&sweep.workload);
        let label = metric::find(name).map_or(name, |metric| metric.label);
        let heading = format!("{}: {label} by {}", sweep.title, sweep.load);
        text.push_str(&wrap(&format!("{BOLD}{heading}{PLAIN}"), width, 2));
        text.push_str(&tables(view, sweep, width, extras));
        for line in missing(view, sweep) {
            text.push_str(&wrap(&line, width, 2));
        }
        text.push('\n');
    }
    text
}

/// The matrices of two loads that were crossed, one for each contestant: a row for each value of the second.
pub(super) fn two_way(view: &View, grids: &[LoadGrid], width: usize, extras: &[Extra]) -> String {
    let mut text = String::new();
    for grid in grids {
        let name = metric::primary(&grid.workload);
        let label = metric::find(name).map_or(name, |metric| metric.label);
        let heading = format!(
            "{}: {label} of {} by {} (columns) and {} (rows)",
            grid.title,
            view.label(grid.contestant),
            grid.across.name,
            grid.down.name
        );
        text.push_str(&wrap(&format!("{BOLD}{heading}{PLAIN}"), width, 2));
        text.push_str(&grid_table(grid, name, extras));
        text.push('\n');
    }
    text
}

fn grid_table(grid: &LoadGrid, name: &str, extras: &[Extra]) -> String {
    let right = |text: String| Cell::new(text).set_alignment(CellAlignment::Right);
    let mut table = new_table();
    let columns = grid.across.values.iter();
    let header = columns.map(|load| right(load_text(*load)));
    table.set_header(std::iter::once(Cell::new("")).chain(header));
    for row in 0..grid.down.values.len() {
        let cells = (0..grid.across.values.len())
            .map(|column| right(value_text(grid.entry(row, column), name, extras)));
        let label = right(load_text(grid.down.values[row]));
        table.add_row(std::iter::once(label).chain(cells));
    }
    format!("{}\n", table.trim_fmt())
}

/// The matrix, split into several when the loads do not fit side by side.
fn tables(view: &View, sweep: &LoadSweep, width: usize, extras: &[Extra]) -> String {
    let steps: Vec<usize> = (0..sweep.steps.len()).collect();
    for parts in 1..=steps.len() {
        let drawn: Vec<String> = steps
            .chunks(steps.len().div_ceil(parts))
            .map(|steps| table(view, sweep, steps, extras))
            .collect();
        let fits = drawn.iter().all(|table| table_width(table) <= width);
        if fits || parts == steps.len() {
            return drawn.concat();
        }
    }
    String::new()
}

fn table(view: &View, sweep: &LoadSweep, steps: &[usize], extras: &[Extra]) -> String {
    let name = metric::primary(&sweep.workload);
    let right = |text: String| Cell::new(text).set_alignment(CellAlignment::Right);
    let mut table = new_table();
    let labels = steps
        .iter()
        .map(|&step| right(Step::label(&sweep.steps[step])));
    let mut header = vec![Cell::new("")];
    header.extend(labels.flat_map(|label| [label, Cell::new("")]));
    header.push(Cell::new(""));
    table.set_header(header);
    let highest = highest(sweep, name);
    for contestant in sweep.contestants() {
        let mut row = vec![Cell::new(folded(view.label(contestant)))];
        for &step in steps {
            let found = sweep.entry(step, contestant);
            row.push(right(value_text(
                found.map(|(_, entry)| entry),
                name,
                extras,
            )));
            let ratio = found.map(|(setting, entry)| ratio_of(view, setting, entry, name));
            row.push(Cell::new(ratio.unwrap_or_default()));
        }
        row.push(Cell::new(curve(sweep, contestant, name, highest)));
        table.add_row(row);
    }
    format!("{}\n", table.trim_fmt())
}

/// The highest value of all contestants, the full height of each curve.
fn highest(sweep: &LoadSweep, name: &str) -> f64 {
    let entries = sweep.steps.iter().flat_map(|step| &step.entries);
    let values = entries.filter_map(|(_, entry)| Some(entry.estimate(name)?.median));
    values.fold(0.0, f64::max)
}

/// One block per load; a space where nothing was measured.
fn curve(sweep: &LoadSweep, contestant: usize, name: &str, highest: f64) -> String {
    let value = |entry: &Entry| entry.estimate(name).map(|estimate| estimate.median);
    let block = |step: usize| {
        let found = sweep.entry(step, contestant);
        match found.and_then(|(_, entry)| value(entry)) {
            Some(value) if highest > 0.0 => {
                let eighths = (value / highest * BLOCKS.len() as f64).ceil() as usize;
                BLOCKS[eighths.clamp(1, BLOCKS.len()) - 1]
            }
            _ => ' ',
        }
    };
    (0..sweep.steps.len()).map(block).collect()
}

/// `udp at load 2, 3 has no result: its pilot failed: ...`.
fn missing(view: &View, sweep: &LoadSweep) -> Vec<String> {
    let mut groups: Vec<(usize, &str, Vec<String>)> = Vec::new();
    for step in &sweep.steps {
        for (_, entry) in &step.entries {
            let Some(reason) = &entry.missing else {
                continue;
            };
            let same = groups.iter_mut().find(|group| {
                group.0 == entry.contestant && without_figures(group.1) == without_figures(reason)
            });
            match same {
                Some(group) => group.2.push(step.label()),
                None => groups.push((entry.contestant, reason, vec![step.label()])),
            }
        }
    }
    let line = |(contestant, reason, loads): (usize, &str, Vec<String>)| {
        let loads = loads.join(", ");
        format!(
            "{} {} has no result: {reason}",
            view.label(contestant),
            sweep.place(&loads)
        )
    };
    groups.into_iter().map(line).collect()
}
