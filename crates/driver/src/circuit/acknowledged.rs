//! Messages whose sender waits for their acknowledgement, as a write to a character device does. Each
//! asks for it in its last packet, so that the peer answers at once.

use super::Circuit;
use crate::lend::{Buffer, LEND_BYTES_MIN};
use engine::{Associations, AssociationsExt, Framing};
use std::io;
use std::time::Duration;
use wire::Wire;

impl<E: Associations, W: Wire> Circuit<E, W> {
    /// Sends one message with all before it, and asks for their acknowledgement;
    /// [`is_acknowledged`](Circuit::is_acknowledged) says when it came.
    /// Errors are those of [`try_send`](Circuit::try_send).
    pub fn try_send_asking(&mut self, message: &[u8]) -> io::Result<()> {
        self.append_or_make_room(message)?;
        let mut pump = self.shared.lock()?;
        let now = self.shared.now();
        pump.submit_pending(now, self.id, true);
        pump.engine().request_ack(now, self.id);
        pump.flush(now)?;
        self.submitted = self.producer.submitted();
        Ok(())
    }

    /// Sends one message, and waits up to `limit` until the peer has acknowledged it and all before it.
    /// Errors are those of [`try_send`](Circuit::try_send), then nothing of it was sent; those of
    /// [`drain`](Circuit::drain), then it may have been.
    pub fn send_acknowledged(&mut self, message: &[u8], limit: Duration) -> io::Result<()> {
        self.append_or_make_room(message)?;
        self.drain(limit)
    }

    /// [`send_acknowledged`](Circuit::send_acknowledged) without a copy, unless `message` is shorter than
    /// [`LEND_BYTES_MIN`] or the host frames messages.
    /// Errors are those of [`send_acknowledged`](Circuit::send_acknowledged).
    pub fn lend_acknowledged(
        &mut self,
        message: impl Into<Buffer>,
        limit: Duration,
    ) -> io::Result<()> {
        let message = message.into();
        if message.len() < LEND_BYTES_MIN || self.framing == Framing::Records {
            return self.send_acknowledged(&message, limit);
        }
        self.append_lent(message)?;
        let drained = self.drain(limit);
        while self.try_reclaim().is_some() {}
        drained
    }

    #[inline]
    fn append_or_make_room(&mut self, message: &[u8]) -> io::Result<()> {
        match self.append(message) {
            true => Ok(()),
            false => self.make_room(message),
        }
    }
}
