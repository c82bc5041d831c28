//! Sending and receiving on SCTP sockets.

use super::super::address;
use super::super::errno::os_error;
use super::super::iovec::{counted_iovecs, gather, iovecs, single_iovec, total_len};
use super::addresses::read_packed;
use super::{dispatch, dispatch_own, give, run, slice};
use crate::sctp::receive::{self as receiving, Received};
use crate::sctp::send::{self as sending, Outgoing};
use crate::sctp::settings::{SendInfo, of_time_to_live};
use crate::sctp::{SctpSocket, control};
use std::io;
use std::net::SocketAddr;
use std::os::fd::BorrowedFd;
use std::sync::Arc;

/// Sends a message without ancillary data; None if the descriptor is no SCTP socket.
///
/// # Safety
///
/// All `parts` may be read.
pub(in crate::sys) unsafe fn send(
    fd: libc::c_int,
    to: Option<SocketAddr>,
    parts: &io::Result<&[libc::iovec]>,
    flags: libc::c_int,
) -> Option<isize> {
    dispatch(fd, |socket, fd| {
        let parts = parts.as_ref().map_err(copy_of)?;
        let out = Outgoing {
            // SAFETY: the caller's promise.
            octets: unsafe { gather(parts) }?,
            to: to.into_iter().collect(),
            nonblocking: flags & libc::MSG_DONTWAIT != 0,
            ..Outgoing::default()
        };
        sending::send(socket, fd, &out).map(|(len, _)| len as isize)
    })
}

/// An error of the system again.
fn copy_of(error: &io::Error) -> io::Error {
    os_error(error.raw_os_error().unwrap_or(libc::EINVAL))
}

/// sendmsg(2).
///
/// # Safety
///
/// As the system's; `message` is not null.
pub(in crate::sys) unsafe fn send_message(
    fd: libc::c_int,
    message: *const libc::msghdr,
    flags: libc::c_int,
) -> Option<isize> {
    dispatch(fd, |socket, fd| {
        // SAFETY: the caller's promise.
        let out = unsafe {
            let to = address::read((*message).msg_name.cast(), (*message).msg_namelen);
            let parts = iovecs((*message).msg_iov, (*message).msg_iovlen)?;
            let ancillary = slice((*message).msg_control, (*message).msg_controllen)?;
            let mut out = Outgoing {
                octets: gather(parts)?,
                to: to.into_iter().collect(),
                nonblocking: flags & libc::MSG_DONTWAIT != 0,
                ..Outgoing::default()
            };
            control::read(ancillary, &mut out)?;
            out
        };
        sending::send(socket, fd, &out).map(|(len, _)| len as isize)
    })
}

/// Receives from `found` into `parts`. `report` gets flags and source.
///
/// # Safety
///
/// All `parts` may be written to.
pub(in crate::sys) unsafe fn receive(
    (found, fd): (io::Result<Arc<SctpSocket>>, libc::c_int),
    parts: &io::Result<&[libc::iovec]>,
    flags: libc::c_int,
    report: impl FnOnce(libc::c_int, Option<SocketAddr>),
) -> isize {
    run(found, fd, |socket, fd| {
        let parts = parts.as_ref().map_err(copy_of)?;
        let received = receiving::receive(socket, fd, total_len(parts), flags)?;
        // SAFETY: the caller's promise.
        unsafe { scatter(&received.octets, parts) }?;
        report(received.flags, received.from);
        Ok(received.octets.len() as isize)
    })
}

/// recvmsg(2).
///
/// # Safety
///
/// As the system's; `message` is not null.
pub(in crate::sys) unsafe fn receive_message(
    fd: libc::c_int,
    message: *mut libc::msghdr,
    flags: libc::c_int,
) -> Option<isize> {
    dispatch(fd, |socket, fd| {
        // SAFETY: the caller's promise.
        unsafe {
            let parts = iovecs((*message).msg_iov, (*message).msg_iovlen)?;
            let received = receiving::receive(socket, fd, total_len(parts), flags)?;
            scatter(&received.octets, parts)?;
            (*message).msg_flags = received.flags;
            write_control(&received, message);
            match received.from {
                Some(from) => {
                    let name = (*message).msg_name.cast::<libc::sockaddr>();
                    address::write(from, name, &raw mut (*message).msg_namelen);
                }
                None => (*message).msg_namelen = 0,
            }
            Ok(received.octets.len() as isize)
        }
    })
}

/// Writes the ancillary data that fit; MSG_CTRUNC if some do not.
///
/// # Safety
///
/// As [`receive_message`].
unsafe fn write_control(received: &Received, message: *mut libc::msghdr) {
    // SAFETY: the caller says that `msg_controllen` octets are there; no more are written.
    unsafe {
        let room = if (*message).msg_control.is_null() {
            0
        } else {
            (*message).msg_controllen
        };
        let mut used = 0;
        for part in control::write(received) {
            if part.len() > room - used {
                (*message).msg_flags |= libc::MSG_CTRUNC;
                break;
            }
            let to = (*message).msg_control.cast::<u8>().add(used);
            std::ptr::copy_nonoverlapping(part.as_ptr(), to, part.len());
            used += part.len();
        }
        (*message).msg_controllen = used as _;
    }
}

/// Copies octets into `parts`, which have room for them.
///
/// # Safety
///
/// All `parts` may be written to.
unsafe fn scatter(octets: &[u8], parts: &[libc::iovec]) -> io::Result<()> {
    let mut rest = octets;
    for part in parts {
        let (these, others) = rest.split_at(part.iov_len.min(rest.len()));
        if !these.is_empty() {
            if part.iov_base.is_null() {
                return Err(os_error(libc::EFAULT));
            }
            // SAFETY: the caller's promise; no more than the part has room for.
            unsafe {
                std::ptr::copy_nonoverlapping(these.as_ptr(), part.iov_base.cast(), these.len());
            }
        }
        rest = others;
    }
    Ok(())
}

/// sctp_sendv.
///
/// # Safety
///
/// As RFC 6458 section 9.12: `parts` points to `count` parts, `addresses` to as many packed addresses as
/// said, `info` to `info_len` octets.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn towpath_sctp_sendv(
    fd: libc::c_int,
    parts: *const libc::iovec,
    count: libc::c_int,
    addresses: *const libc::sockaddr,
    addresses_len: libc::c_int,
    info: *const libc::c_void,
    info_len: libc::socklen_t,
    info_kind: libc::c_uint,
    flags: libc::c_int,
) -> libc::ssize_t {
    dispatch_own(fd, |socket, fd| {
        // SAFETY: the caller's promise.
        let (parts, to, info) = unsafe {
            let parts = counted_iovecs(parts, count)?;
            let to = read_packed(addresses, addresses_len)?;
            (gather(parts)?, to, slice(info, info_len as usize)?)
        };
        let mut out = Outgoing {
            octets: parts,
            to,
            nonblocking: flags & libc::MSG_DONTWAIT != 0,
            ..Outgoing::default()
        };
        control::read_sendv(info_kind, info, &mut out)?;
        sending::send(socket, fd, &out).map(|(len, _)| len as isize)
    })
}

/// Receives a message into `parts`, with its source and its flags.
///
/// # Safety
///
/// All `parts` may be written to; the pointers are null, or `from_len` says how many octets `from` points to, and `flags`
/// points to the flags that C passed.
unsafe fn receive_into(
    (socket, fd): (&Arc<SctpSocket>, BorrowedFd<'_>),
    parts: &[libc::iovec],
    (from, from_len): (*mut libc::sockaddr, *mut libc::socklen_t),
    flags: *mut libc::c_int,
) -> io::Result<Received> {
    // SAFETY: the caller's promise.
    unsafe {
        let asked = if flags.is_null() { 0 } else { *flags };
        let received = receiving::receive(socket, fd, total_len(parts), asked)?;
        scatter(&received.octets, parts)?;
        if !flags.is_null() {
            *flags = received.flags;
        }
        if let Some(source) = received.from {
            address::write(source, from, from_len);
        }
        Ok(received)
    }
}

/// sctp_recvv.
///
/// # Safety
///
/// As RFC 6458 section 9.13: what each pointer names is as long as is said, or it is null.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn towpath_sctp_recvv(
    fd: libc::c_int,
    parts: *const libc::iovec,
    count: libc::c_int,
    from: *mut libc::sockaddr,
    from_len: *mut libc::socklen_t,
    info: *mut libc::c_void,
    info_len: *mut libc::socklen_t,
    info_kind: *mut libc::c_uint,
    flags: *mut libc::c_int,
) -> libc::ssize_t {
    dispatch_own(fd, |socket, fd| {
        // SAFETY: the caller's promise.
        unsafe {
            let parts = counted_iovecs(parts, count)?;
            let received = receive_into((socket, fd), parts, (from, from_len), flags)?;
            let (kind, octets) = control::write_recvv(&received);
            let fits = kind != control::RECVV_NOINFO && give(&octets, info, info_len).is_ok();
            if !info_kind.is_null() {
                *info_kind = if fits { kind } else { control::RECVV_NOINFO };
            }
            Ok(received.octets.len() as isize)
        }
    })
}

/// sctp_sendmsg.
///
/// # Safety
///
/// As RFC 6458 section 9.7: `message` points to `len` octets, `to` to `to_len`.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn towpath_sctp_sendmsg(
    fd: libc::c_int,
    message: *const libc::c_void,
    len: libc::size_t,
    to: *const libc::sockaddr,
    to_len: libc::socklen_t,
    ppid: u32,
    flags: u32,
    stream: u16,
    time_to_live: u32,
    context: u32,
) -> libc::ssize_t {
    dispatch_own(fd, |socket, fd| {
        // SAFETY: the caller's promise.
        let (octets, to) = unsafe { (slice(message, len)?, address::read(to, to_len)) };
        let out = Outgoing {
            octets: octets.to_vec(),
            to: to.into_iter().collect(),
            info: Some(SendInfo {
                stream,
                flags: flags as u16,
                ppid,
                context,
                assoc: 0,
            }),
            reliability: Some(of_time_to_live(time_to_live)),
            nonblocking: false,
        };
        sending::send(socket, fd, &out).map(|(len, _)| len as isize)
    })
}

/// sctp_recvmsg.
///
/// # Safety
///
/// As RFC 6458 section 9.9: what each pointer names is as long as is said, or it is null.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn towpath_sctp_recvmsg(
    fd: libc::c_int,
    message: *mut libc::c_void,
    len: libc::size_t,
    from: *mut libc::sockaddr,
    from_len: *mut libc::socklen_t,
    info: *mut libc::c_void,
    flags: *mut libc::c_int,
) -> libc::ssize_t {
    let parts = single_iovec(message, len);
    dispatch_own(fd, |socket, fd| {
        // SAFETY: the caller's promise.
        unsafe {
            let received = receive_into((socket, fd), &parts, (from, from_len), flags)?;
            if let (Some(of), false) = (&received.info, info.is_null()) {
                let octets = control::received_sndrcvinfo(of);
                std::ptr::copy_nonoverlapping(octets.as_ptr(), info.cast::<u8>(), octets.len());
            }
            Ok(received.octets.len() as isize)
        }
    })
}
