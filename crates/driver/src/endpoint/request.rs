//! Requests: circuits that peers open, taken with what they send.

use super::Endpoint;
use crate::circuit::Circuit;
use crate::pump::{DirectOpening, RequestCopy};
use crate::shared::PumpGuard;
use crate::single_message::SingleMessage;
use engine::{Address, AssociationId, Associations, AssociationsExt};
use std::io;
use std::time::Duration;
use wire::Wire;

/// What a user who waited for an opening has, and the lock of the pump.
pub(super) enum Accepted<'a, E: Associations, W: Wire> {
    /// A circuit of the accept queue.
    Queued(PumpGuard<'a, E, W>, (AssociationId, Address)),
    /// One whose first bytes are in its user's buffer.
    WithBytes(PumpGuard<'a, E, W>, DirectOpening),
}

/// A request whose reply is awaited. Dropped, it ends its circuit without one.
pub struct OpenRequest<'a, E: Associations, W: Wire> {
    endpoint: &'a Endpoint<E, W>,
    peer: Address,
    end: Option<RequestEnd<E, W>>,
}

/// What a reply is sent on.
pub(super) enum RequestEnd<E: Associations, W: Wire> {
    /// The request came in one packet, and is all that its peer sends: the circuit has no store yet.
    Single(AssociationId),
    Circuit(Box<Circuit<E, W>>),
}

impl<'a, E: Associations, W: Wire> OpenRequest<'a, E, W> {
    /// The peer's address.
    pub fn peer(&self) -> Address {
        self.peer
    }

    /// Its circuit, for a reply of several messages. Errors: an earlier panic of the endpoint.
    pub fn into_circuit(mut self) -> io::Result<Circuit<E, W>> {
        match self.end.take() {
            Some(RequestEnd::Single(id)) => {
                let mut pump = self.endpoint.shared.lock()?;
                Ok(self.endpoint.attach(&mut pump, id, self.peer))
            }
            Some(RequestEnd::Circuit(circuit)) => Ok(*circuit),
            None => Err(io::ErrorKind::NotConnected.into()),
        }
    }

    /// Sends `reply` as the last message of its circuit, and leaves the circuit. Waits up to `limit` for room.
    /// Errors are those of [`Circuit::send_last`].
    #[inline]
    pub fn reply(mut self, reply: &[u8], limit: Duration) -> io::Result<()> {
        match self.end.take() {
            Some(RequestEnd::Single(id)) => self.reply_at_once(id, reply, limit),
            Some(RequestEnd::Circuit(mut circuit)) => circuit.send_last(reply, limit),
            None => Ok(()),
        }
    }

    /// Sends the reply in one turn of the lock, if there is room for it now.
    #[inline]
    fn reply_at_once(&self, id: AssociationId, reply: &[u8], limit: Duration) -> io::Result<()> {
        let shared = &self.endpoint.shared;
        let mut pump = shared.lock()?;
        let now = shared.now();
        let mut end = SingleMessage::attach(shared, &mut pump, id, self.peer);
        match end.send(&mut pump, now, reply) {
            Ok(true) => {
                end.leave(&mut pump, now, false);
                Ok(())
            }
            Ok(false) => {
                let mut circuit = end.into_circuit(&pump);
                drop(pump);
                circuit.send_last(reply, limit)
            }
            Err(error) => {
                drop(pump);
                end.abandon();
                Err(error)
            }
        }
    }

    /// Ends circuit `id` without a reply.
    #[cold]
    fn end_without_reply(&self, id: AssociationId) {
        // Nobody hears of an error of the last packets.
        if let Ok(mut pump) = self.endpoint.shared.lock() {
            let now = self.endpoint.shared.now();
            pump.engine().finish(now, id);
            pump.detach(now, id, false);
            let _ = pump.flush(now);
        }
    }
}

impl<E: Associations, W: Wire> Drop for OpenRequest<'_, E, W> {
    #[inline]
    fn drop(&mut self) {
        if let Some(RequestEnd::Single(id)) = self.end.take() {
            self.end_without_reply(id);
        }
    }
}

impl<E: Associations, W: Wire> Endpoint<E, W> {
    /// Accepts the next circuit a peer opened, and receives into `request` all that the peer sends on it, as
    /// [`accept`](Endpoint::accept) and [`Circuit::recv_all`] do, but in one turn of the lock and without a copy in between
    /// where it comes whole in one short packet. Returns what is answered, and the request's length.
    ///
    /// Waits up to `limit` for the circuit, and as long for each part of a request of several.
    ///
    /// # Errors
    ///
    /// Those of both; a request that breaks off takes its circuit with it.
    pub fn accept_request(
        &self,
        request: &mut [u8],
        limit: Duration,
    ) -> io::Result<(OpenRequest<'_, E, W>, usize)> {
        let mut place = RequestCopy {
            buffer: request,
            opened: None,
        };
        let (circuit, before) = match self.await_opening(limit, &mut place)? {
            Accepted::WithBytes(mut pump, DirectOpening { id, peer, len }) => {
                // What the engine answers leaves with the reply, or with the helper's next tick.
                self.shared.wakeup.helper.defer_flush();
                if pump.status(id).finished {
                    return Ok((self.request(peer, RequestEnd::Single(id)), len));
                }
                (self.attach(&mut pump, id, peer), len)
            }
            Accepted::Queued(mut pump, (id, peer)) => {
                let mut circuit = self.attach(&mut pump, id, peer);
                circuit.take_first(&mut pump);
                (circuit, 0)
            }
        };
        let mut circuit = Box::new(circuit);
        let len = circuit.recv_all_after(before, request, limit)?;
        Ok((
            self.request(circuit.peer(), RequestEnd::Circuit(circuit)),
            len,
        ))
    }

    #[inline]
    pub(super) fn request(&self, peer: Address, end: RequestEnd<E, W>) -> OpenRequest<'_, E, W> {
        OpenRequest {
            endpoint: self,
            peer,
            end: Some(end),
        }
    }
}
