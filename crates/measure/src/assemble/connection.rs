//! Series of a connection, and the goodput and the link's queue on the same time axis.

use super::rates::{SERIES_MAX, rate_series};
use super::view::TrialView;
use crate::spec::Direction;
use crate::trial::has_series;
use control::{CONNECTION_VALUES, CircuitReport, ConnectionValue, Workload};
use results::{Series, Trial};

/// The queue that data wait in at an emulated link.
const LINK_QUEUE: ConnectionValue = ConnectionValue {
    name: "link_queue",
    unit: "kB",
    scale: 1e-3,
};

/// Adds what the first sending circuit of each component said of itself, where it was recorded, and the
/// goodput; all in seconds since the first circuit began.
pub(super) fn connection(made: &mut Trial, view: &TrialView<'_>) {
    if !view.spec.series || !has_series(view.trial.contest.workload) {
        return;
    }
    let began = view.circuits().map(|report| report.first_ns);
    let began_ns = began.filter(|&at| at > 0).min().unwrap_or(0);
    let several = view.components().len() > 1;
    for report in view.senders() {
        for value in &CONNECTION_VALUES {
            let Some(points) = report.connection.get(value.name) else {
                continue;
            };
            let name = match several {
                true => format!("{}.{}", value.name, report.transport),
                false => value.name.to_owned(),
            };
            // Of several host pairs, the first.
            let slot = made.series.entry(name);
            slot.or_insert_with(|| values_over_time(value, points, began_ns));
        }
    }
    let way = usize::from(view.spec.direction == Direction::Reverse);
    let queue = &view.collected.environment.queues[way];
    if !queue.is_empty() {
        let series = values_over_time(&LINK_QUEUE, queue, began_ns);
        made.series.insert(LINK_QUEUE.name.into(), series);
    }
    if let Some(report) = receiving(view) {
        let series = goodput(report, began_ns);
        made.series.insert("goodput".into(), series);
    }
}

/// The circuit whose received octets are the goodput: the first, as of the rate in messages.
fn receiving<'a>(view: &'a TrialView<'_>) -> Option<&'a CircuitReport> {
    match view.trial.contest.workload {
        Workload::Delay => view.senders().next(),
        _ => view.receivers().next(),
    }
}

fn values_over_time(value: &ConnectionValue, points: &[(u64, u64)], began_ns: u64) -> Series {
    let step = points.len().div_ceil(SERIES_MAX).max(1);
    // The link is there before the first circuit begins.
    let within = points.iter().filter(|(at_ns, _)| *at_ns >= began_ns);
    let kept = within.step_by(step);
    let (at_s, values) = kept
        .map(|&(at_ns, raw)| (seconds(at_ns, began_ns), raw as f64 * value.scale))
        .unzip();
    Series {
        unit: value.unit.into(),
        at_s,
        values,
    }
}

fn goodput(report: &CircuitReport, began_ns: u64) -> Series {
    let mut series = rate_series(&report.slices, |slice| slice.bytes as f64 * 8e-6);
    series.unit = "Mbit/s".into();
    let first = report.slices.first();
    let offset_s = first.map_or(0.0, |slice| seconds(slice.at_ns, began_ns));
    for at_s in &mut series.at_s {
        *at_s += offset_s;
    }
    series
}

fn seconds(at_ns: u64, began_ns: u64) -> f64 {
    at_ns.saturating_sub(began_ns) as f64 * 1e-9
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::environment::EnvironmentReport;
    use crate::spec::RaceSpec;
    use crate::trial::{ClockUncertainty, Collected, TrialSpec};
    use control::{Limits, Slice, WorkerReport};
    use std::collections::BTreeMap;

    const MS: u64 = 1_000_000;

    fn slice(at_ms: u64, bytes: u64) -> Slice {
        Slice {
            at_ns: at_ms * MS,
            messages: bytes,
            bytes,
        }
    }

    /// A sender that began at 100 ms, and a receiver whose first octets came at 150 ms.
    fn collected(connection: BTreeMap<String, Vec<(u64, u64)>>) -> Collected {
        let environment = EnvironmentReport {
            queues: [vec![(90 * MS, 0), (140 * MS, 3000)], Vec::new()],
            ..EnvironmentReport::default()
        };
        let sender = CircuitReport {
            transport: "tcp".into(),
            first_ns: 100 * MS,
            connection,
            ..CircuitReport::default()
        };
        let receiver = CircuitReport {
            transport: "tcp".into(),
            first_ns: 120 * MS,
            slices: vec![slice(150, 0), slice(250, 12_500), slice(350, 37_500)],
            ..CircuitReport::default()
        };
        let one = |report| WorkerReport {
            circuits: vec![report],
            ..WorkerReport::default()
        };
        Collected {
            sender: one(sender),
            receiver: one(receiver),
            pairs: Vec::new(),
            host: host::SnapshotDifference::default(),
            own_cpu_s: 0.0,
            remote_cpu_s: 0.0,
            clocks: ClockUncertainty::Same,
            interfaces: Vec::new(),
            environment,
            turns: None,
        }
    }

    fn made(
        series: bool,
        connection: BTreeMap<String, Vec<(u64, u64)>>,
    ) -> BTreeMap<String, Series> {
        let mut spec = RaceSpec::one_block(&["tcp"], &["throughput"]);
        spec.series = series;
        let trial = TrialSpec {
            contest: spec.contests().remove(0),
            contestant: "tcp".into(),
            limits: Limits {
                messages: 1,
                time_ns: 1,
                slice_ns: 1,
            },
            rate_per_s: None,
            seed: 1,
        };
        let position = super::super::TrialPosition {
            index: 0,
            block: 1,
            control: false,
            started_s: 0.0,
        };
        let mut made = super::super::empty(&trial, position);
        let collected = collected(connection);
        let view = TrialView {
            spec: &spec,
            trial: &trial,
            collected: &collected,
        };
        super::connection(&mut made, &view);
        made.series
    }

    #[test]
    fn series_have_one_axis_and_the_units_of_results() {
        let rtt = vec![(100 * MS, 2_000_000), (200 * MS, 3_500_000)];
        let rate = vec![(200 * MS, 125_000)];
        let recorded = [
            ("smoothed_rtt".to_owned(), rtt),
            ("delivery_rate".to_owned(), rate),
        ];
        let series = made(true, BTreeMap::from(recorded));
        assert_eq!(series.len(), 4);
        let queue = &series["link_queue"];
        assert_eq!(
            (&queue.at_s[..], &queue.values[..]),
            (&[0.04][..], &[3.0][..])
        );
        let rtt = &series["smoothed_rtt"];
        assert_eq!((rtt.unit.as_str(), &rtt.at_s[..]), ("ms", &[0.0, 0.1][..]));
        assert_eq!(rtt.values, [2.0, 3.5]);
        assert_eq!(series["delivery_rate"].values, [1.0]);
        let goodput = &series["goodput"];
        let close = |found: &[f64], wanted: [f64; 2]| {
            let pairs = found.iter().zip(wanted);
            found.len() == 2
                && pairs
                    .into_iter()
                    .all(|(one, other)| (one - other).abs() < 1e-9)
        };
        // 12,500 octets in 100 ms are 1 Mbit/s.
        assert!(close(&goodput.values, [1.0, 2.0]), "{goodput:?}");
        assert!(close(&goodput.at_s, [0.15, 0.25]), "{goodput:?}");
    }

    #[test]
    fn race_without_series_has_none() {
        assert!(made(false, BTreeMap::new()).is_empty());
        let udp: Vec<String> = made(true, BTreeMap::new()).into_keys().collect();
        assert_eq!(udp, ["goodput", "link_queue"]);
    }

    #[test]
    fn long_series_are_thinned() {
        let points = (0..4096).map(|slice| (slice * MS, 1)).collect();
        let series = made(true, BTreeMap::from([("in_flight".to_owned(), points)]));
        assert!(series["in_flight"].values.len() <= SERIES_MAX);
    }
}
