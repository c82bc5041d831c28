//! Sends into a wire that discards: their time, split into the copies of their packets and the rest.

use super::rates::rate_series;
use super::view::{TrialView, send_span_s};
use control::{CircuitReport, Slice};
use loadgen::workload::discarded::{COPY_NS, DISCARDED_OCTETS, DISCARDED_PACKETS};
use results::Trial;
use results::metric::{
    COPY_FRACTION, COPY_NS_PER_MESSAGE, REST_NS_PER_MESSAGE, SEND_NS_PER_MESSAGE, SENT_PER_S,
};

/// The measures of a trial.
pub(super) fn send(made: &mut Trial, view: &TrialView<'_>) {
    let span_s = send_span_s(view).max(1e-9);
    let split = Split::of(view.senders());
    let sum = |name: &str| -> f64 {
        let of_one = |report: &CircuitReport| report.measures.get(name).copied();
        view.senders().filter_map(of_one).sum()
    };
    let packets = sum(DISCARDED_PACKETS);
    let per_s = [
        (SENT_PER_S, split.messages / span_s),
        ("packets_per_s", packets / span_s),
    ];
    let measures = per_s.into_iter().chain(split.measures());
    made.metrics
        .extend(measures.map(|(name, value)| (name.to_owned(), value)));
    let messages = split.messages.max(1.0);
    made.evidence
        .insert("discarded_packets_per_message".into(), packets / messages);
    let octets = sum(DISCARDED_OCTETS) / messages;
    made.evidence
        .insert("discarded_octets_per_message".into(), octets);
    if let Some(report) = view.senders().next() {
        let messages = |slice: &Slice| slice.messages as f64;
        let series = rate_series(&report.slices, messages);
        made.series.insert(SENT_PER_S.into(), series);
    }
}

/// Time of all circuits of a sender, by what it went into.
struct Split {
    messages: f64,
    /// From the first message to the last, ns, of each circuit.
    send_ns: f64,
    /// What of it copies took.
    copy_ns: f64,
}

impl Split {
    fn of<'a>(senders: impl Iterator<Item = &'a CircuitReport>) -> Split {
        let none = Split {
            messages: 0.0,
            send_ns: 0.0,
            copy_ns: 0.0,
        };
        senders.fold(none, |sum, report| {
            let send_ns = report.last_ns.saturating_sub(report.first_ns) as f64;
            let copy_ns = report.measures.get(COPY_NS).copied().unwrap_or(0.0);
            Split {
                messages: sum.messages + report.sent as f64,
                send_ns: sum.send_ns + send_ns,
                // Copies that another thread makes for a circuit take none of its own time beyond all of it.
                copy_ns: sum.copy_ns + copy_ns.min(send_ns),
            }
        })
    }

    fn measures(&self) -> [(&'static str, f64); 4] {
        let each = |ns: f64| ns / self.messages.max(1.0);
        [
            (SEND_NS_PER_MESSAGE, each(self.send_ns)),
            (COPY_NS_PER_MESSAGE, each(self.copy_ns)),
            (REST_NS_PER_MESSAGE, each(self.send_ns - self.copy_ns)),
            (COPY_FRACTION, self.copy_ns / self.send_ns.max(1.0)),
        ]
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::collections::BTreeMap;

    fn circuit(sent: u64, send_ns: u64, copy_ns: f64) -> CircuitReport {
        CircuitReport {
            sent,
            first_ns: 500,
            last_ns: 500 + send_ns,
            measures: BTreeMap::from([(COPY_NS.to_owned(), copy_ns)]),
            ..CircuitReport::default()
        }
    }

    #[test]
    fn copies_and_the_rest_add_up_to_the_time_of_a_send() {
        let circuits = [
            circuit(100, 40_000, 10_000.0),
            circuit(300, 60_000, 30_000.0),
        ];
        let measures = BTreeMap::from(Split::of(circuits.iter()).measures());
        assert_eq!(measures[SEND_NS_PER_MESSAGE], 250.0);
        assert_eq!(measures[COPY_NS_PER_MESSAGE], 100.0);
        assert_eq!(measures[REST_NS_PER_MESSAGE], 150.0);
        assert_eq!(measures[COPY_FRACTION], 0.4);
    }

    #[test]
    fn a_circuit_that_sent_nothing_has_no_share_and_copies_take_no_more_than_all() {
        let idle = BTreeMap::from(Split::of(std::iter::once(&circuit(0, 0, 0.0))).measures());
        assert!(idle.values().all(|value| *value == 0.0), "{idle:?}");
        let beside = [circuit(10, 1000, 3000.0)];
        let measures = BTreeMap::from(Split::of(beside.iter()).measures());
        assert_eq!(measures[COPY_FRACTION], 1.0);
        assert_eq!(measures[REST_NS_PER_MESSAGE], 0.0);
    }
}
