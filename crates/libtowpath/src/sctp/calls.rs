//! The calls that create, name, open and end sockets and associations.

use super::live_addresses;
use super::octets::same_ip;
use super::port::{Port, PortState};
use super::settings::{EndpointSettings, Medium};
use super::socket::{Inner, SctpSocket, Style};
use crate::calls::install_descriptor;
use crate::socket_pair::ConnState;
use crate::socket_table::Entry;
use rustix::io::Errno;
use std::hash::{BuildHasher, Hasher, RandomState};
use std::io;
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr, SocketAddr, UdpSocket};
use std::os::fd::{BorrowedFd, OwnedFd};
use std::sync::Arc;
use std::time::Duration;
use wire_udp::route::wildcard_address;

/// Longest accept queue, whatever backlog the program gives to listen(2).
const BACKLOG_MAX: usize = 1024;

/// The first port that is given to a socket without one (IANA's dynamic ports).
const EPHEMERAL_FIRST: u16 = 49_152;

/// How often a blocked connect(2) looks at its association, though it is woken.
const CONNECT_TICK: Duration = Duration::from_secs(1);

/// socket(2).
pub(crate) fn socket(
    style: Style,
    family: i32,
    nonblocking: bool,
    cloexec: bool,
) -> io::Result<OwnedFd> {
    let inner = Inner::of_environment()?;
    let (program, socket) = SctpSocket::pair(style, family, ConnState::Idle, inner)?;
    install_descriptor(program, Entry::Sctp(socket), nonblocking, cloexec)
}

/// bind(2), and sctp_bindx to add addresses.
pub(crate) fn bind(socket: &Arc<SctpSocket>, addresses: &[SocketAddr]) -> io::Result<()> {
    let mut inner = socket.lock();
    if let Some(port) = inner.port.clone() {
        drop(inner);
        return live_addresses::add(socket, &port, addresses);
    }
    let named = addresses
        .iter()
        .map(SocketAddr::port)
        .find(|port| *port != 0);
    let local_port = match (inner.local_port, named) {
        (0, Some(port)) => port,
        (0, None) => random_port(),
        (known, None) => known,
        (known, Some(port)) if port == known => known,
        _ => return Err(Errno::INVAL.into()),
    };
    for address in addresses {
        let is_known = inner.local.contains(&address.ip());
        // Several addresses are all named; a wildcard stays alone.
        let is_mixed = inner.local.iter().any(IpAddr::is_unspecified)
            || address.ip().is_unspecified() && !inner.local.is_empty();
        if is_known || is_mixed {
            return Err(Errno::INVAL.into());
        }
        // Fails now if the host does not have the address, or another socket has the port.
        let udp_port = match inner.endpoint.medium {
            Medium::UdpSamePort => local_port,
            _ => 0,
        };
        UdpSocket::bind(SocketAddr::new(address.ip(), udp_port))?;
        inner.local.push(address.ip());
    }
    inner.local_port = local_port;
    Ok(())
}

/// sctp_bindx to remove addresses.
pub(crate) fn unbind(socket: &Arc<SctpSocket>, addresses: &[SocketAddr]) -> io::Result<()> {
    let mut inner = socket.lock();
    if let Some(port) = inner.port.clone() {
        drop(inner);
        return live_addresses::remove(socket, &port, addresses);
    }
    let is_removed = |ip: &IpAddr| addresses.iter().any(|address| same_ip(*address, *ip));
    let left = inner.local.iter().copied().filter(|ip| !is_removed(ip));
    let left: Vec<IpAddr> = left.collect();
    if left.is_empty() || left.len() + addresses.len() != inner.local.len() {
        return Err(Errno::INVAL.into());
    }
    inner.local = left;
    Ok(())
}

fn random_port() -> u16 {
    let count = u64::from(u16::MAX - EPHEMERAL_FIRST) + 1;
    EPHEMERAL_FIRST + (RandomState::new().build_hasher().finish() % count) as u16
}

/// The endpoint of a socket, started on first use. `peer` selects the family of an unbound one.
pub(crate) fn open_port(
    socket: &Arc<SctpSocket>,
    inner: &mut Inner,
    peer: Option<SocketAddr>,
    listens: bool,
) -> io::Result<Arc<Port>> {
    if let Some(port) = &inner.port {
        return Ok(Arc::clone(port));
    }
    if inner.local_port == 0 {
        inner.local_port = random_port();
    }
    if inner.local.is_empty() {
        let any: IpAddr = match (peer, socket.family) {
            (Some(peer), _) => wildcard_address(&peer).ip(),
            (None, libc::AF_INET6) => Ipv6Addr::UNSPECIFIED.into(),
            (None, _) => Ipv4Addr::UNSPECIFIED.into(),
        };
        inner.local.push(any);
    }
    let settings: &EndpointSettings = &inner.endpoint;
    let port = Port::start(&inner.local, inner.local_port, settings, socket, listens)?;
    inner.port = Some(Arc::clone(&port));
    Ok(port)
}

/// listen(2). A one-to-many socket accepts associations from here on, or with a backlog of 0 no more.
pub(crate) fn listen(socket: &Arc<SctpSocket>, backlog: i32) -> io::Result<()> {
    let mut inner = socket.lock();
    let is_one = socket.style == Style::OneToOne;
    if is_one && (inner.association.is_some() || socket.link.state() != ConnState::Idle) {
        return Err(Errno::INVAL.into());
    }
    let port = open_port(socket, &mut inner, None, true)?;
    let least = usize::from(is_one);
    inner.backlog = usize::try_from(backlog)
        .unwrap_or(0)
        .clamp(least, BACKLOG_MAX);
    port.endpoint.listen(inner.backlog > 0);
    drop(inner);
    port.lock().set_acceptor(socket);
    Ok(())
}

/// accept(2): the next association of a one-to-one listener, and its peer.
pub(crate) fn accept(
    socket: &SctpSocket,
    fd: BorrowedFd<'_>,
    nonblocking: bool,
    cloexec: bool,
) -> io::Result<(OwnedFd, SocketAddr)> {
    if socket.style == Style::OneToMany {
        return Err(Errno::OPNOTSUPP.into());
    }
    loop {
        let mut inner = socket.lock();
        if inner.backlog == 0 {
            return Err(Errno::INVAL.into());
        }
        if let Some(waiting) = inner.accepted.pop_front() {
            inner.update_readable(fd);
            drop(inner);
            let entry = Entry::Sctp(waiting.socket);
            let fd = install_descriptor(waiting.program, entry, nonblocking, cloexec)?;
            return Ok((fd, waiting.peer));
        }
        drop(inner);
        super::receive::await_readable(fd, false)?;
    }
}

/// connect(2) and sctp_connectx: opens an association to a peer with these addresses; its number. A
/// non-blocking one-to-one socket becomes writable when the peer has answered.
pub(crate) fn connect(
    socket: &Arc<SctpSocket>,
    fd: BorrowedFd<'_>,
    peers: &[SocketAddr],
) -> io::Result<i32> {
    if socket.style == Style::OneToOne {
        check_unconnected(socket)?;
    }
    let (port, number) = begin(socket, fd, peers)?;
    if rustix::fs::fcntl_getfl(fd)?.contains(rustix::fs::OFlags::NONBLOCK) {
        return Err(Errno::INPROGRESS.into());
    }
    let mut state = port.lock();
    loop {
        if let Some(error) = state.take_failure(number) {
            // The call reports it.
            socket.link.take_error();
            return Err(io::Error::from_raw_os_error(error));
        }
        match state.members.get(&number) {
            Some(member) if !member.is_up => state = port.wait(state, CONNECT_TICK),
            _ => return Ok(number),
        }
    }
}

fn check_unconnected(socket: &SctpSocket) -> io::Result<()> {
    match socket.link.state() {
        ConnState::Idle if socket.lock().backlog == 0 => Ok(()),
        ConnState::Connecting => Err(Errno::ALREADY.into()),
        ConnState::Failed => Err(socket
            .link
            .take_error()
            .unwrap_or(Errno::CONNABORTED.into())),
        _ => Err(Errno::ISCONN.into()),
    }
}

/// Begins to open an association; its endpoint and its number.
pub(crate) fn begin(
    socket: &Arc<SctpSocket>,
    fd: BorrowedFd<'_>,
    peers: &[SocketAddr],
) -> io::Result<(Arc<Port>, i32)> {
    let &first = peers.first().ok_or(Errno::INVAL)?;
    let is_mixed = peers.iter().any(|peer| peer.port() != first.port());
    if is_mixed || first.port() == 0 {
        return Err(Errno::INVAL.into());
    }
    let port = open_port(socket, &mut socket.lock(), Some(first), false)?;
    let mut state = port.lock();
    if state.number_to(socket, first).is_some() {
        return Err(Errno::ISCONN.into());
    }
    let to: Vec<SocketAddr> = peers
        .iter()
        .map(|peer| port.medium.destination(*peer))
        .collect();
    let opened = port.endpoint.begin_connect_to_port(&to, first.port());
    let association = opened.map_err(|_| io::Error::from(Errno::ADDRINUSE))?;
    if socket.style == Style::OneToOne {
        socket.link.begin_connect(fd)?;
    }
    let number = state.add(association, socket);
    let mut inner = socket.lock();
    if socket.style == Style::OneToOne {
        inner.association = Some(number);
        inner.peer = Some(first);
    }
    drop(inner);
    drop(state);
    port.wake();
    Ok((port, number))
}

/// The association that a call on `socket` means: that of a one-to-one socket, or the numbered one.
pub(crate) fn assoc_of(socket: &SctpSocket, number: i32) -> io::Result<i32> {
    match socket.style {
        Style::OneToOne => socket.lock().association.ok_or(Errno::NOTCONN.into()),
        Style::OneToMany => Ok(number),
    }
}

/// Runs `act` on the association that a call on `socket` means.
pub(crate) fn with_member<R>(
    socket: &Arc<SctpSocket>,
    number: i32,
    act: impl FnOnce(&mut super::member::Member) -> io::Result<R>,
) -> io::Result<R> {
    let number = assoc_of(socket, number)?;
    let port = socket.lock().port()?;
    let mut state = port.lock();
    let is_gone = socket.style == Style::OneToOne && !state.members.contains_key(&number);
    if is_gone {
        return Err(Errno::NOTCONN.into());
    }
    act(state.member_of(socket, number)?)
}

/// sctp_peeloff: a one-to-one socket of an association of a one-to-many socket.
pub(crate) fn peel_off(
    socket: &Arc<SctpSocket>,
    fd: BorrowedFd<'_>,
    number: i32,
    (nonblocking, cloexec): (bool, bool),
) -> io::Result<OwnedFd> {
    if socket.style == Style::OneToOne {
        return Err(Errno::INVAL.into());
    }
    let port = socket.lock().port()?;
    let mut state = port.lock();
    let member = state.member_of(socket, number)?;
    let mut from = socket.lock();
    let mut inner = Inner::new(from.settings.clone(), from.endpoint.clone());
    inner.local.clone_from(&from.local);
    inner.local_port = from.local_port;
    inner.port.clone_from(&from.port);
    inner.peer = Some(member.peer);
    inner.association = Some(number);
    inner.partial = from.partial.take_if(|other| *other == number);
    let (style, family) = (Style::OneToOne, socket.family);
    let (program, peeled) = SctpSocket::pair(style, family, ConnState::Established, inner)?;
    member.move_to(&peeled);
    let items = from.take_of(number);
    from.update_readable(fd);
    drop(from);
    peeled.lock().give(&peeled.link, items);
    drop(state);
    port.wake();
    install_descriptor(program, Entry::Sctp(peeled), nonblocking, cloexec)
}

/// shutdown(2) of a one-to-one socket. SCTP ends both directions; what the peer sent can be read.
pub(crate) fn shutdown(socket: &Arc<SctpSocket>, how: i32) -> io::Result<()> {
    if socket.style == Style::OneToMany {
        return Err(Errno::OPNOTSUPP.into());
    }
    if how != libc::SHUT_WR {
        socket.lock().reads_shut_down = true;
    }
    if how == libc::SHUT_RD {
        return Ok(());
    }
    with_member(socket, 0, |member| member.association.begin_shutdown())?;
    if let Some(port) = &socket.lock().port {
        port.wake();
    }
    Ok(())
}

/// The association of a socket to a peer, if there is one.
pub(crate) fn number_to(socket: &Arc<SctpSocket>, peer: SocketAddr) -> Option<i32> {
    let port = socket.lock().port.clone()?;
    port.lock().number_to(socket, peer)
}

/// getsockname(2): the first of its addresses.
pub(crate) fn local_addr(socket: &SctpSocket) -> SocketAddr {
    local_addrs(socket)[0]
}

/// sctp_getladdrs: all of its addresses.
pub(crate) fn local_addrs(socket: &SctpSocket) -> Vec<SocketAddr> {
    let inner = socket.lock();
    let any = match socket.family {
        libc::AF_INET6 => IpAddr::from(Ipv6Addr::UNSPECIFIED),
        _ => Ipv4Addr::UNSPECIFIED.into(),
    };
    let local = if inner.local.is_empty() {
        vec![any]
    } else {
        inner.local.clone()
    };
    let with_port = |ip| SocketAddr::new(ip, inner.local_port);
    local.into_iter().map(with_port).collect()
}

/// getpeername(2) of a one-to-one socket.
pub(crate) fn peer_addr(socket: &SctpSocket) -> io::Result<SocketAddr> {
    let peer = socket.lock().peer;
    match (socket.style, socket.link.state()) {
        (Style::OneToOne, ConnState::Established) => peer.ok_or(Errno::NOTCONN.into()),
        _ => Err(Errno::NOTCONN.into()),
    }
}

/// sctp_getpaddrs: the addresses of an association's peer.
pub(crate) fn peer_addrs(socket: &Arc<SctpSocket>, number: i32) -> io::Result<Vec<SocketAddr>> {
    with_member(socket, number, |member| {
        let port = member.peer.port();
        let with_port = |ip: &IpAddr| SocketAddr::new(*ip, port);
        Ok(member.peer_addresses().iter().map(with_port).collect())
    })
}

/// The associations of a socket that a number stands for: one, or all of now.
pub(crate) fn numbers_meant(state: &PortState, socket: &Arc<SctpSocket>, number: i32) -> Vec<i32> {
    let own = socket.lock().association;
    match (socket.style, number) {
        (Style::OneToOne, _) => own.into_iter().collect(),
        (_, super::settings::CURRENT_ASSOC | super::settings::ALL_ASSOC) => {
            state.numbers_of(socket)
        }
        (_, super::settings::FUTURE_ASSOC) => Vec::new(),
        (_, number) => vec![number],
    }
}
