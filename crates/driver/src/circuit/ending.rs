//! How a circuit ends: each direction on its own, acknowledged, or aborted.

use super::{Circuit, time_until};
use crate::pump::Pump;
use crate::receive_queue::MessageReader;
use crate::timeout::deadline;
use engine::{AssociationId, Associations, AssociationsExt, CloseReason, Instant};
use std::io;
use std::time::Duration;
use wire::Wire;

impl<E: Associations, W: Wire> Circuit<E, W> {
    /// Ends this direction after the bytes sent so far.
    ///
    /// # Errors
    ///
    /// `WouldBlock` while a message has an unsent tail ([`has_unsent`](Circuit::has_unsent)): call
    /// again. Else errors of the wire.
    pub fn finish(&mut self) -> io::Result<()> {
        self.require_no_unsent()?;
        let mut pump = self.shared.lock()?;
        let now = self.shared.now();
        self.has_finished = true;
        let read = (&mut self.reader, self.is_last_chunk);
        send_end(&mut pump, now, self.id, read)?;
        self.submitted = self.producer.submitted();
        Ok(())
    }

    /// [`finish`](Circuit::finish) for a caller that holds the lock of the pump, of a circuit without an unsent tail.
    #[inline]
    pub(crate) fn finish_at(&mut self, pump: &mut Pump<E, W>, now: Instant) -> io::Result<()> {
        self.has_finished = true;
        send_end(pump, now, self.id, (&mut self.reader, self.is_last_chunk))?;
        self.submitted = self.producer.submitted();
        Ok(())
    }

    /// The circuit, of which the last message was sent, and its end.
    pub(crate) fn with_all_sent(mut self) -> Self {
        self.has_finished = true;
        self.submitted = self.producer.submitted();
        self
    }

    /// Sends one message and ends this direction, in one packet if the message fits into one.
    /// Errors are those of [`try_send`](Circuit::try_send); `InvalidInput` for a message that the store does not take
    /// at once, of a byte stream too.
    pub fn try_send_last(&mut self, message: &[u8]) -> io::Result<()> {
        if !self.append(message) {
            self.check_len(message.len())?;
            self.make_room(message)?;
        }
        self.finish()
    }

    /// [`try_send_last`](Circuit::try_send_last), waiting for room up to `limit`.
    /// Errors are those of `try_send_last`, and `TimedOut`.
    pub fn send_last(&mut self, message: &[u8], limit: Duration) -> io::Result<()> {
        let mut end = None;
        loop {
            match self.try_send_last(message) {
                Err(error) if error.kind() == io::ErrorKind::WouldBlock => {}
                other => return other,
            }
            self.wait(time_until(*end.get_or_insert_with(|| deadline(limit)))?)?;
        }
    }

    /// Waits until the peer has acknowledged everything, up to `limit`.
    ///
    /// # Errors
    ///
    /// `TimedOut`, `ConnectionReset` or `ConnectionRefused` when the circuit broke, or errors of
    /// the wire.
    pub fn drain(&mut self, limit: Duration) -> io::Result<()> {
        let end = deadline(limit);
        loop {
            self.push_unsent()?;
            {
                let mut pump = self.shared.lock()?;
                let now = self.shared.now();
                pump.submit_pending(now, self.id, true);
                pump.engine().request_ack(now, self.id);
                self.shared.drive(&mut pump)?;
                match pump.status(self.id).closed {
                    Some(CloseReason::Graceful) => return Ok(()),
                    Some(reason) => return Err(close_error(reason)),
                    None if pump.is_drained(self.id) && self.unsent.is_empty() => return Ok(()),
                    None => {}
                }
                self.seen_arrivals = pump.arrivals();
            }
            self.wait(time_until(end)?)?;
        }
    }

    /// Whether the peer has acknowledged everything that was sent, as far as was heard; an end may be on its
    /// way.
    pub fn is_acknowledged(&self) -> bool {
        let acknowledged = |pump: &mut Pump<E, W>| pump.is_acknowledged(self.id);
        self.unsent.is_empty() && self.with_pump(acknowledged)
    }

    /// Aborts both directions; bytes in flight are lost. Errors are those of the wire.
    pub fn abort(&mut self) -> io::Result<()> {
        let mut pump = self.shared.lock()?;
        let now = self.shared.now();
        pump.engine().abort(now, self.id);
        pump.return_loans(self.id);
        pump.flush(now)
    }
}

/// Submits what is in the store of circuit `id`, ends its direction, and sends; what its user has read is consumed. Where
/// that is the last of the peer's stream, it opens no window and waits until the packet has left.
#[inline]
fn send_end<E: Associations, W: Wire>(
    pump: &mut Pump<E, W>,
    now: Instant,
    id: AssociationId,
    (reader, is_last_chunk): (&mut MessageReader, bool),
) -> io::Result<()> {
    let mut consumed = reader.take_if_consumed();
    if let Some(consumed) = consumed.take_if(|_| !is_last_chunk) {
        pump.consume(now, id, consumed);
    }
    pump.submit_pending(now, id, true);
    pump.engine().finish(now, id);
    let sent = pump.flush(now);
    let Some(consumed) = consumed else {
        return sent;
    };
    pump.consume(now, id, consumed);
    // A peer may have asked to be told.
    sent.and_then(|()| pump.flush(now))
}

/// The error of a call on a circuit that was closed for this reason.
pub(super) fn close_error(reason: CloseReason) -> io::Error {
    match reason {
        CloseReason::Graceful => io::ErrorKind::UnexpectedEof.into(),
        CloseReason::TimedOut => {
            io::Error::new(io::ErrorKind::TimedOut, "the peer does not answer")
        }
        CloseReason::Refused => io::ErrorKind::ConnectionRefused.into(),
        CloseReason::Aborted => io::ErrorKind::ConnectionReset.into(),
    }
}
