//! SCTP_NODELAY of the kernel's SCTP (RFC 6458 section 8.1.5).

use std::io;
use std::mem;
use std::os::fd::{AsRawFd, BorrowedFd};

/// SOL_SCTP and SCTP_NODELAY (linux/sctp.h).
const SOL_SCTP: libc::c_int = 132;
const SCTP_NODELAY: libc::c_int = 3;

/// Sets it: short messages do not wait for others.
pub(crate) fn set_sctp_nodelay(socket: BorrowedFd<'_>, is_on: bool) -> io::Result<()> {
    let value = i32::from(is_on);
    // SAFETY: the pointer and the length describe a live integer, which the kernel only reads.
    let result = unsafe {
        libc::setsockopt(
            socket.as_raw_fd(),
            SOL_SCTP,
            SCTP_NODELAY,
            (&raw const value).cast(),
            mem::size_of::<i32>() as libc::socklen_t,
        )
    };
    match result {
        0 => Ok(()),
        _ => Err(io::Error::last_os_error()),
    }
}
