//! A run for a terminal: a matrix per sweep of loads, a table per other setting, then the verdicts.
//!
//! * `loads` - matrices.
//! * `verdicts` - sentences.
//! * [`extra`] - further metrics in a table's cells.

pub mod extra;
mod loads;
mod verdicts;

use crate::quantity;
use crate::verdict_summary;
use crate::view::{Column, Entry, Setting, View};
use comfy_table::{Cell, CellAlignment, ContentArrangement, LineStyle, Table, TableStyle};
use extra::Extra;
use results::{RunData, metric};

/// Invisible characters that mark colour changes until table widths are known. Names from files
/// cannot contain them, see [`quantity::clean`].
const BOLD: char = '\u{2061}';
const GREEN: char = '\u{2062}';
const RED: char = '\u{2063}';
const PLAIN: char = '\u{2064}';

/// Minimum width of a table.
const WIDTH_MIN: usize = 40;

/// Columns of a contestant's name.
const LABEL_WIDTH: usize = 24;

/// A run as text of at most `width` columns if possible: for each setting a table of medians with
/// the ratio to the baseline, then the verdicts. `colour` adds ANSI colours, `extras` further
/// metrics below each median.
pub fn table(run: &RunData, colour: bool, width: usize, extras: &[Extra]) -> String {
    let mut text = medians(run, colour, width, extras);
    text.push_str(&verdicts(run, colour, width));
    text
}

/// The verdicts of a run as lines, what they rest on, and its warnings.
pub fn verdicts(run: &RunData, colour: bool, width: usize) -> String {
    let text = verdicts::text(&View::new(run), width.max(WIDTH_MIN));
    paint(&text, colour)
}

/// The tables alone, as in [`table`].
pub fn medians(run: &RunData, colour: bool, width: usize, extras: &[Extra]) -> String {
    let view = View::new(run);
    let width = width.max(WIDTH_MIN);
    let (sweeps, grids) = (view.load_sweeps(), view.load_grids());
    let mut text = String::new();
    if let Some(shared) = view.shared_factors() {
        text.push_str(&wrap(&format!("All with {shared}."), width, 2));
        text.push('\n');
    }
    text.push_str(&loads::matrices(&view, &sweeps, width, extras));
    text.push_str(&loads::two_way(&view, &grids, width, extras));
    let others = view.settings.iter();
    for setting in others.filter(|setting| !view.is_swept(setting, &sweeps, &grids)) {
        let heading = heading(&view, setting);
        text.push_str(&format!("{BOLD}{heading}{PLAIN}\n"));
        text.push_str(&tables(&view, setting, width, extras));
        for line in setting.missing(|contestant| view.label(contestant).to_owned()) {
            text.push_str(&wrap(&line, width, 2));
        }
        text.push('\n');
    }
    paint(&text, colour)
}

fn heading(view: &View, setting: &Setting) -> String {
    let metric = metric::primary(&setting.workload);
    let label = metric::find(metric).map_or(metric, |metric| metric.label);
    let better = if crate::phrasing::more_is_better(metric) {
        "more"
    } else {
        "less"
    };
    let baseline = view.baseline.map_or("", |baseline| view.label(baseline));
    let ratio = if baseline.is_empty() || view.contestants.len() < 2 {
        String::new()
    } else {
        format!("; ratio to {baseline}")
    };
    format!(
        "{}: {label}, {better} is better{ratio}",
        view.title(setting)
    )
}

/// The setting's table, split into several when the sizes do not fit side by side.
fn tables(view: &View, setting: &Setting, width: usize, extras: &[Extra]) -> String {
    let columns = setting.columns();
    let mut parts = 1;
    loop {
        let chunk = columns.len().div_ceil(parts).max(1);
        let drawn: Vec<String> = columns
            .chunks(chunk)
            .map(|columns| table_part(view, setting, columns, extras))
            .collect();
        let widest = drawn
            .iter()
            .map(|table| table_width(table))
            .max()
            .unwrap_or(0);
        if widest <= width || chunk == 1 {
            return drawn.concat();
        }
        parts += 1;
    }
}

/// A table with a line below its header.
fn new_table() -> Table {
    let mut table = Table::new();
    let rule = LineStyle::none().fill('\u{2500}').junction('\u{2500}');
    table.load_style(TableStyle::new().header_separator(rule));
    table.set_content_arrangement(ContentArrangement::Disabled);
    table
}

fn table_part(view: &View, setting: &Setting, columns: &[Column], extras: &[Extra]) -> String {
    let mut table = new_table();
    let mut header = vec![Cell::new("")];
    for column in columns {
        header.push(Cell::new(&column.label).set_alignment(CellAlignment::Right));
        header.push(Cell::new(""));
    }
    table.set_header(header);
    for contestant in 0..view.contestants.len() {
        if setting.entries_of(contestant).next().is_some() {
            table.add_row(row(view, setting, contestant, columns, extras));
        }
    }
    format!("{}\n", table.trim_fmt())
}

fn row(
    view: &View,
    setting: &Setting,
    contestant: usize,
    columns: &[Column],
    extras: &[Extra],
) -> Vec<Cell> {
    let metric = metric::primary(&setting.workload);
    let mut cells = vec![Cell::new(folded(view.label(contestant)))];
    for column in columns {
        let entry = setting.best_entry(contestant, column, metric);
        let value = value_text(entry, metric, extras);
        cells.push(Cell::new(value).set_alignment(CellAlignment::Right));
        cells.push(Cell::new(
            entry
                .map(|entry| ratio_of(view, setting, entry, metric))
                .unwrap_or_default(),
        ));
    }
    cells
}

/// The median, what was lost, and the extras, a line each.
fn value_text(entry: Option<&Entry>, metric: &str, extras: &[Extra]) -> String {
    let estimate = entry.and_then(|entry| entry.estimate(metric));
    let (Some(entry), Some(estimate)) = (entry, estimate) else {
        return quantity::MISSING.into();
    };
    let mut lines = vec![quantity::measure(metric, estimate.median)];
    lines.extend(entry.loss());
    lines.extend(extras.iter().filter_map(|extra| extra.text(entry)));
    lines.join("\n")
}

/// The ratio to the baseline with the sign of its verdict.
fn ratio_of(view: &View, setting: &Setting, entry: &Entry, metric: &str) -> String {
    let kind = view.verdict(entry, metric);
    let kind = kind.map_or("", |verdict| verdict_summary::kind(verdict.kind).0);
    let ratio = view.ratio(setting, entry, metric);
    ratio
        .map(|ratio| ratio_text(ratio, kind))
        .unwrap_or_default()
}

/// A label in lines of at most [`LABEL_WIDTH`], broken between its options.
fn folded(label: &str) -> String {
    let mut lines = vec![String::new()];
    for part in label.split_inclusive([',', '+']) {
        let used = lines.last().map_or(0, |line| line.chars().count());
        if used > 0 && used + part.chars().count() > LABEL_WIDTH {
            lines.push(" ".into());
        }
        if let Some(line) = lines.last_mut() {
            line.push_str(part);
        }
    }
    let cut = |line: &String| quantity::clean(line, LABEL_WIDTH);
    lines.iter().map(cut).collect::<Vec<_>>().join("\n")
}

fn ratio_text(ratio: f64, kind: &str) -> String {
    let text = quantity::ratio(ratio);
    match kind {
        "faster" => format!("{GREEN}{text}{PLAIN}"),
        "slower" => format!("{RED}{text}{PLAIN}"),
        "open" => format!("{text} ?"),
        "equal" => format!("{text} ="),
        _ => text,
    }
}

/// Breaks a line at spaces; lines after the first are indented.
fn wrap(line: &str, width: usize, indent: usize) -> String {
    let mut text = String::new();
    let mut used = 0;
    for word in line.split(' ') {
        let length = word.chars().filter(|c| !(BOLD..=PLAIN).contains(c)).count();
        if used > 0 && used + 1 + length > width {
            text.push('\n');
            text.push_str(&" ".repeat(indent));
            used = indent;
        } else if used > 0 {
            text.push(' ');
            used += 1;
        }
        text.push_str(word);
        used += length;
    }
    text.push('\n');
    text
}

fn table_width(table: &str) -> usize {
    let invisible = |c: &char| !(BOLD..=PLAIN).contains(c);
    let widths = table
        .lines()
        .map(|line| line.chars().filter(invisible).count());
    widths.max().unwrap_or(0)
}

fn paint(text: &str, colour: bool) -> String {
    let code = |character| match character {
        BOLD => "\u{1b}[1m",
        GREEN => "\u{1b}[32m",
        RED => "\u{1b}[31m",
        _ => "\u{1b}[0m",
    };
    let mut painted = String::with_capacity(text.len());
    for character in text.chars() {
        match character {
            BOLD..=PLAIN if colour => painted.push_str(code(character)),
            BOLD..=PLAIN => {}
            other => painted.push(other),
        }
    }
    painted
}
