//! A boxed engine is an engine.

use crate::forward;
use crate::{
    Address, AssociationId, Associations, Batch, Close, CommandError, Counters, Deliveries,
    EntityId, Event, Instant, Layout, Note, OutgoingMessage, Path, PathFault, Properties, Protocol,
    Received, Router, SendFlags, Status, TransactionId, Transactions,
};

impl<P: Protocol + ?Sized> Protocol for Box<P> {
    forward! { (**self);
        fn properties(&self) -> Properties;
        fn handle_packet(&mut self, now: Instant, packet: Received<'_>, deliveries: &mut Deliveries);
        fn handle_timeout(&mut self, now: Instant);
        fn handle_path_error(&mut self, now: Instant, fault: PathFault<'_>);
        fn poll_transmit(&mut self, now: Instant, batch: &mut Batch);
        fn poll_event(&mut self) -> Option<Event>;
        fn poll_timeout(&self) -> Option<Instant>;
        fn counters(&self) -> Counters;
    }
}

impl<P: Associations + ?Sized> Associations for Box<P> {
    forward! { (**self);
        fn layout(&self, id: Option<AssociationId>) -> Layout;
        fn connect(&mut self, now: Instant, to: &[Address]) -> Result<AssociationId, CommandError>;
        fn listen(&mut self, accept: bool);
        fn submit(&mut self, now: Instant, id: AssociationId, end: u64, flags: SendFlags, note: &Note);
        fn submit_all(&mut self, now: Instant, id: AssociationId, ends: &[u64]);
        fn consume(&mut self, now: Instant, id: AssociationId, bytes: u64);
        fn close(&mut self, now: Instant, id: AssociationId, how: Close);
        fn status(&self, id: AssociationId) -> Status;
        fn receive_window(&self) -> u64;
        fn set_receive_full(&mut self, id: AssociationId, is_full: bool);
        fn set_path_mtu(&mut self, now: Instant, id: AssociationId, octets: usize);
        fn sort_by_priority(&self, ids: &mut [AssociationId]);
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
    forward! { (**self);
        fn message_max(&self) -> u64;
        fn has_packets(&self) -> bool;
        fn create_entity(&mut self, entity: EntityId) -> Result<(), CommandError>;
        fn remove_entity(&mut self, now: Instant, entity: EntityId);
        fn set_member(&mut self, group: EntityId, entity: EntityId, is_member: bool) -> Result<(), CommandError>;
        fn locate(&mut self, entity: EntityId, at: Address);
        fn call(&mut self, now: Instant, from: EntityId, to: EntityId,
            request: (OutgoingMessage, u64), note: &Note) -> Result<TransactionId, CommandError>;
        fn reply(&mut self, now: Instant, transaction: TransactionId,
            reply: (OutgoingMessage, u64), note: &Note) -> Result<(), CommandError>;
        fn forward(&mut self, now: Instant, transaction: TransactionId,
            to: EntityId, request: (OutgoingMessage, u64)) -> Result<(), CommandError>;
        fn abandon(&mut self, now: Instant, transaction: TransactionId);
    }
}
