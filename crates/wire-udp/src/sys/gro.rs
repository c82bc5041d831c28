//! One recvmsg that may return several datagrams of equal length (UDP_GRO).

use super::address::RawAddress;
use std::io;
use std::mem;
use std::net::{IpAddr, Ipv4Addr, SocketAddr};
use std::os::fd::{AsRawFd, BorrowedFd};
use std::ptr;

/// Datagrams that the kernel coalesced.
#[derive(Clone, Copy, Debug)]
pub struct Coalesced {
    /// The sender's address.
    pub from: SocketAddr,
    /// Octets in the buffer.
    pub len: usize,
    /// Octets of each datagram but the last.
    pub segment_size: usize,
}

/// The sender reported for the empty result of a socket that was shut down for reading.
pub const NO_SENDER: SocketAddr = SocketAddr::new(IpAddr::V4(Ipv4Addr::UNSPECIFIED), 0);

#[repr(C, align(8))]
struct ControlBuffer([u8; 64]);

/// Receives into `buffer` without blocking.
///
/// # Errors
///
/// `WouldBlock` when no datagram is waiting, `InvalidData` when a datagram was longer than the
/// buffer or has no Internet address.
pub fn receive_coalesced(
    socket: BorrowedFd<'_>,
    buffer: &mut [u8],
    peer: Option<SocketAddr>,
) -> io::Result<Coalesced> {
    receive_coalesced_with(socket, buffer, peer, libc::MSG_DONTWAIT)
}

/// Receives into `buffer`; `flags` and the socket's timeout decide whether it blocks. On a
/// connected socket `peer` is the sender, and the kernel is not asked for it.
/// Errors are those of [`receive_coalesced`].
pub fn receive_coalesced_with(
    socket: BorrowedFd<'_>,
    buffer: &mut [u8],
    peer: Option<SocketAddr>,
    flags: i32,
) -> io::Result<Coalesced> {
    let (received, segment_size) = receive_message(socket, buffer, peer, flags, segment_size)?;
    Ok(Coalesced {
        segment_size: segment_size.unwrap_or(received.len).max(1),
        ..received
    })
}

/// Receives into `buffer`, and lets `read` look at what came beside it.
pub(super) fn receive_message<T>(
    socket: BorrowedFd<'_>,
    buffer: &mut [u8],
    peer: Option<SocketAddr>,
    flags: i32,
    read: impl FnOnce(&libc::msghdr) -> T,
) -> io::Result<(Coalesced, T)> {
    let mut raw = RawAddress::zeroed();
    let mut control = ControlBuffer([0; 64]);
    let mut slice = libc::iovec {
        iov_base: buffer.as_mut_ptr().cast(),
        iov_len: buffer.len(),
    };
    // SAFETY: msghdr is plain data for which all zeros is a value.
    let mut message: libc::msghdr = unsafe { mem::zeroed() };
    if peer.is_none() {
        message.msg_name = (&raw mut raw.storage).cast();
        message.msg_namelen = raw.len;
    }
    message.msg_iov = &raw mut slice;
    message.msg_iovlen = 1;
    message.msg_control = control.0.as_mut_ptr().cast();
    message.msg_controllen = control.0.len() as _;
    // SAFETY: every pointer in `message` refers to live memory of the length given.
    let received = unsafe {
        // As sendto: without libc's cancellation point.
        let descriptor = socket.as_raw_fd();
        libc::syscall(libc::SYS_recvmsg, descriptor, &raw mut message, flags)
    };
    if received < 0 {
        return Err(io::Error::last_os_error());
    }
    if message.msg_flags & libc::MSG_TRUNC != 0 {
        return Err(io::Error::new(io::ErrorKind::InvalidData, TOO_LONG));
    }
    let len = received as usize;
    let beside = read(&message);
    let received = Coalesced {
        from: sender(len, peer, &raw)?,
        len,
        segment_size: len.max(1),
    };
    Ok((received, beside))
}

/// Receives as [`receive_coalesced_with`] does, with recvfrom, which is cheaper than recvmsg and
/// does not report the segment size: `segment_size` is the length of the whole arrival.
/// Errors are those of [`receive_coalesced`].
#[inline]
pub fn receive_plain_with(
    socket: BorrowedFd<'_>,
    buffer: &mut [u8],
    peer: Option<SocketAddr>,
    flags: i32,
) -> io::Result<Coalesced> {
    let mut raw = RawAddress::zeroed();
    let (name, name_len) = match peer {
        None => (&raw mut raw.storage, &raw mut raw.len),
        Some(_) => (ptr::null_mut(), ptr::null_mut()),
    };
    // SAFETY: pointers and lengths describe live memory; `raw` is not read during the call.
    let received = unsafe {
        libc::syscall(
            libc::SYS_recvfrom,
            socket.as_raw_fd(),
            buffer.as_mut_ptr(),
            buffer.len(),
            flags | libc::MSG_TRUNC,
            name,
            name_len,
        )
    };
    if received < 0 {
        return Err(io::Error::last_os_error());
    }
    let len = received as usize;
    if len > buffer.len() {
        return Err(io::Error::new(io::ErrorKind::InvalidData, TOO_LONG));
    }
    Ok(Coalesced {
        from: sender(len, peer, &raw)?,
        len,
        segment_size: len.max(1),
    })
}

const TOO_LONG: &str = "a datagram was longer than the buffer";

/// The sender of an arrival of `len` octets.
fn sender(len: usize, peer: Option<SocketAddr>, raw: &RawAddress) -> io::Result<SocketAddr> {
    // A socket that was shut down for reading returns no octets and no address.
    let nobody = (len == 0).then_some(NO_SENDER);
    peer.or_else(|| raw.to_socket())
        .or(nobody)
        .ok_or_else(|| io::Error::new(io::ErrorKind::InvalidData, "no Internet address"))
}

/// The segment size from the UDP_GRO control message.
fn segment_size(message: &libc::msghdr) -> Option<usize> {
    let size = control_value(message, libc::SOL_UDP, libc::UDP_GRO)?;
    usize::try_from(size).ok().filter(|&size| size > 0)
}

/// The number in a control message: an int, or one octet.
pub(super) fn control_value(message: &libc::msghdr, level: i32, kind: i32) -> Option<i32> {
    // SAFETY: the kernel filled the control buffer; the macros stay within its length.
    let mut header = unsafe { libc::CMSG_FIRSTHDR(message) };
    while !header.is_null() {
        // SAFETY: a non-null header from the macros lies within the control buffer.
        let one = unsafe { *header };
        if one.cmsg_level == level && one.cmsg_type == kind {
            // SAFETY: CMSG_LEN only computes.
            let int = unsafe { libc::CMSG_LEN(mem::size_of::<i32>() as u32) } as usize;
            // SAFETY: the header says how many octets follow: those of an int, or at least one.
            return Some(unsafe {
                let data = libc::CMSG_DATA(header);
                match one.cmsg_len as usize >= int {
                    true => data.cast::<i32>().read_unaligned(),
                    false => i32::from(*data),
                }
            });
        }
        // SAFETY: as above.
        header = unsafe { libc::CMSG_NXTHDR(message, header) };
    }
    None
}
