//! Socket options.

use std::io;
use std::mem;
use std::os::fd::{AsRawFd, BorrowedFd};

/// Sets an integer option of a socket.
pub fn set_option(socket: BorrowedFd<'_>, level: i32, name: i32, value: i32) -> io::Result<()> {
    // SAFETY: the pointer and the length describe one live i32.
    let result = unsafe {
        libc::setsockopt(
            socket.as_raw_fd(),
            level,
            name,
            (&raw const value).cast(),
            mem::size_of::<i32>() as libc::socklen_t,
        )
    };
    if result == 0 {
        Ok(())
    } else {
        Err(io::Error::last_os_error())
    }
}

/// Reads an integer option of a socket.
pub fn option(socket: BorrowedFd<'_>, level: i32, name: i32) -> io::Result<i32> {
    let mut value = 0i32;
    let mut len = mem::size_of::<i32>() as libc::socklen_t;
    // SAFETY: the pointers describe one live i32 and its length.
    let result = unsafe {
        libc::getsockopt(
            socket.as_raw_fd(),
            level,
            name,
            (&raw mut value).cast(),
            &raw mut len,
        )
    };
    if result == 0 {
        Ok(value)
    } else {
        Err(io::Error::last_os_error())
    }
}

/// Datagrams the kernel has dropped because this socket's receive buffer was full (SO_MEMINFO,
/// Linux 4.12).
pub fn receive_drops(socket: BorrowedFd<'_>) -> io::Result<u64> {
    // SK_MEMINFO_VARS values, the drops last.
    let mut values = [0u32; libc::SK_MEMINFO_DROPS as usize + 1];
    let mut len = mem::size_of_val(&values) as libc::socklen_t;
    // SAFETY: the pointers describe the live array and its length.
    let result = unsafe {
        libc::getsockopt(
            socket.as_raw_fd(),
            libc::SOL_SOCKET,
            libc::SO_MEMINFO,
            values.as_mut_ptr().cast(),
            &raw mut len,
        )
    };
    if result == 0 {
        Ok(u64::from(values[libc::SK_MEMINFO_DROPS as usize]))
    } else {
        Err(io::Error::last_os_error())
    }
}

/// Requests `len` octets of buffer in both directions: beyond the system's limit with
/// CAP_NET_ADMIN, else up to it.
pub fn set_buffers(socket: BorrowedFd<'_>, len: usize) {
    let len = i32::try_from(len).unwrap_or(i32::MAX);
    let pairs = [
        (libc::SO_RCVBUFFORCE, libc::SO_RCVBUF),
        (libc::SO_SNDBUFFORCE, libc::SO_SNDBUF),
    ];
    for (force, plain) in pairs {
        if set_option(socket, libc::SOL_SOCKET, force, len).is_err() {
            // The kernel caps the plain form silently; an error leaves the default buffer.
            let _ = set_option(socket, libc::SOL_SOCKET, plain, len);
        }
    }
}

/// Turns UDP_GRO on or off.
///
/// # Errors
///
/// The kernel is older than 5.0.
pub fn set_coalescing(socket: BorrowedFd<'_>, on: bool) -> io::Result<()> {
    set_option(socket, libc::SOL_UDP, libc::UDP_GRO, i32::from(on))
}

/// Whether the kernel knows UDP_SEGMENT.
pub fn can_segment(socket: BorrowedFd<'_>) -> bool {
    option(socket, libc::SOL_UDP, libc::UDP_SEGMENT).is_ok()
}
