//! The half of a protocol that faces the network: what a pump, the simulator, captures and the swarm
//! need.

use crate::{Batch, Counters, Deliveries, Event, Instant, NoteFields, PathFault, Received};
use core::time::Duration;

/// The length of the packet these octets begin with; None if they are not one.
pub type PacketLen = fn(&[u8]) -> Option<usize>;

/// How the bytes of an association are divided into what its user sends and receives.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Framing {
    /// Messages as [`crate::record`]s in the byte stream; the engine does not see them.
    Records,
    /// A byte stream.
    Stream,
    /// Messages whose ends the engine carries: see [`crate::SendFlags::end_of_message`].
    Messages,
}

/// What is constant about an engine.
#[derive(Clone, Copy, Debug)]
pub struct Properties {
    /// Octets of the longest packet it builds now.
    pub packet_max: usize,
    /// How to tell the length of a packet from its first octets, if they say it. A wire that
    /// receives several packets as one then need not ask the kernel where the first ends.
    pub packet_len: Option<PacketLen>,
    /// How users of this engine send and receive.
    pub framing: Framing,
    /// What it carries of a note; a host refuses the rest.
    pub notes: NoteFields,
    /// How long the host may keep a short message back to let it share a packet.
    pub coalesce_delay: Duration,
}

/// A protocol as a function of its inputs.
///
/// The host calls in this order, again and again:
///
/// 1. any number of inputs: [`handle_packet`](Protocol::handle_packet),
///    [`handle_timeout`](Protocol::handle_timeout),
///    [`handle_path_error`](Protocol::handle_path_error), commands of a user half;
/// 2. [`poll_transmit`](Protocol::poll_transmit) until it leaves the batch empty;
/// 3. [`poll_event`](Protocol::poll_event) until None;
/// 4. [`poll_timeout`](Protocol::poll_timeout), and sleep until then or the next input.
///
/// Any input or transmission may change the timeout. `now` never goes back. Equal inputs in equal
/// order give equal outputs: nothing else may influence an engine.
///
/// A user talks to one of three halves: [`crate::Associations`], [`crate::Transactions`], or none
/// ([`crate::Router`]). No method has a default body, so that a wrapper cannot forget to forward one.
pub trait Protocol {
    /// What is constant.
    fn properties(&self) -> Properties;

    /// Takes in one packet. User bytes it brings are appended to `deliveries`.
    ///
    /// The packet is hostile until shown otherwise: nothing in it makes this panic, loop long or
    /// use memory without bound.
    fn handle_packet(&mut self, now: Instant, packet: Received<'_>, deliveries: &mut Deliveries);

    /// The timeout has come.
    fn handle_timeout(&mut self, now: Instant);

    /// A path did not carry a packet. The report may be forged: see [`PathFault`].
    fn handle_path_error(&mut self, now: Instant, fault: PathFault<'_>);

    /// Fills `batch` (empty when given) with the next packets to send, none when there are none.
    fn poll_transmit(&mut self, now: Instant, batch: &mut Batch);

    /// The next event, oldest first.
    fn poll_event(&mut self) -> Option<Event>;

    /// When [`handle_timeout`](Protocol::handle_timeout) wants to be called.
    fn poll_timeout(&self) -> Option<Instant>;

    /// The work done so far.
    fn counters(&self) -> Counters;
}
