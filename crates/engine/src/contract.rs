//! The trait that every protocol implements, and its types.

use crate::{Batch, Counters, Instant};
use core::ops::Range;
use core::time::Duration;
use std::net::SocketAddr;

/// Source or destination of a packet.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Address {
    /// An Internet address and port (UDP, raw IP with port 0).
    Socket(SocketAddr),
    /// A station of the simulator.
    Station(u32),
    /// An Ethernet hardware address, unicast or multicast.
    Ether([u8; 6]),
}

/// Names an association within one engine. It is never reused while the engine lives.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct AssociationId(pub u32);

/// Sizes of a full packet, fixed for the life of an engine.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct SegmentLayout {
    /// Octets of header in front of the user bytes of a full packet.
    pub header: usize,
    /// User bytes in a full packet.
    pub payload: usize,
}

impl SegmentLayout {
    /// Octets of a full packet.
    pub fn packet(&self) -> usize {
        self.header + self.payload
    }
}

/// User bytes delivered to the user, in order.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Delivery {
    /// The association they belong to.
    pub association: AssociationId,
    /// The bytes.
    pub bytes: Bytes,
    /// Bytes were lost between the last delivery and this one.
    pub gap: bool,
    /// They begin with a tag of eight octets (XTP's BTAG).
    pub begin_tag: bool,
    /// They end with a tag of eight octets (XTP's ETAG; [`Framing::Messages`] only).
    pub end_tag: bool,
    /// They end a message ([`Framing::Messages`] only).
    pub end_of_message: bool,
}

/// Location of delivered bytes.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Bytes {
    /// In the packet just handled, without a copy.
    Packet(Range<usize>),
    /// In a copy from the reassembly queue, because they arrived out of order.
    Reassembled(Vec<u8>),
}

/// How the byte sequence of an association is divided into messages.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Framing {
    /// Messages as [`crate::record`]s in the byte stream, invisible to the engine.
    Records,
    /// A byte stream.
    Stream,
    /// Messages whose ends the engine carries; see [`Engine::end_message`].
    Messages,
}

/// What an engine reports to its host.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Event {
    /// An association opened by this side is established.
    Connected(AssociationId),
    /// A peer opened an association.
    Accepted(AssociationId, Address),
    /// Bytes below this position will not be sent again; the send store may drop them.
    Released(AssociationId, u64),
    /// The peer closed its sending direction, and all its bytes have been delivered.
    Finished(AssociationId),
    /// The association is closed.
    Closed(AssociationId, CloseReason),
}

/// Why an association ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum CloseReason {
    /// Both directions were closed and acknowledged.
    Graceful,
    /// The peer did not answer within the limit of retries.
    TimedOut,
    /// The peer refused it, or does not know it.
    Refused,
    /// One side aborted it.
    Aborted,
}

/// Why a command failed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum CommandError {
    /// The engine has reached its limit of associations.
    TooManyAssociations,
    /// There is no such association, or it is closed.
    UnknownAssociation,
}

impl core::fmt::Display for CommandError {
    fn fmt(&self, f: &mut core::fmt::Formatter<'_>) -> core::fmt::Result {
        f.write_str(match self {
            CommandError::TooManyAssociations => "the endpoint has reached its limit of circuits",
            CommandError::UnknownAssociation => "no such circuit",
        })
    }
}

impl std::error::Error for CommandError {}

/// The length of the packet that these octets begin with; None if they are not a packet.
pub type PacketLen = fn(&[u8]) -> Option<usize>;

/// A transport protocol as a function of its inputs.
///
/// The host calls in this order, again and again:
///
/// 1. any number of inputs: [`handle_packet`](Engine::handle_packet),
///    [`handle_timeout`](Engine::handle_timeout), commands;
/// 2. [`poll_transmit`](Engine::poll_transmit) until it leaves the batch empty;
/// 3. [`poll_event`](Engine::poll_event) until None;
/// 4. [`poll_timeout`](Engine::poll_timeout), and sleep until then or the next input.
///
/// Any input or transmission may change the timeout. `now` never goes back. Equal inputs in equal
/// order give equal outputs: nothing else may influence an engine.
///
/// No method has a default body: an engine that wraps another one and forgets to forward a call
/// does not compile.
pub trait Engine {
    /// Sizes of this engine's full packets.
    fn layout(&self) -> SegmentLayout;

    /// Reads the length of a packet from its first octets, for protocols that carry it. A wire that
    /// receives coalesced packets then does not need the segment size from the kernel.
    fn packet_len(&self) -> Option<PacketLen>;

    /// Opens an association to `to`. [`Event::Connected`] or [`Event::Closed`] follows.
    fn connect(&mut self, now: Instant, to: Address) -> Result<AssociationId, CommandError>;

    /// Sets whether associations opened by peers are accepted; an engine refuses them at first.
    fn listen(&mut self, accept: bool);

    /// Submits the bytes of the association's send store up to position `end`.
    ///
    /// With `push` (TCP's PSH) a part-filled packet is sent without waiting for more.
    fn submit(&mut self, now: Instant, association: AssociationId, end: u64, push: bool);

    /// How this engine divides bytes into messages.
    fn framing(&self) -> Framing;

    /// Marks the end of a message at position `end` of the store. Call it in ascending order, and
    /// before [`submit`](Engine::submit) covers the position ([`Framing::Messages`] only).
    fn end_message(&mut self, association: AssociationId, end: u64);

    /// The user has read `bytes` more of what was delivered, which opens the receive window.
    fn consume(&mut self, now: Instant, association: AssociationId, bytes: u64);

    /// Closes the association's sending direction behind the submitted bytes.
    fn finish(&mut self, now: Instant, association: AssociationId);

    /// Requests an ACK for everything in flight. Called when the user blocks until all data are
    /// acknowledged.
    fn request_ack(&mut self, now: Instant, association: AssociationId);

    /// Aborts the association, both directions at once.
    fn abort(&mut self, now: Instant, association: AssociationId);

    /// Processes one packet. Its user bytes are appended to `deliveries`, in order.
    ///
    /// Packets are hostile input: none makes this panic, loop for long or use unbounded memory.
    fn handle_packet(
        &mut self,
        now: Instant,
        from: Address,
        packet: &[u8],
        deliveries: &mut Vec<Delivery>,
    );

    /// Handles the timers that have expired.
    fn handle_timeout(&mut self, now: Instant);

    /// Fills the empty `batch` with the next packets to send, or leaves it empty.
    fn poll_transmit(&mut self, now: Instant, batch: &mut Batch);

    /// The next event, oldest first.
    fn poll_event(&mut self) -> Option<Event>;

    /// When [`handle_timeout`](Engine::handle_timeout) must be called next.
    fn poll_timeout(&self) -> Option<Instant>;

    /// Bytes sent on `association` that are not acknowledged and count against the window; 0 for
    /// an unknown association.
    fn bytes_in_flight(&self, association: AssociationId) -> u64;

    /// Counts of the work done so far.
    fn counters(&self) -> Counters;

    /// Sorts associations by priority, most urgent first. Few protocols have priorities.
    fn sort_by_priority(&self, associations: &mut [AssociationId]);

    /// For routers: the number of the arrival that the packet last transmitted was, counted as
    /// [`Counters::packets_parsed`], and 0 for a packet of its own. None for end systems.
    fn forwarded_from(&self) -> Option<u64>;

    /// For routers: whether the packet from `from` that begins with `head` can be forwarded before
    /// the rest of it has arrived (cut-through).
    fn supports_cut_through(&self, from: Address, head: &[u8]) -> bool;

    /// How long the host may delay a short message to coalesce it with others (as Nagle's algorithm
    /// does).
    fn coalesce_delay(&self) -> Duration;
}
