//! Sink: receives until the end.

use super::server::SPINS_PER_CHECK;
use super::silence::Silence;
use super::slices::SliceRecorder;
use super::{RunLength, WorkerFlags, is_retryable};
use crate::clock::now_ns;
use control::{CircuitReport, Job};
use std::io;
use towpath::{Circuit, ReceiveCounts};

/// Receives until the end of the stream, or until the peer is done and the circuit idle.
pub(crate) fn run(
    circuit: &mut dyn Circuit,
    job: &Job,
    flags: &WorkerFlags,
    stream: bool,
    connectionless: bool,
) -> CircuitReport {
    let mut buffer = vec![0; buffer_len(job)];
    let start_ns = now_ns();
    let mut slices = SliceRecorder::of(flags, start_ns, job.limits.slice_ns);
    let mut length = RunLength::new(start_ns);
    let mut slowdown = flags.slowdown();
    let mut report = CircuitReport {
        first_ns: start_ns,
        last_ns: start_ns,
        ..Default::default()
    };
    let mut silence = Silence::new(job, connectionless);
    loop {
        let calls = slices.calls_allowed(report.last_ns, length.messages);
        let run = match job.busy_poll {
            true => poll_run(circuit, &mut buffer, calls),
            false => circuit.recv_run(&mut buffer, calls),
        };
        match run {
            Ok(Some(arrived)) => {
                report.received += arrived.messages;
                report.received_bytes += arrived.bytes;
                report.calls += arrived.calls;
                let now_ns = now_ns();
                report.last_ns = match job.busy_poll {
                    true => now_ns,
                    false => length.arrived_ns(arrived.calls, now_ns),
                };
                length.adapt_after(calls, now_ns);
                slices.record(report.last_ns, report.received, report.received_bytes);
                silence.end();
                slowdown.pause_at(now_ns);
            }
            Ok(None) => break,
            Err(error) if is_retryable(&error) => {
                if silence.is_over(flags, &mut report) {
                    break;
                }
            }
            Err(error) => {
                report.error = Some(error.to_string());
                break;
            }
        }
        // A link may duplicate messages; then the count does not show the end.
        let counts = !stream && (job.is_within_host() || !connectionless);
        if flags.is_stopped() || (counts && has_all_messages(flags, &report)) {
            break;
        }
    }
    slices.finish_into(&mut report);
    slowdown.note_into(&mut report);
    report
}

/// Receives what has arrived, up to `calls` messages or reads; tries again and again while nothing has.
///
/// # Errors
///
/// `WouldBlock` after [`SPINS_PER_CHECK`] tries; those of [`Circuit::try_recv`] if nothing was received before.
fn poll_run(
    circuit: &mut dyn Circuit,
    buffer: &mut [u8],
    calls: usize,
) -> io::Result<Option<ReceiveCounts>> {
    let mut arrived = ReceiveCounts::default();
    let mut spins = 0;
    while arrived.calls < calls as u64 {
        match circuit.try_recv(buffer) {
            Ok(Some(len)) => arrived.add(len),
            Err(error) if arrived.calls == 0 => {
                spins += 1;
                if !is_retryable(&error) || spins >= SPINS_PER_CHECK {
                    return Err(error);
                }
            }
            Ok(None) if arrived.calls == 0 => return Ok(None),
            Ok(None) | Err(_) => break,
        }
    }
    Ok(Some(arrived))
}

/// Buffer size for a byte stream's read or the longest message.
pub(crate) fn buffer_len(job: &Job) -> usize {
    job.message_len_max()
        .max(job.circuit_options.read_len)
        .max(65_536) as usize
}

fn has_all_messages(flags: &WorkerFlags, report: &CircuitReport) -> bool {
    flags
        .peer_sent()
        .is_some_and(|sent| report.received >= sent)
}
