//! A setting's table: a row per contestant, a column per size.

use crate::view::{Column, Entry, Setting, View};
use crate::{quantity, verdict_summary};
use results::metric;
use serde::Serialize;

#[derive(Serialize)]
pub(super) struct Table {
    columns: Vec<String>,
    rows: Vec<TransportRow>,
}

#[derive(Serialize)]
struct TransportRow {
    label: String,
    class: String,
    glyph: String,
    index: usize,
    baseline: bool,
    cells: Vec<CellText>,
}

#[derive(Default, Serialize)]
struct CellText {
    median: String,
    range: String,
    loss: String,
    ratio: String,
    kind: &'static str,
    sign: &'static str,
    note: String,
}

pub(super) fn table(view: &View, setting: &Setting) -> Table {
    let columns = setting.columns();
    let present = (0..view.contestants.len()).filter(|c| setting.entries_of(*c).next().is_some());
    Table {
        rows: present
            .map(|contestant| row(view, setting, contestant, &columns))
            .collect(),
        columns: columns.into_iter().map(|column| column.label).collect(),
    }
}

fn row(view: &View, setting: &Setting, contestant: usize, columns: &[Column]) -> TransportRow {
    let metric = metric::primary(&setting.workload);
    let cells = columns.iter().map(|column| {
        let entry = setting.best_entry(contestant, column, metric);
        entry
            .map(|entry| cell(view, setting, entry, metric))
            .unwrap_or_default()
    });
    TransportRow {
        label: view.label(contestant).to_owned(),
        class: view.contestants[contestant].class.clone(),
        glyph: crate::chart::glyph(contestant),
        index: contestant,
        baseline: view.baseline == Some(contestant),
        cells: cells.collect(),
    }
}

fn cell(view: &View, setting: &Setting, entry: &Entry, metric: &str) -> CellText {
    let Some(estimate) = entry.estimate(metric) else {
        let reason = entry.missing.as_deref().unwrap_or("nothing was measured");
        let note = format!("no result: {reason}");
        return CellText {
            note,
            ..CellText::default()
        };
    };
    let ratio = view.ratio(setting, entry, metric);
    let (kind, sign) = view
        .verdict(entry, metric)
        .map_or(("", ""), |v| verdict_summary::kind(v.kind));
    let bad = entry.summary.trials_bad;
    CellText {
        median: quantity::measure(metric, estimate.median),
        range: format!(
            "{} \u{2026} {}",
            quantity::measure(metric, estimate.low),
            quantity::measure(metric, estimate.high)
        ),
        loss: entry.loss().unwrap_or_default(),
        ratio: ratio.map(quantity::ratio).unwrap_or_default(),
        kind,
        sign,
        note: if bad == 0 {
            String::new()
        } else {
            format!("{bad} excluded")
        },
    }
}
