//! What IP said of a datagram: its type of service and its time to live (ip(7)).

use super::gro::{Coalesced, control_value, receive_message};
use super::options::set_option;
use std::io;
use std::net::SocketAddr;
use std::os::fd::BorrowedFd;

/// Fields of the IPv4 header that a datagram came with, as far as they are reported.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct IpMarks {
    /// The type of service.
    pub tos: Option<u8>,
    /// The time to live.
    pub ttl: Option<u8>,
}

/// Lets the kernel report them with each datagram; one without IPv4 reports nothing.
pub fn report_marks(socket: BorrowedFd<'_>) {
    for option in [libc::IP_RECVTOS, libc::IP_RECVTTL] {
        // Without the report there are no marks.
        let _ = set_option(socket, libc::IPPROTO_IP, option, 1);
    }
}

/// Receives a datagram with its marks, without blocking.
///
/// # Errors
///
/// `WouldBlock` when no datagram is waiting, `InvalidData` when one was longer than the buffer or has no Internet
/// address.
pub fn receive_with_marks(
    socket: BorrowedFd<'_>,
    buffer: &mut [u8],
) -> io::Result<(Coalesced, IpMarks)> {
    const UNKNOWN: Option<SocketAddr> = None;
    receive_message(socket, buffer, UNKNOWN, libc::MSG_DONTWAIT, |message| {
        let octet = |kind| {
            let value = control_value(message, libc::IPPROTO_IP, kind)?;
            u8::try_from(value).ok()
        };
        IpMarks {
            tos: octet(libc::IP_TOS),
            ttl: octet(libc::IP_TTL),
        }
    })
}
