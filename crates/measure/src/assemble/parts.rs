//! What each of several pairs of hosts got that ran at once: measures by name and pair, as
//! `messages_per_s@lab1`.

use super::delays::percentiles;
use super::rates::Steady;
use super::view::View;
use crate::spec::Direction;
use crate::trial::Part;
use control::{CircuitReport, Workload};
use results::Trial;

/// Puts the measures of each pair beside those of all.
pub(super) fn parts(made: &mut Trial, view: &View<'_>) {
    for part in &view.collected.parts {
        let senders = &view.collected.sender.circuits[part.senders.clone()];
        let receivers = &view.collected.receiver.circuits[part.receivers.clone()];
        match view.trial.contest.workload {
            Workload::Throughput => throughput(made, view, part, senders, receivers),
            Workload::Delay => asked(made, view, part, senders, "messages_per_s"),
            Workload::Connect => asked(made, view, part, senders, "connections_per_s"),
            Workload::Offered => offered(made, view, part, receivers),
        }
    }
}

fn put(made: &mut Trial, name: &str, part: &Part, value: f64) {
    made.metrics.insert(format!("{name}@{}", part.name), value);
}

fn throughput(
    made: &mut Trial,
    view: &View<'_>,
    part: &Part,
    senders: &[CircuitReport],
    receivers: &[CircuitReport],
) {
    let both = view.spec.direction == Direction::Both;
    let sinks = receivers.iter().chain(senders.iter().filter(|_| both));
    let (mut messages_per_s, mut bytes_per_s) = (0.0, 0.0);
    for report in sinks {
        let steady = Steady::of(&report.slices);
        messages_per_s += view.messages(report, steady.messages, steady.bytes) / steady.span_s;
        bytes_per_s += steady.bytes as f64 / steady.span_s;
    }
    put(made, "messages_per_s", part, messages_per_s);
    put(made, "mbit_per_s", part, bytes_per_s * 8e-6);
}

/// Round trips or connections, which the asking side counts.
fn asked(made: &mut Trial, view: &View<'_>, part: &Part, senders: &[CircuitReport], name: &str) {
    let done: u64 = senders.iter().map(|report| report.received).sum();
    put(made, name, part, done as f64 / view.span_s().max(1e-9));
    delays(made, part, senders);
}

fn offered(made: &mut Trial, view: &View<'_>, part: &Part, receivers: &[CircuitReport]) {
    let delivered: f64 = receivers.iter().map(|one| view.delivered_by(one)).sum();
    let span_s = made.span_s.max(1e-9);
    put(made, "delivered_per_s", part, delivered / span_s);
    // Delays that are left out of the whole say no more of a part.
    if made.metrics.contains_key("delay_p50_us") {
        delays(made, part, receivers);
    }
}

fn delays(made: &mut Trial, part: &Part, circuits: &[CircuitReport]) {
    let circuits: Vec<&CircuitReport> = circuits.iter().collect();
    for (name, value) in percentiles(&circuits) {
        put(made, name, part, value);
    }
}
