//! tcp: the kernel's TCP, one call a message.

use crate::contract::{
    Circuit, Class, Interest, Listener, Reach, Rendezvous, Transport, Unavailable,
};
use crate::options::Options;
use crate::socket::{self, Rest};
use socket2::{Domain, Protocol, SockAddr, Socket, Type};
use std::collections::BTreeMap;
use std::io;
use std::net::SocketAddr;
use std::os::fd::{AsFd, BorrowedFd};
use std::time::Instant;

/// The transport.
#[derive(Debug)]
pub struct Tcp;

/// A listening TCP socket.
#[derive(Debug)]
pub(crate) struct TcpListening {
    socket: Socket,
    options: Options,
}

/// One end of a TCP connection.
#[derive(Debug)]
pub(crate) struct TcpCircuit {
    pub(crate) socket: Socket,
    rest: Rest,
    read_len: usize,
}

impl Transport for Tcp {
    fn name(&self) -> &'static str {
        "tcp"
    }

    fn summary(&self) -> &'static str {
        "kernel TCP, one send a message"
    }

    fn class(&self) -> Class {
        CLASS
    }

    fn available(&self, options: &Options) -> Result<(), Unavailable> {
        congestion_available(options)
    }

    fn listen(&self, options: &Options) -> io::Result<Box<dyn Listener>> {
        Ok(Box::new(TcpListening::bind(options, Protocol::TCP)?))
    }

    fn connect(
        &self,
        rendezvous: &Rendezvous,
        _index: usize,
        options: &Options,
    ) -> io::Result<Box<dyn Circuit>> {
        Ok(Box::new(TcpCircuit::connect(
            rendezvous,
            options,
            Protocol::TCP,
        )?))
    }
}

pub(crate) const CLASS: Class = Class {
    reliable: true,
    ordered: true,
    encrypted: false,
    stream: true,
    kernel: true,
    connectionless: false,
    connects: true,
    flow_control: true,
    reach: Reach::Network,
    checksum: "Internet, 16 bit",
    congestion: "as set, read back",
    offload: "segmentation and coalescing by the kernel",
};

/// Whether the kernel has the congestion control that `options` ask for.
pub(crate) fn congestion_available(options: &Options) -> Result<(), Unavailable> {
    let probe = Socket::new(Domain::IPV4, Type::STREAM, Some(Protocol::TCP));
    let set = probe.and_then(|socket| socket.set_tcp_congestion(options.congestion.as_bytes()));
    set.map_err(|error| Unavailable {
        reason: format!("congestion control '{}': {error}", options.congestion),
        remedy: "choose one of /proc/sys/net/ipv4/tcp_allowed_congestion_control with --congestion"
            .into(),
    })
}

fn new_socket(address: SocketAddr, options: &Options, protocol: Protocol) -> io::Result<Socket> {
    let socket = Socket::new(Domain::for_address(address), Type::STREAM, Some(protocol))?;
    socket.set_tcp_congestion(options.congestion.as_bytes())?;
    socket::set_buffers(&socket, options.buffers);
    if let Some(nodelay) = options.nodelay {
        socket.set_tcp_nodelay(nodelay)?;
    }
    socket::set_patience(&socket)?;
    Ok(socket)
}

impl TcpListening {
    pub(crate) fn bind(options: &Options, protocol: Protocol) -> io::Result<TcpListening> {
        let address = SocketAddr::new(options.bind_address(), 0);
        let socket = new_socket(address, options, protocol)?;
        socket.bind(&SockAddr::from(address))?;
        // Enough for a connect workload that the listener falls behind in for a moment.
        socket.listen(1024)?;
        Ok(TcpListening {
            socket,
            options: options.clone(),
        })
    }

    pub(crate) fn accept_circuit(&mut self, deadline: Instant) -> io::Result<TcpCircuit> {
        loop {
            match self.socket.accept() {
                Ok((socket, _)) => return TcpCircuit::accepted(socket, &self.options),
                Err(error) if error.kind() == io::ErrorKind::WouldBlock => {}
                Err(error) => return Err(error),
            }
            if Instant::now() >= deadline {
                return Err(io::Error::new(io::ErrorKind::TimedOut, "no peer connected"));
            }
        }
    }
}

impl Listener for TcpListening {
    fn rendezvous(&self) -> io::Result<Rendezvous> {
        let address = self.socket.local_addr()?.as_socket();
        let address = address.ok_or(io::ErrorKind::AddrNotAvailable)?;
        Ok(Rendezvous {
            reach: Reach::Network,
            bytes: socket::encode_address(address),
            descriptors: Vec::new(),
        })
    }

    fn accept(&mut self, deadline: Instant) -> io::Result<Box<dyn Circuit>> {
        Ok(Box::new(self.accept_circuit(deadline)?))
    }
}

impl TcpCircuit {
    pub(crate) fn connect(
        rendezvous: &Rendezvous,
        options: &Options,
        protocol: Protocol,
    ) -> io::Result<TcpCircuit> {
        let address = socket::decode_address(&rendezvous.bytes)?;
        let socket = new_socket(address, options, protocol)?;
        socket.connect(&SockAddr::from(address))?;
        Ok(TcpCircuit {
            socket,
            rest: Rest::default(),
            read_len: options.read_len,
        })
    }

    fn accepted(socket: Socket, options: &Options) -> io::Result<TcpCircuit> {
        socket.set_tcp_congestion(options.congestion.as_bytes())?;
        if let Some(nodelay) = options.nodelay {
            socket.set_tcp_nodelay(nodelay)?;
        }
        socket::set_patience(&socket)?;
        Ok(TcpCircuit {
            socket,
            rest: Rest::default(),
            read_len: options.read_len,
        })
    }

    #[inline]
    fn read(&mut self, buffer: &mut [u8], block: bool) -> io::Result<Option<usize>> {
        let len = buffer.len().min(self.read_len);
        let got = socket::recv(self.socket.as_fd(), &mut buffer[..len], block)?;
        Ok((got > 0 || len == 0).then_some(got))
    }
}

impl Circuit for TcpCircuit {
    #[inline]
    fn try_send(&mut self, message: &[u8]) -> io::Result<()> {
        self.rest.send(self.socket.as_fd(), message, false)
    }

    #[inline]
    fn try_recv(&mut self, buffer: &mut [u8]) -> io::Result<Option<usize>> {
        self.read(buffer, false)
    }

    #[inline]
    fn send(&mut self, message: &[u8]) -> io::Result<()> {
        self.rest.send(self.socket.as_fd(), message, true)
    }

    #[inline]
    fn recv(&mut self, buffer: &mut [u8]) -> io::Result<Option<usize>> {
        self.read(buffer, true)
    }

    fn flush(&mut self) -> io::Result<()> {
        self.rest.push(self.socket.as_fd(), true)
    }

    fn finish(&mut self) -> io::Result<()> {
        self.flush()?;
        self.socket.shutdown(std::net::Shutdown::Write)
    }

    fn wait(&mut self, interest: Interest, deadline: Instant) -> io::Result<()> {
        socket::wait(self.socket.as_fd(), interest, deadline)
    }

    fn descriptor(&self) -> Option<BorrowedFd<'_>> {
        Some(self.socket.as_fd())
    }

    fn effective(&self) -> BTreeMap<String, String> {
        let mut effective = BTreeMap::new();
        socket::effective_buffers(self.socket.as_fd(), &mut effective);
        if let Ok(name) = self.socket.tcp_congestion() {
            let name = String::from_utf8_lossy(&name);
            effective.insert("congestion".into(), name.trim_end_matches('\0').to_owned());
        }
        if let Ok(nodelay) = self.socket.tcp_nodelay() {
            effective.insert("nodelay".into(), nodelay.to_string());
        }
        effective.insert("read_len".into(), self.read_len.to_string());
        effective
    }
}
