//! The Berkeley calls that create, name, open and end SCTP sockets, and their options.

use super::super::address;
use super::super::errno::{os_error, return_to_c};
use super::super::exit::owns_threads;
use super::{HAS_SOCKETS, dispatch, give, slice};
use crate::sctp::{Style, calls, options};
use std::net::SocketAddr;
use std::os::fd::IntoRawFd;
use std::sync::atomic::Ordering;

/// socket(2): SCTP in the process for IPPROTO_SCTP, else as `towpath_socket`.
// SAFETY: no other symbol has this name.
#[unsafe(no_mangle)]
pub extern "C" fn towpath_sctp_socket(
    family: libc::c_int,
    kind: libc::c_int,
    protocol: libc::c_int,
) -> libc::c_int {
    let is_internet = [libc::AF_INET, libc::AF_INET6].contains(&family);
    if !is_internet || protocol != options::IPPROTO_SCTP {
        return super::super::calls::towpath_socket(family, kind, protocol);
    }
    return_to_c(|| {
        if !owns_threads() {
            // The threads that it needs are its parent's.
            return Err(os_error(libc::EOPNOTSUPP));
        }
        let flags = libc::SOCK_NONBLOCK | libc::SOCK_CLOEXEC;
        let style = match kind & !flags {
            libc::SOCK_STREAM => Style::OneToOne,
            libc::SOCK_SEQPACKET => Style::OneToMany,
            _ => return Err(os_error(libc::ESOCKTNOSUPPORT)),
        };
        HAS_SOCKETS.store(true, Ordering::Release);
        let (nonblocking, cloexec) = (libc::SOCK_NONBLOCK, libc::SOCK_CLOEXEC);
        let fd = calls::socket(style, family, kind & nonblocking != 0, kind & cloexec != 0)?;
        Ok(fd.into_raw_fd())
    })
}

/// bind(2).
///
/// # Safety
///
/// `address` points to `len` octets.
pub(in crate::sys) unsafe fn bind(
    fd: libc::c_int,
    address: *const libc::sockaddr,
    len: libc::socklen_t,
) -> Option<libc::c_int> {
    dispatch(fd, |socket, _| {
        // SAFETY: the caller's promise.
        let local = unsafe { address::required(address, len) }?;
        if socket.lock().local_port != 0 {
            return Err(os_error(libc::EINVAL));
        }
        calls::bind(socket, &[local]).map(|()| 0)
    })
}

/// listen(2).
pub(in crate::sys) fn listen(fd: libc::c_int, backlog: libc::c_int) -> Option<libc::c_int> {
    dispatch(fd, |socket, _| calls::listen(socket, backlog).map(|()| 0))
}

/// accept4(2).
///
/// # Safety
///
/// Both pointers are null, or `len` says how many octets `address` points to.
pub(in crate::sys) unsafe fn accept(
    fd: libc::c_int,
    address: *mut libc::sockaddr,
    len: *mut libc::socklen_t,
    flags: libc::c_int,
) -> Option<libc::c_int> {
    let nonblocking = flags & libc::SOCK_NONBLOCK != 0;
    let cloexec = flags & libc::SOCK_CLOEXEC != 0;
    dispatch(fd, |socket, fd| {
        let (fd, peer) = calls::accept(socket, fd, nonblocking, cloexec)?;
        // SAFETY: the caller's promise.
        unsafe { address::write(peer, address, len) };
        Ok(fd.into_raw_fd())
    })
}

/// connect(2).
///
/// # Safety
///
/// `address` points to `len` octets.
pub(in crate::sys) unsafe fn connect(
    fd: libc::c_int,
    address: *const libc::sockaddr,
    len: libc::socklen_t,
) -> Option<libc::c_int> {
    dispatch(fd, |socket, fd| {
        // SAFETY: the caller's promise.
        let peer = unsafe { address::required(address, len) }?;
        calls::connect(socket, fd, &[peer]).map(|_| 0)
    })
}

/// getsockname(2).
///
/// # Safety
///
/// Both pointers are null, or `len` says how many octets `address` points to.
pub(in crate::sys) unsafe fn getsockname(
    fd: libc::c_int,
    address: *mut libc::sockaddr,
    len: *mut libc::socklen_t,
) -> Option<libc::c_int> {
    dispatch(fd, |socket, _| {
        let found: SocketAddr = calls::local_addr(socket);
        // SAFETY: the caller's promise.
        unsafe { address::write(found, address, len) };
        Ok(0)
    })
}

/// getpeername(2).
///
/// # Safety
///
/// Both pointers are null, or `len` says how many octets `address` points to.
pub(in crate::sys) unsafe fn getpeername(
    fd: libc::c_int,
    address: *mut libc::sockaddr,
    len: *mut libc::socklen_t,
) -> Option<libc::c_int> {
    dispatch(fd, |socket, _| {
        let found = calls::peer_addr(socket)?;
        // SAFETY: the caller's promise.
        unsafe { address::write(found, address, len) };
        Ok(0)
    })
}

/// shutdown(2).
pub(in crate::sys) fn shutdown(fd: libc::c_int, how: libc::c_int) -> Option<libc::c_int> {
    dispatch(fd, |socket, _| calls::shutdown(socket, how).map(|()| 0))
}

/// setsockopt(2); None also for an option that the system keeps.
///
/// # Safety
///
/// `value` points to `len` octets.
pub(in crate::sys) unsafe fn setsockopt(
    fd: libc::c_int,
    (level, name): (libc::c_int, libc::c_int),
    value: *const libc::c_void,
    len: libc::socklen_t,
) -> Option<libc::c_int> {
    let mut is_own = true;
    let done = dispatch(fd, |socket, _| {
        // SAFETY: the caller's promise.
        let octets = unsafe { slice(value, len as usize) }?;
        is_own = options::set(socket, (level, name), octets)?.is_some();
        Ok(0)
    });
    done.filter(|_| is_own)
}

/// getsockopt(2); None also for an option that the system keeps.
///
/// # Safety
///
/// `len` says how many octets `value` points to.
pub(in crate::sys) unsafe fn getsockopt(
    fd: libc::c_int,
    (level, name): (libc::c_int, libc::c_int),
    value: *mut libc::c_void,
    len: *mut libc::socklen_t,
) -> Option<libc::c_int> {
    let mut is_own = true;
    let done = dispatch(fd, |socket, _| {
        if len.is_null() {
            return Err(os_error(libc::EFAULT));
        }
        // SAFETY: the caller's promise.
        let asked = unsafe { slice(value, *len as usize) }?;
        match options::get(socket, (level, name), asked)? {
            // SAFETY: the caller's promise.
            Some(octets) => unsafe { give(&octets, value, len) }?,
            None => is_own = false,
        }
        Ok(0)
    });
    done.filter(|_| is_own)
}
