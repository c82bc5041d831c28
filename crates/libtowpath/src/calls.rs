//! The Berkeley socket calls on PF_XTP sockets.

use crate::datagram_port::DatagramPort;
use crate::devices::{self, DeviceConnection, DeviceListener, Path};
use crate::socket_pair::{self, ConnState, SocketPairEnd};
use crate::socket_table::Entry;
use crate::stream_service::{self, CircuitHandle, StreamService};
use crate::{client_endpoints, direct, socket_table};
use library::xtp::{EndpointConfig, Shortcut};
use rustix::event::PollFlags;
use rustix::io::Errno;
use rustix::net::SocketType;
use std::collections::BTreeMap;
use std::io;
use std::net::{Ipv4Addr, SocketAddr, UdpSocket};
use std::os::fd::{AsFd, AsRawFd, BorrowedFd, OwnedFd};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError, Weak};
use wire_udp::route::{source_address_to, wildcard_address};

/// Longest accept queue, whatever backlog the program gives to listen(2).
const BACKLOG_MAX: usize = 1024;

/// The option of a listening socket whose connections wait for XTP_ADMIT.
const SUPERVISE: &str = "supervise";

/// The type of a socket, from socket(2).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum SocketKind {
    /// SOCK_STREAM: byte streams and transactions.
    Stream,
    /// SOCK_DGRAM: unacknowledged messages.
    Datagram,
    /// SOCK_RDM: acknowledged messages.
    ReliableDatagram,
}

/// A PF_XTP socket.
pub(crate) struct Socket {
    pub(crate) kind: SocketKind,
    pub(crate) link: Arc<SocketPairEnd>,
    inner: Mutex<SocketInner>,
}

/// The mutable part of a socket.
pub(crate) struct SocketInner {
    pub(crate) state: SocketState,
    /// XTP options by name, until the endpoint is created.
    pub(crate) options: BTreeMap<String, String>,
    /// TCP options, which have no effect on XTP; getsockopt(2) returns them.
    pub(crate) tcp_options: BTreeMap<i32, i32>,
    /// The local address, bound or to be bound.
    pub(crate) local: Option<SocketAddr>,
    /// The association of a stream that has one.
    pub(crate) circuit: Option<CircuitHandle>,
}

/// The state of a socket.
pub(crate) enum SocketState {
    /// Neither listening, connected nor bound.
    New,
    /// Listening.
    Listening(StreamService),
    /// Listening at a device.
    ListeningOn(DeviceListener),
    /// Has or had a peer; the socket pair's [`ConnState`] says which.
    Connected(SocketAddr),
    /// The same over a device.
    ConnectedOver(SocketAddr, Weak<DeviceConnection>),
    /// Sends and receives datagrams; the peer is set by connect(2).
    Datagram(DatagramPort, Option<SocketAddr>),
}

impl Socket {
    fn new(
        kind: SocketKind,
        link: Arc<SocketPairEnd>,
        state: SocketState,
        local: Option<SocketAddr>,
    ) -> Arc<Socket> {
        let inner = Mutex::new(SocketInner {
            state,
            options: BTreeMap::new(),
            tcp_options: BTreeMap::new(),
            local,
            circuit: None,
        });
        Arc::new(Socket { kind, link, inner })
    }

    pub(crate) fn lock(&self) -> MutexGuard<'_, SocketInner> {
        self.inner.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Whether it is a datagram socket (SOCK_DGRAM or SOCK_RDM).
    pub(crate) fn is_datagram(&self) -> bool {
        self.kind != SocketKind::Stream
    }
}

impl SocketInner {
    /// The endpoint settings that the options give.
    pub(crate) fn settings(&self) -> io::Result<EndpointConfig> {
        let mut late = EndpointConfig::accepting_late();
        late.shortcut = Shortcut::where_possible();
        let mut own = self.options.clone();
        late.config.supervised = match own.remove(SUPERVISE).as_deref() {
            None | Some("off") => false,
            Some("on") => true,
            Some(_) => return Err(Errno::INVAL.into()),
        };
        Ok(late.with_options(&own).map_err(|_| Errno::INVAL)?)
    }

    /// The device that is to carry its connections in place of XTP.
    fn device(&self) -> Option<Path> {
        Path::of(&self.options)
    }

    /// Whether the options are ones: those of XTP, or a device and the way to it.
    pub(crate) fn has_valid_options(&self) -> bool {
        let of_device = |name: &String| [devices::OPTION, devices::WAY].contains(&name.as_str());
        self.settings().is_ok() || self.device().is_some() && self.options.keys().all(of_device)
    }

    /// The datagram port, opened on first use; `near` selects the address family.
    fn datagram_port(
        &mut self,
        socket: &Socket,
        near: SocketAddr,
    ) -> io::Result<&mut DatagramPort> {
        if let SocketState::New = self.state {
            let mut settings = self.settings()?;
            // A datagram without acknowledgement is all that its sender sends.
            settings.config.early_accept = true;
            let local = self.local.unwrap_or(wildcard_address(&near));
            let confirms = socket.kind == SocketKind::ReliableDatagram;
            let port = DatagramPort::start(local, &settings, &socket.link, confirms)?;
            register_for_exit(&port.running);
            self.local = Some(port.local_addr());
            self.state = SocketState::Datagram(port, None);
        }
        match &mut self.state {
            SocketState::Datagram(port, _) => Ok(port),
            _ => Err(Errno::OPNOTSUPP.into()),
        }
    }
}

/// Registers an endpoint that exit(3) must drain.
pub(crate) fn register_for_exit(running: &Arc<stream_service::RunningEndpoint>) {
    let mut table = socket_table::lock();
    table.running.push(Arc::downgrade(running));
    crate::sys::register_exit_hook(&mut table);
}

/// What exit(3) must drain is no endpoint of XTP.
pub(crate) fn register_exit_hook() {
    crate::sys::register_exit_hook(&mut socket_table::lock());
}

/// socket(2).
pub(crate) fn socket(kind: SocketKind, nonblocking: bool, cloexec: bool) -> io::Result<OwnedFd> {
    // SEQPACKET keeps datagram boundaries and, unlike DGRAM, shows both ends a close.
    let pair = match kind {
        SocketKind::Stream => SocketType::STREAM,
        _ => SocketType::SEQPACKET,
    };
    if kind != SocketKind::Stream {
        crate::sys::note_datagram_socket();
    }
    let (program, link) = stream_service::socket_pair(pair, ConnState::Idle)?;
    let socket = Socket::new(kind, link, SocketState::New, None);
    install_descriptor(program, Entry::Xtp(socket), nonblocking, cloexec)
}

/// Sets the flags of the program's descriptor and enters the socket in the table.
pub(crate) fn install_descriptor(
    program: OwnedFd,
    socket: Entry,
    nonblocking: bool,
    cloexec: bool,
) -> io::Result<OwnedFd> {
    rustix::io::ioctl_fionbio(&program, nonblocking)?;
    let mut flags = rustix::io::fcntl_getfd(&program)?;
    flags.set(rustix::io::FdFlags::CLOEXEC, cloexec);
    rustix::io::fcntl_setfd(&program, flags)?;
    socket_table::insert(program.as_fd(), socket);
    Ok(program)
}

/// bind(2). A datagram socket receives from here on.
pub(crate) fn bind(socket: &Socket, local: SocketAddr) -> io::Result<()> {
    let mut inner = socket.lock();
    if !matches!(inner.state, SocketState::New) || inner.local.is_some() {
        return Err(Errno::INVAL.into());
    }
    if socket.is_datagram() {
        inner.local = Some(local);
        return inner
            .datagram_port(socket, local)
            .map(drop)
            .inspect_err(|_| {
                socket.link.take_error();
            });
    }
    if inner.device().is_some() {
        // The device's own bind comes with listen(2) or connect(2).
        inner.local = Some(local);
        return Ok(());
    }
    // Fails now if the address is in use, as the system's bind(2) does.
    inner.local = Some(UdpSocket::bind(local)?.local_addr()?);
    Ok(())
}

/// listen(2).
pub(crate) fn listen(socket: &Socket, backlog: i32) -> io::Result<()> {
    let mut inner = socket.lock();
    match inner.state {
        SocketState::New if socket.kind == SocketKind::Stream => {}
        SocketState::Listening(_) | SocketState::ListeningOn(_) => return Ok(()),
        SocketState::New | SocketState::Datagram(..) => return Err(Errno::OPNOTSUPP.into()),
        SocketState::Connected(_) | SocketState::ConnectedOver(..) => {
            return Err(Errno::INVAL.into());
        }
    }
    let local = inner.local.unwrap_or((Ipv4Addr::UNSPECIFIED, 0).into());
    let backlog = usize::try_from(backlog).unwrap_or(0).clamp(1, BACKLOG_MAX);
    if let Some(device) = inner.device() {
        let link = Arc::clone(&socket.link);
        let listener = DeviceListener::start(device, local, link, backlog)?;
        register_exit_hook();
        inner.local = Some(listener.local);
        inner.state = SocketState::ListeningOn(listener);
        return Ok(());
    }
    let settings = inner.settings()?;
    let listener = (Arc::clone(&socket.link), backlog);
    let service = StreamService::start(local, &settings, Some(listener))?;
    register_for_exit(&service.running);
    inner.local = Some(service.local_addr());
    inner.state = SocketState::Listening(service);
    Ok(())
}

/// accept(2): the next connection and its peer; blocks unless the socket is non-blocking.
pub(crate) fn accept(
    socket: &Socket,
    fd: BorrowedFd<'_>,
    nonblocking: bool,
    cloexec: bool,
) -> io::Result<(OwnedFd, SocketAddr)> {
    let (queue, local) = {
        let inner = socket.lock();
        match (&inner.state, socket.kind) {
            (SocketState::Listening(service), _) => (service.queue.clone(), inner.local),
            (SocketState::ListeningOn(listener), _) => (Some(listener.queue.clone()), inner.local),
            (_, SocketKind::Stream) => return Err(Errno::INVAL.into()),
            _ => return Err(Errno::OPNOTSUPP.into()),
        }
    };
    // One octet per queued connection; no lock is taken while this blocks.
    if rustix::io::read(fd, &mut [0])? == 0 {
        return Err(Errno::INVAL.into());
    }
    let waiting = queue.and_then(|queue| queue.pop()).ok_or(Errno::AGAIN)?;
    let peer = waiting.peer;
    let local = local.map(|local| local_addr_towards(local, peer));
    let state = SocketState::Connected(peer);
    let accepted = Socket::new(SocketKind::Stream, waiting.link, state, local);
    accepted.lock().circuit = waiting.circuit;
    let fd = install_descriptor(waiting.program, Entry::Xtp(accepted), nonblocking, cloexec)?;
    if let Some(direct) = waiting.direct {
        direct.enter(fd.as_raw_fd());
    }
    Ok((fd, peer))
}

/// The local address on the route to `peer`, where `local` is unspecified.
fn local_addr_towards(local: SocketAddr, peer: SocketAddr) -> SocketAddr {
    if !local.ip().is_unspecified() {
        return local;
    }
    source_address_to(peer).map_or(local, |own| SocketAddr::new(own, local.port()))
}

/// connect(2): connects a stream, or sets the peer of a datagram socket. A non-blocking socket
/// becomes writable when the peer has answered.
pub(crate) fn connect(socket: &Socket, fd: BorrowedFd<'_>, peer: SocketAddr) -> io::Result<()> {
    if socket.is_datagram() {
        let mut inner = socket.lock();
        let port = inner.datagram_port(socket, peer)?;
        port.set_peer_filter(Some(peer));
        if let SocketState::Datagram(_, known) = &mut inner.state {
            *known = Some(peer);
        }
        return Ok(());
    }
    let device = socket.lock().device();
    match device {
        Some(device) => begin_over_device(socket, fd, peer, device)?,
        None => begin_connection(socket, peer, |service, link, sort| {
            link.begin_connect(fd)?;
            service.connect((peer, sort), link, fd.as_raw_fd())
        })?,
    }
    if rustix::fs::fcntl_getfl(fd)?.contains(rustix::fs::OFlags::NONBLOCK) {
        return Err(Errno::INPROGRESS.into());
    }
    socket_pair::is_ready(fd, PollFlags::OUT, -1)?;
    socket.link.take_error().map_or(Ok(()), Err)
}

/// connect(2) to AF_UNSPEC: datagrams may come from any peer again.
pub(crate) fn disconnect(socket: &Socket) -> io::Result<()> {
    match &mut socket.lock().state {
        SocketState::Datagram(port, peer) => {
            port.set_peer_filter(None);
            *peer = None;
            Ok(())
        }
        SocketState::New if socket.is_datagram() => Ok(()),
        _ => Err(Errno::AFNOSUPPORT.into()),
    }
}

/// Starts a connection with `begin`, which takes its priority too, after checking the state.
fn begin_connection(
    socket: &Socket,
    peer: SocketAddr,
    begin: impl FnOnce(&StreamService, &Arc<SocketPairEnd>, Option<u16>) -> io::Result<CircuitHandle>,
) -> io::Result<()> {
    let mut inner = socket.lock();
    check_unconnected(&inner.state, &socket.link)?;
    let config = inner.settings()?.config;
    if config.supervised {
        // Only who listens has openings to decide about.
        return Err(Errno::INVAL.into());
    }
    let service = client_endpoints::service_for(inner.local, peer, &inner)?;
    let begun = begin(&service, &socket.link, config.sort);
    let circuit = begun.inspect_err(|_| socket.link.set_state(ConnState::Failed))?;
    inner.circuit = Some(circuit);
    inner.local = Some(local_addr_towards(service.local_addr(), peer));
    inner.state = SocketState::Connected(peer);
    Ok(())
}

/// Starts a connection of a device.
fn begin_over_device(
    socket: &Socket,
    fd: BorrowedFd<'_>,
    peer: SocketAddr,
    device: Path,
) -> io::Result<()> {
    let mut inner = socket.lock();
    check_unconnected(&inner.state, &socket.link)?;
    socket.link.begin_connect(fd)?;
    let connection = DeviceConnection::connect(device, inner.local, peer, &socket.link);
    let connection = connection.inspect_err(|_| socket.link.set_state(ConnState::Failed))?;
    register_exit_hook();
    inner.state = SocketState::ConnectedOver(peer, Arc::downgrade(&connection));
    Ok(())
}

/// Whether a socket may begin to connect.
fn check_unconnected(state: &SocketState, link: &SocketPairEnd) -> io::Result<()> {
    let has_peer = matches!(
        state,
        SocketState::Connected(_) | SocketState::ConnectedOver(..)
    );
    match (state, link.state()) {
        (SocketState::New, ConnState::Idle) => Ok(()),
        (_, ConnState::Connecting) if has_peer => Err(Errno::ALREADY.into()),
        (_, ConnState::Failed) if has_peer => {
            Err(link.take_error().unwrap_or(Errno::CONNABORTED.into()))
        }
        _ => Err(Errno::ISCONN.into()),
    }
}

/// TCP Fast Open style: the first bytes open the association, without waiting for the peer.
pub(crate) fn connect_fast_open(socket: &Socket, peer: SocketAddr) -> io::Result<()> {
    begin_connection(socket, peer, |service, link, sort| {
        link.set_state(ConnState::Established);
        service.connect_early((peer, sort), link)
    })
}

/// Opens a transaction: the association carries `request` and nothing else.
pub(crate) fn transact(socket: &Socket, peer: SocketAddr, request: &[u8]) -> io::Result<()> {
    begin_connection(socket, peer, |service, link, sort| {
        link.set_state(ConnState::Established);
        service.transact((peer, sort), request, link)
    })
}

/// The destination of a datagram: `to`, or the connected peer. Refuses a datagram that is too long.
pub(crate) fn destination(
    socket: &Socket,
    to: Option<SocketAddr>,
    len: usize,
) -> io::Result<SocketAddr> {
    if let Some(error) = socket.link.take_error() {
        return Err(error);
    }
    let mut inner = socket.lock();
    let known = match &inner.state {
        SocketState::Datagram(_, peer) => *peer,
        _ => None,
    };
    let to = to.or(known).ok_or(Errno::DESTADDRREQ)?;
    if len > inner.datagram_port(socket, to)?.len_max {
        return Err(Errno::MSGSIZE.into());
    }
    Ok(to)
}

/// getsockname(2).
pub(crate) fn local_addr(socket: &Socket) -> io::Result<SocketAddr> {
    let (local, connection) = {
        let inner = socket.lock();
        match &inner.state {
            SocketState::ConnectedOver(_, connection) => (inner.local, connection.upgrade()),
            _ => (inner.local, None),
        }
    };
    let local = connection
        .and_then(|connection| connection.local())
        .or(local);
    Ok(local.unwrap_or((Ipv4Addr::UNSPECIFIED, 0).into()))
}

/// getpeername(2).
pub(crate) fn peer_addr(socket: &Socket) -> io::Result<SocketAddr> {
    match &socket.lock().state {
        SocketState::Connected(peer) | SocketState::ConnectedOver(peer, _)
            if socket.link.state() == ConnState::Established =>
        {
            Ok(*peer)
        }
        SocketState::Datagram(_, Some(peer)) => Ok(*peer),
        _ => Err(Errno::NOTCONN.into()),
    }
}

/// shutdown(2), before the socket pair is shut down.
pub(crate) fn shutdown(socket: &Socket, reads: bool) -> io::Result<()> {
    match &socket.lock().state {
        SocketState::New => return Err(Errno::NOTCONN.into()),
        SocketState::Connected(_) | SocketState::ConnectedOver(..)
            if socket.link.state() == ConnState::Connecting =>
        {
            return Err(Errno::NOTCONN.into());
        }
        _ => {}
    }
    if reads {
        socket.link.shutdown_read();
    }
    Ok(())
}

/// Waits at exit until the peers of all sockets have acknowledged what was written.
pub(crate) fn drain_all() {
    // What the tunnels carry goes on without the program.
    direct::leave_range(0, i32::MAX);
    let running = std::mem::take(&mut socket_table::lock().running);
    for running in running.iter().filter_map(std::sync::Weak::upgrade) {
        running.drain();
    }
    devices::datagrams::send_all();
    devices::drain_all();
    crate::sctp::drain_all();
}
