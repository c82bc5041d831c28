//! Client: sends a request, waits for the reply, and times the round trip.

use super::connection::ConnectionRecorder;
use super::message::Messages;
use super::meter::Meter;
use super::server::MessageExchange;
use super::slices::SliceRecorder;
use super::turns::TurnGate;
use super::{WorkerFlags, source};
use crate::clock::now_ns;
use control::{CircuitReport, Job};
use hdrhistogram::Histogram as Hdr;
use results::{Histogram, new_histogram};
use std::collections::BTreeMap;
use towpath::Circuit;

/// Delays kept as samples, so that the warm-up can be cut off; 4 B each, 32 MiB in all. Later ones
/// go into the histogram.
const SAMPLES_MAX: usize = 8 << 20;

/// Reply timeout of an unreliable transport, besides the path's round trip; the message counts as
/// lost.
pub(super) const REPLY_LOST_NS: u64 = 200_000_000;

/// Reply timeout of a reliable transport: covers a busy host and a few consecutive losses.
pub(super) const REPLY_TIMEOUT_NS: u64 = 8_000_000_000;

/// Batches of samples whose means enter the test for steady state.
const BATCHES: usize = 100;

/// What a client obeys besides its job.
#[derive(Clone, Copy)]
pub(crate) struct ClientControl<'a> {
    pub(crate) flags: &'a WorkerFlags,
    pub(crate) meter: Option<&'a Meter<'a>>,
    /// The circuit is a byte stream.
    pub(crate) stream: bool,
    /// A request that is not answered is an error, not a loss.
    pub(crate) reliable: bool,
}

/// What is kept of a client's calls.
pub(super) trait CallRecorder {
    /// A reply came after `delay_ns`, in the turn of this number if there are turns.
    fn replied(&mut self, delay_ns: u64, len: usize, turn: Option<usize>);

    /// A call is over, answered or not; the report has it.
    fn called(&mut self, report: &CircuitReport);
}

/// Sends requests until a limit is reached or it is stopped.
pub(crate) fn run(
    circuit: &mut dyn Circuit,
    job: &Job,
    control: ClientControl<'_>,
) -> CircuitReport {
    let mut buffer = vec![0; super::sink::buffer_len(job)];
    let start_ns = now_ns();
    let mut trial = DelayTrial {
        slices: SliceRecorder::of(control.flags, start_ns, job.limits.slice_ns),
        delays: DelayRecorder::new(job.limits.messages),
    };
    let mut report = call_repeatedly(
        circuit,
        job,
        control,
        (start_ns, &mut buffer[..]),
        &mut trial,
    );
    trial.slices.finish_into(&mut report);
    trial.delays.finish(&mut report);
    report
}

/// Slices and delays of one client.
struct DelayTrial {
    slices: SliceRecorder,
    delays: DelayRecorder,
}

impl CallRecorder for DelayTrial {
    #[inline]
    fn replied(&mut self, delay_ns: u64, _len: usize, turn: Option<usize>) {
        if let Some(turn) = turn {
            self.delays.begin_turn(turn);
        }
        self.delays.record(delay_ns);
    }

    #[inline]
    fn called(&mut self, report: &CircuitReport) {
        self.slices
            .record(report.last_ns, report.received, report.received_bytes);
    }
}

/// Calls again and again from `start_ns` on, until a limit is reached or it is stopped; then ends the
/// circuit's direction.
pub(super) fn call_repeatedly(
    circuit: &mut dyn Circuit,
    job: &Job,
    control: ClientControl<'_>,
    (start_ns, buffer): (u64, &mut [u8]),
    recorder: &mut impl CallRecorder,
) -> CircuitReport {
    let ClientControl {
        flags,
        meter,
        stream,
        reliable,
    } = control;
    let mut messages = Messages::new(job);
    let exchange = MessageExchange::of_client(job, stream);
    let end_ns = start_ns + job.limits.time_ns;
    let mut report = CircuitReport {
        first_ns: start_ns,
        ..Default::default()
    };
    let reply_timeout_ns = reply_timeout_ns(job, reliable);
    let mut lost = 0u64;
    let mut connection = ConnectionRecorder::of(job, start_ns);
    let mut gate = TurnGate::of(flags);
    while report.sent < job.limits.messages && gate.wait(report.last_ns, flags) {
        let message = messages.next();
        // Before the clock is read: pacing by the agent is not a delay of the transport.
        if !meter.is_none_or(|meter| meter.wait_until_due(message.len())) {
            break;
        }
        let sent_ns = now_ns();
        let timed_out = || now_ns() > sent_ns + reply_timeout_ns || flags.is_stopped();
        let reply = exchange
            .send(circuit, message, timed_out)
            .and_then(|()| exchange.receive(circuit, buffer, timed_out));
        report.last_ns = now_ns();
        report.sent += 1;
        match reply {
            Ok(Some(0)) if flags.is_stopped() => break,
            Ok(Some(len)) => {
                if gate.counts(sent_ns) {
                    recorder.replied(report.last_ns - sent_ns, len, gate.number());
                }
                report.received += 1;
                report.received_bytes += len as u64;
            }
            Ok(None) if flags.is_stopped() => break,
            Ok(None) if !reliable => lost += 1,
            Ok(None) => {
                report.error = Some("the peer does not reply".into());
                break;
            }
            Err(error) => {
                report.error = Some(error.to_string());
                break;
            }
        }
        recorder.called(&report);
        connection.record(report.last_ns, circuit);
        if report.last_ns >= end_ns || flags.is_stopped() {
            break;
        }
    }
    report.error = report.error.or_else(|| source::finish(circuit, flags));
    report.connection = connection.finish();
    report.measures.insert("lost".into(), lost as f64);
    report
}

/// How long a client waits for a reply.
fn reply_timeout_ns(job: &Job, reliable: bool) -> u64 {
    let own_ns = match reliable {
        true => REPLY_TIMEOUT_NS,
        false => REPLY_LOST_NS,
    };
    own_ns + 2 * job.path_delay_ns + job.service_ns
}

/// Delay samples, then a histogram.
#[derive(Debug)]
pub(crate) struct DelayRecorder {
    samples: Vec<u32>,
    histogram: Hdr<u64>,
    /// The number of samples before each turn.
    turns: Vec<usize>,
}

impl DelayRecorder {
    pub(crate) fn new(expected: u64) -> DelayRecorder {
        let capacity = usize::try_from(expected)
            .unwrap_or(SAMPLES_MAX)
            .min(SAMPLES_MAX);
        DelayRecorder {
            samples: Vec::with_capacity(capacity),
            histogram: new_histogram(),
            turns: Vec::new(),
        }
    }

    /// What follows belongs to the turn of this number.
    #[inline]
    fn begin_turn(&mut self, turn: usize) {
        while self.turns.len() <= turn {
            self.turns.push(self.samples.len());
        }
    }

    /// The median of each turn, us; 0 for one without a sample.
    fn turn_medians_us(&self) -> Vec<f64> {
        let ends = self.turns.iter().skip(1).copied();
        let ends = ends.chain(std::iter::once(self.samples.len()));
        let turns = self.turns.iter().zip(ends);
        turns
            .map(|(&from, to)| exact_median(&self.samples[from..to]).unwrap_or(0.0) / 1000.0)
            .collect()
    }

    #[inline]
    pub(crate) fn record(&mut self, delay_ns: u64) {
        match u32::try_from(delay_ns) {
            Ok(delay_ns) if self.samples.len() < self.samples.capacity() => {
                self.samples.push(delay_ns);
            }
            // Above 4.29 s, or samples full: no delay is dropped.
            _ => self.histogram.saturating_record(delay_ns),
        }
    }

    /// Cuts off the warm-up and puts the rest into the report; returns the share that was cut.
    pub(crate) fn finish(mut self, report: &mut CircuitReport) -> f64 {
        report.turn_delays_us = self.turn_medians_us();
        let cut = match self.turns.is_empty() {
            true => warm_up(&self.samples),
            false => 0,
        };
        let part = cut as f64 / self.samples.len().max(1) as f64;
        let warm_up_ns: u64 = self.samples[..cut]
            .iter()
            .map(|&delay| u64::from(delay))
            .sum();
        let kept = &self.samples[cut..];
        for &delay_ns in kept {
            self.histogram.saturating_record(u64::from(delay_ns));
        }
        let count = self.histogram.len();
        report
            .measures
            .insert("warm_up_s".into(), warm_up_ns as f64 * 1e-9);
        if count == 0 {
            return part;
        }
        let values = [
            ("delay_p50_us", self.histogram.value_at_quantile(0.5) as f64),
            ("delay_mean_us", self.histogram.mean()),
        ];
        let exact = exact_median(kept).map(|median| ("delay_p50_us", median));
        for (name, value_ns) in values.into_iter().chain(exact) {
            report.measures.insert(name.into(), value_ns / 1000.0);
        }
        for (name, q) in [
            ("delay_p90_us", 0.9),
            ("delay_p99_us", 0.99),
            ("delay_p999_us", 0.999),
        ] {
            if count >= samples::samples_needed(q) {
                let value_ns = self.histogram.value_at_quantile(q);
                report
                    .measures
                    .insert(name.into(), value_ns as f64 / 1000.0);
            }
        }
        if let Ok(encoded) = Histogram::encode(&self.histogram, "ns") {
            report.histograms = BTreeMap::from([("delay".to_owned(), encoded.hdr_v2)]);
        }
        part
    }
}

/// How many of these delays are warm-up.
pub(super) fn warm_up(samples: &[u32]) -> usize {
    let len = samples.len() / BATCHES;
    if len < 10 {
        return 0;
    }
    let mean =
        |batch: &[u32]| batch.iter().map(|&v| f64::from(v)).sum::<f64>() / batch.len() as f64;
    let means: Vec<f64> = samples.chunks_exact(len).map(mean).collect();
    match samples::steady_state(&means) {
        samples::Steady::From(cut) => cut * len,
        _ => 0,
    }
}

/// The exact median: a histogram's three digits are coarse for ratios near 1.
fn exact_median(samples: &[u32]) -> Option<f64> {
    if samples.is_empty() {
        return None;
    }
    let mut sorted = samples.to_vec();
    let (_, median, _) = sorted.select_nth_unstable(samples.len() / 2);
    Some(f64::from(*median))
}
