//! Shared by the datagram transports: sockets that know their peer, and their listener.

use crate::contract::{CircuitResult, Interest, Listener, Part, Reach, Rendezvous};
use crate::options::Options;
use crate::parts::{self, MessageRest};
use crate::socket;
use crate::source_filter;
use rustix::io::Errno;
use rustix::net::{RecvFlags, SendFlags, SocketAddrAny};
use socket2::{Domain, Protocol, SockAddr, Socket, Type};
use std::collections::BTreeMap;
use std::io;
use std::net::{IpAddr, SocketAddr};
use std::os::fd::{AsFd, BorrowedFd};
use std::time::Instant;

/// What distinguishes the datagram transports.
#[derive(Clone, Copy, Debug)]
pub(crate) struct SocketKind {
    /// Its address family.
    pub(crate) family: AddressFamily,
    /// Both ends connect their sockets, so that calls carry no address. The listening side connects
    /// on a peer's second datagram: a peer that sends only one leaves the socket unconnected.
    pub(crate) connected: bool,
    /// Sets the socket options of this transport.
    pub(crate) configure: fn(&Socket) -> io::Result<()>,
}

/// The address family of a datagram transport.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum AddressFamily {
    /// IPv4 or IPv6, with this protocol.
    Internet(Protocol),
    /// Unix sockets with abstract names.
    Unix,
}

/// [`SocketKind::configure`] of transports without socket options of their own.
pub(crate) fn configure_nothing(_socket: &Socket) -> io::Result<()> {
    Ok(())
}

/// Makes a transport's circuit from a socket.
pub(crate) type CircuitFactory = fn(DatagramSocket, &Options) -> CircuitResult;

/// A datagram socket and its peer.
#[derive(Debug)]
pub(crate) struct DatagramSocket {
    pub(crate) inner: Socket,
    connected: bool,
    peer: Peer,
    /// Receives need not check the source address any more.
    peer_is_final: bool,
    /// The listener uses the socket again, so it must be left unconnected.
    shared_with_listener: bool,
    pub(crate) call_counts: CallCounts,
    family: AddressFamily,
    /// What is left of a datagram received in parts.
    rest: MessageRest,
}

/// Longer datagrams do not exist on the Internet: their length has 16 bits.
const DATAGRAM_MAX: usize = u16::MAX as usize;

#[derive(Clone, Debug, PartialEq, Eq)]
enum Peer {
    Unknown,
    Addressed(SocketAddrAny),
    Connected,
}

/// System calls made on a socket.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct CallCounts {
    pub(crate) send: u64,
    pub(crate) receive: u64,
    /// Sends refused with ENOBUFS: the device queue was full.
    pub(crate) no_buffers: u64,
}

impl DatagramSocket {
    /// A socket for circuit `index` of `rendezvous`.
    pub(crate) fn connect(
        kind: &SocketKind,
        rendezvous: &Rendezvous,
        index: usize,
        options: &Options,
    ) -> io::Result<DatagramSocket> {
        let peer = decode_peer(kind.family, &rendezvous.bytes, index)?;
        let socket = new_socket(kind, peer.domain(), options)?;
        if kind.family == AddressFamily::Unix {
            // Bound to a name, so that the listener can reply.
            socket.bind(&SockAddr::unix(socket::unique_name("client"))?)?;
        }
        let peer = if kind.connected {
            socket.connect(&peer)?;
            Peer::Connected
        } else {
            let peer = peer.as_socket().ok_or(io::ErrorKind::AddrNotAvailable)?;
            Peer::Addressed(SocketAddrAny::from(peer))
        };
        Ok(DatagramSocket {
            inner: socket,
            connected: kind.connected,
            peer,
            peer_is_final: true,
            shared_with_listener: false,
            call_counts: CallCounts::default(),
            family: kind.family,
            rest: MessageRest::default(),
        })
    }

    /// Sends one datagram.
    #[inline]
    pub(crate) fn send(&mut self, message: &[u8], block: bool) -> io::Result<()> {
        self.call_counts.send += 1;
        match self.send_once(message, block) {
            Ok(_) => Ok(()),
            Err(errno) => self.retry_send(errno, message, block),
        }
    }

    #[inline]
    fn send_once(&self, message: &[u8], block: bool) -> Result<usize, Errno> {
        let flags = if block {
            SendFlags::NOSIGNAL
        } else {
            SendFlags::NOSIGNAL | SendFlags::DONTWAIT
        };
        match &self.peer {
            Peer::Connected => rustix::net::send(&self.inner, message, flags),
            Peer::Addressed(peer) => rustix::net::sendto(&self.inner, message, flags, peer),
            Peer::Unknown => Err(Errno::DESTADDRREQ),
        }
    }

    /// ECONNREFUSED reports an ICMP error for an earlier datagram; this one was not sent, so retry.
    #[cold]
    fn retry_send(&mut self, errno: Errno, message: &[u8], block: bool) -> io::Result<()> {
        let again = match errno {
            Errno::CONNREFUSED if self.is_internet() => self.send_once(message, block),
            other => Err(other),
        };
        again
            .map(drop)
            .map_err(|errno| self.send_error(errno, message.len()))
    }

    /// Turns an errno of a send into an error that names the remedy.
    #[cold]
    pub(crate) fn send_error(&mut self, errno: Errno, len: usize) -> io::Error {
        match errno {
            Errno::NOBUFS => {
                self.call_counts.no_buffers += 1;
                io::ErrorKind::WouldBlock.into()
            }
            Errno::MSGSIZE => message_too_large(len, &self.inner),
            Errno::DESTADDRREQ => io::Error::new(
                io::ErrorKind::NotConnected,
                "the peer's address is unknown until its first message arrives; let it send first",
            ),
            other => socket::to_io_error(other),
        }
    }

    /// Receives one datagram, or what is left of one that is received in parts.
    #[inline]
    pub(crate) fn recv(&mut self, buffer: &mut [u8], block: bool) -> io::Result<Option<usize>> {
        self.recv_datagram(buffer, block).map(Some)
    }

    /// As [`recv`](DatagramSocket::recv); there is no end.
    #[inline]
    pub(crate) fn recv_datagram(&mut self, buffer: &mut [u8], block: bool) -> io::Result<usize> {
        if !self.rest.is_empty() {
            return Ok(self.rest.take(buffer));
        }
        self.call_counts.receive += 1;
        if !self.peer_is_final {
            return self.recv_and_learn_peer(buffer, block);
        }
        let flags = recv_flags(block);
        match rustix::net::recv(&self.inner, &mut *buffer, flags) {
            Ok((len, _)) => Ok(len),
            Err(Errno::CONNREFUSED) if self.is_internet() => {
                Ok(rustix::net::recv(&self.inner, buffer, flags)?.0)
            }
            Err(errno) => Err(socket::to_io_error(errno)),
        }
    }

    /// Receives the next part of a datagram, blocking.
    pub(crate) fn recv_part(&mut self, buffer: &mut [u8]) -> io::Result<Part> {
        if !self.rest.is_empty() {
            return Ok(self.rest.next(buffer));
        }
        let longest = match self.family {
            AddressFamily::Internet(_) => DATAGRAM_MAX,
            AddressFamily::Unix => socket::message_len(self.inner.as_fd())?,
        };
        self.call_counts.receive += 1;
        let room = self.rest.room(longest.saturating_sub(buffer.len()));
        let received = match socket::recv_split(self.inner.as_fd(), buffer, room) {
            Err(Errno::CONNREFUSED) if self.family != AddressFamily::Unix => {
                socket::recv_split(self.inner.as_fd(), buffer, room)
            }
            received => received,
        };
        let (len, from) = received.map_err(socket::to_io_error)?;
        if let (false, Some(from)) = (self.peer_is_final, from) {
            self.learn_peer(from)?;
        }
        Ok(self.rest.keep(len, buffer.len()))
    }

    /// Whether a datagram is being received in parts.
    #[inline]
    pub(crate) fn has_rest(&self) -> bool {
        !self.rest.is_empty()
    }

    #[cold]
    fn recv_and_learn_peer(&mut self, buffer: &mut [u8], block: bool) -> io::Result<usize> {
        let (len, _, from) = rustix::net::recvfrom(&self.inner, buffer, recv_flags(block))?;
        if let Some(from) = from {
            self.learn_peer(from)?;
        }
        Ok(len)
    }

    /// Takes `from`, the source of a datagram, as the peer.
    pub(crate) fn learn_peer(&mut self, from: SocketAddrAny) -> io::Result<()> {
        let from = Peer::Addressed(from);
        if !self.connected {
            self.peer_is_final = true;
        } else if self.peer == from
            && let Peer::Addressed(address) = &from
        {
            rustix::net::connect(&self.inner, address)?;
            self.peer = Peer::Connected;
            self.peer_is_final = true;
            return Ok(());
        }
        self.peer = from;
        Ok(())
    }

    /// Whether the peer no longer changes, so that batched calls may be used.
    #[inline]
    pub(crate) fn has_final_peer(&self) -> bool {
        self.peer_is_final
    }

    /// Whether the socket is connected, so that sends need no address.
    #[inline]
    pub(crate) fn is_connected(&self) -> bool {
        self.peer == Peer::Connected
    }

    pub(crate) fn wait(&self, interest: Interest, deadline: Instant) -> io::Result<()> {
        if interest == Interest::Read && self.has_rest() {
            return Ok(());
        }
        socket::wait(self.inner.as_fd(), interest, deadline)
    }

    /// The socket; none has data in this process that it does not show.
    #[expect(clippy::unnecessary_wraps, reason = "as a circuit says it")]
    pub(crate) fn descriptor(&self) -> Option<BorrowedFd<'_>> {
        Some(self.inner.as_fd())
    }

    pub(crate) fn effective(&self) -> BTreeMap<String, String> {
        let mut effective = socket::buffer_sizes(self.inner.as_fd());
        let connected = if self.is_connected() { "yes" } else { "no" };
        effective.insert("connected".into(), connected.into());
        effective
    }

    pub(crate) fn counts(&self) -> BTreeMap<String, u64> {
        let calls = &self.call_counts;
        let mut counts = parts::call_counts((calls.send, calls.receive));
        counts.insert("no_buffers".into(), calls.no_buffers);
        let drops = wire_udp::sys::receive_drops(self.inner.as_fd());
        parts::add_receive_drops(drops.ok(), &mut counts);
        counts
    }

    fn is_internet(&self) -> bool {
        self.family != AddressFamily::Unix
    }
}

impl Drop for DatagramSocket {
    fn drop(&mut self) {
        if self.shared_with_listener && self.is_connected() {
            // The listener's next circuit must receive from other peers.
            let _ = rustix::net::connect_unspec(&self.inner);
        }
    }
}

fn recv_flags(block: bool) -> RecvFlags {
    if block {
        RecvFlags::empty()
    } else {
        RecvFlags::DONTWAIT
    }
}

#[cold]
fn message_too_large(len: usize, socket: &Socket) -> io::Error {
    let (limit, remedy) = match socket.domain() {
        Ok(Domain::UNIX) => (
            socket.send_buffer_size().unwrap_or(0),
            "the socket's send buffer; raise it with --buffers, or send smaller messages",
        ),
        Ok(Domain::IPV6) => (
            65_527,
            "the largest UDP datagram over IPv6; send smaller messages or use a stream transport",
        ),
        _ => (
            65_507,
            "the largest UDP datagram over IPv4; send smaller messages or use a stream transport",
        ),
    };
    io::Error::new(
        io::ErrorKind::InvalidInput,
        format!("a message of {len} bytes is larger than {limit} bytes, {remedy}"),
    )
}

fn new_socket(kind: &SocketKind, domain: Domain, options: &Options) -> io::Result<Socket> {
    let protocol = match kind.family {
        AddressFamily::Internet(protocol) => Some(protocol),
        AddressFamily::Unix => None,
    };
    let socket = Socket::new(domain, Type::DGRAM, protocol)?;
    socket::set_buffers(&socket, options.buffers);
    socket::set_blocking_timeout(&socket, options.blocking_timeout)?;
    if kind.family != AddressFamily::Unix {
        source_filter::attach(socket.as_fd(), options.only_from)?;
    }
    (kind.configure)(&socket)?;
    Ok(socket)
}

fn decode_peer(space: AddressFamily, bytes: &[u8], index: usize) -> io::Result<SockAddr> {
    let line = socket::rendezvous_entry(bytes, index)?;
    match space {
        AddressFamily::Internet(_) => Ok(socket::decode_address(line)?.into()),
        AddressFamily::Unix => socket::decode_name(line),
    }
}

/// The listening side of a datagram transport: one socket per circuit.
pub(crate) struct DatagramListener {
    kind: SocketKind,
    sockets: Vec<Socket>,
    addresses: Vec<Vec<u8>>,
    accepted: usize,
    options: Options,
    make_circuit: CircuitFactory,
}

impl DatagramListener {
    /// Binds `options.circuits` sockets.
    pub(crate) fn bind(
        kind: SocketKind,
        options: &Options,
        make_circuit: CircuitFactory,
    ) -> io::Result<Box<dyn Listener>> {
        let mut listener = DatagramListener {
            kind,
            sockets: Vec::new(),
            addresses: Vec::new(),
            accepted: 0,
            options: options.clone(),
            make_circuit,
        };
        for _ in 0..options.circuits.max(1) {
            listener.bind_socket()?;
        }
        Ok(Box::new(listener))
    }

    fn bind_socket(&mut self) -> io::Result<()> {
        let ip = self.options.bind_address();
        let (socket, address) = match self.kind.family {
            AddressFamily::Internet(_) => bind_internet(&self.kind, ip, &self.options)?,
            AddressFamily::Unix => bind_unix(&self.kind, &self.options)?,
        };
        self.sockets.push(socket);
        self.addresses.push(address);
        Ok(())
    }
}

fn bind_internet(
    kind: &SocketKind,
    ip: IpAddr,
    options: &Options,
) -> io::Result<(Socket, Vec<u8>)> {
    let address = SocketAddr::new(ip, 0);
    let socket = new_socket(kind, Domain::for_address(address), options)?;
    socket.bind(&address.into())?;
    let address = socket.local_addr()?.as_socket();
    let address = address.ok_or(io::ErrorKind::AddrNotAvailable)?;
    Ok((socket, socket::encode_address(address)))
}

fn bind_unix(kind: &SocketKind, options: &Options) -> io::Result<(Socket, Vec<u8>)> {
    let socket = new_socket(kind, Domain::UNIX, options)?;
    let name = socket::unique_name("server");
    socket.bind(&SockAddr::unix(&name)?)?;
    Ok((socket, socket::encode_name(&name)))
}

impl Listener for DatagramListener {
    fn rendezvous(&self) -> io::Result<Rendezvous> {
        Ok(Rendezvous {
            reach: match self.kind.family {
                AddressFamily::Internet(_) => Reach::Network,
                AddressFamily::Unix => Reach::Host,
            },
            bytes: self.addresses.join(&b'\n'),
            descriptors: Vec::new(),
        })
    }

    fn accept(&mut self, _deadline: Instant) -> CircuitResult {
        let socket = &self.sockets[self.accepted % self.sockets.len()];
        self.accepted += 1;
        let port = DatagramSocket {
            inner: socket.try_clone()?,
            connected: self.kind.connected,
            peer: Peer::Unknown,
            peer_is_final: false,
            shared_with_listener: true,
            call_counts: CallCounts::default(),
            family: self.kind.family,
            rest: MessageRest::default(),
        };
        (self.make_circuit)(port, &self.options)
    }
}
