//! A boxed engine is an engine: every call goes to the one inside.

use crate::{
    Address, AssociationId, Batch, CommandError, Counters, Delivery, Engine, Event, Framing,
    Instant, PacketLen, SegmentLayout,
};
use core::time::Duration;

impl<E: Engine + ?Sized> Engine for Box<E> {
    fn layout(&self) -> SegmentLayout {
        (**self).layout()
    }

    fn packet_len(&self) -> Option<PacketLen> {
        (**self).packet_len()
    }

    fn connect(&mut self, now: Instant, to: Address) -> Result<AssociationId, CommandError> {
        (**self).connect(now, to)
    }

    fn listen(&mut self, accept: bool) {
        (**self).listen(accept);
    }

    fn submit(&mut self, now: Instant, association: AssociationId, end: u64, push: bool) {
        (**self).submit(now, association, end, push);
    }

    fn framing(&self) -> Framing {
        (**self).framing()
    }

    fn end_message(&mut self, association: AssociationId, end: u64) {
        (**self).end_message(association, end);
    }

    fn consume(&mut self, now: Instant, association: AssociationId, bytes: u64) {
        (**self).consume(now, association, bytes);
    }

    fn finish(&mut self, now: Instant, association: AssociationId) {
        (**self).finish(now, association);
    }

    fn request_ack(&mut self, now: Instant, association: AssociationId) {
        (**self).request_ack(now, association);
    }

    fn abort(&mut self, now: Instant, association: AssociationId) {
        (**self).abort(now, association);
    }

    fn handle_packet(
        &mut self,
        now: Instant,
        from: Address,
        packet: &[u8],
        deliveries: &mut Vec<Delivery>,
    ) {
        (**self).handle_packet(now, from, packet, deliveries);
    }

    fn handle_timeout(&mut self, now: Instant) {
        (**self).handle_timeout(now);
    }

    fn poll_transmit(&mut self, now: Instant, batch: &mut Batch) {
        (**self).poll_transmit(now, batch);
    }

    fn poll_event(&mut self) -> Option<Event> {
        (**self).poll_event()
    }

    fn poll_timeout(&self) -> Option<Instant> {
        (**self).poll_timeout()
    }

    fn bytes_in_flight(&self, association: AssociationId) -> u64 {
        (**self).bytes_in_flight(association)
    }

    fn counters(&self) -> Counters {
        (**self).counters()
    }

    fn sort_by_priority(&self, associations: &mut [AssociationId]) {
        (**self).sort_by_priority(associations);
    }

    fn forwarded_from(&self) -> Option<u64> {
        (**self).forwarded_from()
    }

    fn supports_cut_through(&self, from: Address, head: &[u8]) -> bool {
        (**self).supports_cut_through(from, head)
    }

    fn coalesce_delay(&self) -> Duration {
        (**self).coalesce_delay()
    }
}
