//! Server: answers every message, with its own bytes or with a reply of a given length.

use super::{WorkerFlags, is_retryable, sink};
use crate::clock::now_ns;
use control::{CircuitReport, Job};
use std::io;
use towpath::Circuit;

/// Answers until the peer has finished: with the message itself, or with as many bytes as the job says.
pub(crate) fn run(
    circuit: &mut dyn Circuit,
    job: &Job,
    flags: &WorkerFlags,
    stream: bool,
) -> CircuitReport {
    let mut buffer = vec![0; sink::buffer_len(job)];
    let reply = vec![0; job.reply_len as usize];
    let answer = || (!reply.is_empty()).then_some(&reply[..]);
    answer_until_done(circuit, job, flags, (stream, &mut buffer), answer)
}

/// Answers until the peer has finished, with what `answer` gives or else with the request itself.
pub(super) fn answer_until_done<'a>(
    circuit: &mut dyn Circuit,
    job: &Job,
    flags: &WorkerFlags,
    (stream, buffer): (bool, &mut [u8]),
    mut answer: impl FnMut() -> Option<&'a [u8]>,
) -> CircuitReport {
    let mut report = CircuitReport {
        first_ns: now_ns(),
        ..Default::default()
    };
    let call = MessageExchange::of_server(job, stream);
    loop {
        let len = match call.receive(circuit, buffer, || flags.peer_sent().is_some()) {
            // A receive ended by shutdown returns an empty message.
            Ok(Some(0)) if flags.peer_sent().is_some() => break,
            Ok(Some(len)) => len,
            Ok(None) => break,
            Err(error) => {
                report.error = Some(error.to_string());
                break;
            }
        };
        report.received += 1;
        report.received_bytes += len as u64;
        let reply = match answer() {
            Some(reply) => reply,
            None => &buffer[..len],
        };
        if let Err(error) = call.send(circuit, reply, || flags.is_stopped()) {
            report.error = Some(error.to_string());
            break;
        }
        report.sent += 1;
        if flags.peer_sent().is_some() {
            break;
        }
    }
    report.last_ns = now_ns();
    report
}

/// Sends and receives whole messages, blocking or busy-polling.
#[derive(Clone, Copy, Debug)]
pub(crate) struct MessageExchange {
    /// Bytes of a message that is received.
    received_len: usize,
    stream: bool,
    spin: bool,
}

/// Failed tries of a busy-polling loop between two checks of the flags.
pub(super) const SPINS_PER_CHECK: u32 = 4096;

impl MessageExchange {
    /// That of a client, which receives replies.
    pub(crate) fn of_client(job: &Job, stream: bool) -> MessageExchange {
        let echoed = match job.reply_len {
            0 => job.message_len,
            other => other,
        };
        MessageExchange {
            received_len: echoed as usize,
            stream,
            spin: job.busy_poll,
        }
    }

    /// That of a server, which receives requests.
    pub(crate) fn of_server(job: &Job, stream: bool) -> MessageExchange {
        MessageExchange {
            received_len: job.message_len as usize,
            stream,
            spin: job.busy_poll,
        }
    }

    /// Sends a message; gives up when `is_over`.
    #[inline]
    pub(crate) fn send(
        &self,
        circuit: &mut dyn Circuit,
        message: &[u8],
        is_over: impl Fn() -> bool,
    ) -> io::Result<()> {
        let mut spins = 0;
        loop {
            let result = if self.spin {
                circuit.try_send(message)
            } else {
                circuit.send(message)
            };
            match result {
                Ok(()) => return circuit.flush(),
                Err(error) if is_retryable(&error) => {
                    spins += 1;
                    if (!self.spin || spins % SPINS_PER_CHECK == 0) && is_over() {
                        return Err(error);
                    }
                }
                Err(error) => return Err(error),
            }
        }
    }

    /// Receives one whole message; None at the end or when `is_over`.
    #[inline]
    pub(crate) fn receive(
        &self,
        circuit: &mut dyn Circuit,
        buffer: &mut [u8],
        is_over: impl Fn() -> bool,
    ) -> io::Result<Option<usize>> {
        let mut filled = 0;
        let mut spins = 0u32;
        loop {
            let room = if self.stream {
                &mut buffer[filled..self.received_len]
            } else {
                &mut buffer[..]
            };
            let result = if self.spin {
                circuit.try_recv(room)
            } else {
                circuit.recv(room)
            };
            match result {
                Ok(Some(len)) => {
                    filled += len;
                    if !self.stream || filled >= self.received_len {
                        return Ok(Some(filled));
                    }
                }
                Ok(None) => return Ok(None),
                Err(error) if is_retryable(&error) => {
                    spins = spins.wrapping_add(1);
                    if (!self.spin || spins.is_multiple_of(SPINS_PER_CHECK)) && is_over() {
                        return Ok(None);
                    }
                }
                Err(error) => return Err(error),
            }
        }
    }
}
