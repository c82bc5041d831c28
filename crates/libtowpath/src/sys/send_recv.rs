//! The calls that send and receive. Stream bytes go through the socket pair as they are, datagrams
//! with a header (`paired_datagrams`).

use super::address;
use super::datagrams;
use super::direct::{self, Sent, send_rest};
use super::errno::{check_errno, dispatch_after_fork, return_to_c};
use super::iovec::{counted_iovecs, gather, iovecs, single_iovec, total_len};
use super::paired_datagrams::{recv_datagram, send_datagram};
use super::pipes::{self, Calls};
use super::sctp;
use crate::calls::{self, Socket, SocketKind};
use crate::socket_pair::{ConnState, SocketPairEnd};
use std::io;
use std::mem;
use std::net::SocketAddr;
use std::os::fd::BorrowedFd;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

/// MSG_EOF of 4.4BSD, which Linux calls MSG_FIN: these bytes are the last.
const MSG_EOF: libc::c_int = 0x200;

/// Send flags that are passed on to the socket pair.
pub(super) const SEND_FLAGS: libc::c_int = libc::MSG_DONTWAIT | libc::MSG_NOSIGNAL;

/// Set with the first datagram socket; until then sends skip the table lookup.
static HAS_DATAGRAM_SOCKETS: AtomicBool = AtomicBool::new(false);

/// Notes that a datagram socket was created.
pub(crate) fn note_datagram_socket() {
    HAS_DATAGRAM_SOCKETS.store(true, Ordering::Release);
}

/// Sends stream bytes; with an address and MSG_FASTOPEN or MSG_EOF they open the association.
///
/// # Safety
///
/// All `parts` may be read.
unsafe fn send_stream(
    fd: libc::c_int,
    socket: &Socket,
    to: Option<SocketAddr>,
    parts: &[libc::iovec],
    flags: libc::c_int,
) -> io::Result<isize> {
    if socket.link.state() == ConnState::Failed
        && let Some(error) = socket.link.take_error()
    {
        return Err(error);
    }
    let is_last = flags & MSG_EOF != 0;
    let is_new = socket.link.state() == ConnState::Idle;
    match to.filter(|_| is_new) {
        Some(to) if is_last => {
            // SAFETY: the caller's promise.
            let request = unsafe { gather(parts) }?;
            calls::transact(socket, to, &request)?;
            shutdown_write(fd)?;
            return Ok(request.len() as isize);
        }
        Some(to) if flags & libc::MSG_FASTOPEN != 0 => calls::connect_fast_open(socket, to)?,
        _ => {}
    }
    // SAFETY: a structure of numbers and pointers, all of which may be zero.
    let mut message: libc::msghdr = unsafe { mem::zeroed() };
    message.msg_iov = parts.as_ptr().cast_mut();
    message.msg_iovlen = parts.len() as _;
    let flags = flags & (SEND_FLAGS | libc::MSG_MORE);
    // SAFETY: the caller vouches for the parts.
    let sent = check_errno(unsafe { libc::sendmsg(fd, &raw const message, flags) })?;
    if is_last && sent as usize == total_len(parts) {
        shutdown_write(fd)?;
    }
    Ok(sent)
}

/// Shuts the program's direction down.
fn shutdown_write(fd: libc::c_int) -> io::Result<libc::c_int> {
    // SAFETY: no memory is passed.
    check_errno(unsafe { libc::shutdown(fd, libc::SHUT_WR) })
}

/// Sends on a stream or datagram socket of the family, or by `system`.
///
/// # Safety
///
/// All `parts` may be read.
unsafe fn send(
    fd: libc::c_int,
    to: Option<SocketAddr>,
    parts: io::Result<&[libc::iovec]>,
    flags: libc::c_int,
    system: impl FnOnce() -> isize,
) -> isize {
    // SAFETY: the caller's promise.
    if let Some(done) = unsafe { pipes::send(fd, &parts, Calls::OfSockets(flags)) } {
        return done;
    }
    // SAFETY: the caller's promise.
    if let Some(done) = unsafe { datagrams::send(fd, to, &parts, flags) } {
        return done;
    }
    if to.is_none() {
        // SAFETY: the caller's promise.
        match unsafe { direct::send(fd, &parts, flags) } {
            Sent::Result(done) => return done,
            Sent::ThenByKernel(0) => {}
            // SAFETY: the caller's promise.
            Sent::ThenByKernel(sent) => return unsafe { send_rest(fd, &parts, flags, sent) },
        }
    } else {
        direct::towpath_leave_to_kernel(fd);
    }
    // SAFETY: the caller's promise.
    if let Some(done) = unsafe { sctp::send(fd, to, &parts, flags) } {
        return done;
    }
    let opens = flags & (MSG_EOF | libc::MSG_FASTOPEN) != 0;
    if !opens
        && !SocketPairEnd::any_pending_error()
        && !HAS_DATAGRAM_SOCKETS.load(Ordering::Acquire)
        && to.is_none()
    {
        return system();
    }
    let ours = |socket: &Arc<Socket>, _: BorrowedFd<'_>| match socket.kind {
        // SAFETY: the caller's promise.
        SocketKind::Stream => unsafe { send_stream(fd, socket, to, parts?, flags) },
        // SAFETY: the caller's promise.
        _ => unsafe { send_datagram(fd, socket, to, parts?, flags) },
    };
    dispatch_after_fork(fd, ours, system)
}

/// Receives a datagram, or runs `system`; at the end of a stream the pending error is reported.
///
/// # Safety
///
/// All `parts` may be written to, and `report_source` may be called once with flags and source.
unsafe fn receive(
    fd: libc::c_int,
    parts: io::Result<&[libc::iovec]>,
    flags: libc::c_int,
    report_source: impl FnOnce(libc::c_int, Option<SocketAddr>),
    system: impl Fn() -> isize,
) -> isize {
    // SAFETY: the caller's promise.
    let here = unsafe {
        pipes::receive(fd, &parts, Calls::OfSockets(flags))
            .or_else(|| direct::receive(fd, &parts, flags))
    };
    if let Some(done) = here {
        report_source(0, None);
        return done;
    }
    // SAFETY: the caller's promise.
    if let Some((done, flags, from)) = unsafe { datagrams::receive(fd, &parts, flags) } {
        if done >= 0 {
            report_source(flags, from);
        }
        return done;
    }
    if let Some(found) = sctp::find(fd) {
        // SAFETY: the caller's promise.
        return unsafe { sctp::receive((found, fd), &parts, flags, report_source) };
    }
    let has_room = !matches!(&parts, Ok(parts) if parts.iter().all(|part| part.iov_len == 0));
    let got = if HAS_DATAGRAM_SOCKETS.load(Ordering::Acquire) {
        let ours = |socket: &Arc<Socket>, _: BorrowedFd<'_>| match socket.kind {
            SocketKind::Stream => check_errno(system()),
            _ => {
                // SAFETY: the caller's promise.
                let (got, flags, from) = unsafe { recv_datagram(fd, socket, parts?, flags) }?;
                report_source(flags, from);
                Ok(got)
            }
        };
        dispatch_after_fork(fd, ours, &system)
    } else {
        system()
    };
    if got != 0 || !has_room || !SocketPairEnd::any_pending_error() {
        return got;
    }
    let broken = |socket: &Arc<Socket>, _: BorrowedFd<'_>| match socket.kind {
        SocketKind::Stream => socket.link.take_error().map_or(Ok(0), Err),
        _ => Ok(0),
    };
    dispatch_after_fork(fd, broken, || 0)
}

/// For calls that do not return the source address.
fn ignore_source(_: libc::c_int, _: Option<SocketAddr>) {}

/// recv(2). A stream that was reset ends with ECONNRESET.
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
    let parts = single_iovec(buffer, len);
    // SAFETY: the caller's promise.
    unsafe {
        let system = || libc::recv(fd, buffer, len, flags);
        receive(fd, Ok(&parts), flags, ignore_source, system)
    }
}

/// read(2). As [`towpath_recv`].
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
    let parts = single_iovec(buffer, len);
    // SAFETY: the caller's promise.
    unsafe {
        if let Some(done) = pipes::receive(fd, &Ok(&parts), Calls::OfFiles) {
            return done;
        }
        receive(fd, Ok(&parts), 0, ignore_source, || {
            libc::read(fd, buffer, len)
        })
    }
}

/// readv(2). As [`towpath_recv`].
///
/// # Safety
///
/// As the system's: `list` points to `count` parts, whose octets may be written to.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn towpath_readv(
    fd: libc::c_int,
    list: *const libc::iovec,
    count: libc::c_int,
) -> libc::ssize_t {
    // SAFETY: the caller's promise.
    unsafe {
        // As the kernel: without parts nothing is received, not even an empty datagram.
        if count == 0 {
            return libc::readv(fd, list, count);
        }
        let all = counted_iovecs(list, count);
        if let Some(done) = pipes::receive(fd, &all, Calls::OfFiles) {
            return done;
        }
        receive(fd, all, 0, ignore_source, || libc::readv(fd, list, count))
    }
}

/// recvfrom(2). As [`towpath_recv`]; streams return no address, as with TCP.
///
/// # Safety
///
/// As the system's: `buffer` points to `len` octets, `address` to as many as `address_len` says.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn towpath_recvfrom(
    fd: libc::c_int,
    buffer: *mut libc::c_void,
    len: libc::size_t,
    flags: libc::c_int,
    address: *mut libc::sockaddr,
    address_len: *mut libc::socklen_t,
) -> libc::ssize_t {
    let parts = single_iovec(buffer, len);
    let report_source = |_: libc::c_int, from: Option<SocketAddr>| {
        if let Some(from) = from {
            // SAFETY: the caller's promise.
            unsafe { address::write(from, address, address_len) };
        }
    };
    // SAFETY: the caller's promise.
    unsafe {
        let system = || libc::recvfrom(fd, buffer, len, flags, address, address_len);
        receive(fd, Ok(&parts), flags, report_source, system)
    }
}

/// recvmsg(2). As [`towpath_recvfrom`]; there are no ancillary data.
///
/// # Safety
///
/// As the system's.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn towpath_recvmsg(
    fd: libc::c_int,
    message: *mut libc::msghdr,
    flags: libc::c_int,
) -> libc::ssize_t {
    if message.is_null() {
        return return_to_c(|| Err(io::Error::from_raw_os_error(libc::EFAULT)));
    }
    // SAFETY: the caller's promise.
    if unsafe { datagrams::is_kernels(fd, message) } {
        // SAFETY: the caller's promise.
        return unsafe { libc::recvmsg(fd, message, flags) };
    }
    // SAFETY: the caller's promise.
    if let Some(done) = unsafe { sctp::receive_message(fd, message, flags) } {
        return done;
    }
    let report_source = |flags: libc::c_int, from: Option<SocketAddr>| {
        // SAFETY: the caller's promise.
        unsafe {
            (*message).msg_flags = flags & !libc::MSG_EOR;
            (*message).msg_controllen = 0;
            if let Some(from) = from {
                let name = (*message).msg_name.cast::<libc::sockaddr>();
                address::write(from, name, &raw mut (*message).msg_namelen);
            }
        }
    };
    // SAFETY: the caller's promise.
    unsafe {
        let all = iovecs((*message).msg_iov, (*message).msg_iovlen);
        receive(fd, all, flags, report_source, || {
            libc::recvmsg(fd, message, flags)
        })
    }
}

/// send(2). MSG_EOF ends the stream after these bytes.
///
/// # Safety
///
/// As the system's: `buffer` points to `len` octets.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn towpath_send(
    fd: libc::c_int,
    buffer: *const libc::c_void,
    len: libc::size_t,
    flags: libc::c_int,
) -> libc::ssize_t {
    let parts = single_iovec(buffer, len);
    // SAFETY: the caller's promise.
    unsafe {
        send(fd, None, Ok(&parts), flags, || {
            libc::send(fd, buffer, len, flags)
        })
    }
}

/// write(2).
///
/// # Safety
///
/// As the system's: `buffer` points to `len` octets.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn towpath_write(
    fd: libc::c_int,
    buffer: *const libc::c_void,
    len: libc::size_t,
) -> libc::ssize_t {
    let parts = single_iovec(buffer, len);
    // SAFETY: the caller's promise.
    unsafe {
        if let Some(done) = pipes::send(fd, &Ok(&parts), Calls::OfFiles) {
            return done;
        }
        send(fd, None, Ok(&parts), 0, || libc::write(fd, buffer, len))
    }
}

/// writev(2).
///
/// # Safety
///
/// As the system's: `list` points to `count` parts.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn towpath_writev(
    fd: libc::c_int,
    list: *const libc::iovec,
    count: libc::c_int,
) -> libc::ssize_t {
    // SAFETY: the caller's promise.
    unsafe {
        // As the kernel: without parts nothing is sent, not even an empty datagram.
        if count == 0 {
            return libc::writev(fd, list, count);
        }
        let all = counted_iovecs(list, count);
        if let Some(done) = pipes::send(fd, &all, Calls::OfFiles) {
            return done;
        }
        send(fd, None, all, 0, || libc::writev(fd, list, count))
    }
}

/// sendto(2). On an unconnected stream socket MSG_EOF makes the bytes the request of a transaction,
/// and MSG_FASTOPEN opens the association without waiting.
///
/// # Safety
///
/// As the system's: `buffer` points to `len` octets, `address` to `address_len`.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn towpath_sendto(
    fd: libc::c_int,
    buffer: *const libc::c_void,
    len: libc::size_t,
    flags: libc::c_int,
    address: *const libc::sockaddr,
    address_len: libc::socklen_t,
) -> libc::ssize_t {
    let parts = single_iovec(buffer, len);
    // SAFETY: the caller's promise.
    unsafe {
        if !address.is_null() {
            crate::pipes::leave_to_kernel(fd);
        }
        let to = address::read(address, address_len);
        let system = || libc::sendto(fd, buffer, len, flags, address, address_len);
        send(fd, to, Ok(&parts), flags, system)
    }
}

/// sendmsg(2). As [`towpath_sendto`]; there are no ancillary data.
///
/// # Safety
///
/// As the system's.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn towpath_sendmsg(
    fd: libc::c_int,
    message: *const libc::msghdr,
    flags: libc::c_int,
) -> libc::ssize_t {
    if message.is_null() {
        return return_to_c(|| Err(io::Error::from_raw_os_error(libc::EFAULT)));
    }
    // SAFETY: the caller's promise.
    if unsafe { datagrams::is_kernels(fd, message) } {
        // SAFETY: the caller's promise.
        return unsafe { libc::sendmsg(fd, message, flags) };
    }
    // SAFETY: the caller's promise.
    if let Some(done) = unsafe { sctp::send_message(fd, message, flags) } {
        return done;
    }
    // SAFETY: the caller's promise.
    unsafe {
        if (*message).msg_controllen > 0 || !(*message).msg_name.is_null() {
            crate::pipes::leave_to_kernel(fd);
        }
        let to = address::read((*message).msg_name.cast(), (*message).msg_namelen);
        let all = iovecs((*message).msg_iov, (*message).msg_iovlen);
        send(fd, to, all, flags, || libc::sendmsg(fd, message, flags))
    }
}
