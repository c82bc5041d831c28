//! Socket options: XTP's, TCP's, and those of SOL_SOCKET that the socket pair would answer wrongly.

use crate::calls::{Socket, SocketKind, SocketState};
use library::xtp::{AssociationId, Endpoint, LiveOption, OpeningRequest, Refusal};
use rustix::io::Errno;
use std::io;

/// Sets an XTP option from `NAME=VALUE`, before the socket listens, connects or is bound; on a connected stream one of
/// those that change while it lives.
pub(crate) fn set_option(socket: &Socket, text: &str) -> io::Result<()> {
    let mut inner = socket.lock();
    let (name, value) = text.split_once('=').ok_or(Errno::INVAL)?;
    if let Some(circuit) = inner.circuit.clone() {
        let option = LiveOption::parse(name, value).map_err(|_| Errno::INVAL)?;
        let (endpoint, id) = circuit.get()?;
        endpoint.change(id, option)?;
        inner.options.insert(name.to_owned(), value.to_owned());
        return Ok(());
    }
    let old = inner.options.insert(name.to_owned(), value.to_owned());
    if matches!(inner.state, SocketState::New) && inner.has_valid_options() {
        return Ok(());
    }
    match old {
        Some(old) => inner.options.insert(name.to_owned(), old),
        None => inner.options.remove(name),
    };
    Err(Errno::INVAL.into())
}

/// What a connection's peer asks for, while it is not decided about.
/// Errors: EINVAL for a connection that needs no decision, or has it.
pub(crate) fn opening(socket: &Socket) -> io::Result<OpeningRequest> {
    let (endpoint, id) = undecided(socket)?;
    endpoint.waiting_opening(id).ok_or(Errno::INVAL.into())
}

/// Answers the peer of a connection (XTP_ADMIT).
pub(crate) fn admit(socket: &Socket) -> io::Result<()> {
    let (endpoint, id) = undecided(socket)?;
    endpoint.waiting_opening(id).ok_or(Errno::INVAL)?;
    endpoint.admit(id)
}

/// Refuses a connection, and tells its peer why (XTP_REFUSE).
pub(crate) fn refuse(socket: &Socket, why: i32) -> io::Result<()> {
    let (endpoint, id) = undecided(socket)?;
    let why = usize::try_from(why).ok();
    let why = why
        .and_then(|why| Refusal::ALL.get(why))
        .ok_or(Errno::INVAL)?;
    endpoint.waiting_opening(id).ok_or(Errno::INVAL)?;
    endpoint.refuse(id, why.1)
}

fn undecided(socket: &Socket) -> io::Result<(Endpoint, AssociationId)> {
    let circuit = socket.lock().circuit.clone();
    circuit.ok_or(Errno::INVAL)?.get()
}

/// The XTP options that were set, separated by blanks.
pub(crate) fn options_text(socket: &Socket) -> String {
    let inner = socket.lock();
    let options = inner
        .options
        .iter()
        .map(|(name, value)| format!("{name}={value}"));
    options.collect::<Vec<_>>().join(" ")
}

/// TCP options stored per socket at most; TCP has some forty.
const TCP_OPTIONS_MAX: usize = 64;

/// Stores a TCP option, which has no effect on XTP.
pub(crate) fn set_tcp_option(socket: &Socket, name: i32, value: i32) -> io::Result<()> {
    let mut inner = socket.lock();
    if socket.kind != SocketKind::Stream
        || inner.tcp_options.len() >= TCP_OPTIONS_MAX && !inner.tcp_options.contains_key(&name)
    {
        return Err(Errno::NOPROTOOPT.into());
    }
    inner.tcp_options.insert(name, value);
    Ok(())
}

/// The stored value of a TCP option, or 0.
pub(crate) fn tcp_option(socket: &Socket, name: i32) -> io::Result<i32> {
    match socket.kind {
        SocketKind::Stream => Ok(socket.lock().tcp_options.get(&name).copied().unwrap_or(0)),
        _ => Err(Errno::NOPROTOOPT.into()),
    }
}

/// The IP protocol number of XTP.
const IPPROTO_XTP: i32 = 36;

/// SOL_SOCKET options that the socket pair would answer wrongly.
pub(crate) fn socket_level_option(socket: &Socket, name: i32, family: i32) -> Option<i32> {
    match name {
        libc::SO_ERROR => {
            let error = socket.link.take_error();
            Some(error.and_then(|error| error.raw_os_error()).unwrap_or(0))
        }
        libc::SO_TYPE => Some(match socket.kind {
            SocketKind::Stream => libc::SOCK_STREAM,
            SocketKind::Datagram => libc::SOCK_DGRAM,
            SocketKind::ReliableDatagram => libc::SOCK_RDM,
        }),
        libc::SO_DOMAIN => Some(family),
        libc::SO_PROTOCOL => Some(IPPROTO_XTP),
        libc::SO_ACCEPTCONN => {
            let state = &socket.lock().state;
            let listens = matches!(
                state,
                SocketState::Listening(_) | SocketState::ListeningOn(_)
            );
            Some(listens.into())
        }
        _ => None,
    }
}
