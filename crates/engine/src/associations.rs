//! The half of a protocol that faces users who hold associations.

use crate::{Address, Instant, Note, Protocol, SendFlags};

/// Names an association within one engine. Never used again while the engine lives.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct AssociationId(pub u32);

/// How the packets of an association are cut, from some position of its store on.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Layout {
    /// Octets of header in front of the user bytes of a full packet.
    pub header: usize,
    /// User bytes in a full packet.
    pub payload: usize,
    /// Octets behind them.
    pub trailer: usize,
}

impl Layout {
    /// Octets of a full packet.
    pub fn packet(&self) -> usize {
        self.header + self.payload + self.trailer
    }
}

/// How a user ends an association.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Close {
    /// After everything that was submitted has arrived.
    Graceful,
    /// At once, in both directions; what is on its way is lost.
    Abort,
}

/// How an association stands.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Status {
    /// Bytes sent that the peer has not acknowledged and that count against the window; at least 1
    /// while an end of the sending direction is on its way.
    pub bytes_in_flight: u64,
}

/// A command that cannot be carried out.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum CommandError {
    /// The engine holds as many associations as it may.
    TooManyAssociations,
    /// No such association, or it is gone.
    UnknownAssociation,
    /// The engine cannot do it at all: no such address, no groups, no such half.
    Unsupported,
}

impl core::fmt::Display for CommandError {
    fn fmt(&self, f: &mut core::fmt::Formatter<'_>) -> core::fmt::Result {
        f.write_str(match self {
            CommandError::TooManyAssociations => {
                "the endpoint holds as many associations as it may"
            }
            CommandError::UnknownAssociation => "no such association",
            CommandError::Unsupported => "this protocol cannot do that",
        })
    }
}

impl std::error::Error for CommandError {}

/// Associations: byte streams or messages between two ends, or from one sender to a group.
///
/// The host keeps the bytes that are to be sent in a *send store* of each association and counts
/// them; a position is a count of bytes since the association was opened. The engine names ranges of
/// positions and never sees the bytes.
pub trait Associations: Protocol {
    /// How packets of a new association are cut, and those of `id` from its last
    /// [`crate::Event::LayoutChanged`] on.
    fn layout(&self, id: Option<AssociationId>) -> Layout;

    /// Opens an association to a peer with one or several addresses. [`crate::Event::Connected`] or
    /// [`crate::Event::Closed`] follows.
    ///
    /// # Errors
    ///
    /// [`CommandError::TooManyAssociations`], or [`CommandError::Unsupported`] for an address, or
    /// several, that the protocol cannot use.
    fn connect(&mut self, now: Instant, to: &[Address]) -> Result<AssociationId, CommandError>;

    /// Whether associations opened by peers are accepted; they are refused before the first call.
    fn listen(&mut self, accept: bool);

    /// The send store of `id` now holds the bytes up to position `end`, which never goes back.
    ///
    /// With [`SendFlags::end_of_message`] a message ends at `end`, and `note` travels with it. A
    /// submission whose `end` lies below the last one carries its flags alone. A message whose note
    /// is not plain is submitted in one piece, from its first byte to its end.
    fn submit(&mut self, now: Instant, id: AssociationId, end: u64, flags: SendFlags, note: &Note);

    /// As [`submit`](Associations::submit) of each message that ends at one of `ends`, in their order, with
    /// [`SendFlags::END_OF_MESSAGE`], [`SendFlags::more`] and a plain note. Another submission follows at once.
    /// [`submit_each`] is what an engine without a shorter way does.
    fn submit_all(&mut self, now: Instant, id: AssociationId, ends: &[u64]);

    /// The user took `bytes` more of what was delivered.
    fn consume(&mut self, now: Instant, id: AssociationId, bytes: u64);

    /// Ends the association.
    fn close(&mut self, now: Instant, id: AssociationId, how: Close);

    /// How `id` stands; all zeros once it is gone.
    fn status(&self, id: AssociationId) -> Status;

    /// User bytes that an association may have delivered and its user has not taken, at most. The
    /// host lets what it keeps of them take one and a quarter as much again.
    fn receive_window(&self) -> u64;

    /// What the host keeps of arrivals for `id` takes more memory than it may (`is_full`), or has
    /// room again. Until then user bytes for `id` are dropped as if they had been lost.
    fn set_receive_full(&mut self, id: AssociationId, is_full: bool);

    /// The path of `id` carries packets of `octets` in one piece (the PLPMTU of RFC 8899
    /// section 2). Packets become no longer than that, but never shorter than every path of the
    /// medium must carry. Before the first submission the [`Layout`] follows; afterwards a byte
    /// stream is cut shorter than it. An engine may leave its packets to be fragmented.
    fn set_path_mtu(&mut self, now: Instant, id: AssociationId, octets: usize);

    /// Puts associations into the order in which their users are to be served.
    fn sort_by_priority(&self, ids: &mut [AssociationId]);
}

/// Submits messages one by one, as [`Associations::submit_all`] says.
pub fn submit_each<A: Associations + ?Sized>(
    engine: &mut A,
    now: Instant,
    id: AssociationId,
    ends: &[u64],
) {
    let flags = SendFlags {
        more: true,
        ..SendFlags::END_OF_MESSAGE
    };
    for end in ends {
        engine.submit(now, id, *end, flags, &Note::default());
    }
}

/// Submissions that carry one flag, in the words of their users. What an engine does is in
/// [`Associations`] alone.
pub trait AssociationsExt: Associations {
    /// Opens an association to a peer with one address. Errors are those of [`Associations::connect`].
    fn open(&mut self, now: Instant, to: Address) -> Result<AssociationId, CommandError> {
        self.connect(now, &[to])
    }

    /// More bytes, which leave now.
    fn push(&mut self, now: Instant, id: AssociationId, end: u64) {
        self.submit(now, id, end, SendFlags::PUSH, &Note::default());
    }

    /// A message ends at `end`.
    fn end_message(&mut self, now: Instant, id: AssociationId, end: u64) {
        self.submit(now, id, end, SendFlags::END_OF_MESSAGE, &Note::default());
    }

    /// The user waits until the peer has everything.
    fn request_ack(&mut self, now: Instant, id: AssociationId) {
        self.submit(now, id, 0, SendFlags::REQUEST_ACK, &Note::default());
    }

    /// Ends the sending direction after the bytes submitted so far.
    fn finish(&mut self, now: Instant, id: AssociationId) {
        self.submit(now, id, 0, SendFlags::FIN, &Note::default());
    }

    /// Ends the association at once.
    fn abort(&mut self, now: Instant, id: AssociationId) {
        self.close(now, id, Close::Abort);
    }

    /// Bytes sent that the peer has not acknowledged: see [`Status::bytes_in_flight`].
    fn bytes_in_flight(&self, id: AssociationId) -> u64 {
        self.status(id).bytes_in_flight
    }
}

impl<A: Associations + ?Sized> AssociationsExt for A {}
