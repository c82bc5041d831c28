//! One sendmsg that the kernel splits into datagrams of equal length (UDP_SEGMENT).

use super::address::RawAddress;
use std::io::{self, IoSlice};
use std::mem;
use std::net::SocketAddr;
use std::os::fd::{AsRawFd, BorrowedFd};
use std::ptr;

/// Room for one control message with a u16, aligned as a cmsghdr.
#[repr(C, align(8))]
struct ControlBuffer([u8; 32]);

/// Sends the octets of `slices` to `to` (None on a connected socket), as datagrams of
/// `segment_size` octets when given, else as one. Does not block.
///
/// # Errors
///
/// `WouldBlock` when the socket's buffer is full. ECONNREFUSED reports an ICMP error for an earlier
/// datagram, so this one is sent again once.
pub fn send_segmented(
    socket: BorrowedFd<'_>,
    to: Option<SocketAddr>,
    slices: &[IoSlice<'_>],
    segment_size: Option<usize>,
) -> io::Result<()> {
    send_segmented_with(socket, to, slices, segment_size, libc::MSG_DONTWAIT)
}

/// As [`send_segmented`]; `flags` and the socket's timeout decide whether it blocks.
pub fn send_segmented_with(
    socket: BorrowedFd<'_>,
    to: Option<SocketAddr>,
    slices: &[IoSlice<'_>],
    segment_size: Option<usize>,
    flags: i32,
) -> io::Result<()> {
    let mut raw = to.map(RawAddress::new);
    if let (None, [slice]) = (segment_size, slices) {
        return send_plain(socket, raw.as_ref(), slice, flags);
    }
    let mut control = ControlBuffer([0; 32]);
    // SAFETY: msghdr is plain data for which all zeros is a value.
    let mut message: libc::msghdr = unsafe { mem::zeroed() };
    if let Some(raw) = raw.as_mut() {
        message.msg_name = (&raw mut raw.storage).cast();
        message.msg_namelen = raw.len;
    }
    // IoSlice is guaranteed to have the layout of iovec.
    message.msg_iov = slices.as_ptr().cast_mut().cast();
    message.msg_iovlen = slices.len() as _;
    if let Some(size) = segment_size {
        attach_segment_size(&mut message, &mut control, size);
    }
    retry_once_if_refused(|| send_once(socket, &message, flags))
}

/// Sends one datagram with sendto, which is cheaper than sendmsg, and by its number: libc's function is a
/// cancellation point, for which a process of several threads pays two atomic operations (pthreads(7)).
fn send_plain(
    socket: BorrowedFd<'_>,
    to: Option<&RawAddress>,
    slice: &IoSlice<'_>,
    flags: i32,
) -> io::Result<()> {
    let flags = flags | libc::MSG_NOSIGNAL;
    let (name, name_len) = to.map_or((ptr::null(), 0), |raw| (&raw const raw.storage, raw.len));
    retry_once_if_refused(|| {
        // SAFETY: pointers and lengths describe live memory, which the kernel only reads.
        let sent = unsafe {
            libc::syscall(
                libc::SYS_sendto,
                socket.as_raw_fd(),
                slice.as_ptr(),
                slice.len(),
                flags,
                name,
                name_len,
            )
        };
        if sent < 0 {
            return Err(io::Error::last_os_error());
        }
        Ok(())
    })
}

/// Sends again when the first call returned the ICMP error of an earlier datagram.
fn retry_once_if_refused(send: impl Fn() -> io::Result<()>) -> io::Result<()> {
    match send() {
        Err(error) if error.raw_os_error() == Some(libc::ECONNREFUSED) => send(),
        other => other,
    }
}

fn send_once(socket: BorrowedFd<'_>, message: &libc::msghdr, flags: i32) -> io::Result<()> {
    // SAFETY: every pointer in `message` refers to memory that outlives the call.
    let sent = unsafe { libc::sendmsg(socket.as_raw_fd(), message, flags | libc::MSG_NOSIGNAL) };
    if sent < 0 {
        return Err(io::Error::last_os_error());
    }
    Ok(())
}

fn attach_segment_size(message: &mut libc::msghdr, control: &mut ControlBuffer, size: usize) {
    message.msg_control = control.0.as_mut_ptr().cast();
    // SAFETY: CMSG_SPACE only computes.
    message.msg_controllen = unsafe { libc::CMSG_SPACE(2) } as _;
    // SAFETY: the control buffer is aligned and holds CMSG_SPACE(2) = 24 of its 32 octets.
    unsafe {
        let header = libc::CMSG_FIRSTHDR(message);
        (*header).cmsg_level = libc::SOL_UDP;
        (*header).cmsg_type = libc::UDP_SEGMENT;
        (*header).cmsg_len = libc::CMSG_LEN(2) as _;
        libc::CMSG_DATA(header)
            .cast::<u16>()
            .write_unaligned(size as u16);
    }
}
