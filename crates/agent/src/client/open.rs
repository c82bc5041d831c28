//! From nothing to the client's turn: connection, prefaces, keys, first words, the queue.

use super::Target;
use crate::keys::{KeyError, KeyFolder, Trusted};
use crate::link::{Link, LinkError, UNTRUSTED, timespec};
use crate::preface::{self, Caller, Mode};
use crate::tls;
use control::PROTOCOL_VERSION;
use control::frame::{ANSWER_MAX, REQUEST_MAX};
use control::session::{FromAgent, ToAgent, Welcome};
use rustix::event::{PollFd, PollFlags, poll};
use socket2::{Domain, Socket, Type};
use std::io;
use std::net::{SocketAddr, TcpStream};
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::mpsc::{RecvTimeoutError, channel};
use std::time::{Duration, Instant};

/// How often one who waits says that it is still there.
const ALIVE: Duration = Duration::from_secs(1);

/// How often one who waits in the queue looks up.
const TICK: Duration = Duration::from_millis(100);

/// How long a connection may take to open, and an agent to answer its first messages.
const CONNECT_LIMIT: Duration = Duration::from_secs(10);

/// How long all addresses of a host may take together, and the look for them.
const DIAL_LIMIT: Duration = Duration::from_secs(30);

/// What is said when the user has seen enough.
const STOPPED: &str = "stopped by the user while waiting for it";

/// Connects to the first address that answers.
pub(super) fn dial(target: &Target, ipv6: bool, stop: &AtomicBool) -> Result<TcpStream, String> {
    let end = Instant::now() + DIAL_LIMIT;
    let mut why = format!(
        "the host has no IPv{} address; {}",
        if ipv6 { 6 } else { 4 },
        if ipv6 { "leave out -6" } else { "try -6" }
    );
    for address in found(target, ipv6, end, stop)? {
        match connected(address, end.min(Instant::now() + CONNECT_LIMIT), stop)? {
            Ok(socket) => return Ok(socket),
            Err(error) => {
                why = format!(
                    "{address} does not answer: {error}; is `towpath agent` running there, and may \
                     its port be reached?"
                );
            }
        }
    }
    Err(why)
}

/// The host's addresses. A name server may be slow, so another asks it.
fn found(
    target: &Target,
    ipv6: bool,
    end: Instant,
    stop: &AtomicBool,
) -> Result<Vec<SocketAddr>, String> {
    let (told, heard) = channel();
    let asked = target.clone();
    let asking = std::thread::Builder::new().name("name server".into());
    let asking = asking.spawn(move || told.send(asked.addresses(ipv6)));
    asking.map_err(|error| error.to_string())?;
    let lost = |error: &dyn std::fmt::Display| {
        format!("the host cannot be found: {error}; see that its name is spelt right")
    };
    loop {
        is_wanted(stop)?;
        match heard.recv_timeout(TICK) {
            Ok(found) => return found.map_err(|error| lost(&error)),
            Err(RecvTimeoutError::Timeout) if Instant::now() < end => {}
            Err(_) => return Err(lost(&"no name server answers")),
        }
    }
}

/// A connection, or why there is none.
fn connected(
    address: SocketAddr,
    end: Instant,
    stop: &AtomicBool,
) -> Result<io::Result<TcpStream>, String> {
    let begun = begin(address);
    let (socket, under_way) = match begun {
        Ok(begun) => begun,
        Err(error) => return Ok(Err(error)),
    };
    while under_way && Instant::now() < end {
        is_wanted(stop)?;
        let mut ready = [PollFd::new(&socket, PollFlags::OUT)];
        match poll(&mut ready, Some(&timespec(TICK))) {
            Ok(0) | Err(rustix::io::Errno::INTR) => {}
            Err(error) => return Ok(Err(error.into())),
            Ok(_) => return Ok(finished(socket)),
        }
    }
    if under_way {
        return Ok(Err(io::ErrorKind::TimedOut.into()));
    }
    Ok(finished(socket))
}

/// A socket on its way, and whether it has still to arrive.
fn begin(address: SocketAddr) -> io::Result<(Socket, bool)> {
    let socket = Socket::new(Domain::for_address(address), Type::STREAM, None)?;
    socket.set_nonblocking(true)?;
    match socket.connect(&address.into()) {
        Ok(()) => Ok((socket, false)),
        Err(error)
            if error.raw_os_error() == Some(rustix::io::Errno::INPROGRESS.raw_os_error()) =>
        {
            Ok((socket, true))
        }
        Err(error) => Err(error),
    }
}

fn finished(socket: Socket) -> io::Result<TcpStream> {
    if let Some(error) = socket.take_error()? {
        return Err(error);
    }
    socket.set_nonblocking(false)?;
    Ok(socket.into())
}

fn is_wanted(stop: &AtomicBool) -> Result<(), String> {
    if stop.load(Ordering::Relaxed) {
        return Err(STOPPED.into());
    }
    Ok(())
}

/// Waits in short turns until `end`, or until the user has seen enough.
fn in_turns<T>(
    limit: Duration,
    stop: &AtomicBool,
    mut turn: impl FnMut(Instant) -> Result<T, LinkError>,
) -> Result<T, String> {
    let end = Instant::now() + limit;
    loop {
        is_wanted(stop)?;
        match turn(end.min(Instant::now() + TICK)) {
            Err(LinkError::Silent(_)) if Instant::now() < end => {}
            Err(LinkError::Silent(_)) => return Err(LinkError::Silent(limit).to_string()),
            other => return other.map_err(|error| error.to_string()),
        }
    }
}

/// Prefaces and keys.
pub(super) fn open(
    mut socket: TcpStream,
    target: &Target,
    keys: &KeyFolder,
    stop: &AtomicBool,
) -> Result<(Link, SocketAddr, SocketAddr), String> {
    let plain = |error: io::Error| error.to_string();
    let (peer, local) = (
        socket.peer_addr().map_err(plain)?,
        socket.local_addr().map_err(plain)?,
    );
    let theirs = first_words(&mut socket, stop)?;
    let mode = preface::read_agent(&theirs)?;
    let tls = match mode {
        Mode::Keys => Some(secured(target, keys).map_err(|error| error.to_string())?),
        Mode::Open => {
            insecure(target, peer, keys)?;
            None
        }
    };
    preface::write(&mut socket, &preface::caller(Caller::Client)).map_err(plain)?;
    let mut link = Link::new(socket, tls, ANSWER_MAX).map_err(plain)?;
    let shaken = in_turns(CONNECT_LIMIT, stop, |end| link.shake_hands(end));
    shaken.map_err(|why| match why == UNTRUSTED {
        true => another(&target.host),
        false => why,
    })?;
    Ok((link, peer, local))
}

/// The agent's preface.
fn first_words(socket: &mut TcpStream, stop: &AtomicBool) -> Result<[u8; preface::LEN], String> {
    let said = in_turns(preface::LIMIT, stop, |end| {
        let left = timespec(end.saturating_duration_since(Instant::now()));
        match poll(&mut [PollFd::new(&*socket, PollFlags::IN)], Some(&left)) {
            Ok(0) | Err(rustix::io::Errno::INTR) => Err(LinkError::Silent(TICK)),
            Ok(_) => Ok(()),
            Err(error) => Err(LinkError::Io(error.into())),
        }
    });
    let odd = "it does not say that it is an agent";
    said.map_err(|why| {
        if why == STOPPED {
            why
        } else {
            format!("{odd}: {why}")
        }
    })?;
    let mut theirs = [0; preface::LEN];
    let read = preface::read(socket, &mut theirs, Instant::now() + preface::LIMIT);
    read.map_err(|error| match error.kind() {
        io::ErrorKind::UnexpectedEof => {
            "it closed the connection at once; it may have too many, or be none of ours".into()
        }
        _ => format!("{odd}: {error}"),
    })?;
    Ok(theirs)
}

fn secured(target: &Target, keys: &KeyFolder) -> Result<rustls::Connection, KeyError> {
    let identity = keys.identity()?;
    let trusted = keys.trusted()?;
    if !trusted.iter().any(|one| one.is_of(&target.host)) {
        return Err(KeyError::Malformed(unnamed(&trusted, &target.host)));
    }
    tls::client(&identity, &trusted, &target.host)
        .map_err(|error| KeyError::Malformed(error.to_string()))
}

/// What answers has another key than the host has.
fn another(host: &str) -> String {
    format!(
        "its key is another than what is trusted here by the name {host}, so it may be somebody else; if \
         that host has a new key, run `towpath key trust KEY {host}` with what `towpath key show` prints \
         there, and take the old line out of `trusted`"
    )
}

/// No key is trusted by the name of the host.
fn unnamed(trusted: &[Trusted], host: &str) -> String {
    let others = match trusted.len() {
        0 => "",
        _ => " (those trusted by other names may be anybody's)",
    };
    format!(
        "no key is trusted here by the name {host}{others}; run `towpath key trust KEY {host}` with what \
         `towpath key show` prints on that host"
    )
}

/// An agent that asks for no keys is spoken with on this host alone, and not when a key is known.
fn insecure(target: &Target, peer: SocketAddr, keys: &KeyFolder) -> Result<(), String> {
    if !peer.ip().is_loopback() {
        return Err(
            "it asks for no key, so anybody could be it; make it one there with `towpath key new`"
                .into(),
        );
    }
    let trusted = keys.trusted().map_err(|error| error.to_string())?;
    if trusted.iter().any(|one| one.is_of(&target.host)) {
        return Err(format!(
            "it asks for no key, although one is trusted for {}, so it may be somebody else; make it a key \
             there with `towpath key new`, or take that line out of `trusted`",
            target.host
        ));
    }
    Ok(())
}

/// First words; what the agent allows.
pub(super) fn hello(link: &mut Link, stop: &AtomicBool) -> Result<Welcome, String> {
    let hello = ToAgent::Hello(PROTOCOL_VERSION);
    let sent = link.send(&hello, REQUEST_MAX);
    sent.map_err(|error| error.to_string())?;
    match in_turns(CONNECT_LIMIT, stop, |end| link.receive::<FromAgent>(end))? {
        FromAgent::Hello(mut welcome) if welcome.version == PROTOCOL_VERSION => {
            welcome.program = control::vet::text(&welcome.program, 32);
            welcome.congestion.truncate(64);
            for name in &mut welcome.congestion {
                *name = control::vet::text(name, 16);
            }
            welcome.transports.truncate(256);
            for (name, reason) in &mut welcome.transports {
                *name = control::vet::text(name, 64);
                *reason = reason.as_deref().map(control::vet::sentence);
            }
            Ok(welcome)
        }
        FromAgent::Over(why) => Err(control::vet::sentence(&why)),
        _ => Err("it does not say what it allows".into()),
    }
}

/// Waits for the turn.
pub(super) fn queue(
    link: &mut Link,
    stop: &AtomicBool,
    waiting: &mut dyn FnMut(u32),
) -> Result<(), String> {
    let mut alive = Instant::now();
    loop {
        let said = link
            .take::<FromAgent>()
            .map_err(|error| error.to_string())?;
        match said {
            Some(FromAgent::Ready) => return Ok(()),
            Some(FromAgent::Queued(ahead)) => waiting(ahead),
            Some(FromAgent::Over(why)) => return Err(control::vet::sentence(&why)),
            Some(_) => {}
            None => {
                if stop.load(Ordering::Relaxed) {
                    let _ = link.send(&ToAgent::Leave, REQUEST_MAX);
                    return Err(STOPPED.into());
                }
                listen(link, &mut alive).map_err(|error| error.to_string())?;
            }
        }
    }
}

/// A little while of waiting.
fn listen(link: &mut Link, alive: &mut Instant) -> Result<(), LinkError> {
    if alive.elapsed() > ALIVE {
        *alive = Instant::now();
        link.send(&ToAgent::Clock(0), REQUEST_MAX)?;
    }
    // Nothing having come is no fault yet.
    let _ = link.wait(Instant::now() + TICK);
    link.flush()?;
    link.fill()?;
    link.check()?;
    if link.heard().elapsed() > crate::link::FRAME_LIMIT {
        return Err(LinkError::Silent(crate::link::FRAME_LIMIT));
    }
    Ok(())
}
