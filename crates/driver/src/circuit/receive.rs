//! Receiving.

use super::{Circuit, close_error};
use crate::pump::Pump;
use crate::receive_queue::{LentArrival, Part, ReadOutcome};
use crate::shared::WaitOutcome;
use engine::{AssociationId, Associations, Framing, Instant};
use std::io;
use std::sync::Arc;
use std::time::Duration;
use wire::Wire;

/// Longest poll of the kernel; a longer wait polls again.
const WAIT_MAX: Duration = Duration::from_secs(3600);

impl<E: Associations, W: Wire> Circuit<E, W> {
    /// Receives one message: its length, or None at the end of the peer's stream.
    ///
    /// What exceeds the buffer is dropped; the length returned is that of the whole message. What is
    /// left of a message begun by [`receive_part`](Circuit::receive_part) counts as one.
    ///
    /// # Errors
    ///
    /// `WouldBlock` when there is none, `ConnectionReset` when the circuit broke, or errors of the
    /// wire.
    #[inline]
    pub fn try_recv(&mut self, buffer: &mut [u8]) -> io::Result<Option<usize>> {
        if let Some(len) = self.try_recv_direct(buffer)? {
            return Ok(Some(len));
        }
        loop {
            if let ReadOutcome::Message(len) = self.reader.next(buffer) {
                return Ok(Some(len));
            }
            if let Some(len) = self.reader.next_rest(buffer) {
                return Ok(Some(len));
            }
            if self.refill_now()? == RefillOutcome::Ended {
                return Ok(None);
            }
        }
    }

    /// Receives the next part of a message, or the bytes a stream has, as
    /// [`receive_part`](Circuit::receive_part) does. Errors are those of [`try_recv`](Circuit::try_recv).
    pub fn try_receive_part(&mut self, buffer: &mut [u8]) -> io::Result<Option<Part>> {
        loop {
            if let Some(part) = self.reader.next_part(buffer) {
                return Ok(Some(part));
            }
            if self.refill_now()? == RefillOutcome::Ended {
                return Ok(None);
            }
        }
    }

    /// Gets the next chunk, or finds the end; `WouldBlock` when there is neither.
    fn refill_now(&mut self) -> io::Result<RefillOutcome> {
        self.push_unsent()?;
        let owner = Arc::clone(&self.shared);
        let mut pump = owner.lock()?;
        match self.refill_nonblocking(&mut pump)? {
            RefillOutcome::Empty => Err(io::ErrorKind::WouldBlock.into()),
            other => Ok(other),
        }
    }

    /// Receives one message, waiting for it up to `limit` ([`Duration::MAX`] for no limit).
    /// Errors are those of [`try_recv`](Circuit::try_recv), and `TimedOut`, also when the wire was shut down for
    /// reading.
    pub fn recv(&mut self, buffer: &mut [u8], limit: Duration) -> io::Result<Option<usize>> {
        let mut end = None;
        if let Some(len) = self.recv_direct(buffer, &mut end, limit)? {
            return Ok(Some(len));
        }
        loop {
            if let ReadOutcome::Message(len) = self.reader.next(buffer) {
                return Ok(Some(len));
            }
            if let Some(len) = self.reader.next_rest(buffer) {
                return Ok(Some(len));
            }
            let refilled = self.refill_blocking(&mut end, limit)?;
            if refilled == RefillOutcome::Ended {
                return Ok(None);
            }
        }
    }

    /// Receives the next part of a message, or the bytes a stream has, waiting for it up to `limit`.
    /// What does not fit into `buffer` stays for the next call. The whole message is here when its
    /// first part is returned, unless [`set_parts_from`](Circuit::set_parts_from) says otherwise. None at the end of
    /// the peer's stream. Errors are those of [`recv`](Circuit::recv).
    pub fn receive_part(&mut self, buffer: &mut [u8], limit: Duration) -> io::Result<Option<Part>> {
        let mut end = None;
        loop {
            if let Some(part) = self.reader.next_part(buffer) {
                return Ok(Some(part));
            }
            if self.refill_blocking(&mut end, limit)? == RefillOutcome::Ended {
                return Ok(None);
            }
        }
    }

    /// From now on [`receive_part`](Circuit::receive_part) gives parts of a message whose end has not come, once
    /// `bytes` of it are here. A part without bytes ends a message that its sender gave up meanwhile.
    pub fn set_parts_from(&mut self, bytes: usize) {
        self.reader.set_parts_from(bytes);
    }

    /// Lends what arrived next to the user, where it lies, waiting for it up to `limit`. None at
    /// the end of the peer's stream. A message that lies in several arrivals is lent in as many.
    /// Errors are those of [`recv`](Circuit::recv).
    pub fn take_arrival(&mut self, limit: Duration) -> io::Result<Option<LentArrival<'_>>> {
        let prepared = self.prepare_arrival(limit)?;
        Ok(prepared.map(|_| self.reader.lent()))
    }

    /// The first half of [`take_arrival`](Circuit::take_arrival): how many bytes
    /// [`prepared_arrival`](Circuit::prepared_arrival) will lend. Errors are those of [`recv`](Circuit::recv).
    pub fn prepare_arrival(&mut self, limit: Duration) -> io::Result<Option<u64>> {
        let mut end = None;
        while !self.reader.lend() {
            if self.refill_blocking(&mut end, limit)? == RefillOutcome::Ended {
                return Ok(None);
            }
        }
        Ok(Some(self.reader.lent_bytes()))
    }

    /// The second half of [`take_arrival`](Circuit::take_arrival): lends what was prepared.
    pub fn prepared_arrival(&mut self) -> LentArrival<'_> {
        self.reader.lent()
    }

    /// Receives the available bytes of a byte stream without copying them: `take` is called with
    /// each slice where it lies. Returns the length of all, or None at the end; waits up to `limit`
    /// for the first. Errors are those of [`recv`](Circuit::recv), and `Unsupported` where message boundaries are kept.
    pub fn recv_in_place(
        &mut self,
        mut take: impl FnMut(&[u8]),
        limit: Duration,
    ) -> io::Result<Option<usize>> {
        if self.framing != Framing::Stream {
            let text = "messages may lie in several places; receive them into a buffer";
            return Err(io::Error::new(io::ErrorKind::Unsupported, text));
        }
        let mut end = None;
        loop {
            if let ReadOutcome::Message(len) = self.reader.take_in_place(&mut take) {
                return Ok(Some(len));
            }
            if self.refill_blocking(&mut end, limit)? == RefillOutcome::Ended {
                return Ok(None);
            }
        }
    }

    /// Receives everything up to the end of the peer's stream; what exceeds the buffer is dropped.
    /// Returns the length of all. Errors are those of [`recv`](Circuit::recv); `limit` is for each wait.
    pub fn recv_all(&mut self, buffer: &mut [u8], limit: Duration) -> io::Result<usize> {
        self.recv_all_after(0, buffer, limit)
    }

    /// [`recv_all`](Circuit::recv_all) of a stream whose first `len` bytes are in `buffer`.
    pub(crate) fn recv_all_after(
        &mut self,
        mut len: usize,
        buffer: &mut [u8],
        limit: Duration,
    ) -> io::Result<usize> {
        let mut rest = [0; 256];
        loop {
            let room = match buffer.get_mut(len..) {
                Some(room) if !room.is_empty() => room,
                _ => &mut rest,
            };
            match self.recv(room, limit)? {
                Some(more) => len += more,
                None => return Ok(len),
            }
            if self.is_last_chunk && self.reader.is_consumed() {
                return Ok(len);
            }
        }
    }

    /// Gets the next chunk, waiting for it until `end`, which is `limit` after the first wait. Empty
    /// only while a message has an unsent tail.
    fn refill_blocking(
        &mut self,
        end: &mut Option<Instant>,
        limit: Duration,
    ) -> io::Result<RefillOutcome> {
        if self.has_unsent() {
            return self.refill_while_unsent(end, limit);
        }
        let owner = Arc::clone(&self.shared);
        let mut pump = owner.lock()?;
        let mut now = self.wait_start(&pump, limit);
        loop {
            let refilled = self.refill(&mut pump, now)?;
            if refilled != RefillOutcome::Empty {
                return Ok(refilled);
            }
            let left = time_left(end, now, limit)?;
            if self.delays_acks {
                owner.hint_busy_poll();
            }
            let (again, outcome) = owner.wait_in_receive(pump, &mut now, left)?;
            pump = again;
            match outcome {
                WaitOutcome::Woken | WaitOutcome::TimedOut => self.submits = 0,
                WaitOutcome::ShutDown => return Err(io::ErrorKind::TimedOut.into()),
                WaitOutcome::Unavailable => {
                    drop(pump);
                    self.wait(left.min(WAIT_MAX))?;
                    pump = owner.lock()?;
                    owner.drive(&mut pump)?;
                    now = owner.now();
                }
            }
        }
    }

    /// Takes what came before its user accepted it: the first receive needs no lock for it. What the engine answers leaves
    /// with the user's next call, or with the helper's next tick.
    #[inline]
    pub(crate) fn take_first(&mut self, pump: &mut Pump<E, W>) {
        if let Some(chunk) = pump.pop_chunk(self.id) {
            self.seen_arrivals = pump.arrivals();
            self.is_last_chunk = pump.status(self.id).finished;
            self.reader.put(chunk);
            self.shared.wakeup.helper.defer_flush();
        }
    }

    /// The time at which a wait up to `limit` begins. Without a limit it may be that of the last flush if
    /// nothing came since: timers that are due are run by the helper while this thread waits, and the clock
    /// is read once a round trip less.
    fn wait_start(&self, pump: &Pump<E, W>, limit: Duration) -> Instant {
        match pump.settled_at() {
            Some(at) if limit == Duration::MAX && self.has_submitted_all() => at,
            _ => self.shared.now(),
        }
    }

    /// Whether the engine knows of all that this user sent and read.
    #[inline]
    pub(super) fn has_submitted_all(&self) -> bool {
        self.producer.position() == self.submitted && !self.reader.has_chunk()
    }

    /// Gets the next chunk, or waits once until there may be one, or room for the unsent tail.
    #[cold]
    fn refill_while_unsent(
        &mut self,
        end: &mut Option<Instant>,
        limit: Duration,
    ) -> io::Result<RefillOutcome> {
        self.push_unsent()?;
        let owner = Arc::clone(&self.shared);
        let mut pump = owner.lock()?;
        let refilled = self.refill_nonblocking(&mut pump)?;
        if refilled != RefillOutcome::Empty || !self.has_unsent() {
            return Ok(refilled);
        }
        drop(pump);
        let left = time_left(end, owner.now(), limit)?;
        owner.sleep(left.min(WAIT_MAX), self.seen_arrivals)?;
        Ok(RefillOutcome::Empty)
    }

    /// Messages of the peer that could not be reassembled because bytes were lost.
    pub fn messages_damaged(&self) -> u64 {
        self.reader.messages_damaged()
    }

    /// Gets the next chunk, receiving from the wire if necessary.
    fn refill_nonblocking(&mut self, pump: &mut Pump<E, W>) -> io::Result<RefillOutcome> {
        let shared = Arc::clone(&self.shared);
        let now = shared.now();
        loop {
            let refilled = self.refill(pump, now)?;
            let taken_elsewhere = pump.is_watched() || shared.wakeup.receive.is_claimed();
            if refilled != RefillOutcome::Empty || taken_elsewhere || !pump.receive(now)? {
                return Ok(refilled);
            }
            self.submits = 0;
            shared.wake_waiters(pump);
        }
    }

    /// Gets the next chunk if there is one, and tells the engine what the user has read.
    fn refill(&mut self, pump: &mut Pump<E, W>, now: Instant) -> io::Result<RefillOutcome> {
        if let Some(consumed) = self.reader.take_consumed() {
            pump.consume(now, self.id, consumed);
        }
        let chunk = pump.pop_chunk(self.id);
        if pump.settled_at() != Some(now) || self.producer.position() > self.submitted {
            self.send_due(pump, now, chunk.is_some())?;
            self.submitted = self.producer.submitted();
        }
        self.producer.leave();
        self.shared.notify_granted(pump);
        self.seen_arrivals = pump.arrivals();
        match chunk {
            Some(chunk) => {
                self.is_last_chunk = pump.status(self.id).finished;
                self.reader.put(chunk);
                Ok(RefillOutcome::Chunk)
            }
            None => empty_outcome(pump, self.id),
        }
    }

    /// Sends the user's bytes, if the user is about to wait, and acknowledgements.
    #[inline]
    fn send_due(&mut self, pump: &mut Pump<E, W>, now: Instant, has_chunk: bool) -> io::Result<()> {
        let unsent = self.producer.position() > self.submitted;
        if unsent && !has_chunk {
            pump.submit_pending(now, self.id, true);
        }
        if !unsent && pump.is_watched() {
            // The watch sends the acknowledgements of all circuits together.
            return Ok(());
        }
        pump.handle_timeout(now);
        // Delayed ACK: the user's next request will carry it.
        if self.delays_acks && !unsent && (has_chunk || peer_finished(pump, self.id)) {
            self.shared.wakeup.helper.defer_flush();
            return Ok(());
        }
        pump.flush(now)
    }
}

/// Result of a refill.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum RefillOutcome {
    Chunk,
    Empty,
    Ended,
}

/// The time until `end`, which is `limit` after the first call; `TimedOut` when it passed.
pub(super) fn time_left(
    end: &mut Option<Instant>,
    now: Instant,
    limit: Duration,
) -> io::Result<Duration> {
    if limit == Duration::MAX {
        return Ok(limit);
    }
    let left = end.get_or_insert(now + limit).since(now);
    if left.is_zero() {
        return Err(io::ErrorKind::TimedOut.into());
    }
    Ok(left)
}

/// Whether the peer will send no more.
fn peer_finished<E: Associations, W: Wire>(pump: &Pump<E, W>, id: AssociationId) -> bool {
    let status = pump.status(id);
    status.finished || status.closed.is_some()
}

fn empty_outcome<E: Associations, W: Wire>(
    pump: &Pump<E, W>,
    id: AssociationId,
) -> io::Result<RefillOutcome> {
    let status = pump.status(id);
    match status.closed {
        _ if status.finished => Ok(RefillOutcome::Ended),
        Some(reason) => Err(close_error(reason)),
        None => Ok(RefillOutcome::Empty),
    }
}
