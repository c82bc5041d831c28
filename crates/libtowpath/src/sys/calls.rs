//! The calls that create, name and close sockets: the library's for PF_XTP descriptors, the
//! system's for others.

use super::address::{self, PF_XTP};
use super::errno::{dispatch, dispatch_after_fork, return_to_c};
use super::exit::owns_threads;
use super::sctp;
use crate::calls::{self, Socket, SocketKind};
use crate::socket_table;
use std::io;
use std::net::SocketAddr;
use std::os::fd::{BorrowedFd, IntoRawFd};
use std::panic::catch_unwind;

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
    return_to_c(|| {
        let flags = libc::SOCK_NONBLOCK | libc::SOCK_CLOEXEC;
        let of = match kind & !flags {
            libc::SOCK_STREAM => SocketKind::Stream,
            libc::SOCK_DGRAM => SocketKind::Datagram,
            libc::SOCK_RDM => SocketKind::ReliableDatagram,
            _ => return Err(io::Error::from_raw_os_error(libc::ESOCKTNOSUPPORT)),
        };
        let (nonblocking, cloexec) = (libc::SOCK_NONBLOCK, libc::SOCK_CLOEXEC);
        let fd = calls::socket(of, kind & nonblocking != 0, kind & cloexec != 0)?;
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
    if let Some(done) = unsafe { sctp::bind(fd, address, len) } {
        return done;
    }
    dispatch(
        fd,
        |socket, _| {
            // SAFETY: the caller's promise.
            let local = unsafe { address::required(address, len) }?;
            calls::bind(socket, local).map(|()| 0)
        },
        // SAFETY: the caller's promise.
        || unsafe { libc::bind(fd, address, len) },
    )
}

/// listen(2).
// SAFETY: no other symbol has this name.
#[unsafe(no_mangle)]
pub extern "C" fn towpath_listen(fd: libc::c_int, backlog: libc::c_int) -> libc::c_int {
    if let Some(done) = sctp::listen(fd, backlog) {
        return done;
    }
    dispatch(
        fd,
        |socket, _| calls::listen(socket, backlog).map(|()| 0),
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
    // SAFETY: the caller's promise.
    if let Some(done) = unsafe { sctp::accept(fd, address, len, flags) } {
        return done;
    }
    let nonblocking = flags & libc::SOCK_NONBLOCK != 0;
    let cloexec = flags & libc::SOCK_CLOEXEC != 0;
    dispatch(
        fd,
        |socket, fd| {
            let (fd, peer) = calls::accept(socket, fd, nonblocking, cloexec)?;
            // SAFETY: the caller's promise.
            unsafe { address::write(peer, address, len) };
            Ok(fd.into_raw_fd())
        },
        // SAFETY: the caller's promise.
        || unsafe { libc::accept4(fd, address, len, flags) },
    )
}

/// connect(2).
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
    if let Some(done) = unsafe { sctp::connect(fd, address, len) } {
        return done;
    }
    dispatch(
        fd,
        |socket, fd| {
            // SAFETY: the caller's promise.
            if unsafe { address::is_unspec(address, len) } {
                return calls::disconnect(socket).map(|()| 0);
            }
            // SAFETY: the caller's promise.
            let peer = unsafe { address::required(address, len) }?;
            calls::connect(socket, fd, peer).map(|()| 0)
        },
        || {
            // SAFETY: the caller's promise.
            let done = unsafe { libc::connect(fd, address, len) };
            if done == 0 {
                super::datagrams::note_peer(fd);
            }
            done
        },
    )
}

/// getsockname(2) or getpeername(2).
// SAFETY: a type only; callers pass what the system asks for.
type AddressCall =
    unsafe extern "C" fn(libc::c_int, *mut libc::sockaddr, *mut libc::socklen_t) -> libc::c_int;

/// Writes the address that `ours` or `system` finds to C.
///
/// # Safety
///
/// Both pointers are null, or `len` says how many octets `address` points to.
unsafe fn return_address(
    fd: libc::c_int,
    (address, len): (*mut libc::sockaddr, *mut libc::socklen_t),
    ours: fn(&Socket) -> io::Result<SocketAddr>,
    system: AddressCall,
) -> libc::c_int {
    dispatch_after_fork(
        fd,
        |socket, _| {
            let found = ours(socket)?;
            // SAFETY: the caller's promise.
            unsafe { address::write(found, address, len) };
            Ok(0)
        },
        // SAFETY: the caller's promise.
        || unsafe { system(fd, address, len) },
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
    // SAFETY: the caller's promise.
    if let Some(done) = unsafe { sctp::getsockname(fd, address, len) } {
        return done;
    }
    // SAFETY: the caller's promise.
    unsafe { return_address(fd, (address, len), calls::local_addr, libc::getsockname) }
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
    // SAFETY: the caller's promise.
    if let Some(done) = unsafe { sctp::getpeername(fd, address, len) } {
        return done;
    }
    // SAFETY: the caller's promise.
    unsafe { return_address(fd, (address, len), calls::peer_addr, libc::getpeername) }
}

/// shutdown(2).
// SAFETY: no other symbol has this name.
#[unsafe(no_mangle)]
pub extern "C" fn towpath_shutdown(fd: libc::c_int, how: libc::c_int) -> libc::c_int {
    if let Some(done) = sctp::shutdown(fd, how) {
        return done;
    }
    super::direct::towpath_leave_to_kernel(fd);
    // SAFETY: no memory is passed.
    let system = || unsafe { libc::shutdown(fd, how) };
    dispatch(
        fd,
        |socket, _| {
            calls::shutdown(socket, how != libc::SHUT_WR)?;
            super::errno::check_errno(system())
        },
        system,
    )
}

/// close(2). Written data are still sent, unless SO_LINGER has 0 seconds: then the connection is
/// reset.
// SAFETY: no other symbol has this name.
#[unsafe(no_mangle)]
pub extern "C" fn towpath_close(fd: libc::c_int) -> libc::c_int {
    // Even if a panic broke the table the descriptor must be closed.
    let inode = catch_unwind(|| {
        let inode = prepare_close(fd);
        super::direct::before_close(fd);
        inode
    })
    .unwrap_or(None);
    // SAFETY: the program says that the descriptor is its own.
    let done = unsafe { libc::close(fd) };
    if let Some(inode) = inode {
        let _ = catch_unwind(|| socket_table::remove_if_closed(inode));
    }
    done
}

/// Inode of the library's socket that is about to be closed.
fn prepare_close(fd: libc::c_int) -> Option<(u64, u64)> {
    if fd < 0 || !owns_threads() {
        return None;
    }
    // SAFETY: the program says that the descriptor is open; were it not, every use of it would
    // give EBADF.
    let fd = unsafe { BorrowedFd::borrow_raw(fd) };
    let socket = socket_table::find_any(fd)?;
    if super::sockopt::has_zero_linger(fd) {
        socket.link().set_abort_on_close();
    }
    socket_table::inode(fd)
}
