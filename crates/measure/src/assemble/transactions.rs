//! Transactions of several clients: rates, delays, user bytes both ways, share of the link.

use super::delays::merge_delays;
use super::rates::{SteadyPart, rate_series};
use super::view::TrialView;
use crate::environment::LinkRate;
use control::CircuitReport;
use loadgen::workload::transactions::SERVED_NS;
use results::{Trial, metric};

/// Metrics and histogram come from the clients' side, whose report of a transport is that of all its
/// clients.
pub(super) fn transactions(made: &mut Trial, view: &TrialView<'_>) {
    let clients: Vec<&CircuitReport> = view.senders().collect();
    merge_delays(made, &clients, "delay");
    made.warm_up_s = 0.0;
    let mut rates = Vec::new();
    for report in &clients {
        let steady = SteadyPart::of(&report.slices);
        made.warm_up_s = made.warm_up_s.max(steady.warm_up_s);
        made.disturbed.extend(steady.warning);
        rates.push((
            report.transport.as_str(),
            steady.messages as f64 / steady.span_s,
        ));
    }
    let per_s: f64 = rates.iter().map(|(_, rate)| rate).sum();
    made.metrics
        .insert(metric::TRANSACTIONS_PER_S.into(), per_s);
    shares(made, &rates, per_s);
    each_client(made, &clients);
    user_bytes(made, view, per_s);
    served(made, view);
    losses(made, &clients);
    if let Some(report) = clients.first() {
        made.series.insert(
            metric::TRANSACTIONS_PER_S.into(),
            rate_series(&report.slices, |slice| slice.messages as f64),
        );
    }
}

/// Each transport's share, when several have clients.
fn shares(made: &mut Trial, rates: &[(&str, f64)], total: f64) {
    if rates.len() < 2 || total <= 0.0 {
        return;
    }
    for &(transport, rate) in rates {
        made.metrics
            .insert(format!("share.{transport}"), rate / total);
        made.metrics
            .insert(format!("transactions_per_s.{transport}"), rate);
    }
}

/// Rates of the slowest client, the median one and the fastest, and fairness between them.
fn each_client(made: &mut Trial, clients: &[&CircuitReport]) {
    let of_all = |name: &str, merge: fn(f64, f64) -> f64| {
        let values = clients
            .iter()
            .filter_map(|report| report.measures.get(name));
        values.copied().reduce(merge)
    };
    let values = [
        ("client_min_per_s", of_all("client_min_per_s", f64::min)),
        ("client_max_per_s", of_all("client_max_per_s", f64::max)),
    ];
    let mut values: Vec<_> = values
        .into_iter()
        .filter_map(|(name, value)| Some((name, value?)))
        .collect();
    if let [only] = clients {
        let names = [metric::CLIENT_PER_S, "fairness"].into_iter();
        values.extend(names.filter_map(|name| Some((name, *only.measures.get(name)?))));
    }
    for (name, value) in values {
        made.metrics.insert(name.into(), value);
    }
}

/// User bits a second of requests, of replies and of both, and the share of the link that they are.
fn user_bytes(made: &mut Trial, view: &TrialView<'_>, per_s: f64) {
    let contest = &view.trial.contest;
    let reply_len = contest.transactions.map_or(0, |load| load.reply_len);
    let [there, back] = [contest.size, reply_len].map(|len| per_s * len as f64 * 8.0);
    let mbit = [
        ("request_mbit_per_s", there),
        ("reply_mbit_per_s", back),
        (metric::MBIT_PER_S, there + back),
    ];
    for (name, bits_per_s) in mbit {
        made.metrics.insert(name.into(), bits_per_s * 1e-6);
    }
    let share = match view.collected.environment.link_rate {
        Some(LinkRate::EachWay([to_server, to_client])) => {
            (there / to_server).max(back / to_client)
        }
        Some(LinkRate::Shared(bits_per_s)) => (there + back) / bits_per_s,
        None => return,
    };
    made.metrics
        .insert(metric::LINK_SHARE_FRACTION.into(), share);
}

/// Time that a server took for a request, as it was measured; none without a service time.
fn served(made: &mut Trial, view: &TrialView<'_>) {
    let requests: u64 = view.receivers().map(|report| report.received).sum();
    let served_ns: f64 = view
        .receivers()
        .filter_map(|report| report.measures.get(SERVED_NS))
        .sum();
    if served_ns > 0.0 && requests > 0 {
        let mean_us = served_ns / requests as f64 / 1e3;
        made.metrics.insert("service_mean_us".into(), mean_us);
    }
}

fn losses(made: &mut Trial, clients: &[&CircuitReport]) {
    let replies: u64 = clients.iter().map(|report| report.received).sum();
    let lost = clients
        .iter()
        .filter_map(|report| report.measures.get("lost"))
        // The sum of no floating-point numbers is -0.
        .fold(0.0, |sum, lost| sum + lost);
    made.metrics.insert(
        metric::LOSS_FRACTION.into(),
        lost / (replies as f64 + lost).max(1.0),
    );
}

#[cfg(test)]
mod tests {
    use crate::assemble::{self, TrialPosition};
    use crate::environment::{EnvironmentReport, LinkRate};
    use crate::spec::{RaceSpec, ReplyLen};
    use crate::trial::{ClockUncertainty, Collected, TrialSpec};
    use control::{CircuitReport, Limits, Slice, WorkerReport};
    use results::{Status, Trial};
    use std::collections::BTreeMap;
    use std::time::Duration;

    /// A second of 1000 transactions, 100 of them in each tenth.
    fn clients() -> CircuitReport {
        let slice = |at: u64| Slice {
            at_ns: 1_000_000_000 + at * 100_000_000,
            messages: at * 100,
            bytes: at * 100 * 500,
        };
        CircuitReport {
            transport: "vmtp".into(),
            sent: 1000,
            received: 1000,
            received_bytes: 500_000,
            first_ns: 1_000_000_000,
            last_ns: 2_000_000_000,
            slices: (0..=10).map(slice).collect(),
            measures: BTreeMap::from([
                ("client_min_per_s".to_owned(), 200.0),
                ("client_per_s".to_owned(), 250.0),
                ("client_max_per_s".to_owned(), 300.0),
                ("fairness".to_owned(), 0.97),
            ]),
            ..CircuitReport::default()
        }
    }

    /// The trial of four clients with requests of 1000 bytes and replies of 500, over a link.
    fn trial(link_rate: Option<LinkRate>) -> Trial {
        let mut spec = RaceSpec::one_block(&["vmtp"], &["transactions"]);
        spec.transactions.clients = vec![4];
        spec.transactions.reply = ReplyLen::Bytes(500);
        spec.transactions.service = Duration::from_micros(50);
        let asked = TrialSpec {
            contest: spec.contests().pop().expect("a contest"),
            contestant: "vmtp".into(),
            limits: Limits {
                messages: u64::MAX,
                time_ns: 1,
                slice_ns: 1,
            },
            rate_per_s: None,
            seed: 1,
        };
        let server = CircuitReport {
            transport: "vmtp".into(),
            received: 1000,
            measures: BTreeMap::from([("served_ns".to_owned(), 6e7)]),
            ..CircuitReport::default()
        };
        let report = |circuit| WorkerReport {
            circuits: vec![circuit],
            ..WorkerReport::default()
        };
        let mut sender = report(clients());
        sender.cpu.task_ns = 15_000_000;
        let outcome = Ok(Collected {
            turns: None,
            sender,
            receiver: report(server),
            pairs: Vec::new(),
            host: host::SnapshotDifference::default(),
            own_cpu_s: 0.0,
            remote_cpu_s: 0.0,
            clocks: ClockUncertainty::Same,
            interfaces: Vec::new(),
            environment: EnvironmentReport {
                link_rate,
                ..EnvironmentReport::default()
            },
        });
        let position = TrialPosition {
            index: 0,
            block: 1,
            control: false,
            started_s: 0.0,
        };
        assemble::trial(&spec, &asked, position, &outcome)
    }

    #[track_caller]
    fn assert_metric(made: &Trial, name: &str, expected: f64) {
        let found = made.metrics.get(name).copied().unwrap_or(f64::NAN);
        assert!((found / expected - 1.0).abs() < 1e-9, "{name}: {found}");
    }

    #[test]
    fn rates_and_bytes_are_of_all_clients_and_of_each() {
        let made = trial(None);
        assert_eq!(made.status, Status::Ok, "{}", made.reason);
        for (name, value) in [
            ("transactions_per_s", 1000.0),
            ("client_min_per_s", 200.0),
            ("client_per_s", 250.0),
            ("client_max_per_s", 300.0),
            ("fairness", 0.97),
            ("request_mbit_per_s", 8.0),
            ("reply_mbit_per_s", 4.0),
            ("mbit_per_s", 12.0),
            ("service_mean_us", 60.0),
            ("cpu_ns_per_message", 15_000.0),
            ("cpu_ns_per_byte", 10.0),
        ] {
            assert_metric(&made, name, value);
        }
        assert_eq!(made.metrics["loss_fraction"], 0.0);
        assert!(!made.metrics.contains_key("link_share_fraction"));
        assert_eq!(made.cell.integer("clients"), Some(4));
        assert_eq!(made.cell.integer("reply"), Some(500));
        assert_eq!(made.cell.integer("service_us"), Some(50));
        assert_eq!(made.ledger.map(|ledger| ledger.delivered), Some(1000));
    }

    #[test]
    fn share_of_a_link_is_that_of_its_busier_direction() {
        let made = trial(Some(LinkRate::EachWay([1e8, 1e7])));
        assert_metric(&made, "link_share_fraction", 0.4);
        let made = trial(Some(LinkRate::Shared(1e8)));
        assert_metric(&made, "link_share_fraction", 0.12);
    }
}
