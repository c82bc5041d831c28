//! xti-udp: the kernel's UDP under XTI over STREAMS in the user's process.
//!
//! One system call a datagram, as with `udp`: what differs is the stream, its queues and when a datagram
//! leaves.

use super::xti_words::{self, StreamWords};
use crate::connection_info;
use crate::contract::{
    BLOCKING_TIMEOUT, Circuit, Class, ConnectionInfo, Interest, LentArrival, Listener,
    NoConnectionInfo, Note, OptionHelp, Part, Reach, Rendezvous, Reserved, Transport, Unavailable,
};
use crate::options::Options;
use crate::transport::udp;
use crate::{parts, socket, source_filter};
use socket2::Socket;
use std::collections::BTreeMap;
use std::io;
use std::net::SocketAddr;
use std::os::fd::{AsFd, BorrowedFd};
use std::sync::Arc;
use std::time::{Duration, Instant};
use xti::{Look, TliError, XtiEndpoint, XtiReceived, inet};

/// The transport.
#[derive(Debug)]
pub struct XtiUdp;

impl Transport for XtiUdp {
    fn name(&self) -> &'static str {
        "xti-udp"
    }

    fn summary(&self) -> &'static str {
        "kernel UDP under XTI over STREAMS, with queues and deferred service procedures"
    }

    fn class(&self) -> Class {
        udp::CLASS
    }

    fn available(&self, _options: &Options) -> Result<(), Unavailable> {
        Ok(())
    }

    fn options(&self) -> &[OptionHelp] {
        &xti_words::OF_STREAMS
    }

    fn check_options(&self, own: &BTreeMap<String, String>) -> Result<(), String> {
        words(own).map(|_| ())
    }

    fn listen(&self, options: &Options) -> io::Result<Box<dyn Listener>> {
        let mut listener = XtiUdpListener {
            ends: Vec::new(),
            addresses: Vec::new(),
            accepted: 0,
        };
        for _ in 0..options.circuits.max(1) {
            let (end, address) = bind(options, SocketAddr::new(options.bind_address(), 0))?;
            listener.ends.push(Arc::new(end));
            listener.addresses.push(socket::encode_address(address));
        }
        Ok(Box::new(listener))
    }

    fn connect(
        &self,
        rendezvous: &Rendezvous,
        index: usize,
        options: &Options,
    ) -> io::Result<Box<dyn Circuit>> {
        let line = socket::rendezvous_entry(&rendezvous.bytes, index)?;
        let peer = socket::decode_address(line)?;
        let (end, _) = bind(options, socket::wildcard_address(&peer))?;
        let mut circuit = XtiUdpCircuit::new(Arc::new(end));
        circuit.peer = inet::encode(peer);
        Ok(Box::new(circuit))
    }
}

fn words(own: &BTreeMap<String, String>) -> Result<StreamWords, String> {
    StreamWords::parse("xti-udp", &xti_words::OF_STREAMS, own)
}

/// An endpoint at an address, and the address it got.
fn bind(options: &Options, address: SocketAddr) -> io::Result<(XtiEndpoint, SocketAddr)> {
    let words = words(&options.transport_specific).map_err(crate::options::invalid)?;
    let of_socket = options.clone();
    let setup = move |socket: &Socket| {
        socket::set_buffers(socket, of_socket.buffers);
        source_filter::attach(socket.as_fd(), of_socket.only_from)
    };
    let end = XtiEndpoint::open_udp(Arc::new(setup), words.stream)?;
    let bound = end.bind(&inet::encode(address), 0)?;
    let bound = inet::decode(&bound.address).ok_or(io::ErrorKind::AddrNotAvailable)?;
    Ok((end, bound))
}

struct XtiUdpListener {
    ends: Vec<Arc<XtiEndpoint>>,
    addresses: Vec<Vec<u8>>,
    accepted: usize,
}

impl Listener for XtiUdpListener {
    fn rendezvous(&self) -> io::Result<Rendezvous> {
        Ok(Rendezvous {
            reach: Reach::Network,
            bytes: self.addresses.join(&b'\n'),
            descriptors: Vec::new(),
        })
    }

    fn accept(&mut self, _deadline: Instant) -> io::Result<Box<dyn Circuit>> {
        let end = Arc::clone(&self.ends[self.accepted % self.ends.len()]);
        self.accepted += 1;
        Ok(Box::new(XtiUdpCircuit::new(end)))
    }
}

struct XtiUdpCircuit {
    end: Arc<XtiEndpoint>,
    /// Where datagrams go: empty until the first one came.
    peer: Vec<u8>,
    /// Source of the last datagram.
    source: Vec<u8>,
    /// The rest of a datagram waits in the endpoint.
    has_rest: bool,
}

impl XtiUdpCircuit {
    fn new(end: Arc<XtiEndpoint>) -> XtiUdpCircuit {
        XtiUdpCircuit {
            end,
            peer: Vec::new(),
            source: Vec::new(),
            has_rest: false,
        }
    }

    #[inline]
    fn transmit(&self, message: &[u8], limit: Option<Duration>) -> io::Result<()> {
        if self.peer.is_empty() {
            return Err(io::ErrorKind::NotConnected.into());
        }
        let sent = match limit {
            Some(limit) => self.end.send_datagram(&self.peer, message, limit),
            None => self.end.try_send_datagram(&self.peer, message),
        };
        sent.map_err(|error| self.send_error(error, message.len()))
    }

    #[cold]
    fn send_error(&self, error: xti::Error, len: usize) -> io::Error {
        match (error.tli, self.end.receive_datagram_error()) {
            (TliError::BadData, _) => {
                let text = format!(
                    "a message of {len} bytes is larger than 65507 bytes, the largest UDP datagram; \
                     send smaller messages or use a stream transport"
                );
                io::Error::new(io::ErrorKind::InvalidInput, text)
            }
            (TliError::Look, Ok(failure)) => io::Error::from_raw_os_error(failure.errno),
            _ => error.into(),
        }
    }

    /// The next part of a datagram; the source of the first becomes the peer.
    fn receive_once(&mut self, buffer: &mut [u8], block: bool) -> io::Result<XtiReceived> {
        let source = &mut self.source;
        let received = match block {
            true => self.end.receive_datagram(buffer, source, BLOCKING_TIMEOUT),
            false => self.end.try_receive_datagram(buffer, source),
        };
        let received = received.map_err(|error| match error.tli {
            TliError::Look => self.send_error(error, 0),
            _ => error.into(),
        })?;
        if self.peer.is_empty() {
            self.peer.clone_from(&self.source);
        }
        self.has_rest = received.more;
        Ok(received)
    }

    /// One datagram, or what is left of one; what exceeds the buffer is dropped.
    fn receive(&mut self, buffer: &mut [u8], block: bool) -> io::Result<Option<usize>> {
        let received = self.receive_once(buffer, block)?;
        let mut dropped = [0; 2048];
        while self.has_rest {
            self.receive_once(&mut dropped, false)?;
        }
        Ok(Some(received.len))
    }
}

impl Circuit for XtiUdpCircuit {
    #[inline]
    fn try_send(&mut self, message: &[u8]) -> io::Result<()> {
        self.transmit(message, None)
    }

    fn try_recv(&mut self, buffer: &mut [u8]) -> io::Result<Option<usize>> {
        self.receive(buffer, false)
    }

    #[inline]
    fn send(&mut self, message: &[u8]) -> io::Result<()> {
        self.transmit(message, Some(BLOCKING_TIMEOUT))
    }

    fn recv(&mut self, buffer: &mut [u8]) -> io::Result<Option<usize>> {
        self.receive(buffer, true)
    }

    fn send_noted(&mut self, message: &[u8], note: &Note) -> io::Result<()> {
        parts::check_plain(note)?;
        self.send(message)
    }

    fn receive_part(&mut self, buffer: &mut [u8]) -> io::Result<Option<Part>> {
        let received = self.receive_once(buffer, true)?;
        Ok(Some(Part {
            len: received.len,
            end: !received.more,
            note: Note::default(),
        }))
    }

    fn reserve(&mut self, _len: usize) -> io::Result<Reserved<'_>> {
        parts::no_reservation()
    }

    fn commit(&mut self, _note: &Note) -> io::Result<()> {
        parts::no_commit()
    }

    fn take_arrival(&mut self) -> io::Result<Option<LentArrival<'_>>> {
        parts::no_arrival()
    }

    fn flush(&mut self) -> io::Result<()> {
        Ok(self.end.flush(BLOCKING_TIMEOUT)?)
    }

    fn finish(&mut self) -> io::Result<()> {
        self.flush()
    }

    fn wait(&mut self, interest: Interest, deadline: Instant) -> io::Result<()> {
        self.end.run();
        // A look takes what the socket has into the stream, where the socket no longer shows it.
        let readable = self.has_rest || matches!(self.end.look(), Some(Look::Data));
        if interest == Interest::Read && readable {
            return Ok(());
        }
        match self.end.socket() {
            Some(socket) => socket::wait(socket.as_fd(), interest, deadline),
            None => Ok(()),
        }
    }

    fn descriptor(&self) -> Option<BorrowedFd<'_>> {
        None
    }

    fn connection_info(&self) -> Result<ConnectionInfo, NoConnectionInfo> {
        Err(connection_info::NO_CONNECTION)
    }

    fn effective(&self) -> BTreeMap<String, String> {
        let mut effective = BTreeMap::new();
        if let Some(socket) = self.end.socket() {
            socket::read_buffer_sizes(socket.as_fd(), &mut effective);
        }
        xti_words::effective(&self.end, &mut effective);
        effective
    }

    fn counts(&self) -> BTreeMap<String, u64> {
        let mut counts = xti_words::counts(&self.end);
        let drops = |socket: Arc<Socket>| wire_udp::sys::receive_drops(socket.as_fd()).ok();
        if let Some(drops) = self.end.socket().and_then(drops) {
            counts.insert("receive_drops".into(), drops);
        }
        counts
    }
}
