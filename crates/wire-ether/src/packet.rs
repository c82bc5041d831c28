//! Packet sockets, for everybody in the house who needs one.

use crate::socket::Interface;
use crate::sys;
use std::io;
use std::os::fd::OwnedFd;

/// Frames of every type (ETH_P_ALL).
pub const ALL_TYPES: u16 = 3;

/// What a packet socket is to receive, and how. Frames are whole, Ethernet header included.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct PacketSocketOptions {
    /// Frames of this type, or of [`EVERY`].
    pub ethertype: u16,
    /// Of these, those for one port of [`crate::Frame`] only.
    pub port: Option<u16>,
    /// Whether frames that this host sends are received too.
    pub outgoing: OutgoingFrames,
    /// Whether the kernel stamps frames (SO_TIMESTAMPNS).
    pub timestamped: bool,
    /// Octets that may wait to be received, the kernel's own included: beyond the system's limit
    /// where the right is there, else up to it. None for what the system does.
    pub receive_buffer: Option<usize>,
    /// Whether calls never wait.
    pub nonblocking: bool,
}

/// What to do with frames that this host sends.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum OutgoingFrames {
    /// They are received as others are.
    Received,
    /// Received, but not on a loopback, where each comes in again.
    ReceivedOnce,
    /// Not received.
    Ignored,
}

/// What kind of hardware an interface is, `ARPHRD_*` of `<linux/if_arp.h>`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct HardwareType(pub u16);

/// Opens a packet socket on `interface` of the calling thread's network namespace.
///
/// # Errors
///
/// `PermissionDenied` without CAP_NET_RAW, else what the kernel says.
pub fn open(
    interface: &Interface,
    opening: &PacketSocketOptions,
) -> io::Result<(OwnedFd, HardwareType)> {
    sys::open(interface.index, opening)
}

/// Frames the kernel dropped for want of room since the last call.
///
/// # Errors
///
/// What the kernel says.
pub fn drops(socket: std::os::fd::BorrowedFd<'_>) -> io::Result<u64> {
    sys::drops(socket)
}
