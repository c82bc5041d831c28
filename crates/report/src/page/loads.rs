//! Load matrices: a row per transport, a column per load of a host or the link, as in Cabrera et
//! al. 1984.

use super::charts::Figure;
use crate::quantity;
use crate::view::grids::LoadGrid;
use crate::view::loads::{LoadSweep, Step, load_text};
use crate::view::{Entry, View};
use results::{CellSummary, metric};
use serde::Serialize;

/// Maximum matrices in a page: three loads of a handful of sizes and workloads.
const MATRICES_MAX: usize = 60;

/// One matrix.
#[derive(Serialize)]
pub(super) struct Matrix {
    pub(super) title: String,
    corner: String,
    columns: Vec<String>,
    rows: Vec<LoadRow>,
    pub(super) figures: Vec<Figure>,
}

#[derive(Serialize)]
struct LoadRow {
    label: String,
    glyph: String,
    cells: Vec<CellText>,
}

#[derive(Default, Serialize)]
struct CellText {
    value: String,
    notes: Vec<String>,
}

/// The matrices of a run; none unless a load was varied.
pub(super) fn matrices(view: &View) -> Vec<Matrix> {
    let sweeps = view.number_sweeps();
    let shown = sweeps.iter().map(|sweep| matrix(view, sweep));
    let grids = view.load_grids();
    let crossed = grids.iter().map(|grid| two_way(view, grid));
    shown.chain(crossed).take(MATRICES_MAX).collect()
}

/// Two loads of one contestant: a row and a line for each value of one, a column for each of the other.
fn two_way(view: &View, grid: &LoadGrid) -> Matrix {
    let contestant = view.label(grid.contestant);
    let row = |row: usize| LoadRow {
        label: load_text(grid.down.values[row]),
        glyph: crate::chart::glyph(row),
        cells: (0..grid.across.values.len())
            .map(|column| cell_text(grid.entry(row, column)))
            .collect(),
    };
    let plot = crate::chart::grids::chart(grid, contestant);
    let caption = format!(
        "Against {}, a line for each {}",
        grid.across.name, grid.down.name
    );
    let figure = plot.map(|plot| Figure::with_numbers(&caption, &plot, |row| grid.row_label(row)));
    Matrix {
        title: format!(
            "{}: {contestant} by {} (columns) and {} (rows)",
            super::workload::capital(&grid.title),
            grid.across.name,
            grid.down.name
        ),
        corner: super::workload::capital(grid.down.name),
        columns: grid.across.values.iter().copied().map(load_text).collect(),
        rows: (0..grid.down.values.len()).map(row).collect(),
        figures: figure.into_iter().collect(),
    }
}

/// A cell of a matrix: its value, the reason why it has none, or nothing where it was not asked for.
fn cell_text(entry: Option<&Entry>) -> CellText {
    match entry {
        None => CellText::default(),
        Some(entry) => match &entry.missing {
            Some(reason) => CellText {
                value: quantity::MISSING.into(),
                notes: vec![format!("no result: {reason}")],
            },
            None => text(&entry.summary),
        },
    }
}

fn matrix(view: &View, sweep: &LoadSweep) -> Matrix {
    let row = |contestant: usize| LoadRow {
        label: view.label(contestant).to_owned(),
        glyph: crate::chart::glyph(contestant),
        cells: (0..sweep.steps.len())
            .map(|step| cell_text(sweep.entry(step, contestant).map(|(_, entry)| entry)))
            .collect(),
    };
    let curve = crate::chart::loads::chart(view, sweep);
    let deviation = crate::chart::loads::deviation(view, sweep);
    Matrix {
        title: format!("{}: {}", super::workload::capital(&sweep.title), sweep.load),
        corner: "Transport".to_owned(),
        columns: sweep.steps.iter().map(Step::label).collect(),
        rows: sweep.contestants().into_iter().map(row).collect(),
        figures: curve
            .map(|plot| {
                let caption = format!("Against {}", sweep.noun());
                super::workload::figure(view, &caption, &plot)
            })
            .into_iter()
            .chain(
                deviation
                    .map(|plot| super::workload::figure(view, "Deviation of single trials", &plot)),
            )
            .collect(),
    }
}

/// The primary metric of the cell. For throughput: the received bit rate, the time per send, and
/// for transports that lose messages the sent rate and the loss.
fn text(cell: &CellSummary) -> CellText {
    let workload = cell.cell.workload();
    let median = |name: &str| cell.metrics.get(name).map(|estimate| estimate.median);
    let main = match workload.as_str() {
        "throughput" => metric::MBIT_PER_S,
        other => metric::primary(other),
    };
    let mut notes = Vec::new();
    if workload == "throughput" {
        let (sent, received) = (median("sent_per_s"), median(metric::MESSAGES_PER_S));
        if let (Some(sent), Some(_)) = (sent, received) {
            // Loss by the ledger: rates of a reliable sender and its receiver may differ too, when
            // one finishes earlier.
            let lost = median("loss_fraction").unwrap_or(0.0);
            if lost > 0.0 {
                notes.push(format!("{} sent", quantity::measure("sent_per_s", sent)));
                notes.push(format!("{} of them lost", quantity::share(lost)));
            }
            notes.push(format!("{} per send", quantity::time_ns(1e9 / sent)));
        }
    }
    if workload == "offered" {
        if let Some(lost) = median(metric::LOSS_FRACTION).filter(|lost| *lost > 0.0) {
            notes.push(format!("{} lost", quantity::share(lost)));
        }
        if let Some(delay) = median("delay_p99_us").filter(|delay| *delay > 0.0) {
            notes.push(format!("p99 {}", quantity::measure("delay_p99_us", delay)));
        }
    }
    if workload == "transactions" {
        let noted = [
            (metric::CLIENT_PER_S, "each client"),
            (metric::DELAY_P50_US, "median"),
        ];
        notes.extend(noted.into_iter().filter_map(|(name, what)| {
            let value = quantity::measure(name, median(name)?);
            Some(format!("{what} {value}"))
        }));
    }
    CellText {
        value: median(main).map_or(quantity::MISSING.into(), |value| {
            quantity::measure(main, value)
        }),
        notes,
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use results::{Cell, Estimate, Factor};
    use std::collections::BTreeMap;

    fn cell(transport: &str, sender: i64, receiver: i64, sent: f64, received: f64) -> CellSummary {
        let mut cell = Cell::default()
            .with("transport", transport)
            .with("workload", "throughput")
            .with("size", 1024u64);
        cell.0.insert("sender_load".into(), Factor::Integer(sender));
        cell.0
            .insert("receiver_load".into(), Factor::Integer(receiver));
        let estimate = |median: f64| Estimate {
            median,
            low: median,
            high: median,
            n: 5,
        };
        let metrics = [
            ("sent_per_s", sent),
            ("messages_per_s", received),
            ("mbit_per_s", received * 0.008192),
            (
                "loss_fraction",
                if transport == "udp" {
                    1.0 - received / sent
                } else {
                    0.0
                },
            ),
        ];
        CellSummary {
            cell,
            trials_ok: 5,
            trials_bad: 0,
            metrics: metrics
                .map(|(name, value)| (name.to_owned(), estimate(value)))
                .into(),
            evidence: BTreeMap::new(),
            quantiles: BTreeMap::new(),
            samples: BTreeMap::new(),
        }
    }

    #[test]
    fn lossy_cell_shows_sent_rate_and_loss() {
        let lossy = text(&cell("udp", 0, 1, 100_000.0, 25_000.0));
        assert_eq!(lossy.value, quantity::measure("mbit_per_s", 204.8));
        assert_eq!(lossy.notes[1], "75 % of them lost");
        assert!(lossy.notes[2].ends_with("per send"), "{:?}", lossy.notes);
        // The sender finished before the receiver, without loss.
        let whole = text(&cell("tcp", 0, 1, 1.2e5, 1e5));
        assert_eq!(whole.notes.len(), 1);
    }
}
