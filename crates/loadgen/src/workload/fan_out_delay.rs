//! A message to all receivers, again and again, each as soon as all have the one before.

use super::client::{DelayRecorder, REPLY_LOST_NS, REPLY_TIMEOUT_NS};
use super::message::Messages;
use super::server::MessageExchange;
use super::slices::SliceRecorder;
use super::{WorkerFlags, is_retryable, source};
use crate::clock::now_ns;
use control::{CircuitReport, Job};
use std::io;
use towpath::Circuit;

/// How the sender learns that a receiver has a message.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Receipt {
    /// By an answer over the receiver's circuit, on which one that is late is a loss unless it is `reliable`.
    Answer {
        /// The circuit is a byte stream.
        stream: bool,
        /// An answer that does not come is an error.
        reliable: bool,
    },
    /// One circuit reaches all, and is flushed when all have acknowledged.
    Flush,
}

/// What came of one message.
enum Outcome {
    /// All receivers have it.
    Received,
    /// At least one of them did not answer in time.
    Lost,
    /// The loop is stopped.
    Stopped,
}

/// Sends until a limit is reached, a circuit fails, or it is stopped. The report of the first circuit has the delays until all
/// receivers had a message; each report counts the messages, and those that all had.
pub(crate) fn run(
    circuits: &mut [&mut dyn Circuit],
    job: &Job,
    flags: &WorkerFlags,
    receipt: Receipt,
) -> Vec<CircuitReport> {
    let mut messages = Messages::new(job);
    let start_ns = now_ns();
    let mut slices = SliceRecorder::new(start_ns, job.limits.slice_ns);
    let mut delays = DelayRecorder::new(job.limits.messages);
    let mut call = Call::new(job, flags, receipt);
    let mut report = CircuitReport {
        first_ns: start_ns,
        last_ns: start_ns,
        ..CircuitReport::default()
    };
    let mut lost = 0u64;
    while report.sent < job.limits.messages && !flags.is_stopped() {
        let message = messages.next();
        let sent_ns = now_ns();
        let outcome = call.send_to_all(circuits, message, sent_ns);
        report.last_ns = now_ns();
        report.sent += 1;
        match outcome {
            Ok(Outcome::Received) => {
                delays.record(report.last_ns - sent_ns);
                report.received += 1;
            }
            Ok(Outcome::Lost) => lost += 1,
            Ok(Outcome::Stopped) => break,
            Err(error) => report.error = Some(error.to_string()),
        }
        let bytes = report.received * message.len() as u64;
        slices.record(report.last_ns, report.received, bytes);
        if report.error.is_some() || report.last_ns >= start_ns + job.limits.time_ns {
            break;
        }
    }
    finish(circuits, flags, &mut report);
    report.measures.insert("lost".into(), lost as f64);
    reports(circuits.len(), report, slices, delays)
}

/// Ends the direction of each circuit.
fn finish(circuits: &mut [&mut dyn Circuit], flags: &WorkerFlags, report: &mut CircuitReport) {
    for circuit in circuits {
        if report.error.is_none() {
            report.error = source::finish(*circuit, flags);
        }
    }
}

/// The same counts for each circuit, and what was recorded for the first.
fn reports(
    count: usize,
    report: CircuitReport,
    slices: SliceRecorder,
    delays: DelayRecorder,
) -> Vec<CircuitReport> {
    let mut all = vec![report; count];
    if let Some(first) = all.first_mut() {
        slices.finish_into(first);
        delays.finish(first);
    }
    all
}

/// One message after the other to all receivers.
struct Call<'a> {
    flags: &'a WorkerFlags,
    receipt: Receipt,
    exchange: MessageExchange,
    timeout_ns: u64,
    buffer: Vec<u8>,
}

impl<'a> Call<'a> {
    fn new(job: &Job, flags: &'a WorkerFlags, receipt: Receipt) -> Call<'a> {
        let (stream, own_ns) = match receipt {
            Receipt::Answer {
                stream,
                reliable: false,
            } => (stream, REPLY_LOST_NS),
            Receipt::Answer { stream, .. } => (stream, REPLY_TIMEOUT_NS),
            Receipt::Flush => (true, REPLY_TIMEOUT_NS),
        };
        Call {
            flags,
            receipt,
            exchange: MessageExchange::of_client(job, stream),
            timeout_ns: own_ns + 2 * job.path_delay_ns,
            buffer: vec![0; super::sink::buffer_len(job)],
        }
    }

    /// Sends a message on all circuits, and waits until all receivers have it.
    fn send_to_all(
        &mut self,
        circuits: &mut [&mut dyn Circuit],
        message: &[u8],
        sent_ns: u64,
    ) -> io::Result<Outcome> {
        let (flags, end_ns) = (self.flags, sent_ns + self.timeout_ns);
        let is_over = || now_ns() > end_ns || flags.is_stopped();
        let silent = match self.receipt {
            Receipt::Flush => !flush_all(circuits, message, is_over)?,
            Receipt::Answer { .. } => !self.ask_all(circuits, message, is_over)?,
        };
        match (silent, self.receipt) {
            (false, _) => Ok(Outcome::Received),
            (true, _) if flags.is_stopped() => Ok(Outcome::Stopped),
            (
                true,
                Receipt::Answer {
                    reliable: false, ..
                },
            ) => Ok(Outcome::Lost),
            (true, _) => Err(io::Error::new(
                io::ErrorKind::TimedOut,
                "a receiver does not answer",
            )),
        }
    }

    /// False when an answer did not come in time.
    fn ask_all(
        &mut self,
        circuits: &mut [&mut dyn Circuit],
        message: &[u8],
        is_over: impl Fn() -> bool,
    ) -> io::Result<bool> {
        for circuit in circuits.iter_mut() {
            match self.exchange.send(*circuit, message, &is_over) {
                Err(error) if is_retryable(&error) => return Ok(false),
                other => other?,
            }
        }
        for circuit in circuits.iter_mut() {
            let answer = self
                .exchange
                .receive(*circuit, &mut self.buffer, &is_over)?;
            if answer.is_none() {
                return Ok(false);
            }
        }
        Ok(true)
    }
}

/// Sends a message on each circuit, and flushes it; false when that was not done in time.
fn flush_all(
    circuits: &mut [&mut dyn Circuit],
    message: &[u8],
    is_over: impl Fn() -> bool,
) -> io::Result<bool> {
    for circuit in circuits.iter_mut() {
        let is_done = until_done(|| circuit.send(message), &is_over)?
            && until_done(|| circuit.flush(), &is_over)?;
        if !is_done {
            return Ok(false);
        }
    }
    Ok(true)
}

/// Calls until it succeeds; false when it was over before.
fn until_done(
    mut call: impl FnMut() -> io::Result<()>,
    is_over: impl Fn() -> bool,
) -> io::Result<bool> {
    loop {
        match call() {
            Ok(()) => return Ok(true),
            Err(error) if is_retryable(&error) && is_over() => return Ok(false),
            Err(error) if is_retryable(&error) => {}
            Err(error) => return Err(error),
        }
    }
}
