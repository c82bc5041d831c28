//! Opening a session: connect, version exchange, TLS, hello, queue.

use agent::AgentAddress;
use agent::connection::{ConnectionError, FramedConnection, UNTRUSTED, timespec};
use agent::keys::{KeyError, KeyFolder, TrustedKey};
use agent::tls;
use agent::version_exchange::{self, AuthMode, CallerKind};
use control::PROTOCOL_VERSION;
use control::frame::{REQUEST_MAX, RESPONSE_MAX};
use control::session::{AgentHello, FromAgent, ToAgent};
use rustix::event::{PollFd, PollFlags, poll};
use socket2::{Domain, Socket, Type};
use std::io;
use std::net::{SocketAddr, TcpStream};
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::mpsc::{RecvTimeoutError, channel};
use std::time::{Duration, Instant};

/// Keepalive interval while waiting in the queue.
const KEEPALIVE_INTERVAL: Duration = Duration::from_secs(1);

/// How often waits check for messages and the stop flag.
const POLL_INTERVAL: Duration = Duration::from_millis(100);

/// Timeout of a TCP connect, and of an agent's first messages.
const CONNECT_TIMEOUT: Duration = Duration::from_secs(10);

/// Timeout of name resolution and connects to all addresses together.
const DIAL_TIMEOUT: Duration = Duration::from_secs(30);

/// The error when the user sets the stop flag.
const STOPPED: &str = "stopped by the user while waiting for it";

/// Connects to the first address that answers.
pub(super) fn dial(
    target: &AgentAddress,
    ipv6: bool,
    stop: &AtomicBool,
) -> Result<TcpStream, String> {
    let end = Instant::now() + DIAL_TIMEOUT;
    let mut why = format!(
        "the host has no IPv{} address; {}",
        if ipv6 { 6 } else { 4 },
        if ipv6 { "leave out -6" } else { "try -6" }
    );
    for address in resolve(target, ipv6, end, stop)? {
        match connect_to(address, end.min(Instant::now() + CONNECT_TIMEOUT), stop)? {
            Ok(socket) => return Ok(socket),
            Err(error) => {
                why = format!(
                    "{address} does not answer: {error}; is `towpath agent` running there, and is \
                     its port reachable?"
                );
            }
        }
    }
    Err(why)
}

/// Resolves the host's addresses, in a thread of its own as name servers may be slow.
fn resolve(
    target: &AgentAddress,
    ipv6: bool,
    end: Instant,
    stop: &AtomicBool,
) -> Result<Vec<SocketAddr>, String> {
    let (result_tx, result_rx) = channel();
    let asked = target.clone();
    let asking = std::thread::Builder::new().name("name server".into());
    let asking = asking.spawn(move || result_tx.send(asked.resolve(ipv6)));
    asking.map_err(|error| error.to_string())?;
    let lost = |error: &dyn std::fmt::Display| {
        format!("the host cannot be found: {error}; check the spelling of its name")
    };
    loop {
        check_stop(stop)?;
        match result_rx.recv_timeout(POLL_INTERVAL) {
            Ok(found) => return found.map_err(|error| lost(&error)),
            Err(RecvTimeoutError::Timeout) if Instant::now() < end => {}
            Err(_) => return Err(lost(&"no name server answers")),
        }
    }
}

/// Connects to `address`; the inner result says why that failed.
fn connect_to(
    address: SocketAddr,
    end: Instant,
    stop: &AtomicBool,
) -> Result<io::Result<TcpStream>, String> {
    let begun = start_connect(address);
    let (socket, under_way) = match begun {
        Ok(begun) => begun,
        Err(error) => return Ok(Err(error)),
    };
    while under_way && Instant::now() < end {
        check_stop(stop)?;
        let mut ready = [PollFd::new(&socket, PollFlags::OUT)];
        match poll(&mut ready, Some(&timespec(POLL_INTERVAL))) {
            Ok(0) | Err(rustix::io::Errno::INTR) => {}
            Err(error) => return Ok(Err(error.into())),
            Ok(_) => return Ok(finish_connect(socket)),
        }
    }
    if under_way {
        return Ok(Err(io::ErrorKind::TimedOut.into()));
    }
    Ok(finish_connect(socket))
}

/// Starts a non-blocking connect; true while it is in progress.
fn start_connect(address: SocketAddr) -> io::Result<(Socket, bool)> {
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

fn finish_connect(socket: Socket) -> io::Result<TcpStream> {
    if let Some(error) = socket.take_error()? {
        return Err(error);
    }
    socket.set_nonblocking(false)?;
    Ok(socket.into())
}

fn check_stop(stop: &AtomicBool) -> Result<(), String> {
    if stop.load(Ordering::Relaxed) {
        return Err(STOPPED.into());
    }
    Ok(())
}

/// Repeats `turn` in short waits until the timeout, or until the stop flag is set.
fn poll_until<T>(
    limit: Duration,
    stop: &AtomicBool,
    mut turn: impl FnMut(Instant) -> Result<T, ConnectionError>,
) -> Result<T, String> {
    let end = Instant::now() + limit;
    loop {
        check_stop(stop)?;
        match turn(end.min(Instant::now() + POLL_INTERVAL)) {
            Err(ConnectionError::TimedOut(_)) if Instant::now() < end => {}
            Err(ConnectionError::TimedOut(_)) => {
                return Err(ConnectionError::TimedOut(limit).to_string());
            }
            other => return other.map_err(|error| error.to_string()),
        }
    }
}

/// Version exchange and TLS.
pub(super) fn authenticate(
    mut socket: TcpStream,
    target: &AgentAddress,
    keys: &KeyFolder,
    stop: &AtomicBool,
) -> Result<(FramedConnection, SocketAddr, SocketAddr), String> {
    let plain = |error: io::Error| error.to_string();
    let (peer, local) = (
        socket.peer_addr().map_err(plain)?,
        socket.local_addr().map_err(plain)?,
    );
    let theirs = read_agent_version(&mut socket, stop)?;
    let mode = version_exchange::parse_agent(&theirs)?;
    let tls = match mode {
        AuthMode::Keys => Some(tls_connection(target, keys).map_err(|error| error.to_string())?),
        AuthMode::NoKeys => {
            check_no_keys(target, peer, keys)?;
            None
        }
    };
    version_exchange::write_all(
        &mut socket,
        &version_exchange::encode_caller(CallerKind::Client),
    )
    .map_err(plain)?;
    let mut connection = FramedConnection::new(socket, tls, RESPONSE_MAX).map_err(plain)?;
    let shaken = poll_until(CONNECT_TIMEOUT, stop, |end| connection.handshake(end));
    shaken.map_err(|why| match why == UNTRUSTED {
        true => key_mismatch(&target.host),
        false => why,
    })?;
    Ok((connection, peer, local))
}

/// Reads the agent's version message.
fn read_agent_version(
    socket: &mut TcpStream,
    stop: &AtomicBool,
) -> Result<[u8; version_exchange::LEN], String> {
    let received = poll_until(version_exchange::TIMEOUT, stop, |end| {
        let left = timespec(end.saturating_duration_since(Instant::now()));
        match poll(&mut [PollFd::new(&*socket, PollFlags::IN)], Some(&left)) {
            Ok(0) | Err(rustix::io::Errno::INTR) => Err(ConnectionError::TimedOut(POLL_INTERVAL)),
            Ok(_) => Ok(()),
            Err(error) => Err(ConnectionError::Io(error.into())),
        }
    });
    let odd = "it sends no agent's version message";
    received.map_err(|why| {
        if why == STOPPED {
            why
        } else {
            format!("{odd}: {why}")
        }
    })?;
    let mut theirs = [0; version_exchange::LEN];
    let read = version_exchange::read_exact_until(
        socket,
        &mut theirs,
        Instant::now() + version_exchange::TIMEOUT,
    );
    read.map_err(|error| match error.kind() {
        io::ErrorKind::UnexpectedEof => {
            "it closed the connection at once; it may have too many connections, or be no agent"
                .into()
        }
        _ => format!("{odd}: {error}"),
    })?;
    Ok(theirs)
}

fn tls_connection(target: &AgentAddress, keys: &KeyFolder) -> Result<rustls::Connection, KeyError> {
    let identity = keys.identity()?;
    let trusted = keys.trusted()?;
    if !trusted.iter().any(|one| one.belongs_to_host(&target.host)) {
        return Err(KeyError::Malformed(no_key_for_host(&trusted, &target.host)));
    }
    tls::client_connection(&identity, &trusted, &target.host)
        .map_err(|error| KeyError::Malformed(error.to_string()))
}

/// Error: the agent's key is not the one trusted for this host.
fn key_mismatch(host: &str) -> String {
    format!(
        "its key is not the one trusted here by the name {host}, so it may be another agent; if \
         that host has a new key, run `towpath key trust KEY {host}` with what `towpath key show` prints \
         there, and remove the old line from `trusted`"
    )
}

/// Error: no key is trusted for this host.
fn no_key_for_host(trusted: &[TrustedKey], host: &str) -> String {
    let others = match trusted.len() {
        0 => "",
        _ => " (keys trusted by other names do not count)",
    };
    format!(
        "no key is trusted here by the name {host}{others}; run `towpath key trust KEY {host}` with what \
         `towpath key show` prints on that host"
    )
}

/// An agent without keys is accepted on the loopback only, and only if no key is trusted for its
/// host.
fn check_no_keys(target: &AgentAddress, peer: SocketAddr, keys: &KeyFolder) -> Result<(), String> {
    if !peer.ip().is_loopback() {
        return Err(
            "it requires no key, so its identity is unknown; make one there with `towpath key new`"
                .into(),
        );
    }
    let trusted = keys.trusted().map_err(|error| error.to_string())?;
    if trusted.iter().any(|one| one.belongs_to_host(&target.host)) {
        return Err(format!(
            "it requires no key, although one is trusted for {}, so it may be another agent; make a key \
             there with `towpath key new`, or remove that line from `trusted`",
            target.host
        ));
    }
    Ok(())
}

/// Exchanges hellos; gives the agent's capabilities.
pub(super) fn hello(
    connection: &mut FramedConnection,
    stop: &AtomicBool,
) -> Result<AgentHello, String> {
    let hello = ToAgent::Hello(PROTOCOL_VERSION);
    let sent = connection.send(&hello, REQUEST_MAX);
    sent.map_err(|error| error.to_string())?;
    match poll_until(CONNECT_TIMEOUT, stop, |end| {
        connection.receive::<FromAgent>(end)
    })? {
        FromAgent::Hello(mut welcome) if welcome.version == PROTOCOL_VERSION => {
            welcome.program = control::validate::printable(&welcome.program, 32);
            welcome.congestion.truncate(64);
            for name in &mut welcome.congestion {
                *name = control::validate::printable(name, 16);
            }
            welcome.transports.truncate(256);
            for (name, reason) in &mut welcome.transports {
                *name = control::validate::printable(name, 64);
                *reason = reason.as_deref().map(control::validate::sentence);
            }
            Ok(welcome)
        }
        FromAgent::SessionEnded(why) => Err(control::validate::sentence(&why)),
        _ => Err("it does not report its limits".into()),
    }
}

/// Waits in the agent's queue until the session starts.
pub(super) fn wait_in_queue(
    connection: &mut FramedConnection,
    stop: &AtomicBool,
    waiting: &mut dyn FnMut(u32),
) -> Result<(), String> {
    let mut last_sent_at = Instant::now();
    loop {
        let received = connection
            .take_message::<FromAgent>()
            .map_err(|error| error.to_string())?;
        match received {
            Some(FromAgent::Ready) => return Ok(()),
            Some(FromAgent::Queued(ahead)) => waiting(ahead),
            Some(FromAgent::SessionEnded(why)) => return Err(control::validate::sentence(&why)),
            Some(_) => {}
            None => {
                if stop.load(Ordering::Relaxed) {
                    let _ = connection.send(&ToAgent::Leave, REQUEST_MAX);
                    return Err(STOPPED.into());
                }
                wait_once(connection, &mut last_sent_at).map_err(|error| error.to_string())?;
            }
        }
    }
}

/// One wait with keepalive.
fn wait_once(
    connection: &mut FramedConnection,
    last_sent_at: &mut Instant,
) -> Result<(), ConnectionError> {
    if last_sent_at.elapsed() > KEEPALIVE_INTERVAL {
        *last_sent_at = Instant::now();
        connection.send(&ToAgent::Clock(0), REQUEST_MAX)?;
    }
    // A timeout here is no error.
    let _ = connection.wait(Instant::now() + POLL_INTERVAL);
    connection.flush()?;
    connection.read_available()?;
    connection.check_timeouts()?;
    if connection.last_received_at().elapsed() > agent::connection::FRAME_TIMEOUT {
        return Err(ConnectionError::TimedOut(agent::connection::FRAME_TIMEOUT));
    }
    Ok(())
}
