//! What a round trip is where one sender has several receivers.

use results::{Cell, CellSummary, metric};

/// One line for all cells that have delays and several receivers.
pub(super) fn line(cells: &[CellSummary]) -> Option<String> {
    cells
        .iter()
        .any(|cell| {
            cell.cell.0.contains_key(Cell::FAN_OUT)
                && cell.metrics.contains_key(metric::DELAY_P50_US)
        })
        .then(|| {
            "a round trip to several receivers lasts until all of them have the message".into()
        })
}

#[cfg(test)]
mod tests {
    use super::*;
    use results::Estimate;

    fn summary(cell: Cell, measure: &str) -> CellSummary {
        let estimate = Estimate {
            median: 50.0,
            low: 49.0,
            high: 51.0,
            n: 3,
        };
        CellSummary {
            cell,
            trials_ok: 3,
            trials_bad: 0,
            metrics: [(measure.to_owned(), estimate)].into(),
            evidence: Default::default(),
            quantiles: Default::default(),
            samples: Default::default(),
        }
    }

    #[test]
    fn delays_to_several_receivers_say_when_they_end() {
        let one = || Cell::default().with(Cell::WORKLOAD, "delay");
        let said = |cell, measure| line(&[summary(cell, measure)]);
        let several = || one().with(Cell::FAN_OUT, 4_u64);
        assert!(said(several(), metric::DELAY_P50_US).is_some());
        assert_eq!(said(one(), metric::DELAY_P50_US), None);
        assert_eq!(said(several(), metric::MESSAGES_PER_S), None);
    }
}
