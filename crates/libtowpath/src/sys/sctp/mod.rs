//! SCTP's C entry points: what the Berkeley calls do on its sockets, and the calls of RFC 6458.

mod addresses;
mod messages;
mod sockets;

pub(super) use messages::{receive, receive_message, send, send_message};
pub(super) use sockets::{
    accept, bind, connect, getpeername, getsockname, getsockopt, listen, setsockopt, shutdown,
};

use super::errno::{os_error, return_to_c};
use super::exit::owns_threads;
use crate::sctp::SctpSocket;
use crate::socket_table::{self, Entry};
use std::io;
use std::os::fd::BorrowedFd;
use std::panic::catch_unwind;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

/// Set with the first SCTP socket; until then calls skip the table.
static HAS_SOCKETS: AtomicBool = AtomicBool::new(false);

/// The SCTP socket of a descriptor, if it is one: in a forked child EOPNOTSUPP, as it has no thread.
pub(super) fn find(fd: libc::c_int) -> Option<io::Result<Arc<SctpSocket>>> {
    if fd < 0 || !HAS_SOCKETS.load(Ordering::Acquire) {
        return None;
    }
    // SAFETY: the program says that the descriptor is open; were it not, every use of it would give
    // EBADF.
    let fd = unsafe { BorrowedFd::borrow_raw(fd) };
    let found = catch_unwind(|| match owns_threads() {
        true => socket_table::find_sctp(fd).map(Ok),
        false => match socket_table::find_in_child(fd)? {
            Entry::Sctp(_) => Some(Err(os_error(libc::EOPNOTSUPP))),
            Entry::Xtp(_) => None,
        },
    });
    found.ok().flatten()
}

/// Runs `act` on the SCTP socket of a descriptor; None if it is none.
fn dispatch<R: From<i8>>(
    fd: libc::c_int,
    act: impl FnOnce(&Arc<SctpSocket>, BorrowedFd<'_>) -> io::Result<R>,
) -> Option<R> {
    find(fd).map(|socket| run(socket, fd, act))
}

/// Runs `act` on what [`find`] found.
fn run<R: From<i8>>(
    socket: io::Result<Arc<SctpSocket>>,
    fd: libc::c_int,
    act: impl FnOnce(&Arc<SctpSocket>, BorrowedFd<'_>) -> io::Result<R>,
) -> R {
    // SAFETY: as in `find`.
    let fd = unsafe { BorrowedFd::borrow_raw(fd) };
    return_to_c(|| act(&socket?, fd))
}

/// Runs `act` on the SCTP socket of a descriptor. EBADF if it is not open, else EOPNOTSUPP if it is none.
fn dispatch_own<R: From<i8>>(
    fd: libc::c_int,
    act: impl FnOnce(&Arc<SctpSocket>, BorrowedFd<'_>) -> io::Result<R>,
) -> R {
    dispatch(fd, act).unwrap_or_else(|| {
        // SAFETY: no memory is passed.
        let is_open = unsafe { libc::fcntl(fd, libc::F_GETFD) } >= 0;
        let error = if is_open {
            libc::EOPNOTSUPP
        } else {
            libc::EBADF
        };
        return_to_c(|| Err(os_error(error)))
    })
}

/// The octets that C passed.
///
/// # Safety
///
/// `octets` is null or points to `len` octets.
unsafe fn slice<'a>(octets: *const libc::c_void, len: usize) -> io::Result<&'a [u8]> {
    match (octets.is_null(), len) {
        (_, 0) => Ok(&[]),
        (true, _) => Err(os_error(libc::EFAULT)),
        // SAFETY: the caller's promise.
        (false, len) => Ok(unsafe { std::slice::from_raw_parts(octets.cast::<u8>(), len) }),
    }
}

/// Gives C `octets`: all of them. EINVAL if its buffer is too short.
///
/// # Safety
///
/// Both are null, or `len` points to a length and `value` to as many octets.
unsafe fn give(
    octets: &[u8],
    value: *mut libc::c_void,
    len: *mut libc::socklen_t,
) -> io::Result<()> {
    if value.is_null() || len.is_null() {
        return Err(os_error(libc::EFAULT));
    }
    // SAFETY: the caller says that a length is there, and as many octets; no more are written.
    unsafe {
        if octets.len() > *len as usize {
            return Err(os_error(libc::EINVAL));
        }
        std::ptr::copy_nonoverlapping(octets.as_ptr(), value.cast::<u8>(), octets.len());
        *len = octets.len() as libc::socklen_t;
    }
    Ok(())
}
