//! What a packet brought for users, and what the host must know besides.

use crate::{Address, AssociationId, IncomingMessage, Note, TransactionEvent};
use core::ops::Range;

/// User bytes ready for their user, in order.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Delivery {
    /// The association they belong to.
    pub association: AssociationId,
    /// The bytes.
    pub bytes: Bytes,
    /// Bytes were lost between the last delivery and this one. With the end of a message and no bytes:
    /// the sender gave the unfinished message of this stream up, and the next one begins behind it.
    pub gap: bool,
    /// A message ends with the last of them ([`crate::Framing::Messages`] only).
    pub end_of_message: bool,
    /// What travelled with the message. Tags that lie among the bytes are only said to be there: see
    /// [`Delivery::begin_tag`]. The stream, and whether it is unordered, come with every part of a
    /// message: parts of messages of several streams may take turns.
    pub note: Note,
    /// The bytes begin with a tag of eight octets that the sender set apart.
    pub begin_tag: bool,
    /// They end with one ([`crate::Framing::Messages`] only).
    pub end_tag: bool,
}

/// Where delivered bytes are.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Bytes {
    /// In the packet just handled: nothing was copied.
    Packet(Range<usize>),
    /// In a copy that the engine kept because they came before their turn.
    Reassembled(Vec<u8>),
}

impl Bytes {
    /// How many there are.
    #[inline]
    pub fn len(&self) -> usize {
        match self {
            Bytes::Packet(range) => range.len(),
            Bytes::Reassembled(bytes) => bytes.len(),
        }
    }

    /// Whether there are none.
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }
}

/// A block of a message of a transaction: the host copies it to its place.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Block {
    /// The message.
    pub message: IncomingMessage,
    /// Its whole length, octets; the host allocates it with the first block, within its limit.
    pub message_len: u64,
    /// Where in the message the block belongs.
    pub offset: u64,
    /// Where in the packet just handled its octets are.
    pub range: Range<usize>,
}

/// What one packet brought.
#[derive(Clone, Debug, Default)]
pub struct Deliveries {
    /// Bytes of associations, in order.
    pub bytes: Vec<Delivery>,
    /// Blocks of messages, in any order.
    pub blocks: Vec<Block>,
    /// Whole messages in front of `bytes`. None: the host takes each as one of `bytes`.
    pub whole: Option<WholeMessages>,
}

/// Messages of which each lies in the packet just handled as a whole, with a plain note: their bytes, in order, are all
/// that there is to say of them.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct WholeMessages {
    /// The association they belong to, if there are any.
    pub association: AssociationId,
    /// Where in the packet each lies.
    pub ranges: Vec<Range<u32>>,
}

impl Deliveries {
    /// For a host that takes [`Deliveries::whole`].
    pub fn with_whole_messages() -> Deliveries {
        Deliveries {
            whole: Some(WholeMessages {
                association: AssociationId(0),
                ranges: Vec::new(),
            }),
            ..Deliveries::default()
        }
    }

    /// Where whole messages of `id` may be added; None if they are to be among the `bytes`, as others are before them or
    /// the host takes them so.
    #[inline]
    pub fn whole_of(&mut self, id: AssociationId) -> Option<&mut Vec<Range<u32>>> {
        let whole = self.whole.as_mut().filter(|_| self.bytes.is_empty())?;
        if whole.ranges.is_empty() {
            whole.association = id;
        }
        (whole.association == id).then_some(&mut whole.ranges)
    }

    /// Whether the packet brought nothing.
    pub fn is_empty(&self) -> bool {
        let has_whole = self
            .whole
            .as_ref()
            .is_some_and(|whole| !whole.ranges.is_empty());
        self.bytes.is_empty() && self.blocks.is_empty() && !has_whole
    }

    /// Forgets everything; the memory stays.
    pub fn clear(&mut self) {
        self.bytes.clear();
        self.blocks.clear();
        if let Some(whole) = &mut self.whole {
            whole.ranges.clear();
        }
    }
}

/// Something the host must know.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Event {
    /// An association that this side opened can carry data.
    Connected(AssociationId),
    /// A peer opened an association.
    Accepted(AssociationId, Address),
    /// The send store may forget these positions. Ranges come in any order and do not overlap.
    Released(AssociationId, Range<u64>),
    /// A message was given up ([`crate::Reliability`]), or its association ended; its bytes are
    /// released.
    Abandoned(AssociationId, AbandonedMessage),
    /// The layout changed from this position of the store on.
    LayoutChanged(AssociationId, u64),
    /// The peer will send no more. All that came was delivered before this event.
    Finished(AssociationId),
    /// The association is gone.
    Closed(AssociationId, CloseReason),
    /// A message of a transaction: see [`TransactionEvent`].
    Transaction(TransactionEvent),
}

/// A message that the peer's user does not get, or may not get.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct AbandonedMessage {
    /// Its positions in the store, without a front that the peer acknowledged.
    pub range: Range<u64>,
    /// What travelled with it, and its user's context.
    pub note: Note,
    /// Something of it was sent: the peer may have it.
    pub was_sent: bool,
    /// The positions begin with its first.
    pub is_whole: bool,
}

/// Why an association ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum CloseReason {
    /// Both sides said all they had to say.
    Graceful,
    /// The peer did not answer within the limit of retries.
    TimedOut,
    /// The peer refused, or knows no such association.
    Refused,
    /// One side gave up without waiting for the other.
    Aborted,
}
