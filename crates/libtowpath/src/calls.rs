//! What the calls do, on sockets of the family.

use crate::link::{self, Link, Stage};
use crate::port::Port;
use crate::service::{self, Service};
use crate::{clients, table};
use library::xtp::Settings;
use rustix::event::PollFlags;
use rustix::io::Errno;
use rustix::net::SocketType;
use std::collections::BTreeMap;
use std::io;
use std::net::{Ipv4Addr, Ipv6Addr, SocketAddr, UdpSocket};
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

/// Connections that may wait to be accepted at most, whatever a program asks for.
const BACKLOG_MAX: usize = 1024;

/// What kind of socket.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Kind {
    /// SOCK_STREAM: byte streams, and transactions.
    Stream,
    /// SOCK_DGRAM: messages that nobody confirms.
    Datagram,
    /// SOCK_RDM: messages that their receivers confirm.
    Confirmed,
}

/// A socket of the family.
pub(crate) struct Socket {
    pub(crate) kind: Kind,
    pub(crate) link: Arc<Link>,
    held: Mutex<Held>,
}

/// What a socket has become.
pub(crate) struct Held {
    pub(crate) state: State,
    /// Options as words, until the endpoint is made.
    pub(crate) words: BTreeMap<String, String>,
    /// Options of TCP, which mean nothing to XTP and are remembered.
    pub(crate) tcp: BTreeMap<i32, i32>,
    /// Where it is bound, or to be bound.
    pub(crate) local: Option<SocketAddr>,
}

/// What a socket is.
pub(crate) enum State {
    /// Nothing yet.
    New,
    /// It listens.
    Listening(Service),
    /// It has a peer, or did: how that stands, its link tells.
    Connected(SocketAddr),
    /// It sends and receives datagrams.
    Open(Port, Option<SocketAddr>),
}

impl Socket {
    fn new(kind: Kind, link: Arc<Link>, state: State, local: Option<SocketAddr>) -> Arc<Socket> {
        let held = Mutex::new(Held {
            state,
            words: BTreeMap::new(),
            tcp: BTreeMap::new(),
            local,
        });
        Arc::new(Socket { kind, link, held })
    }

    pub(crate) fn lock(&self) -> MutexGuard<'_, Held> {
        self.held.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Whether it carries datagrams.
    pub(crate) fn is_of_datagrams(&self) -> bool {
        self.kind != Kind::Stream
    }
}

impl Held {
    /// The settings its words say.
    pub(crate) fn settings(&self) -> io::Result<Settings> {
        Ok(Settings::parse(&self.words).map_err(|_| Errno::INVAL)?)
    }

    /// The port of datagrams, opened now if it was not; `near` says which kind of address.
    fn port(&mut self, socket: &Socket, near: SocketAddr) -> io::Result<&mut Port> {
        if let State::New = self.state {
            let settings = self.settings()?;
            let local = self.local.unwrap_or(any(near));
            let confirms = socket.kind == Kind::Confirmed;
            let port = Port::start(local, &settings, &socket.link, confirms)?;
            keep(&port.running);
            self.local = Some(port.local_addr());
            self.state = State::Open(port, None);
        }
        match &mut self.state {
            State::Open(port, _) => Ok(port),
            _ => Err(Errno::OPNOTSUPP.into()),
        }
    }
}

/// The end of the program waits for what is on its way there.
pub(crate) fn keep(running: &Arc<service::Running>) {
    let mut table = table::lock();
    table.running.push(Arc::downgrade(running));
    crate::sys::at_exit(&mut table);
}

/// No address of the kind that `peer` is.
pub(crate) fn any(peer: SocketAddr) -> SocketAddr {
    match peer {
        SocketAddr::V4(_) => (Ipv4Addr::UNSPECIFIED, 0).into(),
        SocketAddr::V6(_) => (Ipv6Addr::UNSPECIFIED, 0).into(),
    }
}

/// Makes a socket.
pub(crate) fn socket(kind: Kind, nonblocking: bool, cloexec: bool) -> io::Result<OwnedFd> {
    // Datagrams lie in packets of a pair whose closing both ends see.
    let pair = match kind {
        Kind::Stream => SocketType::STREAM,
        _ => SocketType::SEQPACKET,
    };
    if kind != Kind::Stream {
        crate::sys::expect_datagrams();
    }
    let (program, link) = service::pair(pair, Stage::Idle)?;
    let socket = Socket::new(kind, link, State::New, None);
    give(program, socket, nonblocking, cloexec)
}

/// Makes a descriptor the program's.
fn give(
    program: OwnedFd,
    socket: Arc<Socket>,
    nonblocking: bool,
    cloexec: bool,
) -> io::Result<OwnedFd> {
    rustix::io::ioctl_fionbio(&program, nonblocking)?;
    let mut flags = rustix::io::fcntl_getfd(&program)?;
    flags.set(rustix::io::FdFlags::CLOEXEC, cloexec);
    rustix::io::fcntl_setfd(&program, flags)?;
    table::put(program.as_fd(), socket);
    Ok(program)
}

/// Notes where a socket is to be. One of datagrams begins to hear.
pub(crate) fn bind(socket: &Socket, local: SocketAddr) -> io::Result<()> {
    let mut held = socket.lock();
    if !matches!(held.state, State::New) || held.local.is_some() {
        return Err(Errno::INVAL.into());
    }
    if socket.is_of_datagrams() {
        held.local = Some(local);
        return held.port(socket, local).map(drop).inspect_err(|_| {
            socket.link.take_error();
        });
    }
    // Whether the address can be had is said now, as the system's bind does.
    held.local = Some(UdpSocket::bind(local)?.local_addr()?);
    Ok(())
}

/// Begins to listen.
pub(crate) fn listen(socket: &Socket, backlog: i32) -> io::Result<()> {
    let mut held = socket.lock();
    match held.state {
        State::New if socket.kind == Kind::Stream => {}
        State::Listening(_) => return Ok(()),
        State::New | State::Open(..) => return Err(Errno::OPNOTSUPP.into()),
        State::Connected(_) => return Err(Errno::INVAL.into()),
    }
    let settings = held.settings()?;
    let local = held.local.unwrap_or((Ipv4Addr::UNSPECIFIED, 0).into());
    let backlog = usize::try_from(backlog).unwrap_or(0).clamp(1, BACKLOG_MAX);
    let told = (Arc::clone(&socket.link), backlog);
    let service = Service::start(local, &settings, Some(told))?;
    keep(&service.running);
    held.local = Some(service.local_addr());
    held.state = State::Listening(service);
    Ok(())
}

/// The next connection of a listening socket, and its peer; waits unless the socket must not.
pub(crate) fn accept(
    socket: &Socket,
    fd: BorrowedFd<'_>,
    nonblocking: bool,
    cloexec: bool,
) -> io::Result<(OwnedFd, SocketAddr)> {
    let (queue, local) = {
        let held = socket.lock();
        match (&held.state, socket.kind) {
            (State::Listening(service), _) => (service.queue.clone(), held.local),
            (_, Kind::Stream) => return Err(Errno::INVAL.into()),
            _ => return Err(Errno::OPNOTSUPP.into()),
        }
    };
    // The octet of one connection; nothing is locked while this waits.
    if rustix::io::read(fd, &mut [0])? == 0 {
        return Err(Errno::INVAL.into());
    }
    let waiting = queue.and_then(|queue| queue.pop()).ok_or(Errno::AGAIN)?;
    let peer = waiting.peer;
    let local = local.map(|local| reached_from(local, peer));
    let state = State::Connected(peer);
    let accepted = Socket::new(Kind::Stream, waiting.link, state, local);
    let fd = give(waiting.program, accepted, nonblocking, cloexec)?;
    Ok((fd, peer))
}

/// The address by which `peer` is reached, where `local` leaves that open.
fn reached_from(local: SocketAddr, peer: SocketAddr) -> SocketAddr {
    if !local.ip().is_unspecified() {
        return local;
    }
    let seen = || {
        let probe = UdpSocket::bind(any(peer))?;
        probe.connect(peer)?;
        probe.local_addr()
    };
    seen().map_or(local, |seen| SocketAddr::new(seen.ip(), local.port()))
}

/// Connects a byte stream, or says with whom datagrams are exchanged. A socket that must not wait is
/// writable when the peer has answered.
pub(crate) fn connect(socket: &Socket, fd: BorrowedFd<'_>, peer: SocketAddr) -> io::Result<()> {
    if socket.is_of_datagrams() {
        let mut held = socket.lock();
        let port = held.port(socket, peer)?;
        port.hear_only(Some(peer));
        if let State::Open(_, known) = &mut held.state {
            *known = Some(peer);
        }
        return Ok(());
    }
    open(socket, peer, |service, link| {
        link.begin(fd)?;
        service.connect(peer, link)
    })?;
    if rustix::fs::fcntl_getfl(fd)?.contains(rustix::fs::OFlags::NONBLOCK) {
        return Err(Errno::INPROGRESS.into());
    }
    link::is_ready(fd, PollFlags::OUT, -1)?;
    socket.link.take_error().map_or(Ok(()), Err)
}

/// Datagrams are exchanged with everybody again.
pub(crate) fn disconnect(socket: &Socket) -> io::Result<()> {
    match &mut socket.lock().state {
        State::Open(port, peer) => {
            port.hear_only(None);
            *peer = None;
            Ok(())
        }
        State::New if socket.is_of_datagrams() => Ok(()),
        _ => Err(Errno::AFNOSUPPORT.into()),
    }
}

/// Opens a connection in one of several ways.
fn open(
    socket: &Socket,
    peer: SocketAddr,
    begin: impl FnOnce(&Service, &Arc<Link>) -> io::Result<()>,
) -> io::Result<()> {
    let mut held = socket.lock();
    match (&held.state, socket.link.stage()) {
        (State::New, Stage::Idle) => {}
        (State::Connected(_), Stage::Opening) => return Err(Errno::ALREADY.into()),
        (State::Connected(_), Stage::Broken) => {
            return Err(socket
                .link
                .take_error()
                .unwrap_or(Errno::CONNABORTED.into()));
        }
        _ => return Err(Errno::ISCONN.into()),
    }
    let service = clients::service(held.local, peer, &held)?;
    begin(&service, &socket.link).inspect_err(|_| socket.link.set_stage(Stage::Broken))?;
    held.local = Some(reached_from(service.local_addr(), peer));
    held.state = State::Connected(peer);
    Ok(())
}

/// Connects by the first bytes themselves: what the program writes follows at once.
pub(crate) fn connect_fast(socket: &Socket, peer: SocketAddr) -> io::Result<()> {
    open(socket, peer, |service, link| {
        link.set_stage(Stage::Open);
        service.connect(peer, link)
    })
}

/// Connects by a request that is all there will be: a transaction.
pub(crate) fn transact(socket: &Socket, peer: SocketAddr, request: &[u8]) -> io::Result<()> {
    open(socket, peer, |service, link| {
        link.set_stage(Stage::Open);
        service.transact(peer, request, link)
    })
}

/// Where a datagram goes: `to`, or the peer; refuses one that is too long.
pub(crate) fn address(
    socket: &Socket,
    to: Option<SocketAddr>,
    len: usize,
) -> io::Result<SocketAddr> {
    if let Some(error) = socket.link.take_error() {
        return Err(error);
    }
    let mut held = socket.lock();
    let known = match &held.state {
        State::Open(_, peer) => *peer,
        _ => None,
    };
    let to = to.or(known).ok_or(Errno::DESTADDRREQ)?;
    if len > held.port(socket, to)?.len_max {
        return Err(Errno::MSGSIZE.into());
    }
    Ok(to)
}

/// Where a socket is.
pub(crate) fn local(socket: &Socket) -> io::Result<SocketAddr> {
    let local = socket.lock().local;
    Ok(local.unwrap_or((Ipv4Addr::UNSPECIFIED, 0).into()))
}

/// Where the peer of a socket is.
pub(crate) fn peer(socket: &Socket) -> io::Result<SocketAddr> {
    match &socket.lock().state {
        State::Connected(peer) if socket.link.stage() == Stage::Open => Ok(*peer),
        State::Open(_, Some(peer)) => Ok(*peer),
        _ => Err(Errno::NOTCONN.into()),
    }
}

/// Which directions a program shuts down, before the socket pair does.
pub(crate) fn shutdown(socket: &Socket, reads: bool) -> io::Result<()> {
    match &socket.lock().state {
        State::New => return Err(Errno::NOTCONN.into()),
        State::Connected(_) if socket.link.stage() == Stage::Opening => {
            return Err(Errno::NOTCONN.into());
        }
        _ => {}
    }
    if reads {
        socket.link.deafen();
    }
    Ok(())
}

/// Ends all sockets of the family and waits until peers have what was written.
pub(crate) fn end_all() {
    let running = std::mem::take(&mut table::lock().running);
    for running in running.iter().filter_map(std::sync::Weak::upgrade) {
        running.drain();
    }
}
