//! What carries the datagrams of a provider.

use crate::inet::SocketAddress;
use crate::provider;
use crate::tpi::{Primitive, TransportOption};
use socket2::Socket;
use std::io;
use std::ops::Range;
use std::sync::Arc;

/// Datagrams that a provider gives its carrier at once, at most.
pub const BATCH_MAX: usize = 64;

/// A datagram that was received into a carrier's room.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Found {
    /// Who sent it.
    pub source: SocketAddress,
    /// Where its octets are.
    pub range: Range<usize>,
    /// Options that came with it, where they are asked for.
    pub options: Vec<TransportOption>,
}

/// What puts a header in front of each datagram, where its octets lie.
pub trait DatagramHeaders {
    /// Octets of a header.
    fn header_len(&self) -> usize;

    /// Writes the header of a datagram of these octets into as many as it has.
    ///
    /// # Errors
    ///
    /// Without an address of its own, or for one that it cannot reach.
    fn write_header(
        &self,
        destination: SocketAddress,
        octets: &[u8],
        header: &mut [u8],
    ) -> io::Result<()>;

    /// Sends datagrams of one length, as [`send`](DatagramCarrier::send) does, with their headers in front.
    ///
    /// # Errors
    ///
    /// Those of that.
    fn send_packets(&mut self, destination: SocketAddress, packets: &[&[u8]]) -> io::Result<()>;
}

/// What carries the datagrams of a provider ([`XtiEndpoint::open_datagrams`]). No call waits.
///
/// [`XtiEndpoint::open_datagrams`]: crate::XtiEndpoint::open_datagrams
pub trait DatagramCarrier: Send + 'static {
    /// The name of the provider, such as `udp`.
    fn name(&self) -> &'static str;

    /// Octets of the longest address.
    fn address_max(&self) -> i32;

    /// Octets of the longest datagram.
    fn datagram_max(&self) -> usize;

    /// Octets of the longest options of a request; -2 where there are none.
    fn options_max(&self) -> i32;

    /// Binds to an address, None for any; returns the address.
    ///
    /// # Errors
    ///
    /// What the system refuses.
    fn bind(&mut self, address: Option<SocketAddress>) -> io::Result<SocketAddress>;

    /// Gives the address up.
    fn unbind(&mut self);

    /// What is readable when a datagram waits in the kernel, and writable when there is room; None without an
    /// address.
    fn socket(&self) -> Option<Arc<Socket>>;

    /// Whether that is writable only when what was refused has room; else who waits looks again soon.
    fn socket_tells_room(&self) -> bool;

    /// How many datagrams of so many octets one [`send`](DatagramCarrier::send) takes, 1 to [`BATCH_MAX`].
    fn batch_max(&self, octets: usize) -> usize;

    /// Sends datagrams of one length to one destination, all or none; with options, which say what became of them,
    /// it is one datagram.
    ///
    /// # Errors
    ///
    /// `WouldBlock` without room, `Unsupported` when an option was not taken, else why they do not leave.
    fn send(
        &mut self,
        destination: SocketAddress,
        datagrams: &[&[u8]],
        options: &mut [TransportOption],
    ) -> io::Result<()>;

    /// The carrier's headers, where it can write them in front of the octets of datagrams; None without such.
    fn headers(&mut self) -> Option<&mut dyn DatagramHeaders>;

    /// From here on options come with the datagrams, where the carrier has such.
    fn report_options(&mut self);

    /// Receives what is there into `room`, which has 65,536 octets, and notes each datagram in `found`; returns
    /// how many octets of the room are used.
    ///
    /// # Errors
    ///
    /// `WouldBlock` when nothing is there, else what the system says of datagrams sent earlier.
    fn receive(&mut self, room: &mut [u8], found: &mut Vec<Found>) -> io::Result<usize>;

    /// System calls that sent and that received, failed ones included.
    fn system_calls(&self) -> (u64, u64);

    /// Datagrams that came and were none: too short, or with a sum that is wrong.
    fn malformed(&self) -> u64;

    /// The answer to T_OPTMGMT_REQ ([`no_options`] where there are none).
    fn answer_options(&mut self, octets: &[u8], flags: u32) -> Primitive;
}

/// The answer to T_OPTMGMT_REQ of a carrier without options: each is not supported.
pub fn no_options(octets: &[u8], flags: u32) -> Primitive {
    provider::answer_without_options(octets, flags)
}
