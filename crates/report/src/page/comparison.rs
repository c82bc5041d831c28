//! Comparison of two runs: verdicts as text, and as a page.

use crate::verdict_summary::{VerdictLine, kind, verdict_line};
use crate::{phrasing, quantity};
use results::{Cell, Verdict, VerdictKind};
use serde::Serialize;

#[derive(Serialize)]
struct Page {
    old: String,
    new: String,
    sum: String,
    lines: Vec<VerdictLine>,
    rows: Vec<ComparisonRow>,
    one_sided: Vec<String>,
    style: &'static str,
}

#[derive(Serialize)]
struct ComparisonRow {
    place: String,
    measure: String,
    contestant: String,
    ratio: String,
    change: String,
    range: String,
    kind: &'static str,
    sign: &'static str,
}

/// Cells that one run has a result in and the other has not.
#[derive(Clone, Copy, Debug)]
pub struct OneSided<'a> {
    /// The run that has them.
    pub run: &'a str,
    /// The cells, with their transports.
    pub cells: &'a [Cell],
}

/// Verdicts of a comparison as lines of text, regressions first, then what could not be compared,
/// totals last.
pub fn compare_text(verdicts: &[Verdict], one_sided: &[OneSided]) -> String {
    let mut text = String::new();
    for verdict in sorted_by_severity(verdicts) {
        let (_, sign) = kind(verdict.kind);
        let workload = quantity::spaced(&verdict.contest.workload());
        let sentence = phrasing::sentence(verdict);
        text.push_str(&format!("{sign} {workload} {sentence}\n"));
    }
    for line in one_sided.iter().flat_map(one_sided_lines) {
        text.push_str(&format!("- {line}\n"));
    }
    text.push_str(&format!("{}\n", totals_line(verdicts)));
    text
}

/// Verdicts of a comparison as Markdown: the totals, a table of what differs or is undecided, and
/// the number of what is equal.
pub fn compare_markdown(
    verdicts: &[Verdict],
    one_sided: &[OneSided],
    old: &str,
    new: &str,
) -> String {
    let named = |name: &str| markdown(&quantity::clean(name, 120));
    let mut text = format!("### {} against {}\n\n", named(new), named(old));
    text.push_str(&format!("{}.\n", totals_line(verdicts)));
    let shown = sorted_by_severity(verdicts).into_iter();
    let shown: Vec<&Verdict> = shown.filter(|one| one.kind != VerdictKind::Equal).collect();
    if !shown.is_empty() {
        text.push_str("\n| contest | metric | contestant | ratio | change | interval |\n");
        text.push_str("| --- | --- | --- | --- | --- | --- |\n");
    }
    for verdict in shown {
        let row = row(verdict);
        let cells = [&row.place, &row.measure, &row.contestant].map(|text| markdown(text));
        text.push_str(&format!(
            "| {} | {} {} | {} | {} |\n",
            cells.join(" | "),
            row.sign,
            row.ratio,
            row.change,
            row.range
        ));
    }
    let lines: Vec<String> = one_sided.iter().flat_map(one_sided_lines).collect();
    if !lines.is_empty() {
        text.push('\n');
    }
    for line in lines {
        text.push_str(&format!("- {}\n", markdown(&line)));
    }
    text
}

/// A text of a result on one line, cleaned; as Markdown without any of its signs, where asked.
pub fn plain(text: &str, is_markdown: bool) -> String {
    let clean = quantity::clean(text, 500);
    match is_markdown {
        true => markdown(&clean),
        false => clean,
    }
}

/// A text in which no character is Markdown or HTML.
pub(super) fn markdown(text: &str) -> String {
    let mut escaped = String::with_capacity(text.len());
    for character in text.chars() {
        match character {
            '<' => escaped.push_str("&lt;"),
            '&' => escaped.push_str("&amp;"),
            '|' | '*' | '_' | '`' | '[' | ']' | '\\' | '#' | '~' => {
                escaped.extend(['\\', character]);
            }
            other => escaped.push(other),
        }
    }
    escaped
}

/// Verdicts of a comparison as a complete HTML document, and what could not be compared; `old` and
/// `new` name the two runs.
pub fn compare_html(verdicts: &[Verdict], one_sided: &[OneSided], old: &str, new: &str) -> String {
    let lines: Vec<VerdictLine> = sorted_by_severity(verdicts)
        .into_iter()
        .map(|verdict| {
            let line = verdict_line(verdict);
            let workload = quantity::spaced(&verdict.contest.workload());
            VerdictLine {
                text: format!("{workload} {}", line.text),
                ..line
            }
        })
        .collect();
    let rows: Vec<ComparisonRow> = sorted_by_severity(verdicts).into_iter().map(row).collect();
    let page = Page {
        old: quantity::clean(old, 120),
        new: quantity::clean(new, 120),
        sum: totals_line(verdicts),
        lines,
        rows,
        one_sided: one_sided.iter().flat_map(one_sided_lines).collect(),
        style: super::STYLE,
    };
    super::render("compare.html", &page)
}

/// One line a transport and workload: `only in a: udp, throughput at 64 B, 1 KiB`.
fn one_sided_lines(one: &OneSided) -> Vec<String> {
    let mut groups: Vec<(String, Vec<String>)> = Vec::new();
    for cell in one.cells {
        let transport = quantity::label(&cell.transport());
        let workload = quantity::spaced(&cell.workload());
        let place = phrasing::place(&cell.without(Cell::TRANSPORT));
        let group = format!("{transport}, {workload}");
        match groups.iter_mut().find(|(name, _)| *name == group) {
            Some((_, places)) => places.push(place),
            None => groups.push((group, vec![place])),
        }
    }
    let run = quantity::clean(one.run, 120);
    let line = |(group, places): (String, Vec<String>)| {
        let shown: Vec<&str> = places.iter().take(PLACES_MAX).map(String::as_str).collect();
        let more = match places.len().saturating_sub(PLACES_MAX) {
            0 => String::new(),
            more => format!(" and {more} more"),
        };
        format!("only in {run}: {group} {}{more}", shown.join(", "))
    };
    groups.into_iter().map(line).collect()
}

/// Places of a line on what could not be compared.
const PLACES_MAX: usize = 4;

fn sorted_by_severity(verdicts: &[Verdict]) -> Vec<&Verdict> {
    let mut sorted: Vec<&Verdict> = verdicts.iter().collect();
    sorted.sort_by_key(|verdict| match verdict.kind {
        VerdictKind::Slower => 0,
        VerdictKind::Faster => 1,
        VerdictKind::NotEnoughData => 2,
        VerdictKind::Equal => 3,
    });
    sorted
}

/// `1 slower, 0 faster, 3 equal, 2 undecided, of 6 cells compared`.
pub(super) fn totals_line(verdicts: &[Verdict]) -> String {
    let count = |kind| {
        verdicts
            .iter()
            .filter(|verdict| verdict.kind == kind)
            .count()
    };
    format!(
        "{} slower, {} faster, {} equal, {} undecided, of {} cells compared",
        count(VerdictKind::Slower),
        count(VerdictKind::Faster),
        count(VerdictKind::Equal),
        count(VerdictKind::NotEnoughData),
        verdicts.len()
    )
}

fn row(verdict: &Verdict) -> ComparisonRow {
    let (kind, sign) = kind(verdict.kind);
    let workload = quantity::spaced(&verdict.contest.workload());
    ComparisonRow {
        place: format!("{workload} {}", phrasing::place(&verdict.contest)),
        measure: phrasing::metric_noun(&verdict.metric),
        contestant: quantity::label(&verdict.contestant),
        ratio: quantity::ratio(verdict.ratio),
        change: quantity::change(verdict.ratio),
        range: format!(
            "{} \u{2026} {}",
            quantity::change(verdict.low),
            quantity::change(verdict.high)
        ),
        kind,
        sign,
    }
}
