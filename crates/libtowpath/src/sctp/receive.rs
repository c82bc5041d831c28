//! Receiving messages and notifications.

use super::settings::SCTP_UNORDERED;
use super::socket::{Content, Inner, Item, SctpSocket, Style};
use crate::socket_pair::{ConnState, is_ready};
use rustix::event::PollFlags;
use rustix::io::Errno;
use rustix::net::sockopt::{Timeout, socket_timeout};
use std::io;
use std::net::SocketAddr;
use std::os::fd::BorrowedFd;
use std::sync::Arc;

/// MSG_NOTIFICATION: what was received is one.
pub(crate) const MSG_NOTIFICATION: i32 = 0x8000;

/// struct sctp_rcvinfo, as far as the library knows it: sequence numbers and TSNs are 0.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct ReceiveInfo {
    pub(crate) stream: u16,
    pub(crate) flags: u16,
    /// In the octet order of the network.
    pub(crate) ppid: u32,
    pub(crate) context: u32,
    pub(crate) assoc: i32,
}

/// struct sctp_nxtinfo.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct NextInfo {
    pub(crate) info: ReceiveInfo,
    pub(crate) len: u32,
}

/// What a call received.
#[derive(Debug, Default)]
pub(crate) struct Received {
    pub(crate) octets: Vec<u8>,
    /// MSG_EOR, MSG_NOTIFICATION.
    pub(crate) flags: i32,
    pub(crate) from: Option<SocketAddr>,
    /// Of a message.
    pub(crate) info: Option<ReceiveInfo>,
    /// Of the message behind it, if it is there.
    pub(crate) next: Option<NextInfo>,
    /// Which of both the program asked recvmsg(2) for: struct sctp_rcvinfo, struct sctp_nxtinfo.
    pub(crate) asked: (bool, bool),
    /// struct sctp_sndrcvinfo was asked for (SCTP_EVENTS, sctp_data_io_event).
    pub(crate) asked_sndrcvinfo: bool,
}

/// Flag of struct sctp_nxtinfo: it is a notification.
const SCTP_NOTIFICATION: u16 = 0x8000;

/// Receives up to `len` octets; nothing at the end of a one-to-one socket's association.
pub(crate) fn receive(
    socket: &Arc<SctpSocket>,
    fd: BorrowedFd<'_>,
    len: usize,
    flags: i32,
) -> io::Result<Received> {
    loop {
        let mut inner = socket.lock();
        if let Some(received) = take(&mut inner, fd, len, flags & libc::MSG_PEEK != 0) {
            return Ok(received);
        }
        let is_one = socket.style == Style::OneToOne;
        if inner.has_ended || inner.reads_shut_down {
            drop(inner);
            let error = socket.link.take_error();
            return error.map_or_else(|| Ok(Received::default()), Err);
        }
        if is_one && (inner.backlog > 0 || socket.link.state() == ConnState::Idle) {
            return Err(Errno::NOTCONN.into());
        }
        drop(inner);
        await_readable(fd, flags & libc::MSG_DONTWAIT != 0)?;
    }
}

/// Takes what waits first, or up to `len` octets of it.
fn take(inner: &mut Inner, fd: BorrowedFd<'_>, len: usize, peeks: bool) -> Option<Received> {
    let context = inner.settings.receive_context;
    let next = inner.second().map(|item| next_info(item, context));
    let asked = (inner.settings.gives_rcvinfo, inner.settings.gives_nxtinfo);
    let asked_sndrcvinfo = inner.settings.events & 1 != 0;
    let item = inner.front()?;
    let end = item.octets.len().min(item.read.saturating_add(len));
    let is_whole = end == item.octets.len();
    let ends = is_whole && item.ends();
    let octets = match (peeks, item.read) {
        (false, 0) if is_whole => std::mem::take(&mut item.octets),
        _ => item.octets[item.read..end].to_vec(),
    };
    let (from, info, kind) = match item.content {
        Content::Message { from, .. } => (Some(from), Some(info_of(item, context)), 0),
        Content::Notification { .. } => (None, None, MSG_NOTIFICATION),
    };
    if !peeks {
        match is_whole {
            true => take_whole(inner, fd),
            false => item.read = end,
        }
    }
    Some(Received {
        octets,
        flags: kind | if ends { libc::MSG_EOR } else { 0 },
        from,
        info,
        next,
        asked,
        asked_sndrcvinfo,
    })
}

/// Drops the first item, which was taken.
fn take_whole(inner: &mut Inner, fd: BorrowedFd<'_>) {
    let has_room_again = inner.pop();
    inner.update_readable(fd);
    if has_room_again && let Some(port) = &inner.port {
        port.wake();
    }
}

fn info_of(item: &Item, receive_context: u32) -> ReceiveInfo {
    match item.content {
        Content::Message {
            stream,
            is_unordered,
            ppid,
            assoc,
            ..
        } => ReceiveInfo {
            stream,
            flags: if is_unordered { SCTP_UNORDERED } else { 0 },
            ppid,
            context: receive_context,
            assoc,
        },
        Content::Notification { assoc } => ReceiveInfo {
            flags: SCTP_NOTIFICATION,
            assoc,
            ..ReceiveInfo::default()
        },
    }
}

fn next_info(item: &Item, receive_context: u32) -> NextInfo {
    NextInfo {
        info: info_of(item, receive_context),
        len: u32::try_from(item.octets.len()).unwrap_or(u32::MAX),
    }
}

/// Waits until something can be received. EAGAIN if the socket is non-blocking, or `nonblocking`, or
/// SO_RCVTIMEO has passed.
pub(crate) fn await_readable(fd: BorrowedFd<'_>, nonblocking: bool) -> io::Result<()> {
    await_ready(fd, PollFlags::IN, Timeout::Recv, nonblocking)
}

/// The same for room to send, and SO_SNDTIMEO.
pub(crate) fn await_writable(fd: BorrowedFd<'_>, nonblocking: bool) -> io::Result<()> {
    await_ready(fd, PollFlags::OUT, Timeout::Send, nonblocking)
}

fn await_ready(
    fd: BorrowedFd<'_>,
    flags: PollFlags,
    limit: Timeout,
    nonblocking: bool,
) -> io::Result<()> {
    let is_nonblocking = rustix::fs::fcntl_getfl(fd)?.contains(rustix::fs::OFlags::NONBLOCK);
    if nonblocking || is_nonblocking {
        return Err(Errno::AGAIN.into());
    }
    let limit = socket_timeout(fd, limit)?;
    let limit_ms = limit.map_or(-1, |limit| i64::try_from(limit.as_millis()).unwrap_or(-1));
    match is_ready(fd, flags, limit_ms)? {
        true => Ok(()),
        false => Err(Errno::AGAIN.into()),
    }
}
