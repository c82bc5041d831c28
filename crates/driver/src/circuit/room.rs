//! Room in the send store for what has none now: the rest is submitted, and arrivals are looked at.

use super::Circuit;
use crate::pump::Pump;
use crate::sys::Producer;
use engine::{Associations, AssociationsExt, Framing, Instant};
use std::io;
use wire::Wire;

impl<E: Associations, W: Wire> Circuit<E, W> {
    #[cold]
    pub(super) fn make_room(&mut self, message: &[u8]) -> io::Result<()> {
        if self.framing == Framing::Stream {
            return self.append_to_stream(message);
        }
        self.poll_for_room(message.len())?;
        let appended = self.append(message);
        self.append_result(appended)
    }

    /// Calls `append`, which needs room for `len` bytes, again after room was made.
    pub(super) fn append_with_room(
        &mut self,
        len: usize,
        mut append: impl FnMut(&mut Producer) -> bool,
    ) -> io::Result<()> {
        if append(&mut self.producer) {
            return Ok(());
        }
        self.poll_for_room(len)?;
        let appended = append(&mut self.producer);
        self.append_result(appended)
    }

    /// Refuses what is longer than the store takes at once.
    pub(super) fn check_len(&self, len: usize) -> io::Result<()> {
        let limit = self.producer.message_max();
        if len <= limit {
            return Ok(());
        }
        let text = format!(
            "a message of {len} bytes does not fit into the send store; the limit is {limit}"
        );
        Err(io::Error::new(io::ErrorKind::InvalidInput, text))
    }

    /// Submits and receives, so that a message of `len` bytes may have room. Steps in their order:
    ///
    /// | step | state | act |
    /// | --- | --- | --- |
    /// | submit | a permit is awaited, or nothing is in flight | all bytes: nothing else makes room |
    /// | submit | any other | whole batches: acknowledgements of what is in flight make room |
    /// | request | others wait until the store is empty | an acknowledgement of all is requested |
    /// | receive | a watch receives | packets are sent only |
    /// | receive | any other | packets are received, timers run, packets are sent |
    /// | submit | nothing is in flight any more | all bytes |
    pub(super) fn poll_for_room(&mut self, len: usize) -> io::Result<()> {
        self.check_len(len)?;
        let mut pump = self.shared.lock()?;
        let now = self.shared.now();
        self.shared.notify_granted(&mut pump);
        self.submit_for_room(&mut pump, now);
        match pump.is_watched() {
            true => pump.flush(now)?,
            false => self.shared.drive(&mut pump)?,
        }
        if !self.producer.is_in_flight() {
            pump.submit_pending(now, self.id, true);
            pump.flush(now)?;
        }
        if pump.status(self.id).closed.is_some() {
            return Err(io::ErrorKind::BrokenPipe.into());
        }
        self.submitted = self.producer.submitted();
        self.seen_arrivals = pump.arrivals();
        Ok(())
    }

    fn submit_for_room(&self, pump: &mut Pump<E, W>, now: Instant) {
        let submits_all = self.producer.awaits_permit() || !self.producer.is_in_flight();
        pump.submit_pending(now, self.id, submits_all);
        if self.producer.is_draining() {
            pump.engine().request_ack(now, self.id);
        }
    }

    /// The result of a second append: done, no room now, or no memory.
    pub(super) fn append_result(&mut self, appended: bool) -> io::Result<()> {
        if self.shared.pool.permits.has_unnotified() {
            self.shared.notify_granted(&mut *self.shared.lock()?);
        }
        if appended {
            Ok(())
        } else if self.producer.lacks_memory() {
            Err(io::ErrorKind::OutOfMemory.into())
        } else {
            self.leave_full_store()?;
            Err(io::ErrorKind::WouldBlock.into())
        }
    }

    /// Its user comes back when there is room, among many circuits not soon.
    fn leave_full_store(&mut self) -> io::Result<()> {
        if !self.shared.pool.is_kept_by_stores() {
            let _pump = self.shared.lock()?;
            self.producer.leave();
        }
        Ok(())
    }
}
