//! Bidirectional: one thread sends and receives on one circuit.

use super::connection::ConnectionRecorder;
use super::message::Messages;
use super::silence::Silence;
use super::slices::SliceRecorder;
use super::turns::TurnGate;
use super::{WorkerFlags, is_retryable, sink, source};
use crate::clock::now_ns;
use control::{CircuitReport, Job};
use std::io;
use std::time::{Duration, Instant};
use towpath::{Circuit, Interest};

/// Messages moved in one direction before switching to the other.
const BURST: usize = 16;

/// Sends until a limit, receives until the peer has finished.
pub(crate) fn run(
    circuit: &mut dyn Circuit,
    job: &Job,
    flags: &WorkerFlags,
    connectionless: bool,
) -> CircuitReport {
    let mut messages = Messages::new(job);
    let mut buffer = vec![0; sink::buffer_len(job)];
    let start_ns = now_ns();
    let end_ns = start_ns + job.limits.time_ns;
    let mut slices = SliceRecorder::of(flags, start_ns, job.limits.slice_ns);
    let mut connection = ConnectionRecorder::of(job, start_ns);
    let mut report = CircuitReport {
        first_ns: start_ns,
        last_ns: start_ns,
        ..Default::default()
    };
    let mut sent_bytes = 0;
    let mut gate = TurnGate::of(flags);
    let result = loop {
        if !gate.wait(report.last_ns, flags) {
            break Ok(());
        }
        let moved = match exchange_burst(
            circuit,
            &mut messages,
            &mut buffer,
            &mut report,
            &mut sent_bytes,
        ) {
            Ok(moved) => moved,
            Err(error) => break Err(error),
        };
        report.last_ns = now_ns();
        slices.record(report.last_ns, report.received, report.received_bytes);
        connection.record(report.last_ns, circuit);
        if report.last_ns >= end_ns || report.sent >= job.limits.messages || flags.is_stopped() {
            break Ok(());
        }
        if !moved {
            let soon = Instant::now() + Duration::from_millis(1);
            if let Err(error) = circuit.wait(Interest::Read, soon) {
                break Err(error);
            }
        }
    };
    slices.finish_into(&mut report);
    report.connection = connection.finish();
    report
        .measures
        .insert("sent_bytes".into(), sent_bytes as f64);
    let is_whole = result.is_ok();
    report.error = match result {
        Ok(()) => source::finish(circuit, flags),
        Err(error) => Some(error.to_string()),
    };
    flags.note_sent(report.sent);
    if is_whole {
        let control = (job, flags);
        drain(circuit, control, &mut buffer, &mut report, connectionless);
    }
    report
}

/// A burst in each direction; returns whether anything moved.
fn exchange_burst(
    circuit: &mut dyn Circuit,
    messages: &mut Messages,
    buffer: &mut [u8],
    report: &mut CircuitReport,
    sent_bytes: &mut u64,
) -> io::Result<bool> {
    let before = (report.sent, report.calls);
    for _ in 0..BURST {
        let message = messages.next();
        match circuit.try_send(message) {
            Ok(()) => {
                report.sent += 1;
                *sent_bytes += message.len() as u64;
            }
            Err(error) if is_retryable(&error) => break,
            Err(error) => return Err(error),
        }
    }
    for _ in 0..BURST {
        match circuit.try_recv(buffer) {
            Ok(Some(len)) => {
                report.received += 1;
                report.received_bytes += len as u64;
                report.calls += 1;
            }
            Ok(None) => break,
            Err(error) if is_retryable(&error) => break,
            Err(error) => return Err(error),
        }
    }
    Ok(before != (report.sent, report.calls))
}

/// Receives what the peer still sends, and what is in flight then; it counts in the ledger, not in the rate.
fn drain(
    circuit: &mut dyn Circuit,
    (job, flags): (&Job, &WorkerFlags),
    buffer: &mut [u8],
    report: &mut CircuitReport,
    connectionless: bool,
) {
    let mut silence = Silence::new(job, connectionless);
    loop {
        match circuit.recv(buffer) {
            Ok(Some(len)) => {
                report.received += 1;
                report.received_bytes += len as u64;
                silence.end();
            }
            Err(error) if is_retryable(&error) => {
                if silence.is_over(flags, report) || flags.is_stopped() {
                    return;
                }
            }
            Ok(None) | Err(_) => return,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use control::{Role, Side};
    use towpath::{Options, find};

    #[test]
    fn what_a_peer_sends_after_a_silence_is_received_until_it_is_done() {
        let transport = find("udp").expect("a transport");
        let options = Options::default();
        let mut listener = transport.listen(&options).expect("a listener");
        let to = listener.rendezvous().expect("an address");
        let mut own = transport.connect(&to, 0, &options).expect("a circuit");
        let soon = Instant::now() + Duration::from_secs(5);
        let mut peer = listener.accept(soon).expect("its other end");
        let mut job = Job::one_circuit("udp", Side::Connect, Role::Both);
        (job.message_len, job.limits.messages) = (64, 3);
        let flags = WorkerFlags::default();
        let report = std::thread::scope(|scope| {
            let running = scope.spawn(|| run(own.as_mut(), &job, &flags, true));
            // It sends to whom it has heard from.
            while peer
                .recv(&mut [0; 64])
                .is_err_and(|error| is_retryable(&error))
            {}
            std::thread::sleep(Duration::from_millis(200));
            assert!(!running.is_finished(), "its peer may still send");
            peer.send(&[2; 64]).expect("it is sent");
            flags.set_peer_done(1);
            running.join().expect("it ends")
        });
        assert_eq!(report.error, None);
        assert_eq!(report.received, 1);
    }
}
