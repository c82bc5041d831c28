//! The user's end of a circuit of which one message is sent, with its end: of a transaction, at either side.
//!
//! A [`Circuit`] keeps what its user has not read, what has no room yet, and what is to be flushed. Of a message that leaves
//! at once there is nothing of that; an end that needs more becomes a circuit.

use crate::circuit::Circuit;
use crate::pump::{DirectCopy, Pump};
use crate::shared::{EndpointHandle, EndpointShared, PumpGuard};
use crate::sys::Producer;
use engine::{Address, AssociationId, Associations, Framing, Instant};
use std::io;
use std::sync::Arc;
use std::time::Duration;
use wire::Wire;

/// Such an end. Its owner [leaves](SingleMessage::leave) or [abandons](SingleMessage::abandon) it, or makes it a circuit:
/// dropped, it would stay with the pump.
pub(crate) struct SingleMessage<'a, E: Associations, W: Wire> {
    shared: &'a Arc<EndpointHandle<E, W>>,
    id: AssociationId,
    peer: Address,
    producer: Producer,
    /// The message and its end were submitted.
    is_submitted: bool,
}

impl<'a, E: Associations, W: Wire> SingleMessage<'a, E, W> {
    /// The end of the circuit of association `id` with `peer`.
    #[inline]
    pub(crate) fn attach(
        shared: &'a Arc<EndpointHandle<E, W>>,
        pump: &mut Pump<E, W>,
        id: AssociationId,
        peer: Address,
    ) -> Self {
        SingleMessage {
            shared,
            id,
            peer,
            producer: attach_store(shared, pump, id),
            is_submitted: false,
        }
    }

    /// Sends `message` and ends this direction; false if there is no room for it now, and nothing happened.
    /// Errors are those of the wire.
    #[inline]
    pub(crate) fn send(
        &mut self,
        pump: &mut Pump<E, W>,
        now: Instant,
        message: &[u8],
    ) -> io::Result<bool> {
        if pump.framing() != Framing::Stream || !self.producer.append_bytes(message) {
            return Ok(false);
        }
        self.is_submitted = true;
        pump.submit_last(now, self.id);
        pump.flush(now).map(|()| true)
    }

    /// Receives the whole answer of the peer, as [`Circuit::recv_all`] does, after the message was sent at `now`, and leaves
    /// the circuit, whose last acknowledgement is deferred.
    #[inline]
    pub(crate) fn receive_answer(
        mut self,
        pump: PumpGuard<'a, E, W>,
        mut now: Instant,
        answer: &mut [u8],
        limit: Duration,
    ) -> io::Result<usize> {
        let shared: &'a EndpointShared<E, W> = self.shared;
        let has_other_work = shared.pool.permits.has_unnotified() || limit.is_zero();
        if has_other_work || !pump.may_copy_direct(self.id) {
            return self.into_delaying_circuit(pump).recv_all(answer, limit);
        }
        self.producer.leave();
        shared.hint_busy_poll();
        let mut place = DirectCopy {
            id: self.id,
            buffer: answer,
            filled: None,
        };
        let waited =
            shared.wait_in_receive_with(pump, &mut now, limit, |pump, now, octets, arrival| {
                pump.handle_arrival_for(now, octets, arrival, &mut place)
            });
        let filled = place.filled;
        let mut pump = match waited {
            Ok((pump, _)) => pump,
            Err(error) => {
                self.abandon();
                return Err(error);
            }
        };
        if let Some(len) = filled {
            shared.notify_granted(&mut pump);
            pump.handle_timeout(now);
            if pump.status(self.id).finished {
                self.leave(&mut pump, now, true);
                return Ok(len);
            }
        }
        let mut circuit = self.into_delaying_circuit(pump);
        circuit.recv_all_after(filled.unwrap_or(0), answer, limit)
    }

    /// Leaves the circuit, of which the message was sent, to the pump. Its last packets may be deferred if all of the message
    /// is acknowledged.
    #[inline]
    pub(crate) fn leave(self, pump: &mut Pump<E, W>, now: Instant, may_defer: bool) {
        let deferred = may_defer && !self.producer.is_in_flight();
        pump.detach(now, self.id, deferred);
        if deferred {
            self.shared.wakeup.helper.defer_flush();
        } else {
            let _ = pump.flush(now);
        }
    }

    /// Leaves the circuit after an error of the wire; without the lock of the pump.
    #[cold]
    pub(crate) fn abandon(self) {
        // Nobody hears of an error of the last packets.
        if let Ok(mut pump) = self.shared.lock() {
            let now = self.shared.now();
            self.leave(&mut pump, now, false);
        }
    }

    /// The circuit, for a user who needs more of it.
    pub(crate) fn into_circuit(self, pump: &Pump<E, W>) -> Circuit<E, W> {
        let properties = pump.engine_ref().properties();
        let shared = Arc::clone(self.shared);
        let batch_bytes = pump.batch_bytes();
        let circuit = Circuit::new(
            shared,
            self.id,
            properties,
            self.producer,
            batch_bytes,
            self.peer,
        );
        match self.is_submitted {
            true => circuit.with_all_sent(),
            false => circuit,
        }
    }

    /// The same, with [delayed acknowledgements](Circuit::set_delayed_ack), after the lock is free.
    pub(crate) fn into_delaying_circuit(self, pump: PumpGuard<'a, E, W>) -> Circuit<E, W> {
        let mut circuit = self.into_circuit(&pump);
        circuit.set_delayed_ack();
        circuit
    }
}

/// Gives association `id` a send store; returns the user's end of it.
#[inline]
pub(crate) fn attach_store<E: Associations, W: Wire>(
    shared: &EndpointHandle<E, W>,
    pump: &mut Pump<E, W>,
    id: AssociationId,
) -> Producer {
    let layout = pump.engine_ref().layout(Some(id));
    let spare = pump.take_spare_store();
    let (producer, consumer) = shared.pool.store_of(spare, id, layout);
    pump.attach(id, consumer);
    producer
}
