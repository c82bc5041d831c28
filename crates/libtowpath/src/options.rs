//! Options: words of the family, those of TCP, and what every socket is asked.

use crate::calls::{Kind, Socket, State};
use rustix::io::Errno;
use std::io;

/// Sets an option from `NAME=VALUE`, before the socket listens, connects or is bound.
pub(crate) fn set_word(socket: &Socket, text: &str) -> io::Result<()> {
    let mut held = socket.lock();
    let (name, value) = text.split_once('=').ok_or(Errno::INVAL)?;
    let old = held.words.insert(name.to_owned(), value.to_owned());
    if matches!(held.state, State::New) && held.settings().is_ok() {
        return Ok(());
    }
    match old {
        Some(old) => held.words.insert(name.to_owned(), old),
        None => held.words.remove(name),
    };
    Err(Errno::INVAL.into())
}

/// The words that were set, with blanks between.
pub(crate) fn words(socket: &Socket) -> String {
    let held = socket.lock();
    let words = held
        .words
        .iter()
        .map(|(name, value)| format!("{name}={value}"));
    words.collect::<Vec<_>>().join(" ")
}

/// Options of TCP that a socket remembers at most; there are some forty.
const TCP_MAX: usize = 64;

/// Remembers an option of TCP, which means nothing to XTP.
pub(crate) fn set_tcp(socket: &Socket, name: i32, value: i32) -> io::Result<()> {
    let mut held = socket.lock();
    if socket.kind != Kind::Stream || held.tcp.len() >= TCP_MAX && !held.tcp.contains_key(&name) {
        return Err(Errno::NOPROTOOPT.into());
    }
    held.tcp.insert(name, value);
    Ok(())
}

/// What was remembered of an option of TCP, or 0.
pub(crate) fn tcp(socket: &Socket, name: i32) -> io::Result<i32> {
    match socket.kind {
        Kind::Stream => Ok(socket.lock().tcp.get(&name).copied().unwrap_or(0)),
        _ => Err(Errno::NOPROTOOPT.into()),
    }
}

/// The IP protocol number of XTP.
const IPPROTO_XTP: i32 = 36;

/// What every socket can be asked (SOL_SOCKET) and the socket pair would answer otherwise.
pub(crate) fn general(socket: &Socket, name: i32, family: i32) -> Option<i32> {
    match name {
        libc::SO_ERROR => {
            let error = socket.link.take_error();
            Some(error.and_then(|error| error.raw_os_error()).unwrap_or(0))
        }
        libc::SO_TYPE => Some(match socket.kind {
            Kind::Stream => libc::SOCK_STREAM,
            Kind::Datagram => libc::SOCK_DGRAM,
            Kind::Confirmed => libc::SOCK_RDM,
        }),
        libc::SO_DOMAIN => Some(family),
        libc::SO_PROTOCOL => Some(IPPROTO_XTP),
        libc::SO_ACCEPTCONN => Some(matches!(socket.lock().state, State::Listening(_)).into()),
        _ => None,
    }
}
