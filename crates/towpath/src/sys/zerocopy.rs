//! MSG_ZEROCOPY: sends from the user's pages, and the kernel's notices that it is done with them
//! (Documentation/networking/msg_zerocopy.rst).

use rustix::io::Errno;
use std::io;
use std::mem;
use std::os::fd::{AsRawFd, BorrowedFd};
use std::ptr;

/// Option of a socket that may send so (asm-generic/socket.h).
const SO_ZEROCOPY: libc::c_int = 60;

/// Origin and code of a notice (linux/errqueue.h).
const SO_EE_ORIGIN_ZEROCOPY: u8 = 5;
const SO_EE_CODE_ZEROCOPY_COPIED: u8 = 1;

/// Octets of control data: an error and an address of either family fit.
const CONTROL_LEN: usize = 128;

/// A range of sends that the kernel is done with. Sends are numbered from 0.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Completion {
    /// The first send.
    pub(crate) first: u32,
    /// The last one.
    pub(crate) last: u32,
    /// Whether the kernel has copied what was sent.
    pub(crate) copied: bool,
}

/// Lets a socket send from the user's pages.
pub(crate) fn set_zerocopy(socket: BorrowedFd<'_>) -> io::Result<()> {
    let on: libc::c_int = 1;
    // SAFETY: the pointer and the length describe a live integer, which the kernel only reads.
    let result = unsafe {
        libc::setsockopt(
            socket.as_raw_fd(),
            libc::SOL_SOCKET,
            SO_ZEROCOPY,
            (&raw const on).cast(),
            mem::size_of::<libc::c_int>() as libc::socklen_t,
        )
    };
    match result {
        0 => Ok(()),
        _ => Err(io::Error::last_os_error()),
    }
}

/// Sends from `bytes` without copying them where the kernel can; blocks as the socket does. Nothing
/// unsafe comes of bytes that change before the notice: the kernel holds their pages, and would send
/// the new ones.
pub(crate) fn send_zerocopy(socket: BorrowedFd<'_>, bytes: &[u8]) -> Result<usize, Errno> {
    let flags = libc::MSG_NOSIGNAL | libc::MSG_ZEROCOPY;
    let flags = rustix::net::SendFlags::from_bits_retain(flags as u32);
    rustix::net::send(socket, bytes, flags)
}

/// The next notice; None when there is none yet.
pub(crate) fn next_completion(socket: BorrowedFd<'_>) -> io::Result<Option<Completion>> {
    let mut control = [0_u64; CONTROL_LEN / 8];
    // SAFETY: a msghdr of zeros has no name, no data and no control; its fields are integers and pointers.
    let mut message: libc::msghdr = unsafe { mem::zeroed() };
    message.msg_control = control.as_mut_ptr().cast();
    message.msg_controllen = CONTROL_LEN as _;
    // SAFETY: the header describes `control`, which outlives the call, and nothing else.
    let result = unsafe {
        libc::recvmsg(
            socket.as_raw_fd(),
            &raw mut message,
            libc::MSG_ERRQUEUE | libc::MSG_DONTWAIT,
        )
    };
    if result < 0 {
        let error = io::Error::last_os_error();
        return match error.kind() {
            io::ErrorKind::WouldBlock | io::ErrorKind::Interrupted => Ok(None),
            _ => Err(error),
        };
    }
    Ok(completion_in(&message))
}

/// The notice in the control data of a received header.
fn completion_in(message: &libc::msghdr) -> Option<Completion> {
    // SAFETY: the kernel has set the length of the control data, which is at most that of the live buffer.
    let mut next = unsafe { libc::CMSG_FIRSTHDR(message) };
    while !next.is_null() {
        // SAFETY: CMSG_FIRSTHDR and CMSG_NXTHDR give null or a header within the control data, which is
        // aligned to eight octets.
        let header = unsafe { *next };
        if carries_error(&header) {
            // SAFETY: the length was checked, and an extended error holds any bytes.
            let error = unsafe {
                ptr::read_unaligned(libc::CMSG_DATA(next).cast::<libc::sock_extended_err>())
            };
            if error.ee_errno == 0 && error.ee_origin == SO_EE_ORIGIN_ZEROCOPY {
                return Some(Completion {
                    first: error.ee_info,
                    last: error.ee_data,
                    copied: error.ee_code == SO_EE_CODE_ZEROCOPY_COPIED,
                });
            }
        }
        // SAFETY: as above; `next` is a header of `message`.
        next = unsafe { libc::CMSG_NXTHDR(message, next) };
    }
    None
}

fn carries_error(header: &libc::cmsghdr) -> bool {
    let is_error = matches!(
        (header.cmsg_level, header.cmsg_type),
        (libc::SOL_IP, libc::IP_RECVERR) | (libc::SOL_IPV6, libc::IPV6_RECVERR)
    );
    // SAFETY: CMSG_LEN only computes.
    let least = unsafe { libc::CMSG_LEN(mem::size_of::<libc::sock_extended_err>() as u32) };
    is_error && header.cmsg_len >= least as _
}
