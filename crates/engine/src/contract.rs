//! The trait every protocol implements, and the words it speaks in.

use crate::{Batch, Counters, Instant};
use core::ops::Range;
use core::time::Duration;
use std::net::SocketAddr;

/// Where a packet comes from or goes to.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Address {
    /// An Internet address and port (UDP, raw IP with port 0).
    Socket(SocketAddr),
    /// A station of the simulator.
    Station(u32),
    /// The hardware address of an Ethernet interface, or of a group of them.
    Ether([u8; 6]),
}

/// Names a circuit within one engine. Never used again while the engine lives.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct AssociationId(pub u32);

/// How packets are cut, fixed for the life of an engine.
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

/// User bytes ready for their user, in order.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Delivery {
    /// The circuit they belong to.
    pub association: AssociationId,
    /// The bytes.
    pub bytes: Bytes,
    /// Bytes were lost between the last delivery and this one.
    pub gap: bool,
    /// They begin with a tag of eight octets that the sender set apart.
    pub begin_tag: bool,
    /// They end with one ([`Framing::Messages`] only).
    pub end_tag: bool,
    /// A message ends with the last of them ([`Framing::Messages`] only).
    pub end_of_message: bool,
}

/// Where delivered bytes are.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Bytes {
    /// In the packet just handled: nothing was copied.
    Packet(Range<usize>),
    /// In a copy the engine kept because they came before their turn.
    Reassembled(Vec<u8>),
}

/// How the bytes of a circuit are divided into what its user sends and receives.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Framing {
    /// Messages as [`crate::record`]s in the byte stream; the engine does not see them.
    Records,
    /// A byte stream.
    Stream,
    /// Messages whose ends the engine carries: see [`Engine::end_message`].
    Messages,
}

/// Something the host must know.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Event {
    /// A circuit this side opened is ready.
    Connected(AssociationId),
    /// A peer opened a circuit.
    Accepted(AssociationId, Address),
    /// The send store may forget bytes below this position.
    Released(AssociationId, u64),
    /// The peer will send no more. All that came was delivered before this event.
    Finished(AssociationId),
    /// The circuit is gone.
    Closed(AssociationId, CloseReason),
}

/// Why a circuit ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum CloseReason {
    /// Both sides said all they had to say.
    Graceful,
    /// The peer did not answer within the limit of retries.
    TimedOut,
    /// The peer refused, or knows no such circuit.
    Refused,
    /// One side gave up without waiting for the other.
    Aborted,
}

/// A command that cannot be carried out.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum CommandError {
    /// The engine holds as many circuits as it may.
    TooManyAssociations,
    /// No such circuit, or it is gone.
    UnknownAssociation,
}

impl core::fmt::Display for CommandError {
    fn fmt(&self, f: &mut core::fmt::Formatter<'_>) -> core::fmt::Result {
        f.write_str(match self {
            CommandError::TooManyAssociations => {
                "the endpoint holds as many associations as it may"
            }
            CommandError::UnknownAssociation => "no such association",
        })
    }
}

impl std::error::Error for CommandError {}

/// The length of the packet these octets begin with; None if they are not one.
pub type PacketLen = fn(&[u8]) -> Option<usize>;

/// A transport protocol as a function of its inputs.
///
/// The host calls in this order, again and again:
///
/// 1. any number of inputs: [`handle_packet`](Engine::handle_packet),
///    [`handle_timeout`](Engine::handle_timeout), commands;
/// 2. [`transmit`](Engine::transmit) until it leaves the batch empty;
/// 3. [`poll_event`](Engine::poll_event) until None;
/// 4. [`deadline`](Engine::deadline), and sleep until then or the next input.
///
/// Any input or transmission may change the deadline. `now` never goes back. Equal inputs in equal
/// order give equal outputs: nothing else may influence an engine.
pub trait Engine {
    /// How this engine cuts packets.
    fn layout(&self) -> SegmentLayout;

    /// How to tell the length of a packet from its first octets, if they say it. A wire that
    /// receives several packets as one then need not ask the kernel where the first ends.
    fn packet_len(&self) -> Option<PacketLen> {
        None
    }

    /// Opens a circuit to `to`. [`Event::Connected`] or [`Event::Closed`] follows.
    fn connect(&mut self, now: Instant, to: Address) -> Result<AssociationId, CommandError>;

    /// Whether circuits opened by peers are accepted; they are refused before the first call.
    fn listen(&mut self, accept: bool);

    /// The circuit's send store now holds the bytes up to position `end`.
    ///
    /// `push` says that the user waits for them to leave: a part-filled packet need not wait for
    /// more.
    fn submit(&mut self, now: Instant, association: AssociationId, end: u64, push: bool);

    /// How users of this engine send and receive.
    fn framing(&self) -> Framing {
        Framing::Records
    }

    /// A message of the circuit's store ends at position `end`, called in ascending order before
    /// [`extend`](Engine::extend) covers it ([`Framing::Messages`] only).
    fn end_message(&mut self, _association: AssociationId, _end: u64) {}

    /// The user took `bytes` more of what was delivered.
    fn consume(&mut self, now: Instant, association: AssociationId, bytes: u64);

    /// Ends the circuit's sending direction after the bytes in its store.
    fn finish(&mut self, now: Instant, association: AssociationId);

    /// The user waits until the peer has everything and does nothing else meanwhile: an engine that asks
    /// for acknowledgements asks now.
    fn request_ack(&mut self, _now: Instant, _association: AssociationId) {}

    /// Ends the circuit at once, both directions.
    fn abort(&mut self, now: Instant, association: AssociationId);

    /// Takes in one packet. User bytes it brings in order are appended to `deliveries`.
    ///
    /// The packet is hostile until shown otherwise: nothing in it makes this panic, loop long or
    /// use memory without bound.
    fn handle_packet(
        &mut self,
        now: Instant,
        from: Address,
        packet: &[u8],
        deliveries: &mut Vec<Delivery>,
    );

    /// The deadline has come.
    fn handle_timeout(&mut self, now: Instant);

    /// Fills `batch` (empty when given) with the next packets to send, none when there are none.
    fn poll_transmit(&mut self, now: Instant, batch: &mut Batch);

    /// The next event, oldest first.
    fn poll_event(&mut self) -> Option<Event>;

    /// When [`handle_timeout`](Engine::handle_timeout) wants to be called.
    fn poll_timeout(&self) -> Option<Instant>;

    /// Bytes sent on `circuit` that the peer has not yet said it has, and that still count
    /// against the window; 0 for an unknown circuit.
    fn bytes_in_flight(&self, association: AssociationId) -> u64;

    /// The work done so far.
    fn counters(&self) -> Counters;

    /// Puts circuits into the order their users are to be served in. Few protocols have one.
    fn sort_by_priority(&self, _associations: &mut [AssociationId]) {}

    /// For engines that pass on what others built: which arrival the packet last transmitted was,
    /// counted as [`Counters::packets_parsed`], and 0 for one of its own. None for all others.
    fn forwarded_from(&self) -> Option<u64> {
        None
    }

    /// Whether the packet from `from` that begins with `head` can be passed on before the rest of it is
    /// here (cut-through). Only engines that pass on what others built can do that.
    fn supports_cut_through(&self, _from: Address, _head: &[u8]) -> bool {
        false
    }

    /// How long the host may keep a short message back to let it share a packet.
    fn coalesce_delay(&self) -> Duration {
        Duration::from_millis(1)
    }
}
