//! Sending messages, and what their flags ask for besides.

use super::calls;
use super::member::Member;
use super::port::{Port, PortState};
use super::receive::await_writable;
use super::settings::{
    SCTP_ABORT, SCTP_ADDR_OVER, SCTP_EOF, SCTP_SENDALL, SCTP_UNORDERED, SendInfo, Settings,
};
use super::socket::{SctpSocket, Style};
use crate::socket_pair::ConnState;
use library::sctp::{AssociationStage, MessageInfo, Reliability};
use rustix::io::Errno;
use std::io;
use std::net::SocketAddr;
use std::os::fd::BorrowedFd;
use std::sync::Arc;

/// A message as a program hands it over.
#[derive(Debug, Default)]
pub(crate) struct Outgoing {
    pub(crate) octets: Vec<u8>,
    /// The peer's addresses; several open an association to all of them (sctp_sendv).
    pub(crate) to: Vec<SocketAddr>,
    /// None for what SCTP_DEFAULT_SNDINFO says.
    pub(crate) info: Option<SendInfo>,
    /// None for what SCTP_DEFAULT_PRINFO says.
    pub(crate) reliability: Option<Reliability>,
    /// MSG_DONTWAIT was given.
    pub(crate) nonblocking: bool,
}

/// Flags that messages may have.
const FLAGS: u16 = SCTP_UNORDERED | SCTP_ADDR_OVER | SCTP_ABORT | SCTP_SENDALL | SCTP_EOF;

/// Sends a message, or ends its association (SCTP_EOF, SCTP_ABORT); its octets, and the association.
pub(crate) fn send(
    socket: &Arc<SctpSocket>,
    fd: BorrowedFd<'_>,
    out: &Outgoing,
) -> io::Result<(usize, i32)> {
    if let Some(error) = socket.link.take_error() {
        return Err(error);
    }
    let settings = socket.lock().settings.clone();
    let info = out.info.unwrap_or(settings.default_info);
    let ends = info.flags & (SCTP_EOF | SCTP_ABORT) != 0;
    if info.flags & !FLAGS != 0 || out.octets.is_empty() && !ends {
        return Err(Errno::INVAL.into());
    }
    if info.flags & SCTP_SENDALL != 0 {
        return send_to_all(socket, out, &info, &settings);
    }
    loop {
        let (port, number) = find(socket, fd, out, &info)?;
        let mut state = port.lock();
        let member = member_to_send(&mut state, socket, number)?;
        match submit(member, out, &info, &settings) {
            Err(error) if error.kind() == io::ErrorKind::WouldBlock => {
                member.await_room(out.octets.len());
                socket.link.fill(fd)?;
            }
            Err(error) => return Err(error),
            Ok(()) if ends => {
                drop(state);
                port.wake();
                return Ok((out.octets.len(), number));
            }
            Ok(()) => return Ok((out.octets.len(), number)),
        }
        drop(state);
        await_writable(fd, out.nonblocking)?;
    }
}

/// The association that a message is for, which it may open.
fn find(
    socket: &Arc<SctpSocket>,
    fd: BorrowedFd<'_>,
    out: &Outgoing,
    info: &SendInfo,
) -> io::Result<(Arc<Port>, i32)> {
    let (port, own) = {
        let inner = socket.lock();
        if inner.backlog > 0 && socket.style == Style::OneToOne {
            return Err(Errno::NOTCONN.into());
        }
        (inner.port.clone(), inner.association)
    };
    match (socket.style, &port, own) {
        (Style::OneToOne, Some(port), Some(number)) => return Ok((Arc::clone(port), number)),
        (Style::OneToOne, ..) if socket.link.state() != ConnState::Idle => {
            return Err(Errno::PIPE.into());
        }
        (Style::OneToMany, Some(port), _) => {
            let to = out.to.first();
            let known = match to {
                Some(to) => port.lock().number_to(socket, *to),
                None => Some(info.assoc).filter(|assoc| *assoc != 0),
            };
            if let Some(number) = known {
                return Ok((Arc::clone(port), number));
            }
        }
        _ => {}
    }
    if out.to.is_empty() {
        return Err(match socket.style {
            Style::OneToOne => Errno::NOTCONN,
            Style::OneToMany if info.assoc != 0 => Errno::INVAL,
            Style::OneToMany => Errno::DESTADDRREQ,
        }
        .into());
    }
    calls::begin(socket, fd, &out.to)
}

fn member_to_send<'a>(
    state: &'a mut PortState,
    socket: &Arc<SctpSocket>,
    number: i32,
) -> io::Result<&'a mut Member> {
    match state.member_of(socket, number) {
        // Its association has ended.
        Err(_) if socket.style == Style::OneToOne => Err(Errno::PIPE.into()),
        other => other,
    }
}

/// Gives an association a message, or its end.
fn submit(
    member: &mut Member,
    out: &Outgoing,
    info: &SendInfo,
    settings: &Settings,
) -> io::Result<()> {
    let association = &mut member.association;
    if info.flags & SCTP_ABORT != 0 {
        return association.begin_abort();
    }
    if !out.octets.is_empty() {
        if out.octets.len() > association.message_max() {
            return Err(Errno::MSGSIZE.into());
        }
        let message = MessageInfo {
            stream: info.stream,
            ppid: u32::from_be(info.ppid),
            unordered: info.flags & SCTP_UNORDERED != 0,
            reliability: out.reliability.unwrap_or(settings.default_reliability),
            context: info.context.into(),
        };
        association
            .try_send(&out.octets, &message)
            .map_err(errno_of_send)?;
        if settings.no_delay {
            association.flush()?;
        }
    }
    if info.flags & SCTP_EOF != 0 {
        association.begin_shutdown()?;
    }
    Ok(())
}

/// The errno of a message that was refused.
fn errno_of_send(error: io::Error) -> io::Error {
    match error.kind() {
        io::ErrorKind::InvalidInput => Errno::INVAL.into(),
        io::ErrorKind::OutOfMemory => Errno::NOBUFS.into(),
        io::ErrorKind::BrokenPipe => Errno::PIPE.into(),
        io::ErrorKind::Unsupported => Errno::OPNOTSUPP.into(),
        _ => error,
    }
}

/// Sends a message to all associations of a one-to-many socket, as far as each has room.
fn send_to_all(
    socket: &Arc<SctpSocket>,
    out: &Outgoing,
    info: &SendInfo,
    settings: &Settings,
) -> io::Result<(usize, i32)> {
    if socket.style == Style::OneToOne {
        return Err(Errno::INVAL.into());
    }
    let port = socket.lock().port()?;
    let mut state = port.lock();
    for number in state.numbers_of(socket) {
        let member = state.member_of(socket, number)?;
        let is_open = member.association.stage() == AssociationStage::Open;
        if is_open {
            // One that has no room, or ends, does without (RFC 6458 section 5.3.4).
            let _ = submit(member, out, info, settings);
        }
    }
    drop(state);
    port.wake();
    Ok((out.octets.len(), 0))
}
