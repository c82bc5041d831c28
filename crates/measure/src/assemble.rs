//! From the reports of two workers to a trial.

use crate::spec::{Direction, RaceSpec};
use crate::trial::{Collected, TrialError, TrialSpec};
use control::{CircuitReport, CpuUse, Slice, WorkerReport, Workload};
use results::{Cell, Cpu, Histogram, Ledger, SCHEMA_VERSION, Series, Status, Trial};
use std::collections::BTreeMap;

/// What tells a trial from others of its cell.
#[derive(Clone, Copy, Debug)]
pub struct Place {
    /// Its place in the order of all trials.
    pub index: u64,
    /// Its block, 0 for a pilot.
    pub block: u32,
    /// Whether it is the baseline's second run.
    pub control: bool,
    /// When it started, seconds since 1970.
    pub started_s: f64,
}

/// Points of a time series kept in a result.
const SERIES_MAX: usize = 250;

/// The trial that `outcome` makes.
pub fn trial(
    spec: &RaceSpec,
    trial: &TrialSpec,
    place: Place,
    outcome: &Result<Collected, TrialError>,
) -> Trial {
    let mut made = empty(trial, place);
    match outcome {
        Ok(collected) => fill(&mut made, spec, trial, collected),
        Err(TrialError::Interrupted) => {
            made.status = Status::Interrupted;
            made.reason = "stopped by the user".into();
        }
        Err(TrialError::Failed(what)) => {
            made.status = Status::Failed;
            made.reason.clone_from(what);
        }
    }
    made
}

fn empty(trial: &TrialSpec, place: Place) -> Trial {
    Trial {
        version: SCHEMA_VERSION,
        index: place.index,
        block: place.block,
        cell: trial
            .contest
            .cell
            .clone()
            .with(Cell::TRANSPORT, trial.contestant.as_str()),
        control: place.control,
        status: Status::Ok,
        reason: String::new(),
        disturbed: Vec::new(),
        started_s: place.started_s,
        span_s: 0.0,
        warm_up_s: 0.0,
        metrics: BTreeMap::new(),
        evidence: BTreeMap::new(),
        histograms: BTreeMap::new(),
        series: BTreeMap::new(),
        ledger: None,
        cpu: BTreeMap::new(),
        effective: BTreeMap::new(),
    }
}

fn fill(made: &mut Trial, spec: &RaceSpec, trial: &TrialSpec, collected: &Collected) {
    let view = View {
        spec,
        trial,
        collected,
    };
    made.span_s = view.span_s();
    match trial.contest.workload {
        Workload::Throughput => throughput(made, &view),
        Workload::Delay => delays(made, &view, "delay"),
        Workload::Offered => offered(made, &view),
        Workload::Connect => delays(made, &view, "connection"),
    }
    costs(made, &view);
    made.ledger = view.ledger();
    made.effective = effective(collected);
    judge(made, &view);
    made.metrics.retain(|_, value| value.is_finite());
    made.evidence.retain(|_, value| value.is_finite());
}

/// The reports with what is needed to read them.
struct View<'a> {
    spec: &'a RaceSpec,
    trial: &'a TrialSpec,
    collected: &'a Collected,
}

impl View<'_> {
    fn receivers(&self) -> impl Iterator<Item = &CircuitReport> {
        self.collected.receiver.circuits.iter()
    }

    fn senders(&self) -> impl Iterator<Item = &CircuitReport> {
        self.collected.sender.circuits.iter()
    }

    fn all(&self) -> impl Iterator<Item = &CircuitReport> {
        self.senders().chain(self.receivers())
    }

    fn span_s(&self) -> f64 {
        let first = self
            .all()
            .map(|report| report.first_ns)
            .filter(|&at| at > 0)
            .min();
        let last = self.all().map(|report| report.last_ns).max();
        last.unwrap_or(0).saturating_sub(first.unwrap_or(0)) as f64 * 1e-9
    }

    /// Messages from counts: a byte stream's reads are not messages.
    fn messages(&self, report: &CircuitReport, received: u64, bytes: u64) -> f64 {
        if is_stream(&report.transport) && self.trial.contest.workload != Workload::Offered {
            bytes as f64 / self.trial.contest.size.max(1) as f64
        } else {
            received as f64
        }
    }

    fn delivered(&self) -> f64 {
        let one = |report| self.delivered_by(report);
        let back: f64 = if self.spec.direction == Direction::Both {
            self.senders().map(one).sum()
        } else {
            0.0
        };
        self.receivers().map(one).sum::<f64>() + back
    }

    fn delivered_by(&self, report: &CircuitReport) -> f64 {
        self.messages(report, report.received, report.received_bytes)
    }

    fn sent(&self) -> u64 {
        let back: u64 = if self.spec.direction == Direction::Both {
            self.receivers().map(|report| report.sent).sum()
        } else {
            0
        };
        self.senders().map(|report| report.sent).sum::<u64>() + back
    }

    fn count(&self, name: &str) -> u64 {
        self.all()
            .filter_map(|report| report.counts.get(name))
            .sum()
    }

    fn ledger(&self) -> Option<Ledger> {
        let moves = matches!(
            self.trial.contest.workload,
            Workload::Throughput | Workload::Offered
        );
        if !moves || self.trial.contestant == "null" || self.trial.contest.mix.is_some() {
            return None;
        }
        let sent = self.sent();
        let received = self.delivered().round() as u64;
        let missing = sent.saturating_sub(received);
        let lost_host = self.count("receive_drops").min(missing);
        Some(Ledger {
            sent,
            delivered: received.min(sent),
            lost_host,
            duplicates: received.saturating_sub(sent),
            unaccounted: (missing - lost_host) as i64,
            ..Ledger::default()
        })
    }
}

fn is_stream(transport: &str) -> bool {
    towpath::find(transport).is_ok_and(|transport| transport.class().stream)
}

fn throughput(made: &mut Trial, view: &View<'_>) {
    let mut rates = Vec::new();
    let both = view.spec.direction == Direction::Both;
    let sinks = view.receivers().chain(view.senders().filter(|_| both));
    for report in sinks {
        let steady = Steady::of(&report.slices);
        made.warm_up_s = made.warm_up_s.max(steady.warm_up_s);
        if let Some(what) = steady.doubt {
            made.disturbed.push(what);
        }
        let messages = view.messages(report, steady.messages, steady.bytes);
        rates.push((
            report.transport.as_str(),
            messages / steady.span_s,
            steady.bytes as f64 / steady.span_s,
        ));
    }
    let messages_per_s: f64 = rates.iter().map(|(_, messages, _)| messages).sum();
    let bytes_per_s: f64 = rates.iter().map(|(_, _, bytes)| bytes).sum();
    let sent_per_s = view.sent() as f64 / send_span_s(view).max(1e-9);
    made.metrics.insert("messages_per_s".into(), messages_per_s);
    made.metrics.insert("mbit_per_s".into(), bytes_per_s * 8e-6);
    made.metrics.insert("sent_per_s".into(), sent_per_s);
    if let Some(ledger) = view.ledger().filter(|ledger| ledger.sent > 0) {
        let lost = ledger.sent.saturating_sub(ledger.delivered);
        made.metrics
            .insert("loss_fraction".into(), lost as f64 / ledger.sent as f64);
    }
    shares(made, &rates, messages_per_s);
    if let Some(report) = view.receivers().next() {
        let per_message = |slice: &Slice| view.messages(report, slice.messages, slice.bytes);
        made.series.insert(
            "messages_per_s".into(),
            rate_series(&report.slices, per_message),
        );
    }
}

fn send_span_s(view: &View<'_>) -> f64 {
    let spans = view
        .senders()
        .map(|report| report.last_ns.saturating_sub(report.first_ns));
    spans.max().unwrap_or(0) as f64 * 1e-9
}

/// What each circuit got of the whole, when there are several.
fn shares(made: &mut Trial, rates: &[(&str, f64, f64)], total: f64) {
    if rates.len() < 2 || total <= 0.0 {
        return;
    }
    let all: Vec<f64> = rates.iter().map(|&(_, rate, _)| rate).collect();
    made.metrics
        .insert("fairness".into(), stats::estimate::jain(&all));
    for &(transport, rate, _) in rates {
        *made
            .metrics
            .entry(format!("share.{transport}"))
            .or_default() += rate / total;
        *made
            .metrics
            .entry(format!("messages_per_s.{transport}"))
            .or_default() += rate;
    }
}

/// The part of a series after its warm-up.
struct Steady {
    span_s: f64,
    messages: u64,
    bytes: u64,
    warm_up_s: f64,
    doubt: Option<String>,
}

impl Steady {
    fn of(slices: &[Slice]) -> Steady {
        let (Some(first), Some(last)) = (slices.first(), slices.last()) else {
            return Steady {
                span_s: f64::INFINITY,
                messages: 0,
                bytes: 0,
                warm_up_s: 0.0,
                doubt: None,
            };
        };
        let rates: Vec<f64> = slices
            .windows(2)
            .filter(|pair| pair[1].at_ns > pair[0].at_ns)
            .map(|pair| {
                (pair[1].messages - pair[0].messages) as f64
                    / (pair[1].at_ns - pair[0].at_ns) as f64
            })
            .collect();
        let steady = stats::steady_state(&rates);
        let cut = match steady {
            stats::Steady::From(cut) => cut,
            _ => 0,
        };
        let start = slices.get(cut).unwrap_or(first);
        Steady {
            span_s: (last.at_ns.saturating_sub(start.at_ns) as f64 * 1e-9).max(1e-9),
            messages: last.messages - start.messages,
            bytes: last.bytes - start.bytes,
            warm_up_s: start.at_ns.saturating_sub(first.at_ns) as f64 * 1e-9,
            doubt: (steady == stats::Steady::Never)
                .then(|| "no steady state within the trial".to_owned()),
        }
    }
}

/// Rates between slices, thinned out to what a chart can show.
fn rate_series(slices: &[Slice], count: impl Fn(&Slice) -> f64) -> Series {
    let step = slices.len().div_ceil(SERIES_MAX).max(1);
    let kept: Vec<&Slice> = slices.iter().step_by(step).collect();
    let mut series = Series {
        unit: "/s".into(),
        ..Series::default()
    };
    let Some(first) = kept.first() else {
        return series;
    };
    for pair in kept.windows(2).filter(|pair| pair[1].at_ns > pair[0].at_ns) {
        let span_s = (pair[1].at_ns - pair[0].at_ns) as f64 * 1e-9;
        series
            .at_s
            .push((pair[1].at_ns - first.at_ns) as f64 * 1e-9);
        series
            .values
            .push((count(pair[1]) - count(pair[0])) / span_s);
    }
    series
}

/// Round trips and connections: measures and histogram come from the asking side.
fn delays(made: &mut Trial, view: &View<'_>, kind: &str) {
    let circuits: Vec<&CircuitReport> = view.senders().collect();
    merge_delays(made, &circuits, "delay");
    let done: u64 = circuits.iter().map(|report| report.received).sum();
    let per_s = done as f64 / send_span_s(view).max(1e-9);
    if kind == "connection" {
        made.metrics.insert("connections_per_s".into(), per_s);
        if let Some(p50) = made.metrics.remove("delay_p50_us") {
            made.metrics.insert("connection_p50_us".into(), p50);
        }
    } else {
        made.metrics.insert("messages_per_s".into(), per_s);
        if circuits.len() > 1 {
            for report in &circuits {
                if let Some(&p50) = report.measures.get("delay_p50_us") {
                    made.metrics
                        .insert(format!("delay_p50_us.{}", report.transport), p50);
                }
            }
        }
    }
    let lost: f64 = circuits
        .iter()
        .filter_map(|report| report.measures.get("lost"))
        .sum();
    made.metrics
        .insert("loss_fraction".into(), lost / (done as f64 + lost).max(1.0));
    if let Some(report) = circuits.first() {
        made.series.insert(
            "messages_per_s".into(),
            rate_series(&report.slices, |s| s.messages as f64),
        );
    }
}

fn merge_delays(made: &mut Trial, circuits: &[&CircuitReport], name: &str) {
    let encoded = circuits
        .iter()
        .filter_map(|report| report.histograms.get(name));
    let mut merged = results::new_histogram();
    for hdr_v2 in encoded {
        let histogram = Histogram {
            unit: "ns".into(),
            hdr_v2: hdr_v2.clone(),
        };
        // Bounds are the same in every worker; one that does not decode is left out and shows in
        // the sample count.
        if let Ok(histogram) = histogram.decode() {
            let _ = merged.add(&histogram);
        }
    }
    if merged.is_empty() {
        return;
    }
    for (metric, q) in [
        ("delay_p50_us", 0.5),
        ("delay_p90_us", 0.9),
        ("delay_p99_us", 0.99),
        ("delay_p999_us", 0.999),
    ] {
        if merged.len() >= stats::estimate::samples_needed(q) {
            made.metrics
                .insert(metric.into(), merged.value_at_quantile(q) as f64 / 1000.0);
        }
    }
    made.metrics
        .insert("delay_mean_us".into(), merged.mean() / 1000.0);
    if let [only] = circuits {
        let exact = ["delay_p50_us", "delay_mean_us"].into_iter();
        for metric in exact {
            if let Some(&value) = only.measures.get(metric) {
                made.metrics.insert(metric.into(), value);
            }
        }
    }
    made.warm_up_s = circuits
        .iter()
        .filter_map(|report| report.measures.get("warm_up_s"))
        .copied()
        .fold(0.0, f64::max);
    if let Ok(histogram) = Histogram::encode(&merged, "ns") {
        made.histograms.insert("delay".into(), histogram);
    }
}

fn offered(made: &mut Trial, view: &View<'_>) {
    let sinks: Vec<&CircuitReport> = view.receivers().collect();
    merge_delays(made, &sinks, "delay");
    let span_s = send_span_s(view).max(1e-9);
    let sent = view.sent() as f64;
    let delivered = view.delivered();
    made.metrics.insert("offered_per_s".into(), sent / span_s);
    made.metrics.insert(
        "delivered_per_s".into(),
        delivered / made.span_s.max(span_s),
    );
    made.metrics.insert(
        "mbit_per_s".into(),
        delivered * view.trial.contest.size as f64 * 8e-6 / made.span_s.max(span_s),
    );
    made.metrics.insert(
        "loss_fraction".into(),
        ((sent - delivered) / sent.max(1.0)).max(0.0),
    );
    let lag = view
        .senders()
        .filter_map(|report| report.measures.get("lag_p99_us"));
    if let Some(lag) = lag.copied().reduce(f64::max) {
        made.metrics.insert("lag_p99_us".into(), lag);
    }
    if let Some(rate) = view.trial.rate_per_s {
        made.evidence.insert("asked_per_s".into(), rate);
    }
    if let Some(report) = sinks.first() {
        made.series.insert(
            "messages_per_s".into(),
            rate_series(&report.slices, |s| s.messages as f64),
        );
    }
}

/// What a message cost, and the evidence for a verdict's reason.
fn costs(made: &mut Trial, view: &View<'_>) {
    let (sender, receiver) = (&view.collected.sender, &view.collected.receiver);
    made.cpu.insert("sender".into(), cpu(&sender.cpu));
    made.cpu.insert("receiver".into(), cpu(&receiver.cpu));
    let messages = match view.trial.contest.workload {
        Workload::Delay | Workload::Connect => {
            view.senders().map(|report| report.received).sum::<u64>() as f64
        }
        _ => view.delivered(),
    };
    if messages < 1.0 {
        return;
    }
    let task_ns = (sender.cpu.task_ns + receiver.cpu.task_ns) as f64;
    let bytes = messages * view.trial.contest.size as f64;
    made.metrics
        .insert("cpu_ns_per_message".into(), task_ns / messages);
    made.metrics
        .insert("cpu_ns_per_byte".into(), task_ns / bytes.max(1.0));
    made.metrics.insert(
        "sender_cpu_ns_per_message".into(),
        sender.cpu.task_ns as f64 / messages,
    );
    made.metrics.insert(
        "receiver_cpu_ns_per_message".into(),
        receiver.cpu.task_ns as f64 / messages,
    );
    evidence(made, view, messages);
}

fn evidence(made: &mut Trial, view: &View<'_>, messages: f64) {
    let (sender, receiver) = (&view.collected.sender.cpu, &view.collected.receiver.cpu);
    let wakeups = sender.voluntary_switches + receiver.voluntary_switches;
    let preemptions = sender.involuntary_switches + receiver.involuntary_switches;
    let per_message = [
        ("calls_per_message", calls(view) as f64),
        ("wakeups_per_message", wakeups as f64),
        ("involuntary_switches_per_message", preemptions as f64),
        ("sender_cpu_ns_per_message", sender.task_ns as f64),
        ("receiver_cpu_ns_per_message", receiver.task_ns as f64),
    ];
    for (name, count) in per_message {
        if count > 0.0 {
            made.evidence.insert(name.into(), count / messages);
        }
    }
    for (name, count) in [
        ("retransmissions_per_1000", "retransmissions"),
        ("receive_drops_per_1000", "receive_drops"),
    ] {
        made.evidence
            .insert(name.into(), view.count(count) as f64 * 1000.0 / messages);
    }
    let host = view.collected.host.evidence("lo");
    let packets = host.get("interface_packets").copied().unwrap_or(0.0);
    if packets > 0.0 && is_network(&view.trial.contestant) {
        made.evidence
            .insert("packets_per_message".into(), packets / messages);
        if let Some(&bytes) = host.get("packet_bytes_mean") {
            made.evidence.insert("mean_packet_bytes".into(), bytes);
        }
    }
    let ticks_s =
        (sender.user_ns + sender.system_ns + receiver.user_ns + receiver.system_ns) as f64 * 1e-9;
    if ticks_s > 0.0 {
        let user_s = (sender.user_ns + receiver.user_ns) as f64 * 1e-9;
        made.evidence
            .insert("cpu_user_fraction".into(), user_s / ticks_s);
    }
    made.evidence.extend(host);
}

/// Calls of both sides: those a transport counts itself, else one a message or read.
fn calls(view: &View<'_>) -> u64 {
    let one = |report: &CircuitReport| match report.counts.get("calls") {
        Some(&counted) => counted,
        None => report.sent + report.calls.max(report.received),
    };
    view.all().map(one).sum()
}

fn is_network(contestant: &str) -> bool {
    let reaches = |name: &str| {
        towpath::find(name)
            .is_ok_and(|transport| transport.class().reach == towpath::Reach::Network)
    };
    contestant.split('+').any(reaches)
}

fn cpu(used: &CpuUse) -> Cpu {
    Cpu {
        task_s: used.task_ns as f64 * 1e-9,
        user_s: used.user_ns as f64 * 1e-9,
        system_s: used.system_ns as f64 * 1e-9,
        voluntary_switches: used.voluntary_switches,
        involuntary_switches: used.involuntary_switches,
    }
}

fn effective(collected: &Collected) -> BTreeMap<String, String> {
    let side = |name: &'static str, report: &WorkerReport| {
        let named = report.effective.clone().into_iter();
        named
            .map(move |(key, value)| (format!("{name}.{key}"), value))
            .collect::<Vec<_>>()
    };
    let sender = side("sender", &collected.sender);
    let receiver = side("receiver", &collected.receiver);
    sender.into_iter().chain(receiver).collect()
}

/// Whether the numbers count, and what disturbed them.
fn judge(made: &mut Trial, view: &View<'_>) {
    if let Some(error) = view.all().find_map(|report| report.error.clone()) {
        made.status = Status::Failed;
        made.reason = error;
    } else if let Some(reason) = view.all().find_map(|report| report.invalid.clone()) {
        made.status = Status::Invalid;
        made.reason = reason;
    } else if let Some(reason) = ledger_fault(made, view) {
        made.status = Status::Invalid;
        made.reason = reason;
    }
    let own_s = made.cpu.values().map(|cpu| cpu.task_s).sum();
    let unreliable = view
        .trial
        .contestant
        .split('+')
        .any(|name| towpath::find(name).is_ok_and(|transport| !transport.class().reliable));
    let expected = host::Expected {
        own_s,
        drops: unreliable,
        ..host::Expected::default()
    };
    made.disturbed
        .extend(host::disturbances(&view.collected.host, &expected));
    if let Some(ledger) = made.ledger.filter(|ledger| ledger.unaccounted != 0) {
        made.disturbed.push(format!(
            "the ledger does not close: {} messages unaccounted for",
            ledger.unaccounted
        ));
    }
}

/// A reliable transport that lost or doubled messages has no valid numbers.
fn ledger_fault(made: &Trial, view: &View<'_>) -> Option<String> {
    let ledger = made.ledger?;
    let reliable = view
        .trial
        .contestant
        .split('+')
        .all(|name| towpath::find(name).is_ok_and(|transport| transport.class().reliable));
    let broken = ledger.delivered != ledger.sent || ledger.duplicates != 0;
    (reliable && broken).then(|| {
        format!(
            "the ledger does not close: {} messages sent, {} delivered, {} twice",
            ledger.sent, ledger.delivered, ledger.duplicates
        )
    })
}
