//! A study for a terminal.

use super::Ran;
use super::selection::Selection;
use std::collections::BTreeMap;
use std::fmt::Write;
use study::folder::RunRecord;
use study::form::spec::ExhibitSpec;
use study::form::words;
use study::json::counts;
use study::judge::Limit;
use study::judge::exhibit::{Cell, Column, Judged, Standing, shape};

/// What `towpath study show` prints.
pub fn shown(selection: &Selection, runs: &[RunRecord]) -> String {
    let study = &selection.study;
    let paper = study.spec.paper.get_ref();
    let mut out = format!(
        "{}\n{}\n\n{}\n",
        study.spec.title,
        paper.cites,
        study.page.trim()
    );
    out.push_str("\nExhibits\n");
    for exhibit in &study.spec.exhibit {
        let _ = writeln!(out, "  {}: {}", exhibit.shows.get_ref(), exhibit.title);
        if let Some(why) = &exhibit.absent {
            let _ = writeln!(out, "    not run here: {why}");
        }
    }
    if !study.spec.finding.is_empty() {
        out.push_str("\nFindings\n");
    }
    for finding in &study.spec.finding {
        let _ = writeln!(out, "  {}", finding.says.get_ref());
    }
    out.push_str("\nRuns\n");
    for run in runs {
        let _ = writeln!(out, "  {}: towpath {}", run.id, words::join(&run.words));
    }
    out.trim_end().to_owned()
}

/// What a run of a study prints: with `compare`, tables with both figures.
pub fn result(ran: &Ran, compare: bool) -> String {
    let study = &ran.selection.study;
    let mut out = format!("{}\n", study.spec.title);
    let exhibits = study.spec.exhibit.iter().zip(&ran.judged);
    let wanted = exhibits.zip(&ran.selection.exhibits);
    for ((exhibit, judged), _) in wanted.filter(|(_, wanted)| **wanted) {
        match compare {
            true => table(&mut out, exhibit, judged),
            false => line(&mut out, exhibit, judged),
        }
    }
    findings(&mut out, ran);
    out.push('\n');
    out.push_str(&summary(ran));
    out
}

fn line(out: &mut String, exhibit: &ExhibitSpec, judged: &Judged) {
    let _ = write!(out, "\n{}: {}", exhibit.shows.get_ref(), exhibit.title);
    match &judged.absent {
        Some(why) => {
            let _ = write!(out, "\n  not run: {why}");
        }
        None => judged.columns.iter().for_each(|column| {
            let _ = write!(out, "\n  {}: {}", column.name, column_text(column));
        }),
    }
}

/// One line on a column.
pub fn column_text(column: &Column) -> String {
    if let Some(why) = &column.absent {
        return format!("not run here: {why}");
    }
    let count = |standing| {
        column
            .cells
            .iter()
            .filter(|cell| cell.standing == standing)
            .count()
    };
    let (within, beyond) = (count(Standing::Within), count(Standing::Beyond));
    let misprints = count(Standing::Misprint);
    if within + beyond == 0 && misprints > 0 {
        return format!("not judged: {misprints} misprinted");
    }
    if within + beyond > 0 {
        let misprinted = match misprints {
            0 => String::new(),
            _ => format!(", {misprints} misprinted"),
        };
        return format!("{within} of {} within{misprinted}", within + beyond);
    }
    match shape(column) {
        Some((rho, ratio)) => format!(
            "ours over the paper's {} (median), rank correlation {rho:.2}",
            short(ratio)
        ),
        None => match column.cells.iter().any(|cell| cell.ours.is_some()) {
            true => "ours alone".to_owned(),
            false => "not run".to_owned(),
        },
    }
}

/// A number with three digits.
pub fn short(value: f64) -> String {
    match value.abs() {
        size if size >= 1000.0 => format!("{value:.0}"),
        size if size >= 10.0 => format!("{value:.1}"),
        size if size >= 0.1 => format!("{value:.3}"),
        _ => format!("{value:.2e}"),
    }
}

fn table(out: &mut String, exhibit: &ExhibitSpec, judged: &Judged) {
    let shows = exhibit.shows.get_ref();
    let first = shows.get(..1).unwrap_or_default().to_uppercase();
    let _ = writeln!(
        out,
        "\n{first}{}: {}",
        shows.get(1..).unwrap_or_default(),
        exhibit.title
    );
    if let Some(why) = &judged.absent {
        let _ = writeln!(out, "not run: {why}");
    }
    let row = exhibit
        .row
        .as_ref()
        .map_or("row", |row| row.measure.get_ref());
    let _ = writeln!(
        out,
        "{row:>20} {:<26} {:>14} {:>14} {:>9}",
        "figure", "ours", "paper", "differs"
    );
    for column in &judged.columns {
        if let (Some(_), None) = (&column.absent, &judged.absent) {
            let _ = writeln!(out, "{}: {}", column.name, column_text(column));
        }
        for cell in &column.cells {
            let _ = writeln!(out, "{}", cell_line(column, cell));
        }
    }
}

fn cell_line(column: &Column, cell: &Cell) -> String {
    let shown = |value: Option<f64>| match value {
        Some(value) => figure(value, cell.digits),
        None => "-".to_owned(),
    };
    let differs = cell.difference();
    let differs = differs.map_or(String::new(), |part| format!("{:+.2}%", part * 100.0));
    let mut line = format!(
        "{:>20} {:<26} {:>14} {:>14} {differs:>9}",
        short_row(cell.row),
        column.name,
        shown(cell.ours),
        shown(cell.paper)
    );
    if let (Standing::Beyond, Limit::Part(part)) = (cell.standing, cell.limit) {
        let _ = write!(line, "  beyond {:.1} %", part * 100.0);
    }
    if let Some(note) = &cell.note {
        let _ = write!(line, "  misprint: {note}");
    }
    line.trim_end().to_owned()
}

/// A figure with the digits its table prints, and three at least.
pub fn figure(value: f64, digits: u32) -> String {
    match value.abs() >= 100.0 || digits > 2 {
        true => format!("{value:.*}", digits as usize),
        false if value == 0.0 => "0".to_owned(),
        false => format!("{value:.*}", if value.abs() < 1.0 { 4 } else { 2 }),
    }
}

fn short_row(value: f64) -> String {
    match value.fract() == 0.0 {
        true => format!("{value:.0}"),
        false => format!("{value:.2}"),
    }
}

fn findings(out: &mut String, ran: &Ran) {
    if ran.findings.is_empty() {
        return;
    }
    out.push_str("\n\nFindings of the paper (all words together wrong with 5 % at most)\n");
    for finding in &ran.findings {
        let found = match finding.found.is_empty() {
            true => String::new(),
            false => format!(" ({}, {} blocks)", finding.found, finding.blocks),
        };
        let _ = writeln!(
            out,
            "  {}\n      {}{found}",
            finding.says,
            finding.word.text()
        );
    }
}

/// How many figures and exhibits there are, and what was left out.
pub fn summary(ran: &Ran) -> String {
    let study = &ran.selection.study;
    let mut out = String::new();
    for (apart, name) in [(false, "printed figures"), (true, "counted apart")] {
        let [within, beyond, misprints, shapes] = counts(study, &ran.judged, apart);
        let all = within + beyond + misprints;
        let named = |count: usize| match count {
            1 => name.replace("figures", "figure"),
            _ => name.to_owned(),
        };
        if all > 0 {
            let name = named(all);
            let _ = writeln!(
                out,
                "{all} {name}: {within} within their limit, {beyond} beyond it, {misprints} not \
                 judged because the printed figure contradicts its own row."
            );
        }
        if shapes > 0 {
            let name = named(shapes);
            let _ = writeln!(out, "{shapes} {name} beside ours, not judged one by one.");
        }
    }
    out.push_str(&exhibits_text(ran));
    out
}

/// `41 of 45 exhibits, the others because ...`
pub fn exhibits_text(ran: &Ran) -> String {
    let judged = ran.judged.iter().zip(&ran.selection.exhibits);
    let wanted: Vec<&Judged> = judged
        .filter(|(_, wanted)| **wanted)
        .map(|(own, _)| own)
        .collect();
    let mut reasons: BTreeMap<&str, usize> = BTreeMap::new();
    for why in wanted.iter().filter_map(|judged| judged.absent.as_deref()) {
        *reasons.entry(why).or_default() += 1;
    }
    let missing: usize = reasons.values().sum();
    let run = wanted.len() - missing;
    if missing == 0 {
        return format!("{run} of {run} exhibits.");
    }
    let because = reasons
        .iter()
        .map(|(why, count)| format!("{why} ({count})"));
    let because: Vec<String> = because.collect();
    format!(
        "{run} of {} exhibits, the others because: {}.",
        wanted.len(),
        because.join("; ")
    )
}
