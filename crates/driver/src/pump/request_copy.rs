//! Requests that are copied from the arrival directly into the buffer of a user who waits for one.
//!
//! A circuit that a peer opens waits in the accept queue, and what it brought in a chunk, until a user takes both. Where
//! nothing waits in front of it and a user has a buffer at hand, it has neither: its user gets it with its first bytes.

use super::Pump;
use super::direct_copy::{is_one_short, only_bytes};
use engine::{Address, AssociationId, Associations, Event, Framing, Instant};
use std::io;
use wire::{Arrival, Wire};

/// The buffer of a user who waits for a peer's opening; an empty one takes none.
pub(crate) struct RequestCopy<'a> {
    pub(crate) buffer: &'a mut [u8],
    /// The circuit that was opened, and its first bytes, which are in `buffer`.
    pub(crate) opened: Option<DirectOpening>,
}

/// A circuit that a peer opened with bytes that its user has.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct DirectOpening {
    pub(crate) id: AssociationId,
    pub(crate) peer: Address,
    pub(crate) len: usize,
}

impl<E: Associations, W: Wire> Pump<E, W> {
    /// As [`handle_arrival`](Pump::handle_arrival); a circuit that is opened with bytes which `place` takes goes there.
    /// Errors are those of [`handle_arrival`](Pump::handle_arrival).
    #[inline]
    pub(crate) fn handle_arrival_for_request(
        &mut self,
        now: Instant,
        buffer: Vec<u8>,
        arrival: io::Result<Arrival>,
        place: &mut RequestCopy<'_>,
    ) -> io::Result<bool> {
        let arrival = match arrival {
            Ok(arrival)
                if self.may_open_direct()
                    && !place.buffer.is_empty()
                    && is_one_short(&arrival, self.receive_len) =>
            {
                arrival
            }
            other => return self.handle_arrival(now, buffer, other),
        };
        let octets = &buffer[..arrival.len];
        self.handle_short(now, &arrival, octets);
        let first = self.engine.poll_event();
        let opened = self.take_request(first.as_ref(), octets, place.buffer);
        place.opened = opened;
        match opened {
            Some(opened) => self.open_direct(now, opened),
            None => {
                self.queue_short(now, octets);
                if let Some(first) = &first {
                    self.handle_events(now, first);
                }
                self.publish_changes();
            }
        }
        self.recycle_arrival(buffer);
        Ok(true)
    }

    /// Whether a peer's opening may go to its user at once: no other waits in front of it, and events are not held back.
    fn may_open_direct(&self) -> bool {
        self.framing == Framing::Stream
            && self.layer.is_none()
            && !self.watched
            && self.batch.is_empty()
            && self.accept_queue.is_empty()
            && self.has_room_for_unaccepted()
    }

    /// Copies what an opening brought into `place`, if it is all that the packet brought, and fits.
    #[inline]
    fn take_request(
        &mut self,
        first: Option<&Event>,
        packet: &[u8],
        place: &mut [u8],
    ) -> Option<DirectOpening> {
        let Some(Event::Accepted(id, peer)) = first else {
            return None;
        };
        let bytes = only_bytes(&self.deliveries.bytes, *id, packet)?;
        let len = bytes.len();
        place.get_mut(..len)?.copy_from_slice(bytes);
        self.deliveries.bytes.clear();
        Some(DirectOpening {
            id: *id,
            peer: *peer,
            len,
        })
    }

    /// Makes the circuit of an opening whose user has it already, and has read its bytes.
    #[inline]
    fn open_direct(&mut self, now: Instant, opened: DirectOpening) {
        let DirectOpening { id, peer, len } = opened;
        self.events += 1;
        self.engine.consume(now, id, len as u64);
        self.learn_path_mtu(now, id, peer);
        self.circuits.get_or_default(id).connected = true;
        self.drain_events(now);
        self.publish_changes();
    }
}
