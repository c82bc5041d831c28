//! Datagrams in a socket pair, each with a [`DatagramHeader`].

use super::errno::check_errno;
use super::iovec::{JoinedParts, gather, single_iovec, total_len};
use crate::calls::{self, Socket};
use crate::datagram_header::{DatagramHeader, HEADER_LEN};
use crate::datagram_port::DATAGRAM_MAX;
use std::io;
use std::mem;
use std::net::SocketAddr;

/// `parts` with the header in front, as a msghdr.
fn with_header(
    header: &mut [u8; HEADER_LEN],
    parts: &[libc::iovec],
) -> (Vec<libc::iovec>, libc::msghdr) {
    let mut all = Vec::with_capacity(1 + parts.len());
    all.extend(single_iovec(header.as_mut_ptr().cast(), HEADER_LEN));
    all.extend_from_slice(parts);
    // SAFETY: a structure of numbers and pointers, all of which may be zero.
    let mut message: libc::msghdr = unsafe { mem::zeroed() };
    message.msg_iov = all.as_mut_ptr();
    message.msg_iovlen = all.len() as _;
    (all, message)
}

/// Receives a datagram from the socket pair: length, msg_flags and source.
///
/// # Safety
///
/// All `parts` may be written to.
pub(super) unsafe fn recv_datagram(
    fd: libc::c_int,
    socket: &Socket,
    parts: &[libc::iovec],
    flags: libc::c_int,
) -> io::Result<(isize, libc::c_int, Option<SocketAddr>)> {
    let mut joined = JoinedParts::new(parts, DATAGRAM_MAX)?;
    let fewer = joined.as_mut().map(|joined| joined.replace(parts));
    loop {
        let mut header = [0; HEADER_LEN];
        let (_all, mut message) = with_header(&mut header, fewer.as_deref().unwrap_or(parts));
        // SAFETY: the parts are the header's and those that the caller vouches for.
        let len = check_errno(unsafe { libc::recvmsg(fd, &raw mut message, flags) })?;
        match DatagramHeader::parse(&header[..HEADER_LEN.min(len as usize)]) {
            Some(DatagramHeader::Data(from)) => {
                if let Some(joined) = &joined {
                    let before = total_len(&parts[..parts.len() - 2]);
                    let here = (len as usize - HEADER_LEN).saturating_sub(before);
                    // SAFETY: the caller's promise.
                    unsafe { joined.scatter(here) };
                }
                return Ok((len - HEADER_LEN as isize, message.msg_flags, Some(from)));
            }
            Some(DatagramHeader::Error) => {
                if flags & libc::MSG_PEEK != 0 {
                    // SAFETY: the header is as long as is said.
                    unsafe { libc::recv(fd, header.as_mut_ptr().cast(), HEADER_LEN, 0) };
                }
                if let Some(error) = socket.link.take_error() {
                    return Err(error);
                }
            }
            // The library's thread has ended: end of file.
            None => return socket.link.take_error().map_or(Ok((0, 0, None)), Err),
        }
    }
}

/// Sends a datagram into the socket pair.
///
/// # Safety
///
/// All `parts` may be read.
pub(super) unsafe fn send_datagram(
    fd: libc::c_int,
    socket: &Socket,
    to: Option<SocketAddr>,
    parts: &[libc::iovec],
    flags: libc::c_int,
) -> io::Result<isize> {
    let to = calls::destination(socket, to, total_len(parts))?;
    let mut header = DatagramHeader::Data(to).encode();
    let mut joined = JoinedParts::new(parts, DATAGRAM_MAX)?;
    if let Some(joined) = &mut joined {
        // SAFETY: the caller's promise.
        joined.octets = unsafe { gather(&joined.last) }?;
    }
    let fewer = joined.as_mut().map(|joined| joined.replace(parts));
    let (_all, message) = with_header(&mut header, fewer.as_deref().unwrap_or(parts));
    // SAFETY: the parts are the header's and those that the caller vouches for.
    let sent = check_errno(unsafe {
        libc::sendmsg(fd, &raw const message, flags & super::send_recv::SEND_FLAGS)
    })?;
    Ok(sent - HEADER_LEN as isize)
}
