//! What the user holds.

mod lend;
mod receive;

use crate::circuit_state::CircuitStatus;
use crate::pump::Pump;
use crate::receive_queue::MessageReader;
use crate::shared::EndpointHandle;
use crate::sys::Producer;
use engine::{Address, AssociationId, Associations, AssociationsExt, CloseReason, Framing};
use std::io;
use std::os::fd::{AsFd, BorrowedFd};
use std::sync::Arc;
use std::time::{Duration, Instant};
use wire::Wire;

/// A circuit that carries messages.
///
/// `try_` calls never block; [`send`](Circuit::send) and [`recv`](Circuit::recv) are built from
/// them and [`wait`](Circuit::wait). A message leaves at once when nothing of this circuit is on
/// its way; else it may wait for others to share a packet: until a batch is full, until
/// [`flush`](Circuit::flush), until the user waits for anything, or for about a millisecond.
pub struct Circuit<E: Associations, W: Wire> {
    shared: Arc<EndpointHandle<E, W>>,
    id: AssociationId,
    framing: Framing,
    producer: Producer,
    reader: MessageReader,
    batch_bytes: u64,
    peer: Address,
    submitted: u64,
    submits: u32,
    /// Arrivals at the endpoint when this circuit last looked.
    seen_arrivals: u64,
    /// Answers may wait for company.
    delays_acks: bool,
    /// The reader's chunk is the last there will be.
    is_last_chunk: bool,
}

/// Every so many batches the sender looks for acknowledgements. One batch is an eighth of the
/// default window, so half of it is still open then.
const POLL_EVERY_SUBMITS: u32 = 4;

impl<E: Associations, W: Wire> Circuit<E, W> {
    pub(crate) fn new(
        shared: Arc<EndpointHandle<E, W>>,
        id: AssociationId,
        framing: Framing,
        producer: Producer,
        batch_bytes: u64,
        peer: Address,
    ) -> Self {
        Circuit {
            shared,
            id,
            producer,
            framing,
            reader: MessageReader::new(framing),
            batch_bytes,
            peer,
            submitted: 0,
            submits: 0,
            seen_arrivals: 0,
            delays_acks: false,
            is_last_chunk: false,
        }
    }

    /// Sends one message if there is room.
    ///
    /// # Errors
    ///
    /// `WouldBlock` without room, `InvalidInput` for a message larger than the store can ever
    /// hold, `BrokenPipe` when the circuit ended, or the wire's.
    #[inline]
    pub fn try_send(&mut self, message: &[u8]) -> io::Result<()> {
        if !self.append(message) {
            self.make_room(message)?;
        }
        self.submit_if_due()
    }

    /// Sends what was appended if it is a batch or nothing is on its way.
    #[inline]
    fn submit_if_due(&mut self) -> io::Result<()> {
        if self.producer.position() - self.submitted >= self.batch_bytes || self.producer.is_idle()
        {
            return self.submit_and_flush(false);
        }
        self.note_unsubmitted();
        Ok(())
    }

    /// Has somebody look after bytes that are not offered yet.
    #[inline]
    fn note_unsubmitted(&mut self) {
        if let Some(store) = self.producer.note_unsubmitted() {
            self.shared.note_unsubmitted(self.id, store);
        }
    }

    #[inline]
    fn append(&mut self, message: &[u8]) -> bool {
        match self.framing {
            Framing::Records => self.producer.append_record(message),
            Framing::Stream => self.producer.append_bytes(message),
            Framing::Messages => self.producer.append_message(message),
        }
    }

    /// Sends everything appended so far as far as the window allows.
    ///
    /// # Errors
    ///
    /// The wire's.
    pub fn flush(&mut self) -> io::Result<()> {
        self.submit_and_flush(true)
    }

    /// Sleeps until something may have changed or `limit` passed; what is unsent is sent first.
    ///
    /// # Errors
    ///
    /// The wire's.
    pub fn wait(&mut self, limit: Duration) -> io::Result<()> {
        if self.producer.position() > self.submitted {
            self.submit_and_flush(true)?;
        }
        self.shared.sleep(limit, self.seen_arrivals)
    }

    /// Sends one message, waiting for room up to `limit`.
    ///
    /// # Errors
    ///
    /// As [`try_send`](Circuit::try_send), and `TimedOut`.
    pub fn send(&mut self, message: &[u8], limit: Duration) -> io::Result<()> {
        // The clock is read only when there is something to wait for.
        let mut end = None;
        loop {
            match self.try_send(message) {
                Err(error) if error.kind() == io::ErrorKind::WouldBlock => {
                    // What is short of a batch goes on waiting for this message.
                    let left = time_until(*end.get_or_insert_with(|| Instant::now() + limit))?;
                    self.note_unsubmitted();
                    self.shared.sleep(left, self.seen_arrivals)?;
                }
                other => return other,
            }
        }
    }

    /// Ends this direction after what was sent.
    ///
    /// # Errors
    ///
    /// The wire's.
    pub fn finish(&mut self) -> io::Result<()> {
        let mut pump = self.shared.lock();
        let now = self.shared.now();
        pump.submit_pending(now, self.id, true);
        pump.engine().finish(now, self.id);
        pump.flush(now)?;
        self.submitted = pump.submitted(self.id);
        Ok(())
    }

    /// Sends one message and ends this direction, in one packet if the message fits into one.
    ///
    /// # Errors
    ///
    /// As [`try_send`](Circuit::try_send).
    pub fn try_send_last(&mut self, message: &[u8]) -> io::Result<()> {
        if !self.append(message) {
            self.make_room(message)?;
        }
        self.finish()
    }

    /// Waits until the peer has everything that was sent, up to `limit`.
    ///
    /// # Errors
    ///
    /// `TimedOut`, `ConnectionReset` or `ConnectionRefused` when the circuit broke, or the wire's.
    pub fn drain(&mut self, limit: Duration) -> io::Result<()> {
        let end = Instant::now() + limit;
        loop {
            {
                let mut pump = self.shared.lock();
                let now = self.shared.now();
                pump.submit_pending(now, self.id, true);
                pump.engine().request_ack(now, self.id);
                self.shared.drive(&mut pump)?;
                match pump.status(self.id).closed {
                    Some(CloseReason::Graceful) => return Ok(()),
                    Some(reason) => return Err(close_error(reason)),
                    None if pump.engine().bytes_in_flight(self.id) == 0 => return Ok(()),
                    None => {}
                }
                self.seen_arrivals = pump.arrivals();
            }
            self.wait_until(end)?;
        }
    }

    /// Takes in what arrived at the endpoint, acts on deadlines and sends what follows, for a user
    /// who waits for something else than data.
    ///
    /// # Errors
    ///
    /// The wire's.
    pub fn drive(&mut self) -> io::Result<()> {
        let mut pump = self.shared.lock();
        self.shared.drive(&mut pump)?;
        self.seen_arrivals = pump.arrivals();
        Ok(())
    }

    /// Its number within its endpoint, as a [`Watch`](crate::Watch) names it.
    pub fn id(&self) -> AssociationId {
        self.id
    }

    /// Where its peer was when it was opened.
    pub fn peer(&self) -> Address {
        self.peer
    }

    /// How it stands.
    pub fn status(&self) -> CircuitStatus {
        self.shared.lock().status(self.id)
    }

    /// Lets answers to what is received wait up to a millisecond for other packets to the same
    /// peer, which then leave in the same call.
    pub fn set_delayed_ack(&mut self) {
        self.delays_acks = true;
    }

    /// Ends both directions at once; what is on its way is lost.
    ///
    /// # Errors
    ///
    /// The wire's.
    pub fn abort(&mut self) -> io::Result<()> {
        let mut pump = self.shared.lock();
        let now = self.shared.now();
        pump.engine().abort(now, self.id);
        pump.return_loans(self.id);
        pump.flush(now)
    }

    /// The endpoint's engine counters and the calls of its wire (sends, receives).
    pub fn counters(&self) -> (engine::Counters, (u64, u64)) {
        let mut pump = self.shared.lock();
        (pump.engine().counters(), pump.wire_calls())
    }

    /// The wire's descriptor, readable when something arrived for any circuit of the endpoint;
    /// None in virtual time. For several circuits see [`Watch`](crate::Watch).
    pub fn descriptor(&self) -> Option<BorrowedFd<'_>> {
        self.shared.descriptor.as_ref().map(AsFd::as_fd)
    }

    /// Bytes written so far: where the next message begins in the send store.
    pub fn position(&self) -> u64 {
        self.producer.position()
    }

    /// Whether the last message received ended with a tag.
    pub fn is_end_tagged(&self) -> bool {
        self.reader.is_end_tagged()
    }

    /// Whether the last message received began with a tag.
    pub fn is_tagged(&self) -> bool {
        self.reader.is_tagged()
    }

    /// Carries out a command of the engine, and sends what follows from it.
    ///
    /// # Errors
    ///
    /// The wire's.
    pub fn command(&mut self, act: impl FnOnce(&mut E, engine::Instant)) -> io::Result<()> {
        let mut pump = self.shared.lock();
        let now = self.shared.now();
        act(pump.engine(), now);
        pump.flush(now)
    }

    /// Runs `look` with the pump locked.
    pub fn with_pump<R>(&self, run: impl FnOnce(&mut Pump<E, W>) -> R) -> R {
        run(&mut self.shared.lock())
    }

    pub(crate) fn wait_connected(&mut self, limit: Duration) -> io::Result<()> {
        let end = Instant::now() + limit;
        loop {
            {
                let mut pump = self.shared.lock();
                self.shared.drive(&mut pump)?;
                let status = pump.status(self.id);
                if let Some(reason) = status.closed {
                    return Err(close_error(reason));
                }
                if status.connected {
                    return Ok(());
                }
                self.seen_arrivals = pump.arrivals();
            }
            self.wait_until(end)?;
        }
    }

    fn wait_until(&mut self, end: Instant) -> io::Result<()> {
        self.wait(time_until(end)?)
    }

    #[cold]
    fn make_room(&mut self, message: &[u8]) -> io::Result<()> {
        self.poll_for_room(message.len())?;
        let appended = self.append(message);
        self.append_result(appended)
    }

    /// Sends what there is and takes in what came, so that a message of `len` bytes may have room.
    fn poll_for_room(&mut self, len: usize) -> io::Result<()> {
        if len > self.producer.message_max() {
            return Err(io::Error::new(
                io::ErrorKind::InvalidInput,
                format!(
                    "a message of {len} bytes does not fit into the send store; the limit is {}",
                    self.producer.message_max()
                ),
            ));
        }
        let mut pump = self.shared.lock();
        let now = self.shared.now();
        self.shared.notify_granted(&mut pump);
        // With something in flight there will be room; whole batches suffice until then.
        let all = self.producer.awaits_permit() || !self.producer.is_in_flight();
        pump.submit_pending(now, self.id, all);
        if pump.is_watched() {
            pump.flush(now)?;
        } else {
            self.shared.drive(&mut pump)?;
        }
        if !self.producer.is_in_flight() {
            pump.submit_pending(now, self.id, true);
            pump.flush(now)?;
        }
        if pump.status(self.id).closed.is_some() {
            return Err(io::ErrorKind::BrokenPipe.into());
        }
        self.submitted = pump.submitted(self.id);
        self.seen_arrivals = pump.arrivals();
        Ok(())
    }

    /// What it means that there was room now, or not.
    fn append_result(&mut self, appended: bool) -> io::Result<()> {
        if self.shared.pool.permits.has_unnotified() {
            self.shared.notify_granted(&mut self.shared.lock());
        }
        if appended {
            Ok(())
        } else if self.producer.has_memory() || self.producer.awaits_permit() {
            Err(io::ErrorKind::WouldBlock.into())
        } else {
            Err(io::ErrorKind::OutOfMemory.into())
        }
    }

    fn submit_and_flush(&mut self, push: bool) -> io::Result<()> {
        let idle = self.producer.is_idle();
        let shared = &**self.shared;
        let mut pump = shared.lock();
        let now = shared.now();
        if let Some(consumed) = self.reader.take_if_consumed() {
            pump.consume(now, self.id, consumed);
        }
        self.submits = self.submits.wrapping_add(1);
        // Nothing on its way means no acknowledgement to look for.
        if !idle && !pump.is_watched() && self.submits.is_multiple_of(POLL_EVERY_SUBMITS) {
            shared.receive_all(&mut pump, now)?;
            pump.handle_timeout(now);
        }
        pump.submit_pending(now, self.id, push || idle);
        pump.flush(now)?;
        self.submitted = pump.submitted(self.id);
        shared.signal_readiness(&pump);
        drop(pump);
        if self.producer.position() > self.submitted {
            self.note_unsubmitted();
        }
        Ok(())
    }
}

/// The time until `end`, or `TimedOut`.
fn time_until(end: Instant) -> io::Result<Duration> {
    let left = end.saturating_duration_since(Instant::now());
    if left.is_zero() {
        return Err(io::ErrorKind::TimedOut.into());
    }
    Ok(left)
}

impl<E: Associations, W: Wire> Drop for Circuit<E, W> {
    fn drop(&mut self) {
        let mut pump = self.shared.lock();
        let now = self.shared.now();
        // What the user has read is told to the peer, who may be waiting to hear it.
        if let Some(consumed) = self.reader.take_consumed() {
            pump.consume(now, self.id, consumed);
        }
        // Nobody is left to tell about an error of the last packets.
        pump.submit_pending(now, self.id, true);
        pump.engine().finish(now, self.id);
        let deferred = self.delays_acks && !self.producer.is_in_flight();
        if deferred {
            self.shared.defer_flush();
        } else {
            let _ = pump.flush(now);
        }
        pump.detach(self.id, deferred);
    }
}

fn close_error(reason: CloseReason) -> io::Error {
    match reason {
        CloseReason::Graceful => io::ErrorKind::UnexpectedEof.into(),
        CloseReason::TimedOut => {
            io::Error::new(io::ErrorKind::TimedOut, "the peer does not answer")
        }
        CloseReason::Refused => io::ErrorKind::ConnectionRefused.into(),
        CloseReason::Aborted => io::ErrorKind::ConnectionReset.into(),
    }
}
