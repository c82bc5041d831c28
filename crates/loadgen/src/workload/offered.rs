//! Offered load: an open loop that sends on a schedule.
//!
//! A delay runs from the *intended* send time, so that time blocked by the transport counts (no
//! coordinated omission). When the loop itself is late, that is generator lag: it is measured, and
//! a load that the generator could not keep is invalid.

use super::client::DelayRecorder;
use super::connection::ConnectionRecorder;
use super::message::{Messages, put_stamp, stamp};
use super::silence::Silence;
use super::slices::SliceRecorder;
use super::{WorkerFlags, is_retryable, sink, source};
use crate::clock::now_ns;
use control::{Arrivals, CircuitReport, Job, Rate};
use random::SplitMix64;
use results::GENERATOR_LATE;
use std::io;
use std::time::Duration;
use towpath::Circuit;

/// Longer gaps are slept, except for the last [`SPIN_NS`].
const SLEEP_ABOVE_NS: u64 = 300_000;

/// End of a gap that is spun, because sleeps overrun.
const SPIN_NS: u64 = 150_000;

/// Largest final lag at which the generator kept its schedule, as a share of the span.
const LAG_FRACTION_MAX: f64 = 0.01;

/// Sends on schedule until a limit is reached.
pub(crate) fn source(circuit: &mut dyn Circuit, job: &Job, flags: &WorkerFlags) -> CircuitReport {
    let Some(rate) = job.rate else {
        return CircuitReport {
            error: Some("no rate given".into()),
            ..Default::default()
        };
    };
    let mut messages = Messages::new(job);
    let mut schedule = Schedule::new(rate, job.seed);
    let start_ns = now_ns();
    let mut slices = SliceRecorder::new(start_ns, job.limits.slice_ns);
    let mut connection = ConnectionRecorder::of(job, start_ns);
    let mut lag = DelayRecorder::new(job.limits.messages.min(1 << 20));
    let mut report = CircuitReport {
        first_ns: start_ns,
        last_ns: start_ns,
        ..Default::default()
    };
    let mut free_ns = start_ns;
    let mut blocked_ns = 0;
    let mut generator_behind_ns = 0;
    // A generator this far behind will not catch up; the load is invalid.
    let give_up_ns = start_ns + job.limits.time_ns + job.limits.time_ns / 2;
    while report.sent < job.limits.messages {
        let intended_ns = start_ns.saturating_add(schedule.next_ns());
        if intended_ns >= start_ns + job.limits.time_ns || flags.is_stopped() {
            break;
        }
        flush_before_gap(circuit, intended_ns, &mut report);
        let at_ns = sleep_until(intended_ns);
        generator_behind_ns = at_ns.saturating_sub(intended_ns.max(free_ns));
        lag.record(generator_behind_ns);
        put_stamp(messages.next_mut(), report.sent, intended_ns);
        match send_once(circuit, messages.next(), flags, give_up_ns) {
            Ok(Some(waited_ns)) => blocked_ns += waited_ns,
            Ok(None) => {
                report.last_ns = now_ns();
                break;
            }
            Err(error) => {
                report.error = Some(error.to_string());
                break;
            }
        }
        report.sent += 1;
        free_ns = now_ns();
        report.last_ns = free_ns;
        if free_ns > give_up_ns {
            break;
        }
        slices.record(free_ns, report.sent, 0);
        connection.record(free_ns, circuit);
    }
    let behind_ns = report.last_ns.saturating_sub(start_ns + job.limits.time_ns);
    report.slices = slices.finish(report.last_ns, report.sent, 0);
    report.connection = connection.finish();
    report.error = report.error.or_else(|| source::finish(circuit, flags));
    check_schedule(
        &mut report,
        rate,
        behind_ns.saturating_sub(blocked_ns),
        generator_behind_ns,
    );
    report
        .measures
        .insert("blocked_s".into(), blocked_ns as f64 * 1e-9);
    insert_lag(lag, &mut report);
    report
}

/// Marks a load invalid that the generator could not keep.
fn check_schedule(report: &mut CircuitReport, rate: Rate, behind_ns: u64, last_lag_ns: u64) {
    let span_s = (report.last_ns - report.first_ns) as f64 * 1e-9;
    let reached_per_s = report.sent as f64 / span_s.max(1e-9);
    report
        .measures
        .insert("offered_per_s".into(), reached_per_s);
    let late_s = behind_ns.max(last_lag_ns) as f64 * 1e-9;
    if late_s > LAG_FRACTION_MAX * span_s && late_s > 0.001 {
        report.invalid = Some(format!(
            "{GENERATOR_LATE} {reached_per_s:.0} of {:.0} messages/s, {:.0} ms behind its schedule: \
             a call takes too long, or other work took the processor; \
             offer less, or use a batched transport",
            rate.per_s,
            late_s * 1e3
        ));
    }
}

fn insert_lag(lag: DelayRecorder, report: &mut CircuitReport) {
    let mut lags = CircuitReport::default();
    lag.finish(&mut lags);
    if let Some(&p99) = lags.measures.get("delay_p99_us") {
        report.measures.insert("lag_p99_us".into(), p99);
    }
}

/// Retries until the transport accepts the message; returns how long it was blocked, None if for
/// too long.
fn send_once(
    circuit: &mut dyn Circuit,
    message: &[u8],
    flags: &WorkerFlags,
    give_up_ns: u64,
) -> io::Result<Option<u64>> {
    let mut since_ns = None;
    loop {
        match circuit.try_send(message) {
            Ok(()) => return Ok(Some(since_ns.map_or(0, |since| now_ns() - since))),
            Err(error) if is_retryable(&error) => {
                let now = now_ns();
                since_ns.get_or_insert(now);
                if flags.is_stopped() {
                    return Err(error);
                }
                if now > give_up_ns {
                    return Ok(None);
                }
            }
            Err(error) => return Err(error),
        }
    }
}

/// Flushes coalesced messages when the next one is not due yet.
fn flush_before_gap(circuit: &mut dyn Circuit, next_ns: u64, report: &mut CircuitReport) {
    if now_ns() < next_ns
        && let Err(error) = circuit.flush()
        && !is_retryable(&error)
    {
        report.error = Some(error.to_string());
    }
}

fn sleep_until(at_ns: u64) -> u64 {
    loop {
        let now = now_ns();
        if now >= at_ns {
            return now;
        }
        if at_ns - now > SLEEP_ABOVE_NS {
            std::thread::sleep(Duration::from_nanos(at_ns - now - SPIN_NS));
        }
        std::hint::spin_loop();
    }
}

/// Send times, ns from the start.
struct Schedule {
    rate: Rate,
    random: SplitMix64,
    at_s: f64,
}

impl Schedule {
    fn new(rate: Rate, seed: u64) -> Schedule {
        Schedule {
            rate,
            random: SplitMix64::new(seed),
            at_s: 0.0,
        }
    }

    fn next_ns(&mut self) -> u64 {
        let at_ns = (self.at_s * 1e9) as u64;
        let gap = match self.rate.arrivals {
            Arrivals::Fixed => 1.0,
            Arrivals::Exponential => -(1.0 - self.random.unit()).ln(),
        };
        self.at_s += gap / self.rate.per_s;
        at_ns
    }
}

/// Receives stamped messages and times each from its intended send time.
pub(crate) fn sink(
    circuit: &mut dyn Circuit,
    job: &Job,
    flags: &WorkerFlags,
    stream: bool,
    connectionless: bool,
) -> CircuitReport {
    let mut buffer = vec![0; sink::buffer_len(job)];
    let start_ns = now_ns();
    let mut state = SinkState {
        message_len: job.message_len as usize,
        clock_ns: job.clock_offset_ns,
        delays: DelayRecorder::new(job.limits.messages),
        slices: SliceRecorder::new(start_ns, job.limits.slice_ns),
        partial_message: Vec::new(),
        report: CircuitReport {
            first_ns: start_ns,
            last_ns: start_ns,
            ..Default::default()
        },
    };
    let mut silence = Silence::new(job, connectionless);
    loop {
        match circuit.recv(&mut buffer) {
            Ok(Some(len)) => {
                state.receive(&buffer[..len], stream);
                silence.end();
            }
            Ok(None) => break,
            Err(error) if is_retryable(&error) => {
                if silence.is_over(flags, &mut state.report) {
                    break;
                }
            }
            Err(error) => {
                state.report.error = Some(error.to_string());
                break;
            }
        }
        let all_here = flags
            .peer_sent()
            .is_some_and(|sent| state.report.received >= sent);
        // A link may duplicate messages; then the count does not show the end.
        if flags.is_stopped() || (all_here && connectionless && job.is_within_host()) {
            break;
        }
    }
    state.finish()
}

struct SinkState {
    message_len: usize,
    /// Offset from the sender's clock to this one, ns.
    clock_ns: i64,
    delays: DelayRecorder,
    slices: SliceRecorder,
    /// Start of an incomplete message on a byte stream.
    partial_message: Vec<u8>,
    report: CircuitReport,
}

impl SinkState {
    fn receive(&mut self, bytes: &[u8], stream: bool) {
        self.report.last_ns = now_ns();
        self.report.calls += 1;
        self.report.received_bytes += bytes.len() as u64;
        if stream {
            self.receive_stream(bytes);
        } else {
            self.count(bytes);
        }
        let report = &self.report;
        self.slices
            .record(report.last_ns, report.received, report.received_bytes);
    }

    fn receive_stream(&mut self, mut bytes: &[u8]) {
        while self.partial_message.len() + bytes.len() >= self.message_len {
            let (rest, after) = bytes.split_at(self.message_len - self.partial_message.len());
            if self.partial_message.is_empty() {
                self.count(rest);
            } else {
                let mut front = std::mem::take(&mut self.partial_message);
                front.extend_from_slice(rest);
                self.count(&front);
                front.clear();
                self.partial_message = front;
            }
            bytes = after;
        }
        self.partial_message.extend_from_slice(bytes);
    }

    fn count(&mut self, message: &[u8]) {
        if let Some((_, intended_ns)) = stamp(message) {
            let intended_ns = intended_ns.saturating_add_signed(self.clock_ns);
            self.delays
                .record(self.report.last_ns.saturating_sub(intended_ns));
            self.report.received += 1;
        }
    }

    fn finish(self) -> CircuitReport {
        let SinkState {
            delays,
            slices,
            mut report,
            ..
        } = self;
        report.slices = slices.finish(report.last_ns, report.received, report.received_bytes);
        let cut = delays.finish(&mut report);
        // Delays of an open loop overlap, so their sum is not the length of the warm-up.
        let span_s = (report.last_ns - report.first_ns) as f64 * 1e-9;
        report.measures.insert("warm_up_s".into(), cut * span_s);
        report
    }
}
