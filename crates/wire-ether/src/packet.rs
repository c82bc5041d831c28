//! Packet sockets, for wires, captures and emulated links.

use crate::socket::Interface;
use crate::sys;
use std::io;
use std::os::fd::OwnedFd;

/// Frames of every EtherType (ETH_P_ALL).
pub const ALL_TYPES: u16 = 3;

/// Options of a packet socket. Frames include the Ethernet header.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct PacketSocketOptions {
    /// EtherType to receive, or [`ALL_TYPES`].
    pub ethertype: u16,
    /// Receive only frames to this port of [`crate::FrameHeader`].
    pub port: Option<u16>,
    /// Receive only frames of this hardware address, permanently: the filter is locked (SO_LOCK_FILTER), so that
    /// who gets the socket from another process cannot receive others.
    pub source: Option<[u8; 6]>,
    /// Whether frames that this host sends are received too.
    pub outgoing: OutgoingFrames,
    /// Whether the kernel timestamps frames (SO_TIMESTAMPNS).
    pub timestamped: bool,
    /// Receive buffer, the kernel's bookkeeping included: beyond the system's limit with
    /// CAP_NET_ADMIN, else up to it. None for the default.
    pub receive_buffer: Option<usize>,
    /// Whether calls never wait.
    pub nonblocking: bool,
}

/// Treatment of frames that this host sends.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum OutgoingFrames {
    /// Received like all others.
    Received,
    /// Received, except on a loopback, where each frame also arrives as an incoming one.
    ReceivedOnce,
    /// Not received.
    Ignored,
}

/// Hardware type of an interface, `ARPHRD_*` of `<linux/if_arp.h>`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct HardwareType(pub u16);

/// Opens a packet socket on `interface` of the calling thread's network namespace.
///
/// # Errors
///
/// `PermissionDenied` without CAP_NET_RAW.
pub fn open(
    interface: &Interface,
    opening: &PacketSocketOptions,
) -> io::Result<(OwnedFd, HardwareType)> {
    sys::open(interface.index, opening)
}

/// Frames the kernel dropped since the last call because the receive buffer was full.
pub fn drops(socket: std::os::fd::BorrowedFd<'_>) -> io::Result<u64> {
    sys::drops(socket)
}
