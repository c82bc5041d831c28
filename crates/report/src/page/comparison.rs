//! Two runs side by side: verdicts as text, and as a page of their own.

use crate::findings::{Line, kind, line};
use crate::{quantity, words};
use results::{Verdict, VerdictKind};
use serde::Serialize;

#[derive(Serialize)]
struct Page {
    old: String,
    new: String,
    sum: String,
    lines: Vec<Line>,
    rows: Vec<Row>,
    style: &'static str,
}

#[derive(Serialize)]
struct Row {
    place: String,
    measure: String,
    contestant: String,
    ratio: String,
    change: String,
    range: String,
    kind: &'static str,
    sign: &'static str,
}

/// Verdicts of a comparison as lines of text, worst news first, with a sum at the end.
pub fn compare_text(verdicts: &[Verdict]) -> String {
    let mut text = String::new();
    for verdict in ordered(verdicts) {
        let (_, sign) = kind(verdict.kind);
        text.push_str(&format!("{sign} {}\n", words::sentence(verdict)));
    }
    text.push_str(&format!("{}\n", sum(verdicts)));
    text
}

/// Verdicts of a comparison as a complete HTML document; `old` and `new` name the two runs.
pub fn compare_html(verdicts: &[Verdict], old: &str, new: &str) -> String {
    let lines: Vec<Line> = ordered(verdicts).into_iter().map(line).collect();
    let rows: Vec<Row> = ordered(verdicts).into_iter().map(row).collect();
    let page = Page {
        old: quantity::clean(old, 120),
        new: quantity::clean(new, 120),
        sum: sum(verdicts),
        lines,
        rows,
        style: super::STYLE,
    };
    super::render("compare.html", &page)
}

fn ordered(verdicts: &[Verdict]) -> Vec<&Verdict> {
    let mut sorted: Vec<&Verdict> = verdicts.iter().collect();
    sorted.sort_by_key(|verdict| match verdict.kind {
        VerdictKind::Slower => 0,
        VerdictKind::Faster => 1,
        VerdictKind::NotEnoughData => 2,
        VerdictKind::Equal => 3,
    });
    sorted
}

fn sum(verdicts: &[Verdict]) -> String {
    let count = |kind| {
        verdicts
            .iter()
            .filter(|verdict| verdict.kind == kind)
            .count()
    };
    format!(
        "{} slower, {} faster, {} equal, {} open, of {} cells compared",
        count(VerdictKind::Slower),
        count(VerdictKind::Faster),
        count(VerdictKind::Equal),
        count(VerdictKind::NotEnoughData),
        verdicts.len()
    )
}

fn row(verdict: &Verdict) -> Row {
    let (kind, sign) = kind(verdict.kind);
    let workload = quantity::words(&verdict.contest.workload());
    Row {
        place: format!("{workload} {}", words::place(&verdict.contest)),
        measure: words::thing(&verdict.metric),
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
