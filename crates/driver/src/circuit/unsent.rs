//! Messages of a byte stream that are longer than the send store takes at once: the unsent tail is
//! kept, and goes first in the next call. A circuit that is dropped with an unsent tail aborts.

use super::{Circuit, time_until};
use crate::timeout::deadline;
use engine::{Associations, Framing};
use std::io;
use std::mem;
use std::time::Duration;
use wire::Wire;

/// The unsent tail of a message whose first bytes are in the store.
#[derive(Debug, Default)]
pub(super) struct UnsentTail {
    bytes: Vec<u8>,
    taken: usize,
}

impl UnsentTail {
    #[inline(always)]
    pub(super) fn is_empty(&self) -> bool {
        self.bytes.is_empty()
    }
}

impl<E: Associations, W: Wire> Circuit<E, W> {
    /// Whether a byte stream's message has an unsent tail, which waits for room in the store. Every
    /// call sends what it can of it.
    pub fn has_unsent(&self) -> bool {
        !self.unsent.is_empty()
    }

    /// Waits up to `limit` until the store has taken the unsent tail.
    ///
    /// # Errors
    ///
    /// `TimedOut`, `BrokenPipe` when the circuit is closed, or errors of the wire.
    pub fn send_unsent(&mut self, limit: Duration) -> io::Result<()> {
        if self.unsent.is_empty() {
            return Ok(());
        }
        let end = deadline(limit);
        loop {
            self.push_unsent()?;
            if self.unsent.is_empty() {
                return Ok(());
            }
            let left = time_until(end)?;
            self.shared.sleep(left, self.seen_arrivals)?;
        }
    }

    /// [`flush`](Circuit::flush), which does nothing when all bytes were submitted already.
    /// Errors are those of the wire.
    pub fn flush_unsubmitted(&mut self) -> io::Result<()> {
        self.push_unsent()?;
        if self.producer.position() > self.submitted {
            self.submit_and_flush(true)?;
        }
        Ok(())
    }

    /// Appends a message to a byte stream, after the unsent tail of the previous one. What the store
    /// does not take of a message longer than its limit is kept as its unsent tail.
    /// Fails with `WouldBlock` when nothing of it was taken, else as [`try_send`](Circuit::try_send).
    #[cold]
    pub(super) fn append_to_stream(&mut self, message: &[u8]) -> io::Result<()> {
        self.require_no_unsent()?;
        let piece = &message[..message.len().min(self.producer.message_max())];
        self.append_with_room(piece.len(), |producer| producer.append_bytes(piece))?;
        if piece.len() < message.len() {
            self.unsent.bytes.extend_from_slice(&message[piece.len()..]);
            self.submit_if_due()?;
            self.push_unsent()?;
        }
        Ok(())
    }

    /// Appends the unsent tail.
    /// Fails with `WouldBlock` while some of it has no room; else as [`try_send`](Circuit::try_send).
    #[inline(always)]
    pub(super) fn require_no_unsent(&mut self) -> io::Result<()> {
        if self.unsent.is_empty() {
            return Ok(());
        }
        self.push_unsent()?;
        match self.unsent.is_empty() {
            true => Ok(()),
            false => Err(io::ErrorKind::WouldBlock.into()),
        }
    }

    /// Appends the unsent tail as far as there is room; drops it when the circuit is closed, which the
    /// call that follows reports.
    #[inline(always)]
    pub(super) fn push_unsent(&mut self) -> io::Result<()> {
        if self.unsent.is_empty() {
            return Ok(());
        }
        self.push_pieces()
    }

    #[cold]
    fn push_pieces(&mut self) -> io::Result<()> {
        debug_assert_eq!(self.framing, Framing::Stream, "only a byte stream is split");
        let mut tail = mem::take(&mut self.unsent);
        let pushed = self.append_pieces(&mut tail);
        if matches!(&pushed, Err(error) if error.kind() == io::ErrorKind::BrokenPipe) {
            return Ok(());
        }
        if tail.taken < tail.bytes.len() {
            self.unsent = tail;
        }
        pushed
    }

    fn append_pieces(&mut self, tail: &mut UnsentTail) -> io::Result<()> {
        while tail.taken < tail.bytes.len() {
            let left = &tail.bytes[tail.taken..];
            let piece = &left[..left.len().min(self.producer.message_max())];
            let appended =
                self.append_with_room(piece.len(), |producer| producer.append_bytes(piece));
            match appended {
                Err(error) if error.kind() == io::ErrorKind::WouldBlock => return Ok(()),
                other => other?,
            }
            tail.taken += piece.len();
            self.submit_if_due()?;
        }
        Ok(())
    }
}
