//! Time of a send into a wire that discards, a line a cell.

use crate::quantity;
use results::{Cell, CellSummary, Summary, metric};

/// One line per cell of workload `send`.
pub(super) fn lines(summary: &Summary) -> Vec<String> {
    summary.cells.iter().filter_map(line).collect()
}

/// `a send of vmtp,repeat=1 at 1 KiB: 812 ns, of which copies of packets 9 % (73 ns), the rest 739 ns`.
fn line(cell: &CellSummary) -> Option<String> {
    let median = |name: &str| cell.metrics.get(name).map(|estimate| estimate.median);
    let ns = |name: &str| median(name).map(quantity::time_ns);
    Some(format!(
        "a send of {} {}: {}, of which copies of packets {:.0} % ({}), the rest {}",
        cell.cell.transport(),
        results::phrasing::contest_text(&cell.cell.without(Cell::TRANSPORT)),
        ns(metric::SEND_NS_PER_MESSAGE)?,
        median(metric::COPY_FRACTION)? * 100.0,
        ns(metric::COPY_NS_PER_MESSAGE)?,
        ns(metric::REST_NS_PER_MESSAGE)?,
    ))
}

#[cfg(test)]
mod tests {
    use super::*;
    use results::Estimate;
    use std::collections::BTreeMap;

    #[test]
    fn line_has_the_time_of_a_send_and_what_it_went_into() {
        let estimate = |median| Estimate {
            median,
            low: median,
            high: median,
            n: 3,
        };
        let measures = [
            (metric::SEND_NS_PER_MESSAGE, 800.0),
            (metric::COPY_NS_PER_MESSAGE, 200.0),
            (metric::REST_NS_PER_MESSAGE, 600.0),
            (metric::COPY_FRACTION, 0.25),
        ];
        let mut cell = CellSummary {
            cell: Cell::default()
                .with(Cell::WORKLOAD, "send")
                .with(Cell::SIZE, 1024_u64)
                .with(Cell::TRANSPORT, "vmtp,repeat=1"),
            trials_ok: 3,
            trials_bad: 0,
            metrics: BTreeMap::new(),
            evidence: BTreeMap::new(),
            quantiles: BTreeMap::new(),
            samples: BTreeMap::new(),
        };
        assert_eq!(line(&cell), None, "no other workload has these measures");
        let named = measures.map(|(name, median)| (name.to_owned(), estimate(median)));
        cell.metrics.extend(named);
        assert_eq!(
            line(&cell).as_deref(),
            Some(
                "a send of vmtp,repeat=1 at 1 KiB: 800 ns, of which copies of packets 25 % (200 ns), \
                 the rest 600 ns"
            )
        );
    }
}
