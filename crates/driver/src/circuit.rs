//! The user's handle of a circuit.

mod acknowledged;
mod direct_copy;
mod ending;
mod lend;
mod noted;
mod receive;
mod room;
mod unsent;

use crate::broken::Breakable;
use crate::circuit_state::CircuitStatus;
use crate::pump::Pump;
use crate::receive_queue::{Chunk, MessageReader};
use crate::shared::{EndpointHandle, EndpointShared, PumpGuard, WaitOutcome};
use crate::sys::Producer;
use crate::timeout::deadline;
use crate::waiter::Waiter;
use ending::close_error;
use engine::{
    Address, AssociationId, Associations, AssociationsExt, CloseReason, Framing, NoteFields,
    Properties,
};
use std::io;
use std::os::fd::{AsFd, BorrowedFd};
use std::sync::Arc;
use std::time::{Duration, Instant};
use unsent::UnsentTail;
use wire::Wire;

/// A circuit that carries messages.
///
/// `try_` calls never block; [`send`](Circuit::send) and [`recv`](Circuit::recv) are built from
/// them and [`wait`](Circuit::wait). A message is sent at once when nothing of this circuit is in
/// flight; else it may be coalesced with others: until a batch is full, until
/// [`flush`](Circuit::flush), until the user waits for anything, or for about a millisecond.
pub struct Circuit<E: Associations, W: Wire> {
    shared: Arc<EndpointHandle<E, W>>,
    id: AssociationId,
    framing: Framing,
    /// What messages may say in their notes.
    notes: NoteFields,
    producer: Producer,
    unsent: UnsentTail,
    reader: MessageReader,
    batch_bytes: u64,
    peer: Address,
    submitted: u64,
    /// All bytes below this are pushed, and the wire took all packets.
    flushed: u64,
    submits: u32,
    /// Arrivals at the endpoint at the last poll of this circuit.
    seen_arrivals: u64,
    /// Receives that did not wait.
    polls: u32,
    /// Acknowledgements may be delayed and coalesced with other packets.
    delays_acks: bool,
    /// What was read last is the end of the peer's stream.
    is_last_chunk: bool,
    /// This direction was ended.
    has_finished: bool,
    /// What is left of it was left to the pump: dropping it sends nothing more.
    is_released: bool,
}

/// The sender polls for acknowledgements every so many batches, unless its user receives meanwhile. One batch is an
/// eighth of the default window, so half of it is still open then.
const POLL_EVERY_SUBMITS: u32 = 4;

impl<E: Associations, W: Wire> Circuit<E, W> {
    pub(crate) fn new(
        shared: Arc<EndpointHandle<E, W>>,
        id: AssociationId,
        properties: Properties,
        producer: Producer,
        batch_bytes: u64,
        peer: Address,
    ) -> Self {
        Circuit {
            shared,
            id,
            producer,
            unsent: UnsentTail::default(),
            framing: properties.framing,
            notes: properties.notes,
            reader: MessageReader::new(properties.framing),
            batch_bytes,
            peer,
            submitted: 0,
            flushed: 0,
            submits: 0,
            seen_arrivals: 0,
            polls: 0,
            delays_acks: false,
            is_last_chunk: false,
            has_finished: false,
            is_released: false,
        }
    }

    /// Sends one message if there is room. A byte stream also takes a message that is longer than
    /// its store takes at once: the message counts as sent, and its unsent tail goes first in the next
    /// call of any kind; see [`has_unsent`](Circuit::has_unsent).
    ///
    /// # Errors
    ///
    /// `WouldBlock` without room, `InvalidInput` where boundaries are kept for a message larger than the
    /// store can ever hold, `BrokenPipe` when the circuit is closed, or errors of the wire.
    #[inline(always)]
    pub fn try_send(&mut self, message: &[u8]) -> io::Result<()> {
        if !self.append(message) {
            self.make_room(message)?;
        }
        self.submit_if_due()
    }

    /// Submits the appended bytes if they fill a batch or nothing is in flight.
    #[inline(always)]
    fn submit_if_due(&mut self) -> io::Result<()> {
        if self.producer.position() - self.submitted >= self.batch_bytes || self.producer.is_idle()
        {
            return self.submit_and_flush(false);
        }
        self.note_unsubmitted();
        Ok(())
    }

    /// Leaves bytes that are not submitted yet to the helper.
    #[inline]
    fn note_unsubmitted(&mut self) {
        if let Some(store) = self.producer.note_unsubmitted() {
            self.producer.leave();
            self.shared.wakeup.helper.note_unsubmitted(self.id, store);
        }
    }

    /// Appends `message` to the store; false when there is no room now.
    #[inline(always)]
    pub(crate) fn append(&mut self, message: &[u8]) -> bool {
        match self.framing {
            Framing::Records => self.producer.append_record(message),
            Framing::Stream => self.unsent.is_empty() && self.producer.append_bytes(message),
            Framing::Messages => self.producer.append_message(message),
        }
    }

    /// Sends everything appended so far, as far as the window allows. Errors are those of the wire.
    pub fn flush(&mut self) -> io::Result<()> {
        self.push_unsent()?;
        // A message that found nothing in flight left at once.
        let is_flushed = self.flushed == self.producer.position() && !self.reader.has_chunk();
        if is_flushed && !self.shared.broken().is_broken() {
            return Ok(());
        }
        self.submit_and_flush(true)
    }

    /// Flushes, then sleeps until something may have changed or `limit` passes. Errors are those of the wire.
    pub fn wait(&mut self, limit: Duration) -> io::Result<()> {
        self.flush_unsubmitted()?;
        self.shared.sleep(limit, self.seen_arrivals)
    }

    /// Sends one message, waiting for room up to `limit`.
    /// Errors are those of [`try_send`](Circuit::try_send), and `TimedOut`, when nothing of it was sent.
    pub fn send(&mut self, message: &[u8], limit: Duration) -> io::Result<()> {
        self.retry_for_room(limit, |circuit| circuit.try_send(message))?;
        match self.send_unsent(limit) {
            // The message counts as sent: the next call goes on with its tail.
            Err(error) if error.kind() == io::ErrorKind::TimedOut => Ok(()),
            other => other,
        }
    }

    /// Calls `attempt` until it does not return `WouldBlock`, waiting for room up to `limit`.
    #[inline]
    fn retry_for_room(
        &mut self,
        limit: Duration,
        mut attempt: impl FnMut(&mut Self) -> io::Result<()>,
    ) -> io::Result<()> {
        // The clock is read only when the call has to wait.
        let mut end = None;
        loop {
            match attempt(self) {
                Err(error) if error.kind() == io::ErrorKind::WouldBlock => {
                    // Less than a batch stays in the store, to be coalesced with this message.
                    let left = time_until(*end.get_or_insert_with(|| deadline(limit)))?;
                    self.note_unsubmitted();
                    self.shared.sleep(left, self.seen_arrivals)?;
                }
                other => return other,
            }
        }
    }

    /// Receives what arrived at the endpoint, runs timers and sends, for a user who waits for
    /// something other than data. Errors are those of the wire.
    pub fn drive(&mut self) -> io::Result<()> {
        self.push_unsent()?;
        let mut pump = self.shared.lock()?;
        self.shared.drive(&mut pump)?;
        self.seen_arrivals = pump.arrivals();
        Ok(())
    }

    /// Its number within the endpoint, as a [`Watch`](crate::Watch) reports it.
    pub fn id(&self) -> AssociationId {
        self.id
    }

    /// The peer's address when the circuit was opened.
    pub fn peer(&self) -> Address {
        self.peer
    }

    /// Its state; aborted, if the endpoint is broken.
    pub fn status(&self) -> CircuitStatus {
        match self.shared.lock() {
            Ok(pump) => {
                let status = pump.status(self.id);
                let has_bytes = status.has_bytes || !self.reader.is_consumed();
                CircuitStatus {
                    finished: status.finished && !has_bytes,
                    has_bytes,
                    ..status
                }
            }
            Err(_) => CircuitStatus {
                closed: Some(CloseReason::Aborted),
                ..CircuitStatus::default()
            },
        }
    }

    /// Delays acknowledgements up to a millisecond, so that they are coalesced with other packets
    /// to the same peer (delayed ACK, RFC 1122 s. 4.2.3.2).
    pub fn set_delayed_ack(&mut self) {
        self.delays_acks = true;
    }

    /// The engine's counters and the calls of the wire (sends, receives) of the endpoint.
    pub fn counters(&self) -> (engine::Counters, (u64, u64)) {
        let mut pump = self.shared.look();
        (pump.engine().counters(), pump.wire_calls())
    }

    /// The wire's descriptor, readable when something arrived for any circuit of the endpoint; None
    /// in virtual time. After the first [`Endpoint::join`](crate::Endpoint::join) it is another one.
    /// For several circuits see [`Watch`](crate::Watch).
    pub fn descriptor(&self) -> Option<BorrowedFd<'_>> {
        let descriptor = self.shared.descriptor.as_ref()?;
        Some(descriptor.get().as_fd())
    }

    /// What waits for arrivals at the endpoint without this circuit, so that other threads can use it
    /// meanwhile.
    pub fn waiter(&self) -> Waiter<E, W> {
        Waiter::new(Arc::clone(&self.shared))
    }

    /// Arrivals at the endpoint when a call of this circuit looked last: what [`Waiter::wait`] takes.
    pub fn seen_arrivals(&self) -> u64 {
        self.seen_arrivals
    }

    /// Bytes written so far: where the next message begins in the send store.
    pub fn position(&self) -> u64 {
        self.producer.position()
    }

    /// Runs a command of the engine and sends the packets that follow from it. Errors are those of the wire.
    pub fn command(&mut self, act: impl FnOnce(&mut E, engine::Instant)) -> io::Result<()> {
        let mut pump = self.shared.lock()?;
        let now = self.shared.now();
        act(pump.engine(), now);
        pump.flush(now)
    }

    /// Runs `run` with the pump locked, also of a broken endpoint: to look at it.
    pub fn with_pump<R>(&self, run: impl FnOnce(&mut Pump<E, W>) -> R) -> R {
        run(&mut self.shared.look())
    }

    /// Waits for the peer's answer up to `limit`. Errors: those of [`poll_connected`](Circuit::poll_connected), and `TimedOut`.
    pub fn wait_connected(&mut self, limit: Duration) -> io::Result<()> {
        let end = deadline(limit);
        let shared = Arc::clone(&self.shared);
        loop {
            let mut pump = shared.lock()?;
            if self.check_connected(&mut pump)? {
                return Ok(());
            }
            self.await_answer(&shared, pump, end)?;
        }
    }

    /// Whether the peer has answered, after a look at what arrived.
    ///
    /// # Errors
    ///
    /// `ConnectionRefused`, `TimedOut`, why nothing can be sent to the peer, or errors of the wire.
    pub fn poll_connected(&mut self) -> io::Result<bool> {
        let shared = Arc::clone(&self.shared);
        let mut pump = shared.lock()?;
        self.check_connected(&mut pump)
    }

    fn check_connected(&mut self, pump: &mut Pump<E, W>) -> io::Result<bool> {
        self.shared.drive(pump)?;
        self.seen_arrivals = pump.arrivals();
        let status = pump.status(self.id);
        if let Some(reason) = status.closed {
            return Err(close_error(reason));
        }
        match pump.take_send_error(self.peer) {
            Some(error) if !status.connected => Err(error),
            _ => Ok(status.connected),
        }
    }

    /// Waits for the peer's answer to a control packet, which a peer on this host sends at once: it
    /// blocks in the receive itself and busy-polls first, as far as the wire has that.
    fn await_answer<'a>(
        &mut self,
        shared: &'a EndpointShared<E, W>,
        pump: PumpGuard<'a, E, W>,
        end: Instant,
    ) -> io::Result<()> {
        let left = time_until(end)?;
        let mut now = shared.now();
        shared.hint_busy_poll();
        let (pump, outcome) = shared.wait_in_receive(pump, &mut now, left)?;
        drop(pump);
        match outcome {
            WaitOutcome::Woken | WaitOutcome::TimedOut => Ok(()),
            WaitOutcome::ShutDown | WaitOutcome::Unavailable => self.wait(time_until(end)?),
        }
    }

    /// Submits what was appended, and sends it. Steps in their order:
    ///
    /// | step | state | act |
    /// | --- | --- | --- |
    /// | receive | bytes in flight, no watch receives, and it is the turn of this call | acknowledgements are received |
    /// | submit | `push`, or nothing is in flight | all bytes, in part-filled packets too |
    /// | submit | any other | whole batches |
    /// | send | all bytes were submitted, and the wire took all packets | the circuit counts as flushed |
    /// | leave | bytes are left | the helper submits them |
    fn submit_and_flush(&mut self, push: bool) -> io::Result<()> {
        let is_idle = self.producer.is_idle();
        let submits_all = push || is_idle;
        let shared = &**self.shared;
        let mut pump = shared.lock()?;
        let now = shared.now();
        if let Some(consumed) = self.reader.take_if_consumed() {
            pump.consume(now, self.id, consumed);
        }
        self.submits = self.submits.wrapping_add(1);
        let has_turn = self.submits.is_multiple_of(POLL_EVERY_SUBMITS);
        if has_turn && !is_idle && !pump.is_watched() {
            shared.receive_all(&mut pump, now)?;
            pump.handle_timeout(now);
        }
        pump.submit_pending(now, self.id, submits_all);
        pump.flush(now)?;
        self.submitted = self.producer.submitted();
        if submits_all && !pump.is_blocked() {
            self.flushed = self.submitted;
        }
        self.producer.leave();
        shared.signal_readiness(&pump);
        drop(pump);
        if self.producer.position() > self.submitted {
            self.note_unsubmitted();
        }
        Ok(())
    }

    /// Leaves what is left of the circuit, whose user is gone and has read `consumed`, to the pump.
    #[inline]
    fn release(&self, pump: &mut Pump<E, W>, consumed: Option<Chunk>) {
        let is_over = self.has_finished && self.producer.position() == self.submitted;
        let deferred = self.delays_acks && !self.producer.is_in_flight();
        // What is left of a transaction that is over needs no exact time.
        let now = match is_over && deferred {
            true => pump.last_at(),
            false => self.shared.now(),
        };
        // Reading opens the receive window, and the peer may wait for that.
        if let Some(consumed) = consumed {
            pump.consume(now, self.id, consumed);
        }
        if !is_over {
            pump.submit_pending(now, self.id, true);
            pump.engine().finish(now, self.id);
        }
        pump.detach(now, self.id, deferred);
        if deferred {
            self.shared.wakeup.helper.defer_flush();
        } else {
            let _ = pump.flush(now);
        }
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
        if self.is_released {
            return;
        }
        // No user is left to receive an error of the last packets.
        let _ = self.push_unsent();
        if self.has_unsent() {
            // A graceful end would tell the peer that it has the whole stream.
            let _ = self.abort();
        }
        let consumed = self.reader.take_consumed();
        if let Ok(mut pump) = self.shared.lock() {
            self.release(&mut pump, consumed);
        }
    }
}
