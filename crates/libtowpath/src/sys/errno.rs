//! Dispatch by descriptor, and results as C expects them.

use super::exit::owns_threads;
use crate::calls::Socket;
use crate::socket_table::{self, Entry};
use std::io;
use std::os::fd::BorrowedFd;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::Arc;

/// The errno of an error, also of one without an OS error number.
pub(crate) fn errno_of(error: &io::Error) -> libc::c_int {
    error.raw_os_error().unwrap_or(match error.kind() {
        io::ErrorKind::ConnectionRefused => libc::ECONNREFUSED,
        io::ErrorKind::ConnectionReset => libc::ECONNRESET,
        io::ErrorKind::ConnectionAborted => libc::ECONNABORTED,
        io::ErrorKind::TimedOut => libc::ETIMEDOUT,
        io::ErrorKind::WouldBlock => libc::EAGAIN,
        io::ErrorKind::InvalidInput => libc::EINVAL,
        io::ErrorKind::AddrInUse => libc::EADDRINUSE,
        io::ErrorKind::BrokenPipe => libc::EPIPE,
        io::ErrorKind::OutOfMemory => libc::ENOBUFS,
        _ => libc::EIO,
    })
}

/// A result as C expects it, an int or a length: a value, or -1 and errno. Panics become EIO.
pub(super) fn return_to_c<R: From<i8>>(call: impl FnOnce() -> io::Result<R>) -> R {
    let error = match catch_unwind(AssertUnwindSafe(call)) {
        Ok(Ok(value)) => return value,
        Ok(Err(error)) => errno_of(&error),
        Err(_) => libc::EIO,
    };
    // SAFETY: errno is this thread's own.
    unsafe { *libc::__errno_location() = error };
    R::from(-1)
}

/// The result of a system call, with errno if it failed.
pub(super) fn check_errno<R: From<i8> + PartialEq>(value: R) -> io::Result<R> {
    match value == R::from(-1) {
        true => Err(io::Error::last_os_error()),
        false => Ok(value),
    }
}

/// Runs `ours` if `fd` is a PF_XTP socket and this process has the library's threads, else
/// `system`.
pub(super) fn dispatch<R: From<i8>>(
    fd: libc::c_int,
    ours: impl FnOnce(&Arc<Socket>, BorrowedFd<'_>) -> io::Result<R>,
    system: impl FnOnce() -> R,
) -> R {
    if fd < 0 || !owns_threads() {
        return system();
    }
    dispatch_with(fd, socket_table::find, ours, system)
}

/// As [`dispatch`], also in a forked child, which may use its parent's sockets.
pub(super) fn dispatch_after_fork<R: From<i8>>(
    fd: libc::c_int,
    ours: impl FnOnce(&Arc<Socket>, BorrowedFd<'_>) -> io::Result<R>,
    system: impl FnOnce() -> R,
) -> R {
    match (fd < 0, owns_threads()) {
        (true, _) => system(),
        (_, true) => dispatch_with(fd, socket_table::find, ours, system),
        (_, false) => {
            let find = |fd: BorrowedFd<'_>| match socket_table::find_in_child(fd)? {
                Entry::Xtp(socket) => Some(socket),
                Entry::Sctp(_) => None,
            };
            dispatch_with(fd, find, ours, system)
        }
    }
}

fn dispatch_with<R: From<i8>>(
    fd: libc::c_int,
    find: impl FnOnce(BorrowedFd<'_>) -> Option<Arc<Socket>>,
    ours: impl FnOnce(&Arc<Socket>, BorrowedFd<'_>) -> io::Result<R>,
    system: impl FnOnce() -> R,
) -> R {
    // SAFETY: the program says that the descriptor is open; were it not, every use of it would
    // give EBADF.
    let fd = unsafe { BorrowedFd::borrow_raw(fd) };
    match catch_unwind(AssertUnwindSafe(|| find(fd))) {
        Ok(Some(socket)) => return_to_c(|| ours(&socket, fd)),
        _ => system(),
    }
}

/// The error of an errno.
pub(super) fn os_error(number: libc::c_int) -> io::Error {
    io::Error::from_raw_os_error(number)
}
