//! Transactions: clients that call again as soon as they are answered, and their servers.
//!
//! Each client has a thread and a circuit, and so has its server. All clients of a worker begin
//! together. What the clients of one transport count goes into one `Tally` - a series, delays - for
//! thousands of each would be of no use; and their reports become one, with the rates of the slowest
//! client, of the median one and of the fastest.

use super::client::{CallRecorder, ClientControl, call_repeatedly};
use super::server::answer_until_done;
use super::slices::SliceRecorder;
use super::{WorkerFlags, message};
use crate::clock::now_ns;
use control::{CircuitReport, ComponentSpec, Job, Role, Workload};
use hdrhistogram::Histogram as Hdr;
use results::{Histogram, new_histogram};
use std::collections::BTreeMap;
use std::num::NonZeroU64;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError};
use std::time::Duration;
use towpath::Circuit;

/// Delays that all clients of a transport keep before they go into its histogram: 4 B each, 8 MiB.
const SAMPLES_MAX: u64 = 2 << 20;

/// Delays that one client keeps at least, of which it finds its warm-up.
const SAMPLES_MIN: u64 = 256;

/// Name of a measure: time that requests were served, in all.
pub const SERVED_NS: &str = "served_ns";

/// What the clients of one transport count together.
#[derive(Debug)]
pub(crate) struct Tally {
    samples_max: usize,
    slice_ns: u64,
    /// When the next slice ends.
    next_ns: AtomicU64,
    replies: AtomicU64,
    bytes: AtomicU64,
    recorded: Mutex<Recorded>,
}

#[derive(Debug)]
struct Recorded {
    slices: SliceRecorder,
    delays: Hdr<u64>,
}

impl Tally {
    /// For this many clients, with slices of `slice_ns`.
    pub(crate) fn new(clients: u64, slice_ns: u64) -> Tally {
        let samples_max = (SAMPLES_MAX / clients.max(1)).max(SAMPLES_MIN);
        Tally {
            samples_max: samples_max as usize,
            slice_ns,
            next_ns: AtomicU64::new(0),
            replies: AtomicU64::new(0),
            bytes: AtomicU64::new(0),
            recorded: Mutex::new(Recorded {
                slices: SliceRecorder::new(0, slice_ns),
                delays: new_histogram(),
            }),
        }
    }

    fn lock(&self) -> MutexGuard<'_, Recorded> {
        self.recorded.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Counts a reply.
    #[inline]
    fn count(&self, len: usize) {
        self.replies.fetch_add(1, Ordering::Relaxed);
        self.bytes.fetch_add(len as u64, Ordering::Relaxed);
    }

    /// Continues the series, unless another client does so right now.
    #[inline]
    fn slice(&self, at_ns: u64) {
        if at_ns < self.next_ns.load(Ordering::Relaxed) {
            return;
        }
        if let Ok(mut recorded) = self.recorded.try_lock() {
            self.next_ns.store(at_ns + self.slice_ns, Ordering::Relaxed);
            let replies = self.replies.load(Ordering::Relaxed);
            let bytes = self.bytes.load(Ordering::Relaxed);
            recorded.slices.record(at_ns, replies, bytes);
        }
    }

    /// Puts the series and the delays into `report`, the one of all clients.
    fn finish(&self, report: &mut CircuitReport) {
        let mut recorded = self.lock();
        let slices = std::mem::replace(&mut recorded.slices, SliceRecorder::new(0, 1));
        report.slices = slices.finish(report.last_ns, report.received, report.received_bytes);
        if let Ok(encoded) = Histogram::encode(&recorded.delays, "ns") {
            report.histograms.insert("delay".into(), encoded.hdr_v2);
        }
    }
}

/// Holds the clients of a worker back until all have a thread.
#[derive(Debug, Default)]
pub(crate) struct StartGate {
    /// When they start; None as long as they wait.
    start_ns: Mutex<Option<u64>>,
    opened: Condvar,
}

impl StartGate {
    /// Lets the clients start.
    pub(crate) fn open(&self) {
        let mut start_ns = self.start_ns.lock().unwrap_or_else(PoisonError::into_inner);
        *start_ns = Some(now_ns());
        self.opened.notify_all();
    }

    /// Waits until it is open; when that was.
    fn wait(&self) -> u64 {
        let start_ns = self.start_ns.lock().unwrap_or_else(PoisonError::into_inner);
        let opened = self.opened.wait_while(start_ns, |start| start.is_none());
        let start_ns = *opened.unwrap_or_else(PoisonError::into_inner);
        start_ns.unwrap_or_else(now_ns)
    }
}

/// Delays of one client that are not in the histogram of all yet.
struct ClientDelays<'a> {
    tally: &'a Tally,
    samples_ns: Vec<u32>,
    /// The client's warm-up is among the samples.
    is_first: bool,
}

impl<'a> ClientDelays<'a> {
    fn new(tally: &'a Tally) -> Self {
        ClientDelays {
            tally,
            samples_ns: Vec::new(),
            is_first: true,
        }
    }

    /// Puts the delays into the histogram of all, without the client's warm-up.
    #[cold]
    fn pass_on(&mut self) {
        let cut = match std::mem::take(&mut self.is_first) {
            true => super::client::warm_up(&self.samples_ns),
            false => 0,
        };
        let mut recorded = self.tally.lock();
        for &delay_ns in &self.samples_ns[cut..] {
            recorded.delays.saturating_record(u64::from(delay_ns));
        }
        self.samples_ns.clear();
    }
}

impl CallRecorder for ClientDelays<'_> {
    #[inline]
    fn replied(&mut self, delay_ns: u64, len: usize, _turn: Option<usize>) {
        self.tally.count(len);
        match u32::try_from(delay_ns) {
            Ok(delay_ns) => self.samples_ns.push(delay_ns),
            // Above 4.29 s.
            Err(_) => self.tally.lock().delays.saturating_record(delay_ns),
        }
        if self.samples_ns.len() >= self.tally.samples_max {
            self.pass_on();
        }
    }

    #[inline]
    fn called(&mut self, report: &CircuitReport) {
        self.tally.slice(report.last_ns);
    }
}

/// A client: calls from the opening of the gate on, until a limit is reached or it is stopped.
pub(crate) fn client(
    circuit: &mut dyn Circuit,
    job: &Job,
    control: ClientControl<'_>,
    (gate, tally): (&StartGate, &Tally),
) -> CircuitReport {
    let mut buffer = vec![0; job.reply_len as usize];
    let start_ns = gate.wait();
    let mut delays = ClientDelays::new(tally);
    let place = (start_ns, &mut buffer[..]);
    let report = call_repeatedly(circuit, job, control, place, &mut delays);
    delays.pass_on();
    report
}

/// A server: takes the service time for each request, then answers, until the client has finished.
pub(crate) fn server(
    circuit: &mut dyn Circuit,
    job: &Job,
    flags: &WorkerFlags,
    stream: bool,
) -> CircuitReport {
    let mut buffer = vec![0; job.message_len as usize];
    let reply = message::octets(job.reply_len);
    let service = Duration::from_nanos(job.service_ns);
    if !service.is_zero() {
        // A sleep ends up to this much late; without it the service takes 50 us more. An error leaves
        // it so, and the time is measured.
        let _ = rustix::thread::set_current_timer_slack(NonZeroU64::new(1));
    }
    let mut served_ns = 0;
    let answer = || {
        if !service.is_zero() {
            let began_ns = now_ns();
            std::thread::sleep(service);
            served_ns += now_ns() - began_ns;
        }
        Some(&reply[..])
    };
    let mut report = answer_until_done(circuit, job, flags, (stream, &mut buffer), answer);
    report.measures.insert(SERVED_NS.into(), served_ns as f64);
    report
}

/// What the clients of a worker share: when they start, and a tally for each transport.
#[derive(Debug, Default)]
pub(crate) struct Clients {
    pub(crate) gate: StartGate,
    tallies: BTreeMap<String, Arc<Tally>>,
}

impl Clients {
    /// For the clients of a job; without any where it has none.
    pub(crate) fn of(job: &Job) -> Clients {
        let has_clients = job.workload == Workload::Transactions && job.role == Role::Client;
        let components = job.components.iter().filter(|_| has_clients);
        let tally = |component: &ComponentSpec| {
            let clients = u64::from(component.circuits);
            let tally = Tally::new(clients, job.limits.slice_ns);
            (component.transport.clone(), Arc::new(tally))
        };
        Clients {
            gate: StartGate::default(),
            tallies: components.map(tally).collect(),
        }
    }

    /// The tally of a transport.
    pub(crate) fn tally(&self, transport: &str) -> Option<&Tally> {
        self.tallies.get(transport).map(Arc::as_ref)
    }
}

/// One report for each transport: that of all its clients, or of all its servers.
pub(crate) fn merge_reports(reports: Vec<CircuitReport>, clients: &Clients) -> Vec<CircuitReport> {
    let mut merged: Vec<Vec<CircuitReport>> = Vec::new();
    for report in reports {
        let same = merged
            .iter_mut()
            .find(|group| group[0].transport == report.transport);
        match same {
            Some(group) => group.push(report),
            None => merged.push(vec![report]),
        }
    }
    let one = |group: Vec<CircuitReport>| {
        let rates = client_rates(&group);
        let mut report = sum_of(group);
        if let Some(tally) = clients.tally(&report.transport) {
            tally.finish(&mut report);
            report.measures.extend(rates);
        }
        report
    };
    merged.into_iter().map(one).collect()
}

/// Replies a second of the slowest client, of the median one and of the fastest, and Jain's index.
fn client_rates(clients: &[CircuitReport]) -> BTreeMap<String, f64> {
    let first_ns = clients.iter().map(|client| client.first_ns).min();
    let last_ns = clients.iter().map(|client| client.last_ns).max();
    let span_ns = last_ns.unwrap_or(0).saturating_sub(first_ns.unwrap_or(0));
    let span_s = (span_ns as f64 * 1e-9).max(1e-9);
    let mut rates: Vec<f64> = clients
        .iter()
        .map(|client| client.received as f64 / span_s)
        .collect();
    rates.sort_by(f64::total_cmp);
    let values = [
        ("client_min_per_s", rates.first().copied()),
        ("client_per_s", rates.get(rates.len() / 2).copied()),
        ("client_max_per_s", rates.last().copied()),
        ("fairness", (rates.len() > 1).then(|| samples::jain(&rates))),
        ("clients", Some(rates.len() as f64)),
    ];
    values
        .into_iter()
        .filter_map(|(name, value)| Some((name.to_owned(), value?)))
        .collect()
}

/// The sums of several reports of one transport; texts are the first one's.
fn sum_of(reports: Vec<CircuitReport>) -> CircuitReport {
    let mut reports = reports.into_iter();
    let mut sum = reports.next().unwrap_or_default();
    for more in reports {
        sum.sent += more.sent;
        sum.received += more.received;
        sum.received_bytes += more.received_bytes;
        sum.calls += more.calls;
        sum.first_ns = match (sum.first_ns, more.first_ns) {
            (0, other) | (other, 0) => other,
            (one, other) => one.min(other),
        };
        sum.last_ns = sum.last_ns.max(more.last_ns);
        for (name, count) in more.counts {
            *sum.counts.entry(name).or_default() += count;
        }
        for (name, value) in more.measures {
            *sum.measures.entry(name).or_default() += value;
        }
        sum.error = sum.error.or(more.error);
        sum.invalid = sum.invalid.or(more.invalid);
    }
    sum
}

#[cfg(test)]
mod tests {
    use super::*;

    fn client(received: u64, last_ns: u64) -> CircuitReport {
        CircuitReport {
            transport: "tcp".into(),
            sent: received + 1,
            received,
            received_bytes: received * 10,
            first_ns: 1_000_000_000,
            last_ns,
            counts: BTreeMap::from([("send_calls".to_owned(), received)]),
            measures: BTreeMap::from([("lost".to_owned(), 1.0)]),
            ..CircuitReport::default()
        }
    }

    #[test]
    fn reports_of_clients_become_one_with_rates_of_each() {
        let shared = Clients {
            tallies: BTreeMap::from([("tcp".to_owned(), Arc::new(Tally::new(3, 1000)))]),
            ..Clients::default()
        };
        let mut clients = vec![
            client(100, 2_000_000_000),
            client(300, 3_000_000_000),
            client(200, 2_500_000_000),
        ];
        clients[1].error = Some("lost its way".into());
        let merged = merge_reports(clients, &shared);
        let [all] = &merged[..] else {
            panic!("{merged:?}");
        };
        assert_eq!(
            (all.sent, all.received, all.received_bytes),
            (603, 600, 6000)
        );
        assert_eq!((all.first_ns, all.last_ns), (1_000_000_000, 3_000_000_000));
        assert_eq!(all.counts["send_calls"], 600);
        assert_eq!(all.measures["lost"], 3.0);
        assert_eq!(all.measures["client_min_per_s"], 50.0);
        assert_eq!(all.measures["client_per_s"], 100.0);
        assert_eq!(all.measures["client_max_per_s"], 150.0);
        assert_eq!(all.measures["clients"], 3.0);
        // (1 + 3 + 2)^2 / 3 (1 + 9 + 4).
        assert!((all.measures["fairness"] - 36.0 / 42.0).abs() < 1e-9);
        assert_eq!(all.error.as_deref(), Some("lost its way"));
    }

    #[test]
    fn servers_of_two_transports_stay_apart() {
        let mut reports = vec![client(1, 2_000_000_000), client(2, 2_000_000_000)];
        reports.push(CircuitReport {
            transport: "udp".into(),
            ..client(4, 2_000_000_000)
        });
        let merged = merge_reports(reports, &Clients::default());
        let received: Vec<u64> = merged.iter().map(|report| report.received).collect();
        assert_eq!(received, [3, 4]);
        assert!(!merged[0].measures.contains_key("client_per_s"));
    }

    #[test]
    fn delays_of_all_clients_are_in_one_histogram() {
        let tally = Tally::new(2, 1);
        let mut report = CircuitReport {
            last_ns: 9,
            ..CircuitReport::default()
        };
        for delay_ns in [1000, 5_000_000_000] {
            let mut delays = ClientDelays::new(&tally);
            delays.replied(delay_ns, 64, None);
            report.received += 1;
            delays.called(&report);
            delays.pass_on();
        }
        tally.finish(&mut report);
        let histogram = Histogram {
            unit: "ns".into(),
            hdr_v2: report.histograms["delay"].clone(),
        };
        let decoded = histogram.decode().expect("a histogram");
        assert_eq!(decoded.len(), 2);
        assert!(decoded.max() >= 4_990_000_000 && decoded.min() <= 1000);
        assert_eq!(report.slices.last().map(|slice| slice.messages), Some(2));
    }

    #[test]
    fn clients_start_when_the_gate_opens() {
        let gate = StartGate::default();
        std::thread::scope(|scope| {
            let waits = [(); 2].map(|()| scope.spawn(|| gate.wait()));
            gate.open();
            let starts = waits.map(|wait| wait.join().expect("it ends"));
            assert_eq!(starts[0], starts[1], "one start for all");
        });
    }
}
