//! Bytes that are copied from the arrival directly into the buffer of a user who waits for them.
//!
//! What arrives is kept in a chunk of its circuit's queue until its user has read it. Where nothing waits in front of
//! it and its user has a buffer at hand, bytes of a stream that arrive in one short packet are copied there at once.

use super::{Pump, recycle};
use engine::{AssociationId, Associations, Bytes, Delivery, Instant};
use std::io;
use wire::{Arrival, Wire};

/// The buffer of a user who waits for bytes of a stream.
pub(crate) struct DirectCopy<'a> {
    pub(crate) id: AssociationId,
    pub(crate) buffer: &'a mut [u8],
    /// Bytes that were put there.
    pub(crate) filled: Option<usize>,
}

impl DirectCopy<'_> {
    /// Takes all that a packet brought, if it is for this user alone and fits; how many bytes it was.
    #[inline]
    fn take(&mut self, deliveries: &[Delivery], packet: &[u8]) -> Option<usize> {
        let bytes = only_bytes(deliveries, self.id, packet)?;
        self.buffer.get_mut(..bytes.len())?.copy_from_slice(bytes);
        self.filled = Some(bytes.len());
        self.filled
    }
}

/// The bytes that a packet brought, if all of them lie in it and continue the stream of `id`.
#[inline]
pub(super) fn only_bytes<'a>(
    deliveries: &[Delivery],
    id: AssociationId,
    packet: &'a [u8],
) -> Option<&'a [u8]> {
    let [delivery] = deliveries else {
        return None;
    };
    let Bytes::Packet(range) = &delivery.bytes else {
        return None;
    };
    let is_plain = delivery.association == id && !delivery.gap && !delivery.begin_tag;
    is_plain.then(|| &packet[range.clone()])
}

impl<E: Associations, W: Wire> Pump<E, W> {
    /// Whether what arrives next for circuit `id` may be copied directly to its user: nothing is in front of it, and nothing is
    /// to be sent before the user waits.
    #[inline]
    pub(crate) fn may_copy_direct(&self, id: AssociationId) -> bool {
        let is_plain = self.settled_at.is_some() && !self.watched;
        let state = self.circuits.get(id).filter(|_| is_plain);
        state.is_some_and(|state| {
            state.receive_queue.is_empty() && !state.finished && state.closed.is_none()
        })
    }

    /// Runs timers, and sends what there is, also if nothing came since the last flush.
    /// Errors are those of [`flush`](Pump::flush).
    #[inline(never)]
    pub(crate) fn settle(&mut self, now: Instant) -> io::Result<()> {
        self.settled_at = None;
        self.handle_timeout(now);
        self.flush(now)
    }

    /// Runs timers after bytes were copied to their user, and sends what the engine answers, if it does. Without an answer
    /// the flush is left to the user's next call: a reply, mostly, has one of its own.
    /// Errors are those of [`flush`](Pump::flush).
    #[inline]
    pub(crate) fn answer(&mut self, now: Instant) -> io::Result<()> {
        self.handle_timeout(now);
        if self.batch.is_empty() {
            self.engine.poll_transmit(now, &mut self.batch);
        }
        match self.batch.is_empty() && self.coalesced.is_empty() {
            true => Ok(()),
            false => self.flush(now),
        }
    }

    /// Receives what is there; the time, by `clock`, which is asked only then. None for nothing.
    /// Errors are those of [`handle_arrival`](Pump::handle_arrival).
    #[inline]
    pub(crate) fn receive_for(
        &mut self,
        clock: impl FnOnce() -> Instant,
        place: &mut DirectCopy<'_>,
    ) -> io::Result<Option<Instant>> {
        let mut buffer = self.take_receive_buffer();
        let arrival = self.wire.wire_mut().receive(&mut buffer);
        if matches!(&arrival, Err(error) if error.kind() == io::ErrorKind::WouldBlock) {
            recycle(&mut self.spare_buffers, buffer);
            return Ok(None);
        }
        let now = clock();
        self.handle_arrival_for(now, buffer, arrival, place)?;
        Ok(Some(now))
    }

    /// As [`handle_arrival`](Pump::handle_arrival); what is for `place` alone goes there.
    /// Errors are those of [`handle_arrival`](Pump::handle_arrival).
    #[inline]
    pub(crate) fn handle_arrival_for(
        &mut self,
        now: Instant,
        buffer: Vec<u8>,
        arrival: io::Result<Arrival>,
        place: &mut DirectCopy<'_>,
    ) -> io::Result<bool> {
        let arrival = match arrival {
            Ok(arrival) if self.layer.is_none() && is_one_short(&arrival, self.receive_len) => {
                arrival
            }
            other => return self.handle_arrival(now, buffer, other),
        };
        let octets = &buffer[..arrival.len];
        self.handle_short(now, &arrival, octets);
        match place.take(&self.deliveries.bytes, octets) {
            Some(len) => {
                self.deliveries.bytes.clear();
                self.engine.consume(now, place.id, len as u64);
            }
            None => self.queue_short(now, octets),
        }
        self.recycle_arrival(buffer);
        self.drain_events(now);
        self.publish_changes();
        Ok(true)
    }

    /// Gives an arrival that is one short packet to the engine, past [`handle_arrival`](Pump::handle_arrival).
    #[inline]
    pub(super) fn handle_short(&mut self, now: Instant, arrival: &Arrival, octets: &[u8]) {
        self.settled_at = None;
        self.last_at = now;
        self.arrivals += 1;
        self.handle_packet(now, arrival, octets);
    }
}

/// Whether an arrival is one packet that would be copied into a chunk.
#[inline]
pub(super) fn is_one_short(arrival: &Arrival, receive_len: usize) -> bool {
    let len = arrival.len;
    len > 0 && len <= arrival.segment_size && len < receive_len / 2
}

#[cfg(test)]
mod tests {
    use super::*;
    use engine::Note;

    fn delivery(id: u32, range: std::ops::Range<usize>) -> Delivery {
        Delivery {
            association: AssociationId(id),
            bytes: Bytes::Packet(range),
            gap: false,
            end_of_message: false,
            note: Note::default(),
            begin_tag: false,
            end_tag: false,
        }
    }

    /// What a place of `room` bytes for circuit 1 takes of a packet that brought these.
    fn taken(room: usize, deliveries: &[Delivery]) -> Option<Vec<u8>> {
        let mut buffer = vec![0; room];
        let mut place = DirectCopy {
            id: AssociationId(1),
            buffer: &mut buffer,
            filled: None,
        };
        let len = place.take(deliveries, b"..bytes");
        assert_eq!(place.filled, len);
        len.map(|len| buffer[..len].to_vec())
    }

    #[test]
    fn bytes_of_its_circuit_that_fit_are_taken() {
        let bytes = delivery(1, 2..7);
        for room in [5, 100] {
            let taken = taken(room, std::slice::from_ref(&bytes));
            assert_eq!(taken.as_deref(), Some(&b"bytes"[..]));
        }
    }

    #[test]
    fn whatever_else_a_packet_brought_is_left() {
        let bytes = || delivery(1, 2..7);
        let lost = Delivery {
            gap: true,
            ..bytes()
        };
        let tagged = Delivery {
            begin_tag: true,
            ..bytes()
        };
        let copied = Delivery {
            bytes: Bytes::Reassembled(b"bytes".to_vec()),
            ..bytes()
        };
        assert_eq!(taken(4, &[bytes()]), None, "it does not fit");
        assert_eq!(taken(9, &[delivery(2, 2..7)]), None, "of another circuit");
        for other in [vec![], vec![bytes(), bytes()], vec![lost], vec![tagged]] {
            assert_eq!(taken(9, &other), None);
        }
        assert_eq!(
            taken(9, &[copied]),
            None,
            "there are bytes of a gap behind it"
        );
    }
}
