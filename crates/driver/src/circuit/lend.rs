//! Zero-copy sends: buffers are lent, and returned when the peer has acknowledged their bytes.

use super::{Circuit, time_until};
use crate::lend::{Buffer, LEND_BYTES_MIN, LOANS_MAX, LendError, LendOutcome, ReturnedBuffer};
use crate::timeout::deadline;
use engine::{Associations, Framing};
use std::io;
use std::time::{Duration, Instant};
use wire::Wire;

impl<E: Associations, W: Wire> Circuit<E, W> {
    /// Sends `buffer` as one message without copying it: it is lent until the peer has acknowledged
    /// its bytes, and is returned by [`try_reclaim`](Circuit::try_reclaim) or
    /// [`reclaim`](Circuit::reclaim). A buffer shorter than [`LEND_BYTES_MIN`] is copied, and so is
    /// any with [`Framing::Records`], where the host frames messages.
    /// Errors are those of [`try_send`](Circuit::try_send), with the buffer; `WouldBlock` also while [`LOANS_MAX`]
    /// buffers are lent and not reclaimed. When the wire fails after the buffer was taken, the buffer counts as lent,
    /// and a later call returns the error.
    #[inline]
    pub fn try_lend(&mut self, buffer: impl Into<Buffer>) -> Result<LendOutcome, LendError> {
        let buffer = buffer.into();
        if buffer.len() < LEND_BYTES_MIN || self.framing == Framing::Records {
            return match self.try_send(&buffer) {
                Ok(()) => Ok(LendOutcome::Copied(buffer)),
                Err(error) => Err(LendError { buffer, error }),
            };
        }
        self.append_lent(buffer)?;
        // The buffer is taken. The next call meets the same error and can return it.
        let _ = self.submit_if_due();
        Ok(LendOutcome::Lent)
    }

    /// Appends a buffer without a copy, which is not submitted yet.
    #[inline]
    pub(super) fn append_lent(&mut self, buffer: Buffer) -> Result<(), LendError> {
        let ends = self.framing == Framing::Messages;
        if let Err(error) = self.require_no_unsent() {
            return Err(LendError { buffer, error });
        }
        match self.producer.append_lent(buffer, ends) {
            Ok(()) => Ok(()),
            Err(buffer) => self.make_room_to_lend(buffer, ends),
        }
    }

    /// As [`try_lend`](Circuit::try_lend), waiting for room up to `limit`.
    /// Errors are those of [`try_lend`](Circuit::try_lend), and `TimedOut`. `WouldBlock` means that buffers are to be
    /// reclaimed first.
    pub fn lend(
        &mut self,
        buffer: impl Into<Buffer>,
        limit: Duration,
    ) -> Result<LendOutcome, LendError> {
        let mut buffer = buffer.into();
        let mut end = None;
        loop {
            let refused = match self.try_lend(buffer) {
                Err(refused) => refused,
                lent => return lent,
            };
            let full = self.producer.loans() >= LOANS_MAX && self.producer.has_returned();
            if full || refused.error.kind() != io::ErrorKind::WouldBlock {
                return Err(refused);
            }
            buffer = refused.buffer;
            let end = *end.get_or_insert_with(|| deadline(limit));
            if let Err(error) = self.wait_for_room(end) {
                return Err(LendError { buffer, error });
            }
        }
    }

    /// The next returned buffer, oldest first; None when none was returned since the last call.
    #[inline]
    pub fn try_reclaim(&mut self) -> Option<ReturnedBuffer> {
        self.producer.reclaim()
    }

    /// The next buffer to be returned, oldest first, waiting for it up to `limit`; None when none
    /// is lent. All are returned when the circuit is closed, whatever the reason.
    ///
    /// # Errors
    ///
    /// `TimedOut`, or errors of the wire; the buffers stay lent.
    pub fn reclaim(&mut self, limit: Duration) -> io::Result<Option<ReturnedBuffer>> {
        let end = deadline(limit);
        loop {
            let returned = self.producer.reclaim();
            if returned.is_some() || self.producer.loans() == 0 {
                return Ok(returned);
            }
            {
                let mut pump = self.shared.lock()?;
                pump.submit_pending(self.shared.now(), self.id, true);
                self.shared.drive(&mut pump)?;
                self.submitted = self.producer.submitted();
                self.seen_arrivals = pump.arrivals();
            }
            if !self.producer.has_returned() {
                self.wait(time_until(end)?)?;
            }
        }
    }

    /// All buffers returned so far, and after a close or an abort all that were lent.
    pub fn reclaim_all(&mut self) -> Vec<ReturnedBuffer> {
        match self.shared.lock() {
            Ok(mut pump) => pump.submit_pending(self.shared.now(), self.id, true),
            // The endpoint sends no more.
            Err(_) => self.shared.look().return_loans(self.id),
        }
        std::iter::from_fn(|| self.producer.reclaim()).collect()
    }

    /// Buffers lent and not reclaimed.
    pub fn loans(&self) -> usize {
        self.producer.loans()
    }

    fn wait_for_room(&mut self, end: Instant) -> io::Result<()> {
        let left = time_until(end)?;
        self.note_unsubmitted();
        self.shared.sleep(left, self.seen_arrivals)
    }

    #[cold]
    fn make_room_to_lend(&mut self, buffer: Buffer, ends: bool) -> Result<(), LendError> {
        if let Err(error) = self.poll_for_room(buffer.len()) {
            return Err(LendError { buffer, error });
        }
        let (kept, buffer) = match self.producer.append_lent(buffer, ends) {
            Ok(()) => (true, None),
            Err(buffer) => (false, Some(buffer)),
        };
        match (self.append_result(kept), buffer) {
            (Err(error), Some(buffer)) => Err(LendError { buffer, error }),
            _ => Ok(()),
        }
    }
}
