//! A boxed engine is an engine.

use crate::{
    Address, Associations, CommandError, EntityId, Instant, Note, OutgoingMessage, Path, Protocol,
    Router, TransactionId, Transactions,
};

impl<P: Protocol + ?Sized> Protocol for Box<P> {
    crate::forward_protocol! { self => (**self);
        properties handle_packet handle_timeout handle_path_error poll_transmit
        poll_event poll_timeout counters
    }
}

impl<P: Associations + ?Sized> Associations for Box<P> {
    crate::forward_associations! { self => (**self);
        layout connect listen submit submit_all consume close status receive_window
        set_receive_full set_path_mtu sort_by_priority
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
    crate::forward! { (**self);
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
