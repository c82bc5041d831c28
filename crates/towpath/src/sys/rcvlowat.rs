//! SO_RCVLOWAT, which wakes a reader only when so many octets wait (socket(7)).

use std::io;
use std::mem;
use std::os::fd::{AsRawFd, BorrowedFd};

/// Sets it.
pub(crate) fn set_rcvlowat(socket: BorrowedFd<'_>, octets: i32) -> io::Result<()> {
    // SAFETY: the pointer and the length describe a live integer, which the kernel only reads.
    let result = unsafe {
        libc::setsockopt(
            socket.as_raw_fd(),
            libc::SOL_SOCKET,
            libc::SO_RCVLOWAT,
            (&raw const octets).cast(),
            mem::size_of::<i32>() as libc::socklen_t,
        )
    };
    match result {
        0 => Ok(()),
        _ => Err(io::Error::last_os_error()),
    }
}

/// Reads it back.
pub(crate) fn rcvlowat(socket: BorrowedFd<'_>) -> io::Result<i32> {
    let mut octets = 0_i32;
    let mut len = mem::size_of::<i32>() as libc::socklen_t;
    // SAFETY: the pointers describe a live integer and its length, and an integer holds any bytes.
    let result = unsafe {
        libc::getsockopt(
            socket.as_raw_fd(),
            libc::SOL_SOCKET,
            libc::SO_RCVLOWAT,
            (&raw mut octets).cast(),
            &raw mut len,
        )
    };
    match result {
        0 => Ok(octets),
        _ => Err(io::Error::last_os_error()),
    }
}
