//! Circuits on endpoints of datagrams under XTI: of the kernel's UDP, of the loop-back, of drivers over raw IP.

use super::xti_words;
use crate::connection_info;
use crate::contract::{
    BLOCKING_TIMEOUT, Circuit, CircuitResult, ConnectionInfo, Interest, Listener, NoConnectionInfo,
    Part, Reach, Rendezvous,
};
use crate::{parts, socket};
use socket2::Socket;
use std::collections::BTreeMap;
use std::io;
use std::os::fd::{AsFd, BorrowedFd};
use std::sync::Arc;
use std::time::Instant;
use xti::{Look, TliError, XtiEndpoint, XtiReceived};

/// Endpoints that wait for their peers, one a circuit.
pub(super) struct DatagramEnds {
    reach: Reach,
    ends: Vec<Arc<XtiEndpoint>>,
    addresses: Vec<Vec<u8>>,
    accepted: usize,
}

impl DatagramEnds {
    pub(super) fn new(reach: Reach) -> DatagramEnds {
        DatagramEnds {
            reach,
            ends: Vec::new(),
            addresses: Vec::new(),
            accepted: 0,
        }
    }

    /// Adds an endpoint, and its line of the rendezvous.
    pub(super) fn add(&mut self, end: XtiEndpoint, line: Vec<u8>) {
        self.ends.push(Arc::new(end));
        self.addresses.push(line);
    }
}

impl Listener for DatagramEnds {
    fn rendezvous(&self) -> io::Result<Rendezvous> {
        Ok(Rendezvous {
            reach: self.reach,
            bytes: self.addresses.join(&b'\n'),
            descriptors: Vec::new(),
        })
    }

    fn accept(&mut self, _deadline: Instant) -> CircuitResult {
        let end = Arc::clone(&self.ends[self.accepted % self.ends.len()]);
        self.accepted += 1;
        Ok(Box::new(DatagramCircuit::new(end, Vec::new())))
    }
}

/// One end of a circuit.
pub(super) struct DatagramCircuit {
    end: Arc<XtiEndpoint>,
    /// Where datagrams go: empty until the first one came.
    peer: Vec<u8>,
    /// Source of the last datagram.
    source: Vec<u8>,
    /// The rest of a datagram waits in the endpoint.
    has_rest: bool,
}

impl DatagramCircuit {
    /// A circuit to `peer`; empty: the source of the first datagram.
    pub(super) fn new(end: Arc<XtiEndpoint>, peer: Vec<u8>) -> DatagramCircuit {
        DatagramCircuit {
            end,
            peer,
            source: Vec::new(),
            has_rest: false,
        }
    }

    #[inline]
    fn transmit(&self, message: &[u8], waits: bool) -> io::Result<()> {
        if self.peer.is_empty() {
            return Err(io::ErrorKind::NotConnected.into());
        }
        let sent = match waits {
            true => (self.end).send_datagram(&self.peer, message, BLOCKING_TIMEOUT),
            false => self.end.try_send_datagram(&self.peer, message),
        };
        sent.map_err(|error| self.send_error(error, message.len()))
    }

    #[cold]
    fn send_error(&self, error: xti::Error, len: usize) -> io::Error {
        match (error.tli, self.end.receive_datagram_error()) {
            (TliError::BadData, _) => {
                let longest = self.end.information().tsdu;
                let text = format!(
                    "a message of {len} bytes is larger than {longest} bytes, the largest datagram here; \
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

impl Circuit for DatagramCircuit {
    parts::blocks_by_flag! { transmit, receive }

    parts::carries_no_notes! {}

    fn receive_part(&mut self, buffer: &mut [u8]) -> io::Result<Option<Part>> {
        self.receive_once(buffer, true).map(xti_words::part)
    }

    parts::lends_nothing! {}

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
        let limit = deadline.saturating_duration_since(Instant::now());
        Ok(self.end.wait(interest == Interest::Write, limit)?)
    }

    fn descriptor(&self) -> Option<BorrowedFd<'_>> {
        None
    }

    fn connection_info(&self) -> Result<ConnectionInfo, NoConnectionInfo> {
        Err(connection_info::NO_CONNECTION)
    }

    fn effective(&self) -> BTreeMap<String, String> {
        let mut effective = BTreeMap::new();
        match (self.end.ring_octets(), self.end.socket()) {
            (Some(octets), _) => xti_words::ring_sizes(octets, &mut effective),
            (None, Some(socket)) => effective.extend(socket::buffer_sizes(socket.as_fd())),
            (None, None) => {}
        }
        xti_words::effective(&self.end, &mut effective);
        effective
    }

    fn counts(&self) -> BTreeMap<String, u64> {
        let mut counts = xti_words::counts(&self.end);
        let drops = |socket: Arc<Socket>| wire_udp::sys::receive_drops(socket.as_fd()).ok();
        let socket = self
            .end
            .socket()
            .filter(|_| self.end.ring_octets().is_none());
        parts::add_receive_drops(socket.and_then(drops), &mut counts);
        let malformed = self.end.malformed_datagrams();
        if malformed > 0 {
            counts.insert("malformed".into(), malformed);
        }
        counts
    }

    crate::usual_circuit! { send_run send_shared_run recv_run next_deadline }
}
