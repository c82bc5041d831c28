//! Metrics of each host pair when several ran at once, by name and pair: `messages_per_s@lab1`.

use super::delays::{exceeds_clock_error, percentiles};
use super::rates::SteadyPart;
use super::view::TrialView;
use crate::spec::Direction;
use crate::trial::{ClockUncertainty, PairCircuits};
use control::{CircuitReport, Workload};
use results::Trial;

/// Adds the metrics of each pair to those of the whole trial.
pub(super) fn pair_metrics(made: &mut Trial, view: &TrialView<'_>) {
    for part in &view.collected.pairs {
        let senders = &view.collected.sender.circuits[part.senders.clone()];
        let receivers = &view.collected.receiver.circuits[part.receivers.clone()];
        match view.trial.contest.workload {
            Workload::Throughput => throughput(made, view, part, senders, receivers),
            // Until all receivers had a message: there is no time of one of them.
            Workload::Delay if view.trial.contest.fan_out.is_some() => {}
            Workload::Delay => request_reply(made, view, part, senders, "messages_per_s"),
            Workload::Connect => request_reply(made, view, part, senders, "connections_per_s"),
            Workload::Offered => offered(made, view, part, receivers),
            Workload::Transactions => {
                request_reply(made, view, part, senders, "transactions_per_s");
            }
            // All pairs together: a path is loaded by what its own hosts send.
            Workload::Responsive => {}
            // Discarded packets reach no host.
            Workload::Send => {}
        }
    }
}

fn insert_for_pair(made: &mut Trial, name: &str, part: &PairCircuits, value: f64) {
    made.metrics.insert(format!("{name}@{}", part.name), value);
}

fn throughput(
    made: &mut Trial,
    view: &TrialView<'_>,
    part: &PairCircuits,
    senders: &[CircuitReport],
    receivers: &[CircuitReport],
) {
    let both = view.spec.direction == Direction::Both;
    let sinks = receivers.iter().chain(senders.iter().filter(|_| both));
    let (mut messages_per_s, mut bytes_per_s) = (0.0, 0.0);
    for report in sinks {
        let steady = SteadyPart::counted(view, report);
        messages_per_s += view.messages(report, steady.messages, steady.bytes) / steady.span_s;
        bytes_per_s += steady.bytes as f64 / steady.span_s;
    }
    insert_for_pair(made, "messages_per_s", part, messages_per_s);
    insert_for_pair(made, "mbit_per_s", part, bytes_per_s * 8e-6);
}

/// Round trips or connections, counted by the client side.
fn request_reply(
    made: &mut Trial,
    view: &TrialView<'_>,
    part: &PairCircuits,
    senders: &[CircuitReport],
    name: &str,
) {
    let done: u64 = senders.iter().map(|report| report.received).sum();
    insert_for_pair(made, name, part, done as f64 / view.span_s().max(1e-9));
    delays(made, part, senders);
}

fn offered(
    made: &mut Trial,
    view: &TrialView<'_>,
    part: &PairCircuits,
    receivers: &[CircuitReport],
) {
    let delivered: f64 = receivers.iter().map(|one| view.delivered_by(one)).sum();
    let span_s = made.span_s.max(1e-9);
    insert_for_pair(made, "delivered_per_s", part, delivered / span_s);
    if let ClockUncertainty::Within(bound_ns) = part.clocks {
        let name = format!("clock_bound_us@{}", part.name);
        made.evidence.insert(name, bound_ns as f64 / 1e3);
    }
    // Each pair has its own clocks, which decide whether its one-way delays are reported.
    let circuits: Vec<&CircuitReport> = receivers.iter().collect();
    let all = percentiles(&circuits);
    let median_us = all.first().map_or(0.0, |(_, value)| *value);
    if exceeds_clock_error(&part.clocks, median_us) {
        for (name, value) in all {
            insert_for_pair(made, name, part, value);
        }
    }
}

fn delays(made: &mut Trial, part: &PairCircuits, circuits: &[CircuitReport]) {
    let circuits: Vec<&CircuitReport> = circuits.iter().collect();
    for (name, value) in percentiles(&circuits) {
        insert_for_pair(made, name, part, value);
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::spec::{Contest, RaceSpec};
    use crate::trial::{Collected, TrialSpec};
    use control::{Limits, WorkerReport};
    use results::{Cell, Histogram, Status};
    use std::collections::BTreeMap;

    fn spec() -> RaceSpec {
        RaceSpec::one_block(&["udp"], &["offered"])
    }

    /// A circuit of a thousand messages, all with this one-way delay.
    fn circuit(delay_ns: u64) -> CircuitReport {
        let mut histogram = results::new_histogram();
        histogram.record_n(delay_ns, 1000).expect("in range");
        let encoded = Histogram::encode(&histogram, "ns").expect("it encodes");
        CircuitReport {
            transport: "udp".into(),
            sent: 1000,
            received: 1000,
            first_ns: 1,
            last_ns: 1_000_000_000,
            histograms: BTreeMap::from([("delay".to_owned(), encoded.hdr_v2)]),
            ..CircuitReport::default()
        }
    }

    /// An offered-load trial of host pairs with these one-way delays, ns, and clocks.
    fn trial(pairs: &[(u64, ClockUncertainty)]) -> Trial {
        let spec = spec();
        let trial = TrialSpec {
            contest: Contest {
                rate_per_s: Some(1000.0),
                ..spec.contests().pop().expect("a contest")
            },
            contestant: "udp".into(),
            limits: Limits {
                messages: u64::MAX,
                time_ns: 1,
                slice_ns: 1,
            },
            rate_per_s: Some(1000.0),
            seed: 1,
        };
        let part = |(at, (_, clocks)): (usize, &(u64, ClockUncertainty))| PairCircuits {
            name: format!("pair{}", at + 1),
            senders: at..at + 1,
            receivers: at..at + 1,
            clocks: clocks.clone(),
        };
        let circuits: Vec<CircuitReport> = pairs.iter().map(|pair| circuit(pair.0)).collect();
        let report = WorkerReport {
            circuits,
            ..WorkerReport::default()
        };
        let all = pairs.iter().map(|pair| pair.1.clone());
        let outcome = Ok(Collected {
            sender: report.clone(),
            receiver: report,
            pairs: pairs.iter().enumerate().map(part).collect(),
            host: host::SnapshotDifference::default(),
            own_cpu_s: 0.0,
            remote_cpu_s: 0.0,
            clocks: all.fold(ClockUncertainty::Same, ClockUncertainty::or_worse),
            interfaces: vec!["lo".into()],
            environment: Default::default(),
            turns: None,
        });
        let position = crate::assemble::TrialPosition {
            index: 0,
            block: 1,
            control: false,
            started_s: 0.0,
        };
        let made = crate::assemble::trial(&spec, &trial, position, &outcome);
        assert_eq!(made.status, Status::Ok, "{}", made.reason);
        assert_eq!(made.cell.transport(), "udp");
        assert_ne!(made.cell, Cell::default());
        made
    }

    #[test]
    fn pair_delays_use_own_clock_uncertainty() {
        let within = |bound_us: u64| ClockUncertainty::Within(bound_us * 1000);
        let made = trial(&[(10_000_000, within(200)), (50_000, within(200))]);
        assert!(made.metrics.contains_key("delay_p50_us@pair1"));
        let second = made.metrics.keys().filter(|name| name.ends_with("@pair2"));
        let second: Vec<&String> = second.collect();
        assert_eq!(second, ["delivered_per_s@pair2"]);
        assert_eq!(made.evidence["clock_bound_us@pair2"], 200.0);
        // Poor clocks of one pair do not hide delays of another; the totals use the worst clocks.
        let made = trial(&[(10_000_000, within(9000)), (50_000, within(10))]);
        assert!(made.metrics.contains_key("delay_p50_us@pair2"));
        for hidden in ["delay_p50_us@pair1", "delay_p50_us", "delay_mean_us"] {
            assert!(!made.metrics.contains_key(hidden), "{hidden}");
        }
        assert_eq!(made.evidence["clock_bound_us"], 9000.0);
    }

    #[test]
    fn unknown_clocks_drop_one_way_delays_only() {
        let jumped = ClockUncertainty::Unknown("agent lab: its clock jumped".into());
        let made = trial(&[(10_000_000, jumped), (50_000, ClockUncertainty::Same)]);
        assert!(!made.metrics.contains_key("delay_p50_us"));
        assert!(!made.metrics.contains_key("delay_p50_us@pair1"));
        assert!(made.metrics.contains_key("delay_p50_us@pair2"));
        assert!(made.metrics["delivered_per_s"] > 0.0);
        assert_eq!(made.evidence["one_way_left_out"], 1.0);
        let is_reported = |what: &String| what.contains("left out: agent lab: its clock jumped");
        assert!(
            made.disturbed.iter().any(is_reported),
            "{:?}",
            made.disturbed
        );
    }
}
