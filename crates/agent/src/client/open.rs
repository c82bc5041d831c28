//! From nothing to the client's turn: connection, prefaces, keys, first words, the queue.

use super::Target;
use crate::keys::{KeyError, KeyFolder, Trusted};
use crate::link::{Link, LinkError};
use crate::preface::{self, Caller, Mode};
use crate::tls;
use control::PROTOCOL_VERSION;
use control::frame::{ANSWER_MAX, REQUEST_MAX};
use control::session::{FromAgent, ToAgent, Welcome};
use std::io;
use std::net::{SocketAddr, TcpStream};
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};

/// How often one who waits says that it is still there.
const ALIVE: Duration = Duration::from_secs(1);

/// How often one who waits in the queue looks up.
const TICK: Duration = Duration::from_millis(100);

/// How long a connection may take to open, and an agent to answer its first messages.
const CONNECT_LIMIT: Duration = Duration::from_secs(10);

/// Connects to the first address that answers.
pub(super) fn dial(target: &Target, ipv6: bool) -> Result<TcpStream, String> {
    let addresses = target.addresses(ipv6).map_err(|error| {
        format!("the host cannot be found: {error}; see that its name is spelt right")
    })?;
    let mut why = format!(
        "the host has no IPv{} address; {}",
        if ipv6 { 6 } else { 4 },
        if ipv6 { "leave out -6" } else { "try -6" }
    );
    for address in addresses {
        match TcpStream::connect_timeout(&address, CONNECT_LIMIT) {
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

/// Prefaces and keys.
pub(super) fn open(
    mut socket: TcpStream,
    target: &Target,
    keys: &KeyFolder,
) -> Result<(Link, SocketAddr, SocketAddr), String> {
    let plain = |error: io::Error| error.to_string();
    let (peer, local) = (
        socket.peer_addr().map_err(plain)?,
        socket.local_addr().map_err(plain)?,
    );
    let mut theirs = [0; preface::LEN];
    let read = preface::read(&mut socket, &mut theirs, Instant::now() + preface::LIMIT);
    read.map_err(|error| match error.kind() {
        io::ErrorKind::UnexpectedEof => {
            "it closed the connection at once; it may have too many, or be none of ours".into()
        }
        _ => format!("it does not say that it is an agent: {error}"),
    })?;
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
    let end = Instant::now() + CONNECT_LIMIT;
    link.shake_hands(end).map_err(|error| error.to_string())?;
    Ok((link, peer, local))
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
        return Err("it asks for no key, so anybody could be it; run it with keys".into());
    }
    let trusted = keys.trusted().map_err(|error| error.to_string())?;
    if trusted.iter().any(|one| one.is_of(&target.host)) {
        return Err(format!(
            "it asks for no key, although one is trusted for {}",
            target.host
        ));
    }
    Ok(())
}

/// First words; what the agent allows.
pub(super) fn hello(link: &mut Link) -> Result<Welcome, LinkError> {
    link.send(&ToAgent::Hello(PROTOCOL_VERSION), REQUEST_MAX)?;
    match link.receive::<FromAgent>(Instant::now() + CONNECT_LIMIT)? {
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
        FromAgent::Over(why) => Err(LinkError::Keys(control::vet::sentence(&why))),
        _ => Err(LinkError::Keys("it does not say what it allows".into())),
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
                    return Err("stopped by the user while waiting for it".into());
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
