//! Round trips of short messages while the path was idle and beside bulk, a line a cell.

use crate::quantity;
use results::{Cell, CellSummary, Summary, metric};

/// One line per cell of workload `responsive`.
pub(super) fn lines(summary: &Summary) -> Vec<String> {
    summary.cells.iter().filter_map(line).collect()
}

/// `short messages of tcp at 16 KiB: idle p50 31 us, p99 80 us, p99.9 210 us; under load ...`.
fn line(cell: &CellSummary) -> Option<String> {
    let trips = cell.metrics.get(metric::ROUND_TRIPS_PER_MIN)?.median;
    let place = results::phrasing::contest_text(&cell.cell.without(Cell::TRANSPORT));
    let per_min = quantity::measure(metric::ROUND_TRIPS_PER_MIN, trips);
    Some(format!(
        "short messages of {} {place}: idle {}; under load {}; {per_min} round trips",
        cell.cell.transport(),
        percentiles(cell, "delay_idle"),
        percentiles(cell, "delay"),
    ))
}

/// `p50 31 us, p99 80 us, p99.9 unknown`: of all trials of the cell together.
fn percentiles(cell: &CellSummary, histogram: &str) -> String {
    let known = cell.quantiles.get(histogram);
    let each = [("0.5", "p50"), ("0.99", "p99"), ("0.999", "p99.9")].map(|(key, name)| {
        let value_us = known.and_then(|all| all.get(key));
        match value_us {
            Some(us) => format!("{name} {}", quantity::time_ns(us * 1e3)),
            None => format!("{name} unknown (too few)"),
        }
    });
    each.join(", ")
}

#[cfg(test)]
mod tests {
    use super::*;
    use results::Estimate;
    use std::collections::BTreeMap;

    #[test]
    fn line_has_percentiles_of_both_phases_and_names_those_without_samples() {
        let trips = Estimate {
            median: 240_000.0,
            low: 1.0,
            high: 1.0,
            n: 3,
        };
        let quantiles = |pairs: &[(&str, f64)]| {
            let pairs = pairs.iter().map(|(key, us)| ((*key).to_owned(), *us));
            pairs.collect::<BTreeMap<_, _>>()
        };
        let cell = CellSummary {
            cell: Cell::default()
                .with(Cell::WORKLOAD, "responsive")
                .with(Cell::SIZE, 16_384_u64)
                .with(Cell::TRANSPORT, "tcp"),
            trials_ok: 3,
            trials_bad: 0,
            metrics: BTreeMap::from([(metric::ROUND_TRIPS_PER_MIN.to_owned(), trips)]),
            evidence: BTreeMap::new(),
            quantiles: BTreeMap::from([
                ("delay_idle".to_owned(), quantiles(&[("0.5", 31.0)])),
                (
                    "delay".to_owned(),
                    quantiles(&[("0.5", 250.0), ("0.99", 900.0)]),
                ),
            ]),
            samples: BTreeMap::new(),
        };
        let text = line(&cell).expect("a line");
        assert!(
            text.starts_with("short messages of tcp at 16 KiB: idle p50 31.0 \u{b5}s"),
            "{text}"
        );
        assert!(
            text.contains("under load p50 250 \u{b5}s, p99 900 \u{b5}s, p99.9 unknown"),
            "{text}"
        );
        assert!(text.ends_with("240 k/min round trips"), "{text}");
    }
}
