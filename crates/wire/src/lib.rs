//! The contract of a medium.
//!
//! A [`Wire`] moves packets and knows nothing of protocols. One call sends up to n packets of equal
//! length to one destination, and one call receives as many: over the loopback, a kernel moves
//! 64 KiB in one call ten times as fast as in 45 calls of a packet each. [`Capabilities`] states
//! what a wire can do; a wire without segmentation gets shorter batches.
//!
//! Neither trait has default bodies: a wire around another wire must forward every method, or not
//! compile. [`forward!`] forwards them by their names, and [`lacks!`] says
//! what a wire has not.
//!
//! * [`observed`] - a wire around another that shows its packets: to a log ([`mod@trace`]) or a capture.
//! * [`Many`] - several wires as one, each a local address.
//! * [`memory`] - wires of simulators and tests, whose packets are in memory.
//! * `boxed` - a wire of a kind that is known only at run time, `Box<dyn Wire + Send>`.
//! * [`discard`] - packets that are copied, as an adapter does, and discarded.
//! * [`busy_poll`] - when a receive polls before it sleeps.
//! * [`mod@error`] - which errors of a call are a path's, and which end the wire.
#![forbid(unsafe_code)]

mod boxed;
pub mod busy_poll;
pub mod discard;
pub mod error;
mod forward;
pub mod many;
pub mod memory;
pub mod observed;
pub mod trace;

pub use busy_poll::BusyPoll;
pub use error::path_error;
pub use many::Many;
pub use memory::{MemoryMedium, MemoryWire};

use engine::{Address, Ecn, Fragmentation, LocalAddress, PacketLen, Path, PathError};
use std::io::{self, IoSlice};
use std::os::fd::BorrowedFd;
use std::time::Duration;

/// What a wire can do.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Capabilities {
    /// Octets of the largest packet.
    pub packet_max: usize,
    /// Packets a call sends at most.
    pub segments_max: usize,
    /// Octets a call sends at most, over all its packets.
    pub batch_bytes_max: usize,
    /// Octets a receive buffer must have to take the largest arrival whole.
    pub receive_len: usize,
}

impl Capabilities {
    /// Of a wire that sends and receives one packet a call, of up to `packet_max` octets.
    pub const fn one_packet(packet_max: usize) -> Capabilities {
        Capabilities {
            packet_max,
            segments_max: 1,
            batch_bytes_max: packet_max,
            receive_len: packet_max,
        }
    }

    /// Packets of `packet_len` octets that one call may carry, at least 1.
    pub fn segments(&self, packet_len: usize) -> usize {
        let by_bytes = self.batch_bytes_max / packet_len.max(1);
        self.segments_max.min(by_bytes).max(1)
    }
}

/// One or more packets received together by one path.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Arrival {
    /// The path they came by; its remote address is the sender's.
    pub path: Path,
    /// The congestion mark of all of them; [`Ecn::NotEct`] where the wire does not know.
    pub ecn: Ecn,
    /// Octets in the buffer.
    pub len: usize,
    /// Octets of each packet but the last.
    pub segment_size: usize,
}

/// What a path said of a packet sent earlier: [`engine::PathFault`] with octets of its own.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct PathReport {
    /// The path.
    pub path: Path,
    /// What it said.
    pub error: PathError,
    /// The first octets of the packet, as far as they came back.
    pub quoted: Vec<u8>,
}

/// What a wire did with octets that it might refer to.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Taken {
    /// It copied them: the caller may change them.
    Copied,
    /// It refers to them until their packets have been received.
    ByReference,
}

/// A medium.
pub trait Wire {
    /// What this wire can do. Constant.
    fn capabilities(&self) -> Capabilities;

    /// Sends the octets of `slices` by `path`, as packets of `segment_size` octets; the last may be
    /// shorter. Packets that are longer than the path carries in one piece go out in fragments where
    /// the medium has them, and a report of [`PathError::TooBig`] follows.
    ///
    /// # Errors
    ///
    /// `WouldBlock` when a queue is full; nothing was sent, and the caller keeps the packets. An
    /// error for which [`path_error`] has an answer concerns this path alone: the packets are lost,
    /// and the wire goes on.
    fn send(&mut self, path: Path, slices: &[IoSlice<'_>], segment_size: usize) -> io::Result<()>;

    /// Sends as [`send`](Wire::send) does, but may refer to the octets instead of copying them: what the caller
    /// writes there afterwards may show in these packets until they have been received. So the caller leaves
    /// them as they are until the peer has acknowledged them, and never sends them by reference again. Of a packet alone
    /// that is in several slices the first, its header, is copied always.
    /// Errors are those of [`send`](Wire::send); nothing is referred to then.
    fn send_by_reference(
        &mut self,
        path: Path,
        slices: &[IoSlice<'_>],
        segment_size: usize,
    ) -> io::Result<Taken>;

    /// Receives one arrival into `buffer`, which has [`Capabilities::receive_len`] octets.
    ///
    /// # Errors
    ///
    /// `WouldBlock` when no packet is waiting, `Interrupted` when the one that was there is dropped
    /// (see [`unanswerable`](Wire::unanswerable)). An error for which [`path_error`] has an answer
    /// is a path's, for a packet sent earlier: the wire goes on.
    fn receive(&mut self, buffer: &mut [u8]) -> io::Result<Arrival>;

    /// What paths said of packets sent earlier, oldest first. The host asks after a receive or a
    /// send has failed, and after each flush.
    fn poll_path_error(&mut self) -> Option<PathReport>;

    /// Whether packets sent from now on may travel in fragments. A medium without fragments has nothing to do,
    /// and a system that cannot be asked leaves it as it is.
    fn set_fragmentation(&mut self, fragmentation: Fragmentation);

    /// Octets of the longest packet that `path` carries in one piece, as far as is known before one
    /// is sent (the PLPMTU of RFC 8899 section 2): from the route, where the medium has routes. At
    /// most [`Capabilities::packet_max`].
    fn path_mtu(&mut self, path: Path) -> usize;

    /// Packets dropped on arrival because nobody can answer them: of UDP, those from port 0.
    fn unanswerable(&self) -> u64;

    /// Packets that the system dropped because its buffer for this wire was full; None where nothing counts them. May cost
    /// a system call.
    fn receive_drops(&self) -> Option<u64>;

    /// Sets the function that reads a packet's length from its first octets, also for receivers
    /// made later. The wire may call it instead of asking the kernel for the segment size.
    fn set_packet_len(&mut self, packet_len: PacketLen);

    /// A descriptor that is readable when a packet is waiting; None in virtual time. It may change
    /// with the first [`join`](Wire::join), and then stands for more than the one before.
    fn descriptor(&self) -> Option<BorrowedFd<'_>>;

    /// Whether packets already read from the medium are buffered in the wire, where its descriptor
    /// does not show them. The host receives until there are none, and only then waits.
    fn has_buffered(&self) -> bool;

    /// Whether a thread may wait for the descriptor now; asked right before each such wait. A wire that shares
    /// memory with its peers asks them for a wake here. False when something is there that no descriptor
    /// shows: the host receives instead.
    fn may_wait(&mut self) -> bool;

    /// Joins the multicast group `group`, also while a receiver waits.
    ///
    /// # Errors
    ///
    /// `Unsupported` where the medium has no multicast (see [`no_multicast`]), `InvalidInput` when
    /// `group` is not a multicast address of the medium, `AlreadyExists` when the wire is in it.
    fn join(&mut self, group: Address) -> io::Result<()>;

    /// Leaves the multicast group `group`. Its packets that have arrived may still be received.
    ///
    /// # Errors
    ///
    /// `Unsupported` or `InvalidInput` as of [`join`](Wire::join), `NotFound` when the wire is not in
    /// it.
    fn leave(&mut self, group: Address) -> io::Result<()>;

    /// A second handle, which waits for an arrival without holding the wire; None when the wire has
    /// none.
    fn receiver(&self) -> Option<Box<dyn Receiver>>;
}

/// The error of [`Wire::join`] and [`Wire::leave`] for wires without multicast.
pub fn no_multicast(group: Address) -> io::Error {
    let text = format!("this wire has no multicast, so it has no group {group:?}");
    io::Error::new(io::ErrorKind::Unsupported, text)
}

/// The peer of `path`, for a wire with one local address.
///
/// # Errors
///
/// `AddrNotAvailable` for a path from another local address.
pub fn only_local(path: Path) -> io::Result<Address> {
    match path.local {
        LocalAddress(0) => Ok(path.remote),
        LocalAddress(other) => {
            let text = format!("this wire has one local address, 0, and none with index {other}");
            Err(io::Error::new(io::ErrorKind::AddrNotAvailable, text))
        }
    }
}

/// A handle on a wire that can wait for an arrival. At most one thread at a time receives from a
/// wire, through any handle: two threads could reorder packets.
pub trait Receiver: Send + Sync {
    /// The longest time a [`receive`](Receiver::receive) waits; [`Duration::MAX`] means until the
    /// medium is shut down.
    fn max_wait(&self) -> Duration;

    /// Receives as [`Wire::receive`] does, but waits for an arrival.
    ///
    /// # Errors
    ///
    /// `WouldBlock` after [`max_wait`](Receiver::max_wait), `Interrupted` when another thread ended
    /// the wait.
    fn receive(&self, buffer: &mut [u8]) -> io::Result<Arrival>;

    /// Ends the wait of another thread.
    ///
    /// # Errors
    ///
    /// `Unsupported` where only the timeout ends it.
    fn interrupt(&self) -> io::Result<()>;

    /// Hints that an arrival is expected within microseconds: the next receive may busy-poll before
    /// it sleeps (compare SO_BUSY_POLL).
    fn hint_busy_poll(&self);

    /// Whether [`interrupt`](Receiver::interrupt) is supported.
    fn is_interruptible(&self) -> bool;
}
