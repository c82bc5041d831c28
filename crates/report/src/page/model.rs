//! The cost model: fixed cost per message and cost per byte, and the crossovers of two transports.

use super::charts::Figure;
use crate::view::View;
use crate::{phrasing, quantity};
use results::{Crossover, Fit, FitPiece};
use serde::Serialize;

#[derive(Serialize)]
pub(super) struct Section {
    fits: Vec<FitRow>,
    crossovers: Vec<String>,
    /// Time over size on linear axes, a figure a setting.
    pub(super) figures: Vec<Figure>,
}

#[derive(Serialize)]
struct FitRow {
    label: String,
    what: String,
    pieces: Vec<FitPieceRow>,
    deviation: String,
}

#[derive(Serialize)]
struct FitPieceRow {
    range: String,
    fixed: String,
    per_byte: String,
}

/// Maximum fits in a page; a race has a handful per transport.
const ROWS_MAX: usize = 200;

pub(super) fn section(view: &View) -> Section {
    let summary = view.run.summary.as_ref();
    let fits = summary.iter().flat_map(|summary| &summary.fits);
    let crossovers = summary.iter().flat_map(|summary| &summary.crossovers);
    let charts = view.settings.iter().filter_map(|setting| {
        let plot = crate::chart::cost::chart(view, setting)?;
        let caption = super::workload::capital(&view.title(setting));
        Some(super::workload::figure(view, &caption, &plot))
    });
    Section {
        figures: charts.collect(),
        fits: fits.take(ROWS_MAX).map(row).collect(),
        crossovers: crossovers.take(ROWS_MAX).map(crossover).collect(),
    }
}

fn row(fit: &Fit) -> FitRow {
    let rest = phrasing::other_factors(&fit.cell);
    let what = match fit.metric.as_str() {
        "time_per_message_ns" => "time per message".to_owned(),
        "delay_p50_us" => "round trip".to_owned(),
        other => quantity::spaced(other),
    };
    FitRow {
        label: quantity::label(&fit.cell.transport()),
        what: if rest.is_empty() {
            what
        } else {
            format!("{what}, {rest}")
        },
        pieces: fit
            .pieces
            .iter()
            .map(|part| piece(part, nanoseconds(&fit.metric)))
            .collect(),
        deviation: format!("{} %", quantity::digits(fit.deviation_max * 100.0)),
    }
}

/// Nanoseconds in a unit of the metric.
fn nanoseconds(metric: &str) -> f64 {
    if metric.ends_with("_us") { 1e3 } else { 1.0 }
}

fn piece(piece: &FitPiece, scale: f64) -> FitPieceRow {
    let size = |value: f64| quantity::bytes(value.clamp(0.0, 1e15).round() as u64);
    FitPieceRow {
        range: format!("{} to {}", size(piece.from), size(piece.to)),
        fixed: quantity::time_ns(piece.fixed * scale),
        per_byte: quantity::time_ns(piece.per_byte * scale),
    }
}

fn crossover(crossover: &Crossover) -> String {
    let size = quantity::grouped(crossover.size);
    let rest = phrasing::other_factors(&crossover.contest);
    let workload = quantity::spaced(&crossover.contest.workload());
    let place = if rest.is_empty() {
        workload
    } else {
        format!("{workload}, {rest}")
    };
    format!(
        "{place}: {} is better below about {size} B, {} above.",
        quantity::label(&crossover.below),
        quantity::label(&crossover.above),
    )
}
