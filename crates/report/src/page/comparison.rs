//! Comparison of two runs: verdicts as text, and as a page.

use crate::verdict_summary::{VerdictLine, kind, verdict_line};
use crate::{phrasing, quantity};
use results::{Verdict, VerdictKind};
use serde::Serialize;

#[derive(Serialize)]
struct Page {
    old: String,
    new: String,
    sum: String,
    lines: Vec<VerdictLine>,
    rows: Vec<ComparisonRow>,
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

/// Verdicts of a comparison as lines of text, regressions first, totals last.
pub fn compare_text(verdicts: &[Verdict]) -> String {
    let mut text = String::new();
    for verdict in sorted_by_severity(verdicts) {
        let (_, sign) = kind(verdict.kind);
        text.push_str(&format!("{sign} {}\n", phrasing::sentence(verdict)));
    }
    text.push_str(&format!("{}\n", totals_line(verdicts)));
    text
}

/// Verdicts of a comparison as a complete HTML document; `old` and `new` name the two runs.
pub fn compare_html(verdicts: &[Verdict], old: &str, new: &str) -> String {
    let lines: Vec<VerdictLine> = sorted_by_severity(verdicts)
        .into_iter()
        .map(verdict_line)
        .collect();
    let rows: Vec<ComparisonRow> = sorted_by_severity(verdicts).into_iter().map(row).collect();
    let page = Page {
        old: quantity::clean(old, 120),
        new: quantity::clean(new, 120),
        sum: totals_line(verdicts),
        lines,
        rows,
        style: super::STYLE,
    };
    super::render("compare.html", &page)
}

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

fn totals_line(verdicts: &[Verdict]) -> String {
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
