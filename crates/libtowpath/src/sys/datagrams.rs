//! The calls on datagram sockets over a stream, for the preloaded library.

use super::errno::return_to_c;
use super::iovec::{gather, total_len};
use crate::devices::datagrams::{self, DatagramSocket, ReceivedDatagram};
use std::io;
use std::net::SocketAddr;
use std::os::fd::{BorrowedFd, RawFd};
use std::panic::catch_unwind;
use std::sync::Arc;

/// Flags of receives and sends that need no kernel.
const PLAIN_FLAGS: libc::c_int = libc::MSG_DONTWAIT | libc::MSG_NOSIGNAL | libc::MSG_CMSG_CLOEXEC;

/// The program's descriptor, which it says is open: were it not, every use of it would be EBADF.
pub(crate) fn of_program<'a>(fd: RawFd) -> BorrowedFd<'a> {
    // SAFETY: as above.
    unsafe { BorrowedFd::borrow_raw(fd) }
}

/// Puts a stream over the UDP socket of a descriptor, unless it has one: 0, or -1 and errno. With `deferred` 0 each
/// datagram leaves at once.
// SAFETY: no other symbol has this name.
#[unsafe(no_mangle)]
pub extern "C" fn towpath_adopt_datagrams(fd: libc::c_int, deferred: libc::c_int) -> libc::c_int {
    super::pipes::watch_forks();
    let adopted = || {
        datagrams::adopt(fd, deferred != 0)?;
        crate::calls::register_exit_hook();
        Ok(0)
    };
    return_to_c(adopted)
}

/// Whether a descriptor is a datagram socket with a stream: 1 or 0.
// SAFETY: no other symbol has this name.
#[unsafe(no_mangle)]
pub extern "C" fn towpath_has_datagrams(fd: libc::c_int) -> libc::c_int {
    catch_unwind(|| datagrams::find(fd).is_some()).map_or(0, libc::c_int::from)
}

/// The kernel is about to be asked about a socket: what it has sent leaves before.
pub(super) fn send_now(fd: RawFd) {
    if let Some(socket) = datagrams::find(fd) {
        socket.send_now();
    }
}

/// After a connect by the kernel: the peer of a datagram socket is another.
pub(super) fn note_peer(fd: RawFd) {
    if let Some(socket) = datagrams::find(fd) {
        socket.note_peer(fd);
    }
}

/// The socket of a descriptor, if a call with these flags is not the kernel's; what was sent leaves before such a call.
fn find(fd: RawFd, flags: libc::c_int) -> Option<Arc<DatagramSocket>> {
    let socket = datagrams::find(fd)?;
    match flags & !PLAIN_FLAGS {
        0 => Some(socket),
        _ => {
            socket.send_now();
            None
        }
    }
}

/// Sends `parts` as a datagram if `fd` is a datagram socket over a stream; None when it is the kernel's to do.
///
/// # Safety
///
/// All `parts` may be read.
pub(super) unsafe fn send(
    fd: RawFd,
    to: Option<SocketAddr>,
    parts: &io::Result<&[libc::iovec]>,
    flags: libc::c_int,
) -> Option<isize> {
    let (socket, Ok(parts)) = (find(fd, flags)?, parts) else {
        return None;
    };
    let to = to.or_else(|| socket.peer()).filter(|to| to.port() != 0)?;
    let may_wait = flags & libc::MSG_DONTWAIT == 0;
    let sent = || {
        if let [part] = parts
            && !part.iov_base.is_null()
        {
            // SAFETY: the caller's promise.
            let octets = unsafe { std::slice::from_raw_parts(part.iov_base.cast(), part.iov_len) };
            return socket.send(of_program(fd), to, octets, may_wait);
        }
        // SAFETY: the caller's promise.
        let octets = unsafe { gather(parts) }?;
        socket.send(of_program(fd), to, &octets, may_wait)
    };
    Some(return_to_c(|| sent().map(|len| len as isize)))
}

/// What a receive gave: its result in C, and the flags and the source of recvmsg(2).
pub(super) type Received = (isize, libc::c_int, Option<SocketAddr>);

/// Receives a datagram into `parts` if `fd` is a datagram socket over a stream; None when it is the kernel's to do.
///
/// # Safety
///
/// All `parts` may be written to.
pub(super) unsafe fn receive(
    fd: RawFd,
    parts: &io::Result<&[libc::iovec]>,
    flags: libc::c_int,
) -> Option<Received> {
    let (socket, Ok(parts)) = (find(fd, flags)?, parts) else {
        return None;
    };
    let may_wait = flags & libc::MSG_DONTWAIT == 0;
    let (room, mut reported) = (total_len(parts), (0, None));
    let done = return_to_c(|| {
        // SAFETY: the caller's promise.
        let received = unsafe { receive_into(&socket, fd, parts, may_wait) }?;
        let is_cut = received.len > room;
        reported = (if is_cut { libc::MSG_TRUNC } else { 0 }, received.from);
        Ok(received.len.min(room) as isize)
    });
    Some((done, reported.0, reported.1))
}

/// Receives into one part, or by a copy into several.
///
/// # Safety
///
/// All `parts` may be written to.
unsafe fn receive_into(
    socket: &DatagramSocket,
    fd: RawFd,
    parts: &[libc::iovec],
    may_wait: bool,
) -> io::Result<ReceivedDatagram> {
    if let [part] = parts
        && !part.iov_base.is_null()
    {
        let place = part.iov_base.cast::<u8>();
        // SAFETY: the caller's promise.
        let buffer = unsafe { std::slice::from_raw_parts_mut(place, part.iov_len) };
        return socket.receive(of_program(fd), buffer, may_wait);
    }
    let mut joined = vec![0; total_len(parts).min(DATAGRAM_ROOM)];
    let received = socket.receive(of_program(fd), &mut joined, may_wait)?;
    // SAFETY: the caller's promise.
    unsafe { scatter(&joined[..received.len.min(joined.len())], parts) };
    Ok(received)
}

/// Octets of the longest datagram, and more.
const DATAGRAM_ROOM: usize = 65_536;

/// Copies octets into `parts`, which have room for them.
///
/// # Safety
///
/// All `parts` may be written to.
unsafe fn scatter(mut octets: &[u8], parts: &[libc::iovec]) {
    for part in parts {
        let (here, rest) = octets.split_at(octets.len().min(part.iov_len));
        if !here.is_empty() {
            // SAFETY: the part has room for as many.
            unsafe {
                part.iov_base
                    .cast::<u8>()
                    .copy_from(here.as_ptr(), here.len())
            };
        }
        octets = rest;
    }
}

/// Whether a message with control data is the kernel's, as its socket is under a stream; what was sent leaves before.
///
/// # Safety
///
/// `message` is not null, and as sendmsg(2) takes it.
pub(super) unsafe fn is_kernels(fd: RawFd, message: *const libc::msghdr) -> bool {
    // SAFETY: the caller's promise.
    if unsafe { (*message).msg_controllen } == 0 {
        return false;
    }
    let socket = datagrams::find(fd);
    socket.is_some_and(|socket| {
        socket.send_now();
        true
    })
}
