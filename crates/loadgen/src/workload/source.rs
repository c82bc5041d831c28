//! Source: sends as many messages as the transport accepts.

use super::connection::ConnectionRecorder;
use super::message::Messages;
use super::slices::SliceRecorder;
use super::turns::TurnGate;
use super::{RunLength, WorkerFlags, is_retryable};
use crate::clock::now_ns;
use control::{CircuitReport, Job};
use std::collections::BTreeMap;
use std::io;
use towpath::Circuit;

/// Sends until a limit is reached or it is stopped.
pub(crate) fn run(circuit: &mut dyn Circuit, job: &Job, flags: &WorkerFlags) -> CircuitReport {
    let mut messages = Messages::new(job);
    let start_ns = now_ns();
    let end_ns = start_ns + job.limits.time_ns;
    let mut slices = SliceRecorder::of(flags, start_ns, job.limits.slice_ns);
    let mut connection = ConnectionRecorder::of(job, start_ns);
    let mut length = RunLength::new(start_ns);
    let (mut sent, mut bytes, mut error, mut last_ns) = (0u64, 0u64, None, start_ns);
    let mut gate = TurnGate::of(flags);
    let mut slowdown = flags.slowdown();
    while sent < job.limits.messages && gate.wait(last_ns, flags) {
        let want = length.messages.min((job.limits.messages - sent) as usize);
        match send(circuit, &mut messages, want) {
            Ok((count, len)) => {
                sent += count as u64;
                bytes += len;
            }
            Err(failed) if is_retryable(&failed) => {}
            Err(failed) => {
                error = Some(failed.to_string());
                break;
            }
        }
        last_ns = slowdown.pause_at(now_ns());
        length.adapt(last_ns);
        slices.record(last_ns, sent, bytes);
        connection.record(last_ns, circuit);
        if last_ns >= end_ns || flags.is_stopped() {
            break;
        }
    }
    error = error.or_else(|| finish(circuit, flags));
    let mut report = CircuitReport {
        sent,
        first_ns: start_ns,
        last_ns,
        slices: slices.finish(last_ns, sent, bytes),
        measures: BTreeMap::from([("sent_bytes".to_owned(), bytes as f64)]),
        connection: connection.finish(),
        error,
        ..CircuitReport::default()
    };
    slowdown.note_into(&mut report);
    report
}

/// Sends up to `count` messages; returns how many were accepted, and their bytes.
#[inline]
fn send(
    circuit: &mut dyn Circuit,
    messages: &mut Messages,
    count: usize,
) -> io::Result<(usize, u64)> {
    let uniform = messages.is_uniform();
    let message = messages.next();
    let len = message.len() as u64;
    let count = circuit.send_shared_run(message, if uniform { count } else { 1 })?;
    Ok((count, count as u64 * len))
}

/// Finishes the sending direction; coalesced data may need buffer space first.
pub(crate) fn finish(circuit: &mut dyn Circuit, flags: &WorkerFlags) -> Option<String> {
    loop {
        match circuit.finish() {
            Ok(()) => return None,
            Err(error) if is_retryable(&error) && !flags.is_stopped() => {}
            Err(error) => return Some(error.to_string()),
        }
    }
}
