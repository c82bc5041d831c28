//! UDP segmentation offloads.

use std::io;
use std::mem;
use std::net::UdpSocket;
use std::os::fd::AsRawFd;

/// Socket options of `<linux/udp.h>`.
const UDP_SEGMENT: i32 = 103;
const UDP_GRO: i32 = 104;

/// Segments what is sent into datagrams of `len` octets (GSO).
pub(crate) fn enable_udp_segment(socket: &UdpSocket, len: u16) -> io::Result<()> {
    set(socket, UDP_SEGMENT, len.into())
}

/// Receives datagrams that arrive together as one (GRO).
pub(crate) fn enable_udp_gro(socket: &UdpSocket) -> io::Result<()> {
    set(socket, UDP_GRO, 1)
}

fn set(socket: &UdpSocket, name: i32, value: i32) -> io::Result<()> {
    // SAFETY: the pointer and the length describe one live number.
    let result = unsafe {
        libc::setsockopt(
            socket.as_raw_fd(),
            libc::IPPROTO_UDP,
            name,
            (&raw const value).cast(),
            mem::size_of_val(&value) as libc::socklen_t,
        )
    };
    if result == 0 {
        Ok(())
    } else {
        Err(io::Error::last_os_error())
    }
}
