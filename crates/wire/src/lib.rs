//! The contract of a medium.
//!
//! A [`Wire`] moves packets and knows nothing of protocols. It sends up to n equal packets to one
//! destination in a call and receives likewise, because that is where the time goes: on a loopback
//! a kernel moves 64 KiB handed over at once ten times as fast as 45 packets handed over one by
//! one. A wire that cannot do it says so in its [`Capabilities`], and the batches get shorter.
//!
//! [`mod@trace`] is a wire around another that writes down what goes over it.
#![forbid(unsafe_code)]

pub mod trace;

use engine::{Address, PacketLen};
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
    /// How many packets of `packet_len` octets one call may carry, at least 1.
    pub fn segments(&self, packet_len: usize) -> usize {
        let by_bytes = self.batch_bytes_max / packet_len.max(1);
        self.segments_max.min(by_bytes).max(1)
    }
}

/// One or more packets that arrived together from one sender.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Arrival {
    /// Who sent them.
    pub from: Address,
    /// Octets in the buffer.
    pub len: usize,
    /// Octets of each packet but the last.
    pub segment_size: usize,
}

/// A medium.
pub trait Wire {
    /// What this wire can do; constant.
    fn capabilities(&self) -> Capabilities;

    /// Sends the octets of `slices`, cut every `segment_size` octets into packets, to `to`.
    ///
    /// # Errors
    ///
    /// `WouldBlock` when nothing was taken because a queue is full; the caller keeps the packets.
    /// Any other error is the medium's.
    fn send(&mut self, to: Address, slices: &[IoSlice<'_>], segment_size: usize) -> io::Result<()>;

    /// Receives what arrived, into `buffer` of [`Capabilities::receive_len`] octets.
    ///
    /// # Errors
    ///
    /// `WouldBlock` when nothing is there.
    fn receive(&mut self, buffer: &mut [u8]) -> io::Result<Arrival>;

    /// Tells how long the packets are that come in, for receivers made later too. The wire may use
    /// it instead of what the kernel says.
    fn set_packet_len(&mut self, _packet_len: PacketLen) {}

    /// A descriptor that is readable when something is there; None in virtual time.
    fn descriptor(&self) -> Option<BorrowedFd<'_>>;

    /// Whether packets that were taken from the medium wait in the wire, where its descriptor does
    /// not show them. Who receives goes on until there are none.
    fn has_buffered(&self) -> bool {
        false
    }

    /// Receives from now on what is sent to the group of hosts `group`, a multicast address of the
    /// medium, as long as the wire lives. To be called before a host is made with the wire.
    ///
    /// # Errors
    ///
    /// `Unsupported` where the medium has no groups, `InvalidInput` for an address of none, or the
    /// medium's.
    fn join(&mut self, group: Address) -> io::Result<()> {
        let text = format!("this wire has no groups to join, and so not {group:?}");
        Err(io::Error::new(io::ErrorKind::Unsupported, text))
    }

    /// A second handle that can wait for an arrival, for a host that sleeps without holding the
    /// wire; None when the wire has none.
    fn receiver(&self) -> Option<Box<dyn Receiver>> {
        None
    }
}

/// A handle on a wire that waits. At most one thread at a time receives from a wire in any way:
/// two could swap the order of what they took.
pub trait Receiver: Send + Sync {
    /// The longest a [`receive`](Receiver::receive) waits; [`Duration::MAX`] for ever, until the
    /// medium is shut down.
    fn max_wait(&self) -> Duration;

    /// Receives as [`Wire::receive`] does, waiting for an arrival.
    ///
    /// # Errors
    ///
    /// `WouldBlock` when nothing came for as long as its patience, `Interrupted` when another
    /// thread ended the wait, or the medium's.
    fn receive(&self, buffer: &mut [u8]) -> io::Result<Arrival>;

    /// Ends a wait from another thread.
    ///
    /// # Errors
    ///
    /// `Unsupported` where only time ends it, or the medium's.
    fn interrupt(&self) -> io::Result<()> {
        Err(io::ErrorKind::Unsupported.into())
    }

    /// Says that an arrival is expected within microseconds: the next receive may look for it before
    /// it sleeps.
    fn hint_busy_poll(&self) {}

    /// Whether [`interrupt`](Receiver::interrupt) is supported.
    fn is_interruptible(&self) -> bool {
        false
    }
}
