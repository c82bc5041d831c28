//! A boxed engine is an engine.

use crate::{
    Address, AssociationId, Associations, Batch, Close, CommandError, Counters, Deliveries,
    EntityId, Event, Instant, Layout, Note, OutgoingMessage, Path, PathFault, Properties, Protocol,
    Received, Router, SendFlags, Status, TransactionId, Transactions,
};

impl<P: Protocol + ?Sized> Protocol for Box<P> {
    fn properties(&self) -> Properties {
        (**self).properties()
    }

    fn handle_packet(&mut self, now: Instant, packet: Received<'_>, deliveries: &mut Deliveries) {
        (**self).handle_packet(now, packet, deliveries);
    }

    fn handle_timeout(&mut self, now: Instant) {
        (**self).handle_timeout(now);
    }

    fn handle_path_error(&mut self, now: Instant, fault: PathFault<'_>) {
        (**self).handle_path_error(now, fault);
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

    fn counters(&self) -> Counters {
        (**self).counters()
    }
}

impl<P: Associations + ?Sized> Associations for Box<P> {
    fn layout(&self, id: Option<AssociationId>) -> Layout {
        (**self).layout(id)
    }

    fn connect(&mut self, now: Instant, to: &[Address]) -> Result<AssociationId, CommandError> {
        (**self).connect(now, to)
    }

    fn listen(&mut self, accept: bool) {
        (**self).listen(accept);
    }

    fn submit(&mut self, now: Instant, id: AssociationId, end: u64, flags: SendFlags, note: &Note) {
        (**self).submit(now, id, end, flags, note);
    }

    fn submit_all(&mut self, now: Instant, id: AssociationId, ends: &[u64]) {
        (**self).submit_all(now, id, ends);
    }

    fn consume(&mut self, now: Instant, id: AssociationId, bytes: u64) {
        (**self).consume(now, id, bytes);
    }

    fn close(&mut self, now: Instant, id: AssociationId, how: Close) {
        (**self).close(now, id, how);
    }

    fn status(&self, id: AssociationId) -> Status {
        (**self).status(id)
    }

    fn receive_window(&self) -> u64 {
        (**self).receive_window()
    }

    fn set_receive_full(&mut self, id: AssociationId, is_full: bool) {
        (**self).set_receive_full(id, is_full);
    }

    fn set_path_mtu(&mut self, now: Instant, id: AssociationId, octets: usize) {
        (**self).set_path_mtu(now, id, octets);
    }

    fn sort_by_priority(&self, ids: &mut [AssociationId]) {
        (**self).sort_by_priority(ids);
    }
}

impl<P: Router + ?Sized> Router for Box<P> {
    fn forwarded_from(&self) -> u64 {
        (**self).forwarded_from()
    }

    fn supports_cut_through(&self, path: Path, head: &[u8]) -> bool {
        (**self).supports_cut_through(path, head)
    }
}

impl<P: Transactions + ?Sized> Transactions for Box<P> {
    fn message_max(&self) -> u64 {
        (**self).message_max()
    }

    fn has_packets(&self) -> bool {
        (**self).has_packets()
    }

    fn create_entity(&mut self, entity: EntityId) -> Result<(), CommandError> {
        (**self).create_entity(entity)
    }

    fn remove_entity(&mut self, now: Instant, entity: EntityId) {
        (**self).remove_entity(now, entity);
    }

    fn set_member(
        &mut self,
        group: EntityId,
        entity: EntityId,
        is_member: bool,
    ) -> Result<(), CommandError> {
        (**self).set_member(group, entity, is_member)
    }

    fn locate(&mut self, entity: EntityId, at: Address) {
        (**self).locate(entity, at);
    }

    fn call(
        &mut self,
        now: Instant,
        from: EntityId,
        to: EntityId,
        request: (OutgoingMessage, u64),
        note: &Note,
    ) -> Result<TransactionId, CommandError> {
        (**self).call(now, from, to, request, note)
    }

    fn reply(
        &mut self,
        now: Instant,
        transaction: TransactionId,
        reply: (OutgoingMessage, u64),
        note: &Note,
    ) -> Result<(), CommandError> {
        (**self).reply(now, transaction, reply, note)
    }

    fn forward(
        &mut self,
        now: Instant,
        transaction: TransactionId,
        to: EntityId,
        request: (OutgoingMessage, u64),
    ) -> Result<(), CommandError> {
        (**self).forward(now, transaction, to, request)
    }

    fn abandon(&mut self, now: Instant, transaction: TransactionId) {
        (**self).abandon(now, transaction);
    }
}
