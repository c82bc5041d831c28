//! Load matrices: a row per transport, a column per load of a host or the link, as in Cabrera et
//! al. 1984.

use crate::quantity;
use crate::view::View;
use results::{CellSummary, metric};
use serde::Serialize;
use std::collections::{BTreeMap, BTreeSet};

/// Factors that are loads, with their description.
const LOADS: [(&str, &str); 3] = [
    ("sender_load", "load on the sending host"),
    ("receiver_load", "load on the receiving host"),
    ("link_load", "load on the link"),
];

/// Maximum matrices in a page: three loads of a handful of sizes and workloads.
const MATRICES_MAX: usize = 60;

/// One matrix.
#[derive(Serialize)]
pub(super) struct Matrix {
    title: String,
    columns: Vec<String>,
    rows: Vec<LoadRow>,
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
    let Some(summary) = &view.run.summary else {
        return Vec::new();
    };
    let all = LOADS.iter().flat_map(|(factor, words)| {
        let places = places(&summary.cells, factor);
        let made = places
            .into_iter()
            .filter_map(|place| matrix(view, &place, words));
        made.collect::<Vec<_>>()
    });
    all.take(MATRICES_MAX).collect()
}

/// Cells that differ only in transport and one load, by the value of the load.
struct LoadSweep<'a> {
    title: String,
    cells: BTreeMap<i64, Vec<&'a CellSummary>>,
}

/// The sweeps of `factor` with every other load zero.
fn places<'a>(cells: &'a [CellSummary], factor: &str) -> Vec<LoadSweep<'a>> {
    let mut places: BTreeMap<String, LoadSweep<'a>> = BTreeMap::new();
    for cell in cells {
        let Some(load) = cell.cell.integer(factor) else {
            continue;
        };
        let others = LOADS.iter().filter(|(name, _)| *name != factor);
        if others
            .clone()
            .any(|(name, _)| cell.cell.integer(name).unwrap_or(0) != 0)
        {
            continue;
        }
        let rest = LOADS
            .iter()
            .fold(cell.cell.without("transport"), |rest, (name, _)| {
                rest.without(name)
            });
        let workload = quantity::spaced(&rest.workload());
        let place = crate::phrasing::place(&rest);
        let title = format!("{workload} {place}");
        let place = places.entry(title.clone()).or_insert_with(|| LoadSweep {
            title,
            cells: BTreeMap::new(),
        });
        place.cells.entry(load).or_default().push(cell);
    }
    let varied = places.into_values();
    varied.filter(|place| place.cells.len() > 1).collect()
}

fn matrix(view: &View, place: &LoadSweep<'_>, words: &str) -> Option<Matrix> {
    let present: BTreeSet<String> = place
        .cells
        .values()
        .flatten()
        .map(|cell| cell.cell.transport())
        .collect();
    let all = view.contestants.iter().enumerate();
    let rows = all
        .filter(|(_, contestant)| present.contains(&contestant.name))
        .map(|(index, contestant)| LoadRow {
            label: contestant.label.clone(),
            glyph: crate::chart::glyph(index),
            cells: place
                .cells
                .values()
                .map(|cells| {
                    let mut cells = cells.iter();
                    let found = cells.find(|cell| cell.cell.transport() == contestant.name);
                    found.map(|cell| text(cell)).unwrap_or_default()
                })
                .collect(),
        });
    let rows: Vec<LoadRow> = rows.collect();
    (!rows.is_empty()).then(|| Matrix {
        title: format!("{}: {words}", place.title),
        columns: place.cells.keys().map(i64::to_string).collect(),
        rows,
    })
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
            if lost > 0.01 {
                notes.push(format!("{} sent", quantity::measure("sent_per_s", sent)));
                notes.push(format!("{} % of them lost", quantity::short(lost * 100.0)));
            }
            notes.push(format!("{} per send", quantity::time_ns(1e9 / sent)));
        }
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
    fn load_sweep_excludes_cells_with_other_loads() {
        let cells = [
            cell("tcp", 0, 0, 1e3, 1e3),
            cell("tcp", 2, 0, 5e2, 5e2),
            cell("tcp", 0, 1, 7e2, 7e2),
            cell("tcp", 1, 1, 4e2, 4e2),
        ];
        let sender = places(&cells, "sender_load");
        assert_eq!(sender.len(), 1);
        let loads: Vec<i64> = sender[0].cells.keys().copied().collect();
        assert_eq!(loads, [0, 2]);
        assert!(places(&cells, "link_load").is_empty());
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
