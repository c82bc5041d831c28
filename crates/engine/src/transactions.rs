//! The half of a protocol that faces users who call and answer.

use crate::{Address, CommandError, Instant, Note, Protocol};

/// Names an entity: a client or a server that transactions run between, or a group of servers
/// (RFC 1045 section 2.1).
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct EntityId(pub u64);

/// Names a transaction within one engine: one request and its replies.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct TransactionId(pub u64);

/// Names a message that the host keeps in one buffer until the engine releases it. The host chooses
/// the number, and uses it once.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct OutgoingMessage(pub u64);

/// Names a message that comes in. The engine chooses the number, and uses it once.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct IncomingMessage(pub u64);

/// How a transaction ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum TransactionEnd {
    /// All replies that were waited for have come.
    Complete,
    /// The server did not answer within the limit of retries.
    TimedOut,
    /// There is no such entity, or it refused the call.
    Refused,
    /// This side abandoned it.
    Abandoned,
    /// It failed for another reason, which the protocol has a code for: of VMTP those of RFC 1045
    /// section 2.13.
    Code(u32),
}

/// What happened to a transaction.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum TransactionEvent {
    /// A request is whole; its blocks were delivered as `message`.
    Requested {
        /// The transaction; [`Transactions::reply`] answers it.
        transaction: TransactionId,
        /// The request.
        message: IncomingMessage,
        /// The entity that calls.
        from: EntityId,
        /// The entity, or group, that is called.
        to: EntityId,
        /// The entity that answers: the one that is called, or the member of the group.
        answerer: EntityId,
        /// What travelled with it.
        note: Note,
    },
    /// A reply is whole; its blocks were delivered as `message`. A call to a group may have several.
    Replied {
        /// The transaction.
        transaction: TransactionId,
        /// The reply.
        message: IncomingMessage,
        /// The entity that answered.
        from: EntityId,
        /// What travelled with it.
        note: Note,
    },
    /// A message stays at this end: the host copies all of it. Other events then name the copy as a
    /// message that came in.
    Copied {
        /// The message.
        from: OutgoingMessage,
        /// The copy.
        to: IncomingMessage,
    },
    /// A message that came in whole is for another user as well: the host copies it, before either is
    /// named again.
    Duplicated {
        /// The message.
        from: IncomingMessage,
        /// The copy.
        to: IncomingMessage,
    },
    /// The engine needs this message no longer: its buffer may be used again.
    Released(OutgoingMessage),
    /// The message will never be whole: its buffer may go.
    Discarded(IncomingMessage),
    /// The transaction is over at this end; no more events of it follow.
    Ended(TransactionId, TransactionEnd),
}

/// Message transactions: a request to an entity or a group of them, and its replies.
///
/// A message is one buffer that the host keeps until [`TransactionEvent::Released`]; the engine names
/// ranges of it ([`crate::Store::Message`]) and never sees its bytes. What comes in is delivered in
/// [`crate::Block`]s, each of which the host copies to its place.
pub trait Transactions: Protocol {
    /// Octets of the longest message.
    fn message_max(&self) -> u64;

    /// Whether [`Protocol::poll_transmit`] may give packets now. Where it says no, a host that asks all the same gets
    /// none.
    fn has_packets(&self) -> bool;

    /// Creates an entity at this end: it may call, and is called from now on.
    ///
    /// # Errors
    ///
    /// [`CommandError::TooManyAssociations`] when there are as many as there may be.
    fn create_entity(&mut self, entity: EntityId) -> Result<(), CommandError>;

    /// Removes an entity. Calls to it are refused from now on.
    fn remove_entity(&mut self, now: Instant, entity: EntityId);

    /// Makes `entity`, which is of this end, a member of a group; false takes it out.
    ///
    /// # Errors
    ///
    /// [`CommandError::Unsupported`] where the protocol has no groups,
    /// [`CommandError::UnknownAssociation`] for an entity of another host.
    fn set_member(
        &mut self,
        group: EntityId,
        entity: EntityId,
        is_member: bool,
    ) -> Result<(), CommandError>;

    /// Says where an entity, or a group, of other hosts is reached. Protocols whose identifiers
    /// contain the address, or that look for it, need not be told.
    fn locate(&mut self, entity: EntityId, at: Address);

    /// Calls `to` with a request of `len` octets.
    ///
    /// # Errors
    ///
    /// [`CommandError::UnknownAssociation`] for an entity that was not created here or that nobody
    /// can find, [`CommandError::Unsupported`] for a message that is too long, or
    /// [`CommandError::TooManyAssociations`].
    fn call(
        &mut self,
        now: Instant,
        from: EntityId,
        to: EntityId,
        request: (OutgoingMessage, u64),
        note: &Note,
    ) -> Result<TransactionId, CommandError>;

    /// Answers a transaction with a reply of `len` octets.
    ///
    /// # Errors
    ///
    /// [`CommandError::UnknownAssociation`] for one that is answered already or is over; the message
    /// is not taken then.
    fn reply(
        &mut self,
        now: Instant,
        transaction: TransactionId,
        reply: (OutgoingMessage, u64),
        note: &Note,
    ) -> Result<(), CommandError>;

    /// Passes a request on to another entity, which then answers the caller itself.
    /// Errors are those of [`reply`](Transactions::reply), and [`CommandError::Unsupported`].
    fn forward(
        &mut self,
        now: Instant,
        transaction: TransactionId,
        to: EntityId,
        request: (OutgoingMessage, u64),
    ) -> Result<(), CommandError>;

    /// Gives a transaction up, at either end. A request that was to be delivered only to a receiver that
    /// waits ([`crate::CallFlags::CONDITIONAL`]) is refused with it as one for which nobody waited.
    fn abandon(&mut self, now: Instant, transaction: TransactionId);
}
