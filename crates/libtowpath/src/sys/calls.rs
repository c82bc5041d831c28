//! The Berkeley calls. Each asks whether the descriptor is one of the family, and else the system.

use super::address::{self, PF_XTP};
use super::exit::is_owner;
use crate::{calls, table};
use std::io;
use std::os::fd::{BorrowedFd, IntoRawFd};
use std::panic::{AssertUnwindSafe, catch_unwind};

/// Level of options of the family: `setsockopt(fd, SOL_XTP, XTP_OPTION, "queue=32k", 9)`.
const SOL_XTP: libc::c_int = 0x5854;

/// The one option there is: a word.
const XTP_OPTION: libc::c_int = 1;

/// Octets of the longest word.
const WORD_MAX: usize = 256;

/// An outcome as C has it: a value, or -1 and errno. No panic passes.
fn to_c(call: impl FnOnce() -> io::Result<libc::c_int>) -> libc::c_int {
    let result = catch_unwind(AssertUnwindSafe(call));
    let error = match result {
        Ok(Ok(value)) => return value,
        Ok(Err(error)) => number_of(&error),
        Err(_) => libc::EIO,
    };
    // SAFETY: errno is this thread's own.
    unsafe { *libc::__errno_location() = error };
    -1
}

/// The error number of an error, also of one that this project made.
fn number_of(error: &io::Error) -> libc::c_int {
    error.raw_os_error().unwrap_or(match error.kind() {
        io::ErrorKind::ConnectionRefused => libc::ECONNREFUSED,
        io::ErrorKind::ConnectionReset => libc::ECONNRESET,
        io::ErrorKind::TimedOut => libc::ETIMEDOUT,
        io::ErrorKind::WouldBlock => libc::EAGAIN,
        io::ErrorKind::InvalidInput => libc::EINVAL,
        io::ErrorKind::AddrInUse => libc::EADDRINUSE,
        _ => libc::EIO,
    })
}

/// Runs `ours` where `fd` is a socket of the family, else `system`.
fn either(
    fd: libc::c_int,
    ours: impl FnOnce(BorrowedFd<'_>) -> Option<io::Result<libc::c_int>>,
    system: impl FnOnce() -> libc::c_int,
) -> libc::c_int {
    if fd < 0 || !is_owner() {
        return system();
    }
    // SAFETY: the program says that the descriptor is open; were it not, every use of it would
    // give EBADF.
    let fd = unsafe { BorrowedFd::borrow_raw(fd) };
    match catch_unwind(AssertUnwindSafe(|| ours(fd))) {
        Ok(Some(result)) => to_c(|| result),
        Ok(None) => system(),
        Err(_) => to_c(|| Err(io::Error::from_raw_os_error(libc::EIO))),
    }
}

/// socket(2).
// SAFETY: no other symbol has this name.
#[unsafe(no_mangle)]
pub extern "C" fn towpath_socket(
    family: libc::c_int,
    kind: libc::c_int,
    protocol: libc::c_int,
) -> libc::c_int {
    if family != PF_XTP {
        // SAFETY: no memory is passed.
        return unsafe { libc::socket(family, kind, protocol) };
    }
    to_c(|| {
        let flags = libc::SOCK_NONBLOCK | libc::SOCK_CLOEXEC;
        if kind & !flags != libc::SOCK_STREAM {
            return Err(io::Error::from_raw_os_error(libc::ESOCKTNOSUPPORT));
        }
        let nonblocking = kind & libc::SOCK_NONBLOCK != 0;
        let fd = calls::socket(nonblocking, kind & libc::SOCK_CLOEXEC != 0)?;
        Ok(fd.into_raw_fd())
    })
}

/// bind(2).
///
/// # Safety
///
/// As the system's: `address` points to `len` octets.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn towpath_bind(
    fd: libc::c_int,
    address: *const libc::sockaddr,
    len: libc::socklen_t,
) -> libc::c_int {
    // SAFETY: the caller's promise.
    let local = unsafe { address::read(address, len) };
    let wrong = io::Error::from_raw_os_error(libc::EAFNOSUPPORT);
    either(
        fd,
        |fd| match local {
            Some(local) => calls::bind(fd, local).map(|done| done.map(|()| 0)),
            None => calls::local(fd).map(|_| Err(wrong)),
        },
        // SAFETY: the caller's promise.
        || unsafe { libc::bind(fd, address, len) },
    )
}

/// listen(2).
// SAFETY: no other symbol has this name.
#[unsafe(no_mangle)]
pub extern "C" fn towpath_listen(fd: libc::c_int, backlog: libc::c_int) -> libc::c_int {
    either(
        fd,
        |fd| calls::listen(fd).map(|done| done.map(|()| 0)),
        // SAFETY: no memory is passed.
        || unsafe { libc::listen(fd, backlog) },
    )
}

/// accept(2).
///
/// # Safety
///
/// As the system's: both pointers are null, or `len` says how many octets `address` points to.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn towpath_accept(
    fd: libc::c_int,
    address: *mut libc::sockaddr,
    len: *mut libc::socklen_t,
) -> libc::c_int {
    // SAFETY: the caller's promise.
    unsafe { towpath_accept4(fd, address, len, 0) }
}

/// accept4(2).
///
/// # Safety
///
/// As the system's: both pointers are null, or `len` says how many octets `address` points to.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn towpath_accept4(
    fd: libc::c_int,
    address: *mut libc::sockaddr,
    len: *mut libc::socklen_t,
    flags: libc::c_int,
) -> libc::c_int {
    let nonblocking = flags & libc::SOCK_NONBLOCK != 0;
    let cloexec = flags & libc::SOCK_CLOEXEC != 0;
    either(
        fd,
        |fd| {
            let accepted = calls::accept(fd, nonblocking, cloexec)?;
            Some(accepted.map(|(fd, peer)| {
                // SAFETY: the caller's promise.
                unsafe { address::write(peer, address, len) };
                fd.into_raw_fd()
            }))
        },
        // SAFETY: the caller's promise.
        || unsafe { libc::accept4(fd, address, len, flags) },
    )
}

/// connect(2). It waits for the peer's answer, also where the socket does not block.
///
/// # Safety
///
/// As the system's: `address` points to `len` octets.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn towpath_connect(
    fd: libc::c_int,
    address: *const libc::sockaddr,
    len: libc::socklen_t,
) -> libc::c_int {
    // SAFETY: the caller's promise.
    let peer = unsafe { address::read(address, len) };
    let wrong = io::Error::from_raw_os_error(libc::EAFNOSUPPORT);
    either(
        fd,
        |fd| match peer {
            Some(peer) => calls::connect(fd, peer).map(|done| done.map(|()| 0)),
            None => calls::local(fd).map(|_| Err(wrong)),
        },
        // SAFETY: the caller's promise.
        || unsafe { libc::connect(fd, address, len) },
    )
}

/// getsockname(2).
///
/// # Safety
///
/// As the system's: `len` says how many octets `address` points to.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn towpath_getsockname(
    fd: libc::c_int,
    address: *mut libc::sockaddr,
    len: *mut libc::socklen_t,
) -> libc::c_int {
    let give = |found: io::Result<std::net::SocketAddr>| {
        // SAFETY: the caller's promise.
        found.map(|found| unsafe { address::write(found, address, len) })
    };
    either(
        fd,
        |fd| calls::local(fd).map(|found| give(found).map(|()| 0)),
        // SAFETY: the caller's promise.
        || unsafe { libc::getsockname(fd, address, len) },
    )
}

/// getpeername(2).
///
/// # Safety
///
/// As the system's: `len` says how many octets `address` points to.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn towpath_getpeername(
    fd: libc::c_int,
    address: *mut libc::sockaddr,
    len: *mut libc::socklen_t,
) -> libc::c_int {
    let give = |found: io::Result<std::net::SocketAddr>| {
        // SAFETY: the caller's promise.
        found.map(|found| unsafe { address::write(found, address, len) })
    };
    either(
        fd,
        |fd| calls::peer(fd).map(|found| give(found).map(|()| 0)),
        // SAFETY: the caller's promise.
        || unsafe { libc::getpeername(fd, address, len) },
    )
}

/// setsockopt(2). Of the family's own level there is one option, a word such as `queue=32k`; options
/// of TCP mean nothing to XTP and are accepted.
///
/// # Safety
///
/// As the system's: `value` points to `len` octets.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn towpath_setsockopt(
    fd: libc::c_int,
    level: libc::c_int,
    name: libc::c_int,
    value: *const libc::c_void,
    len: libc::socklen_t,
) -> libc::c_int {
    let word = if level == SOL_XTP && name == XTP_OPTION && !value.is_null() {
        let len = (len as usize).min(WORD_MAX);
        // SAFETY: the caller says that as many octets are there.
        let octets = unsafe { std::slice::from_raw_parts(value.cast::<u8>(), len) };
        let text = String::from_utf8_lossy(octets);
        Some(text.trim_end_matches('\0').to_owned())
    } else {
        None
    };
    either(
        fd,
        |fd| match (level, word) {
            (SOL_XTP, Some(word)) => calls::set(fd, &word).map(|done| done.map(|()| 0)),
            (SOL_XTP, None) => {
                let wrong = io::Error::from_raw_os_error(libc::ENOPROTOOPT);
                calls::local(fd).map(|_| Err(wrong))
            }
            (libc::IPPROTO_TCP, _) => calls::local(fd).map(|_| Ok(0)),
            _ => None,
        },
        // SAFETY: the caller's promise.
        || unsafe { libc::setsockopt(fd, level, name, value, len) },
    )
}

/// recv(2). An association that broke gives ECONNRESET where it ends.
///
/// # Safety
///
/// As the system's: `buffer` points to `len` octets.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn towpath_recv(
    fd: libc::c_int,
    buffer: *mut libc::c_void,
    len: libc::size_t,
    flags: libc::c_int,
) -> libc::ssize_t {
    // SAFETY: the caller's promise.
    let got = unsafe { libc::recv(fd, buffer, len, flags) };
    or_reset(fd, len, got)
}

/// read(2). An association that broke gives ECONNRESET where it ends.
///
/// # Safety
///
/// As the system's: `buffer` points to `len` octets.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn towpath_read(
    fd: libc::c_int,
    buffer: *mut libc::c_void,
    len: libc::size_t,
) -> libc::ssize_t {
    // SAFETY: the caller's promise.
    let got = unsafe { libc::read(fd, buffer, len) };
    or_reset(fd, len, got)
}

/// The end of what broke is an error.
fn or_reset(fd: libc::c_int, len: libc::size_t, got: libc::ssize_t) -> libc::ssize_t {
    if got != 0 || len == 0 || fd < 0 || !is_owner() {
        return got;
    }
    // SAFETY: the program has just read from it.
    let fd = unsafe { BorrowedFd::borrow_raw(fd) };
    let broken = catch_unwind(|| calls::is_broken(fd)).unwrap_or(false);
    if !broken {
        return got;
    }
    to_c(|| Err(io::ErrorKind::ConnectionReset.into())) as libc::ssize_t
}

/// close(2). What was written goes on to the peer.
// SAFETY: no other symbol has this name.
#[unsafe(no_mangle)]
pub extern "C" fn towpath_close(fd: libc::c_int) -> libc::c_int {
    if is_owner() {
        // A table that panicked is no reason to keep the descriptor.
        let _ = catch_unwind(|| table::lock().remove(fd));
    }
    // SAFETY: the program says that the descriptor is its own.
    unsafe { libc::close(fd) }
}
