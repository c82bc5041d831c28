//! Source to several receivers: one thread sends on all circuits.

use super::message::Messages;
use super::slices::SliceRecorder;
use super::{RunLength, WorkerFlags, is_retryable, source};
use crate::clock::now_ns;
use control::{CircuitReport, Job, Role};
use std::collections::BTreeMap;
use std::io;
use std::time::{Duration, Instant};
use towpath::{Circuit, Interest};

/// How long the sender waits for room on one circuit when none has any, before it looks at the others.
const ROOM_WAIT: Duration = Duration::from_micros(200);

/// What was sent on one circuit.
#[derive(Clone, Debug, Default)]
struct Sent {
    messages: u64,
    bytes: u64,
    error: Option<String>,
}

/// The circuits of a sender, and what went over each.
struct Outlets<'a, 'b> {
    circuits: &'a mut [&'b mut dyn Circuit],
    sent: Vec<Sent>,
    /// The circuit that is asked for room first.
    next: usize,
}

/// Sends until a limit of messages or time is reached, a circuit fails, or it is stopped; gives a report of each
/// circuit. The limit counts messages, not copies.
pub(crate) fn source(
    circuits: &mut [&mut dyn Circuit],
    job: &Job,
    flags: &WorkerFlags,
) -> Vec<CircuitReport> {
    let mut messages = Messages::new(job);
    let start_ns = now_ns();
    let end_ns = start_ns + job.limits.time_ns;
    let mut slices = SliceRecorder::new(start_ns, job.limits.slice_ns);
    let mut length = RunLength::new(start_ns);
    let mut outlets = Outlets::new(circuits);
    let (mut sent, mut bytes, mut last_ns) = (0u64, 0u64, start_ns);
    while sent < job.limits.messages {
        let want = length.messages.min((job.limits.messages - sent) as usize);
        let want = if messages.is_uniform() { want } else { 1 };
        let message = messages.next();
        let done = match job.role {
            Role::SourceToOne => outlets.send_to_one(message, want),
            _ => outlets.send_to_all(message, want, flags),
        };
        sent += done as u64;
        bytes += (done * message.len()) as u64;
        last_ns = now_ns();
        length.adapt(last_ns);
        slices.record(last_ns, sent, bytes);
        if last_ns >= end_ns || flags.is_stopped() || outlets.has_failed() {
            break;
        }
    }
    outlets.finish(flags);
    let series = slices.finish(last_ns, sent, bytes);
    let report = |one: Sent| CircuitReport {
        sent: one.messages,
        first_ns: start_ns,
        last_ns,
        slices: series.clone(),
        measures: BTreeMap::from([("sent_bytes".to_owned(), one.bytes as f64)]),
        error: one.error,
        ..CircuitReport::default()
    };
    outlets.sent.into_iter().map(report).collect()
}

impl<'a, 'b> Outlets<'a, 'b> {
    fn new(circuits: &'a mut [&'b mut dyn Circuit]) -> Outlets<'a, 'b> {
        Outlets {
            sent: vec![Sent::default(); circuits.len()],
            circuits,
            next: 0,
        }
    }

    fn has_failed(&self) -> bool {
        self.sent.iter().any(|one| one.error.is_some())
    }

    /// Sends a message `count` times to each receiver; gives how many all were sent. Fewer only when a
    /// circuit failed or the loop is stopped.
    fn send_to_all(
        &mut self,
        message: &std::sync::Arc<[u8]>,
        count: usize,
        flags: &WorkerFlags,
    ) -> usize {
        let mut least = count;
        for (circuit, sent) in self.circuits.iter_mut().zip(&mut self.sent) {
            let mut done = 0;
            while done < count && sent.error.is_none() && !flags.is_stopped() {
                match circuit.send_shared_run(message, count - done) {
                    Ok(more) => done += more,
                    Err(error) if is_retryable(&error) => {}
                    Err(error) => sent.error = Some(error.to_string()),
                }
            }
            sent.messages += done as u64;
            sent.bytes += (done * message.len()) as u64;
            least = least.min(done);
        }
        least
    }

    /// Sends up to `count` messages, each on the next circuit that has room; gives how many were sent.
    /// Waits a little when none has.
    fn send_to_one(&mut self, message: &[u8], count: usize) -> usize {
        for done in 0..count {
            match self.send_where_room_is(message) {
                true => {}
                false => {
                    self.wait_for_room();
                    return done;
                }
            }
        }
        count
    }

    /// Sends a message on the first circuit with room, in turns; false when none has.
    fn send_where_room_is(&mut self, message: &[u8]) -> bool {
        for _ in 0..self.circuits.len() {
            let at = self.next;
            self.next = (at + 1) % self.circuits.len();
            match self.circuits[at].try_send(message) {
                Ok(()) => {
                    self.sent[at].messages += 1;
                    self.sent[at].bytes += message.len() as u64;
                    return true;
                }
                Err(error) if is_retryable(&error) => {}
                Err(error) => {
                    self.sent[at].error = Some(error.to_string());
                    return false;
                }
            }
        }
        false
    }

    fn wait_for_room(&mut self) {
        if self.has_failed() {
            return;
        }
        let deadline = Instant::now() + ROOM_WAIT;
        if let Err(error) = self.circuits[self.next].wait(Interest::Write, deadline)
            && !is_retryable(&error)
            && error.kind() != io::ErrorKind::TimedOut
        {
            self.sent[self.next].error = Some(error.to_string());
        }
    }

    /// Finishes the sending direction of each circuit.
    fn finish(&mut self, flags: &WorkerFlags) {
        for (circuit, sent) in self.circuits.iter_mut().zip(&mut self.sent) {
            if sent.error.is_none() {
                sent.error = source::finish(*circuit, flags);
            }
        }
    }
}
