//! Circuits of `xti-udp,streams=off`: the functions of XTI straight on sockets, as a compatibility library has them.

use super::xti_words;
use crate::contract::{Circuit, CircuitResult, Interest, Listener, Part, Reach, Rendezvous};
use crate::options::Options;
use crate::{parts, socket};
use std::collections::BTreeMap;
use std::io;
use std::net::SocketAddr;
use std::os::fd::AsFd;
use std::time::Instant;
use xti::inet::{self, Setup};
use xti::sockets::DatagramSocketEndpoint;
use xti::{TliError, XtiReceived};

/// Endpoints that wait for their peers, one a circuit.
struct SocketEnds {
    ends: Vec<DatagramSocketEndpoint>,
    lines: Vec<Vec<u8>>,
}

/// An endpoint for each circuit, at free ports.
pub(super) fn listen(setup: Setup, options: &Options) -> io::Result<Box<dyn Listener>> {
    let mut ends = SocketEnds {
        ends: Vec::new(),
        lines: Vec::new(),
    };
    for _ in 0..options.circuits.max(1) {
        let address = SocketAddr::new(options.bind_address(), 0);
        let (end, bound) = bind(&setup, address, options)?;
        ends.ends.push(end);
        ends.lines.push(socket::encode_address(bound));
    }
    // Taken from the end.
    ends.ends.reverse();
    Ok(Box::new(ends))
}

/// A circuit to an address.
pub(super) fn connect(setup: Setup, peer: SocketAddr, options: &Options) -> CircuitResult {
    let (end, _) = bind(&setup, socket::wildcard_address(&peer), options)?;
    Ok(Box::new(SocketCircuit::new(end, inet::encode(peer))))
}

fn bind(
    setup: &Setup,
    address: SocketAddr,
    options: &Options,
) -> io::Result<(DatagramSocketEndpoint, SocketAddr)> {
    let mut end = DatagramSocketEndpoint::open(Setup::clone(setup));
    let bound = end.bind(&inet::encode(address))?;
    if let Some(socket) = end.socket() {
        socket::set_blocking_timeout(socket, options.blocking_timeout)?;
    }
    let bound = inet::decode(&bound.address).ok_or(io::ErrorKind::AddrNotAvailable)?;
    Ok((end, bound))
}

impl Listener for SocketEnds {
    fn rendezvous(&self) -> io::Result<Rendezvous> {
        Ok(Rendezvous::new(Reach::Network, self.lines.join(&b'\n')))
    }

    fn accept(&mut self, _deadline: Instant) -> CircuitResult {
        let end = self.ends.pop().ok_or(io::ErrorKind::NotConnected)?;
        Ok(Box::new(SocketCircuit::new(end, Vec::new())))
    }
}

struct SocketCircuit {
    end: DatagramSocketEndpoint,
    /// Where datagrams go: empty until the first one came.
    peer: Vec<u8>,
    /// Source of the last datagram.
    source: Vec<u8>,
    /// The rest of a datagram waits in the endpoint.
    has_rest: bool,
}

impl SocketCircuit {
    fn new(end: DatagramSocketEndpoint, peer: Vec<u8>) -> SocketCircuit {
        SocketCircuit {
            end,
            peer,
            source: Vec::new(),
            has_rest: false,
        }
    }

    #[inline]
    fn transmit(&mut self, message: &[u8], waits: bool) -> io::Result<()> {
        if self.peer.is_empty() {
            return Err(io::ErrorKind::NotConnected.into());
        }
        let sent = match waits {
            true => self.end.send(&self.peer, message),
            false => self.end.try_send(&self.peer, message),
        };
        sent.map_err(|error| self.failed(error, message.len()))
    }

    #[cold]
    fn failed(&mut self, error: xti::Error, len: usize) -> io::Error {
        match (error.tli, self.end.receive_error()) {
            (TliError::BadData, _) => {
                let text = format!(
                    "a message of {len} bytes is larger than the largest datagram here; send smaller messages or use \
                     a stream transport"
                );
                io::Error::new(io::ErrorKind::InvalidInput, text)
            }
            (TliError::Look, Ok(errno)) => io::Error::from_raw_os_error(errno),
            _ => error.into(),
        }
    }

    /// The next part of a datagram; the source of the first becomes the peer.
    fn receive_once(&mut self, buffer: &mut [u8], waits: bool) -> io::Result<XtiReceived> {
        let received = match waits {
            true => self.end.receive(buffer, &mut self.source),
            false => self.end.try_receive(buffer, &mut self.source),
        };
        let received = received.map_err(|error| self.failed(error, 0))?;
        if self.peer.is_empty() {
            self.peer.clone_from(&self.source);
        }
        self.has_rest = received.more;
        Ok(received)
    }

    /// One datagram, or what is left of one; what exceeds the buffer is dropped.
    fn receive(&mut self, buffer: &mut [u8], waits: bool) -> io::Result<Option<usize>> {
        let received = self.receive_once(buffer, waits)?;
        let mut dropped = [0; 2048];
        while self.has_rest {
            self.receive_once(&mut dropped, false)?;
        }
        Ok(Some(received.len))
    }
}

impl Circuit for SocketCircuit {
    parts::blocks_by_flag! { transmit, receive }

    parts::carries_no_notes! {}

    fn receive_part(&mut self, buffer: &mut [u8]) -> io::Result<Option<Part>> {
        self.receive_once(buffer, true).map(xti_words::part)
    }

    parts::lends_nothing! {}

    fn wait(&mut self, interest: Interest, deadline: Instant) -> io::Result<()> {
        match self.end.socket() {
            Some(_) if interest == Interest::Read && self.has_rest => Ok(()),
            Some(socket) => socket::wait(socket.as_fd(), interest, deadline),
            None => Ok(()),
        }
    }

    parts::connectionless! {}

    fn effective(&self) -> BTreeMap<String, String> {
        let mut effective = BTreeMap::new();
        if let Some(socket) = self.end.socket() {
            effective.extend(socket::buffer_sizes(socket.as_fd()));
        }
        effective.insert("streams".into(), xti_words::on_off(false));
        effective
    }

    fn counts(&self) -> BTreeMap<String, u64> {
        let mut counts = parts::call_counts(self.end.system_calls());
        let drops = |socket: &socket2::Socket| wire_udp::sys::receive_drops(socket.as_fd()).ok();
        parts::add_receive_drops(self.end.socket().and_then(drops), &mut counts);
        counts
    }

    crate::usual_circuit! { send_run send_shared_run recv_run flush descriptor next_deadline }
}
