//! What the datagram transports share: ports that know their peer, and how to find them.

use crate::contract::{Circuit, Interest, Listener, Reach, Rendezvous};
use crate::doorkeeper::hear_only;
use crate::options::Options;
use crate::socket;
use rustix::io::Errno;
use rustix::net::{RecvFlags, SendFlags, SocketAddrAny};
use socket2::{Domain, Protocol, SockAddr, Socket, Type};
use std::collections::BTreeMap;
use std::io;
use std::net::{IpAddr, SocketAddr};
use std::os::fd::{AsFd, BorrowedFd};
use std::time::Instant;

/// In what datagram transports differ.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Flavour {
    /// Where its ports live.
    pub(crate) space: Space,
    /// Both ends connect their sockets, so that calls name no address. The listening side does so
    /// when one peer has sent twice: a peer that asks once and goes leaves the socket as it was.
    pub(crate) connected: bool,
    /// Sets what is special about a new socket.
    pub(crate) prepare: fn(&Socket) -> io::Result<()>,
}

/// Where ports live.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Space {
    /// Internet addresses, spoken to by this protocol.
    Internet(Protocol),
    /// Abstract names of this host.
    Unix,
}

/// Nothing is special.
pub(crate) fn plain(_socket: &Socket) -> io::Result<()> {
    Ok(())
}

/// Makes a circuit of a port; what a transport adds to it.
pub(crate) type Dress = fn(Port, &Options) -> io::Result<Box<dyn Circuit>>;

/// A datagram socket and its peer.
#[derive(Debug)]
pub(crate) struct Port {
    pub(crate) socket: Socket,
    connected: bool,
    peer: Peer,
    /// Receives need not look at the sender any more.
    settled: bool,
    /// The socket is the listener's too, so it must be left as it was found.
    shared: bool,
    pub(crate) calls: Calls,
}

#[derive(Clone, Debug, PartialEq, Eq)]
enum Peer {
    Unknown,
    At(SocketAddrAny),
    Connected,
}

/// Calls of a port, as evidence.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct Calls {
    pub(crate) send: u64,
    pub(crate) receive: u64,
    /// Sends a device queue had no room for.
    pub(crate) no_buffers: u64,
}

impl Port {
    /// A port that speaks to listener port `index` of `rendezvous`.
    pub(crate) fn connect(
        flavour: &Flavour,
        rendezvous: &Rendezvous,
        index: usize,
        options: &Options,
    ) -> io::Result<Port> {
        let peer = decode_peer(flavour.space, &rendezvous.bytes, index)?;
        let socket = new_socket(flavour, peer.domain(), options)?;
        if flavour.space == Space::Unix {
            // A name of its own, so that the listener can answer.
            socket.bind(&SockAddr::unix(socket::unique_name("client"))?)?;
        }
        let peer = if flavour.connected {
            socket.connect(&peer)?;
            Peer::Connected
        } else {
            let peer = peer.as_socket().ok_or(io::ErrorKind::AddrNotAvailable)?;
            Peer::At(SocketAddrAny::from(peer))
        };
        Ok(Port {
            socket,
            connected: flavour.connected,
            peer,
            settled: true,
            shared: false,
            calls: Calls::default(),
        })
    }

    /// Sends one datagram.
    #[inline]
    pub(crate) fn send(&mut self, message: &[u8], block: bool) -> io::Result<()> {
        self.calls.send += 1;
        match self.send_once(message, block) {
            Ok(_) => Ok(()),
            Err(errno) => self.send_again(errno, message, block),
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
            Peer::Connected => rustix::net::send(&self.socket, message, flags),
            Peer::At(peer) => rustix::net::sendto(&self.socket, message, flags, peer),
            Peer::Unknown => Err(Errno::DESTADDRREQ),
        }
    }

    /// A refusal is the answer to an earlier datagram, so this one gets its own chance.
    #[cold]
    fn send_again(&mut self, errno: Errno, message: &[u8], block: bool) -> io::Result<()> {
        let again = match errno {
            Errno::CONNREFUSED if self.is_internet() => self.send_once(message, block),
            other => Err(other),
        };
        again
            .map(drop)
            .map_err(|errno| self.send_error(errno, message.len()))
    }

    /// What an error of a send means, and its remedy.
    #[cold]
    pub(crate) fn send_error(&mut self, errno: Errno, len: usize) -> io::Error {
        match errno {
            Errno::NOBUFS => {
                self.calls.no_buffers += 1;
                io::ErrorKind::WouldBlock.into()
            }
            Errno::MSGSIZE => too_large(len, &self.socket),
            Errno::DESTADDRREQ => io::Error::new(
                io::ErrorKind::NotConnected,
                "no message has arrived yet that told where the peer is; let it send first",
            ),
            other => socket::error_of(other),
        }
    }

    /// Receives one datagram.
    #[inline]
    pub(crate) fn recv(&mut self, buffer: &mut [u8], block: bool) -> io::Result<usize> {
        self.calls.receive += 1;
        if !self.settled {
            return self.recv_and_learn(buffer, block);
        }
        let flags = recv_flags(block);
        match rustix::net::recv(&self.socket, &mut *buffer, flags) {
            Ok((len, _)) => Ok(len),
            Err(Errno::CONNREFUSED) if self.is_internet() => {
                Ok(rustix::net::recv(&self.socket, buffer, flags)?.0)
            }
            Err(errno) => Err(socket::error_of(errno)),
        }
    }

    #[cold]
    fn recv_and_learn(&mut self, buffer: &mut [u8], block: bool) -> io::Result<usize> {
        let (len, _, from) = rustix::net::recvfrom(&self.socket, buffer, recv_flags(block))?;
        if let Some(from) = from {
            self.learn(from)?;
        }
        Ok(len)
    }

    /// Hears that `from` sent a datagram.
    pub(crate) fn learn(&mut self, from: SocketAddrAny) -> io::Result<()> {
        let from = Peer::At(from);
        if !self.connected {
            self.settled = true;
        } else if self.peer == from
            && let Peer::At(address) = &from
        {
            rustix::net::connect(&self.socket, address)?;
            self.peer = Peer::Connected;
            self.settled = true;
            return Ok(());
        }
        self.peer = from;
        Ok(())
    }

    /// Whether the peer is known for good: from then on batched calls may be used.
    #[inline]
    pub(crate) fn is_settled(&self) -> bool {
        self.settled
    }

    /// Whether sends need no address.
    #[inline]
    pub(crate) fn is_connected(&self) -> bool {
        self.peer == Peer::Connected
    }

    pub(crate) fn wait(&self, interest: Interest, deadline: Instant) -> io::Result<()> {
        socket::wait(self.socket.as_fd(), interest, deadline)
    }

    pub(crate) fn effective(&self) -> BTreeMap<String, String> {
        let mut effective = BTreeMap::new();
        socket::effective_buffers(self.socket.as_fd(), &mut effective);
        let connected = if self.is_connected() { "yes" } else { "no" };
        effective.insert("connected".into(), connected.into());
        effective
    }

    pub(crate) fn counts(&self) -> BTreeMap<String, u64> {
        let mut counts = BTreeMap::new();
        counts.insert("send_calls".into(), self.calls.send);
        counts.insert("receive_calls".into(), self.calls.receive);
        counts.insert("no_buffers".into(), self.calls.no_buffers);
        if let Ok(drops) = wire_udp::sys::receive_drops(self.socket.as_fd()) {
            counts.insert("receive_drops".into(), drops);
        }
        counts
    }

    fn is_internet(&self) -> bool {
        !matches!(self.socket.domain(), Ok(Domain::UNIX))
    }
}

impl Drop for Port {
    fn drop(&mut self) {
        if self.shared && self.is_connected() {
            // The next circuit of this listener must hear other peers.
            let _ = rustix::net::connect_unspec(&self.socket);
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
fn too_large(len: usize, socket: &Socket) -> io::Error {
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

fn new_socket(flavour: &Flavour, domain: Domain, options: &Options) -> io::Result<Socket> {
    let protocol = match flavour.space {
        Space::Internet(protocol) => Some(protocol),
        Space::Unix => None,
    };
    let socket = Socket::new(domain, Type::DGRAM, protocol)?;
    socket::set_buffers(&socket, options.buffers);
    socket::set_patience(&socket, options.patience)?;
    if flavour.space != Space::Unix {
        hear_only(socket.as_fd(), options.only_from)?;
    }
    (flavour.prepare)(&socket)?;
    Ok(socket)
}

fn decode_peer(space: Space, bytes: &[u8], index: usize) -> io::Result<SockAddr> {
    let line = socket::line(bytes, index)?;
    match space {
        Space::Internet(_) => Ok(socket::decode_address(line)?.into()),
        Space::Unix => socket::decode_name(line),
    }
}

/// The listening side of a datagram transport: a port for each circuit it prepares for.
pub(crate) struct Listening {
    flavour: &'static Flavour,
    sockets: Vec<Socket>,
    addresses: Vec<Vec<u8>>,
    accepted: usize,
    options: Options,
    dress: Dress,
}

impl Listening {
    /// Binds `options.circuits` ports.
    pub(crate) fn bind(
        flavour: &'static Flavour,
        options: &Options,
        dress: Dress,
    ) -> io::Result<Box<dyn Listener>> {
        let mut listening = Listening {
            flavour,
            sockets: Vec::new(),
            addresses: Vec::new(),
            accepted: 0,
            options: options.clone(),
            dress,
        };
        for _ in 0..options.circuits.max(1) {
            listening.add()?;
        }
        Ok(Box::new(listening))
    }

    fn add(&mut self) -> io::Result<()> {
        let ip = self.options.bind_address();
        let (socket, address) = match self.flavour.space {
            Space::Internet(_) => bind_internet(self.flavour, ip, &self.options)?,
            Space::Unix => bind_unix(self.flavour, &self.options)?,
        };
        self.sockets.push(socket);
        self.addresses.push(address);
        Ok(())
    }
}

fn bind_internet(
    flavour: &Flavour,
    ip: IpAddr,
    options: &Options,
) -> io::Result<(Socket, Vec<u8>)> {
    let address = SocketAddr::new(ip, 0);
    let socket = new_socket(flavour, Domain::for_address(address), options)?;
    socket.bind(&address.into())?;
    let address = socket.local_addr()?.as_socket();
    let address = address.ok_or(io::ErrorKind::AddrNotAvailable)?;
    Ok((socket, socket::encode_address(address)))
}

fn bind_unix(flavour: &Flavour, options: &Options) -> io::Result<(Socket, Vec<u8>)> {
    let socket = new_socket(flavour, Domain::UNIX, options)?;
    let name = socket::unique_name("server");
    socket.bind(&SockAddr::unix(&name)?)?;
    Ok((socket, socket::encode_name(&name)))
}

impl Listener for Listening {
    fn rendezvous(&self) -> io::Result<Rendezvous> {
        Ok(Rendezvous {
            reach: match self.flavour.space {
                Space::Internet(_) => Reach::Network,
                Space::Unix => Reach::Host,
            },
            bytes: self.addresses.join(&b'\n'),
            descriptors: Vec::new(),
        })
    }

    fn accept(&mut self, _deadline: Instant) -> io::Result<Box<dyn Circuit>> {
        let socket = &self.sockets[self.accepted % self.sockets.len()];
        self.accepted += 1;
        let port = Port {
            socket: socket.try_clone()?,
            connected: self.flavour.connected,
            peer: Peer::Unknown,
            settled: false,
            shared: true,
            calls: Calls::default(),
        };
        (self.dress)(port, &self.options)
    }
}

/// A circuit with one call a message.
#[derive(Debug)]
pub(crate) struct PlainCircuit {
    port: Port,
    more: &'static [(&'static str, &'static str)],
}

impl PlainCircuit {
    /// Dresses a port; `more` is said in the effective options.
    pub(crate) fn new(port: Port, more: &'static [(&'static str, &'static str)]) -> Self {
        PlainCircuit { port, more }
    }
}

/// The circuit of transports that add nothing.
pub(crate) fn dress_plain(port: Port, _options: &Options) -> io::Result<Box<dyn Circuit>> {
    Ok(Box::new(PlainCircuit::new(port, &[])))
}

impl Circuit for PlainCircuit {
    #[inline]
    fn try_send(&mut self, message: &[u8]) -> io::Result<()> {
        self.port.send(message, false)
    }

    #[inline]
    fn try_recv(&mut self, buffer: &mut [u8]) -> io::Result<Option<usize>> {
        self.port.recv(buffer, false).map(Some)
    }

    #[inline]
    fn send(&mut self, message: &[u8]) -> io::Result<()> {
        self.port.send(message, true)
    }

    #[inline]
    fn recv(&mut self, buffer: &mut [u8]) -> io::Result<Option<usize>> {
        self.port.recv(buffer, true).map(Some)
    }

    fn finish(&mut self) -> io::Result<()> {
        Ok(())
    }

    fn wait(&mut self, interest: Interest, deadline: Instant) -> io::Result<()> {
        self.port.wait(interest, deadline)
    }

    fn descriptor(&self) -> Option<BorrowedFd<'_>> {
        Some(self.port.socket.as_fd())
    }

    fn effective(&self) -> BTreeMap<String, String> {
        let mut effective = self.port.effective();
        for (name, value) in self.more {
            effective.insert((*name).into(), (*value).into());
        }
        effective
    }

    fn counts(&self) -> BTreeMap<String, u64> {
        self.port.counts()
    }
}
