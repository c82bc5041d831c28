//! A socket, the library's endpoint, and the connections on them.

use crate::options::Options;
use crate::source_filter;
use bytes::BytesMut;
use quinn_proto::{
    ClientConfig, Connection, ConnectionError, ConnectionHandle, DatagramEvent, Endpoint,
    EndpointConfig, Event, Incoming, ServerConfig, StreamEvent, Transmit,
};
use std::collections::VecDeque;
use std::io::{self, IoSlice};
use std::net::{SocketAddr, UdpSocket};
use std::os::fd::AsFd;
use std::sync::Arc;
use std::time::Instant;
use wire_udp::{BUFFER_LEN, UDP_PAYLOAD_MAX, sys};

/// Datagrams one segmented send may hold.
const SEGMENTS_MAX: usize = 64;

/// Arrivals taken in one go, so that a flood does not keep a user from sending.
const RECEIVES_MAX: usize = 64;

/// A connection and what is known of it.
pub(super) struct ConnectionState {
    pub(super) connection: Connection,
    /// The opening is complete.
    pub(super) connected: bool,
    /// Why it is no more.
    pub(super) close_reason: Option<ConnectionError>,
    /// The peer has all of this end's stream, or wants no more of it.
    pub(super) acknowledged: bool,
    /// Built, but not taken by the socket.
    unsent: Option<Transmit>,
    transmit_buffer: Vec<u8>,
    /// Its circuit is gone; it stays until the protocol lets it be forgotten.
    circuit_dropped: bool,
}

/// A socket and its connections.
pub(super) struct QuicEndpoint {
    socket: UdpSocket,
    endpoint: Endpoint,
    incoming: VecDeque<Incoming>,
    /// By the library's handle, which is a small number that it uses again.
    slots: Vec<Option<Box<ConnectionState>>>,
    /// Connections that something arrived for since they were last served.
    unserved: Vec<ConnectionHandle>,
    receive_buffer: Vec<u8>,
    response_buffer: Vec<u8>,
    can_segment: bool,
    arrivals: u64,
    pub(super) sends: u64,
    pub(super) receives: u64,
}

impl QuicEndpoint {
    /// Binds a socket; with `server` it takes new connections.
    pub(super) fn bind(
        local: SocketAddr,
        server: Option<Arc<ServerConfig>>,
        options: &Options,
    ) -> io::Result<QuicEndpoint> {
        let socket = UdpSocket::bind(local)?;
        socket.set_nonblocking(true)?;
        source_filter::attach(socket.as_fd(), options.only_from)?;
        sys::set_buffers(socket.as_fd(), options.buffers.unwrap_or(BUFFER_LEN));
        set_dont_fragment(&socket, local);
        let can_segment =
            sys::set_coalescing(socket.as_fd(), true).is_ok() && sys::can_segment(socket.as_fd());
        let config = Arc::new(EndpointConfig::default());
        Ok(QuicEndpoint {
            socket,
            endpoint: Endpoint::new(config, server, true, None),
            incoming: VecDeque::new(),
            slots: Vec::new(),
            unserved: Vec::new(),
            receive_buffer: vec![0; 65_536],
            response_buffer: Vec::new(),
            can_segment,
            arrivals: 0,
            sends: 0,
            receives: 0,
        })
    }

    pub(super) fn socket(&self) -> &UdpSocket {
        &self.socket
    }

    /// Begins a connection.
    pub(super) fn connect(
        &mut self,
        config: ClientConfig,
        peer: SocketAddr,
    ) -> io::Result<ConnectionHandle> {
        let opened = self
            .endpoint
            .connect(Instant::now(), config, peer, "towpath");
        let (handle, connection) = opened.map_err(io::Error::other)?;
        self.add(handle, connection);
        Ok(handle)
    }

    /// A connection that a peer began.
    pub(super) fn accept(&mut self) -> io::Result<Option<ConnectionHandle>> {
        while let Some(incoming) = self.incoming.pop_front() {
            self.response_buffer.clear();
            let now = Instant::now();
            let accepted = self
                .endpoint
                .accept(incoming, now, &mut self.response_buffer, None);
            match accepted {
                Ok((handle, connection)) => {
                    self.add(handle, connection);
                    return Ok(Some(handle));
                }
                Err(refused) => self.respond(refused.response)?,
            }
        }
        Ok(None)
    }

    fn add(&mut self, handle: ConnectionHandle, connection: Connection) {
        let index = handle.0;
        if self.slots.len() <= index {
            self.slots.resize_with(index + 1, || None);
        }
        self.slots[index] = Some(Box::new(ConnectionState {
            connection,
            connected: false,
            close_reason: None,
            acknowledged: false,
            unsent: None,
            transmit_buffer: Vec::new(),
            circuit_dropped: false,
        }));
    }

    /// The connection of a circuit, which stays as long as the circuit does.
    #[inline]
    pub(super) fn slot(&mut self, handle: ConnectionHandle) -> io::Result<&mut ConnectionState> {
        let slot = self.slots.get_mut(handle.0).and_then(Option::as_deref_mut);
        slot.ok_or_else(|| io::ErrorKind::NotConnected.into())
    }

    /// Lets go of a connection whose circuit is gone.
    pub(super) fn release(&mut self, handle: ConnectionHandle) {
        if let Ok(slot) = self.slot(handle) {
            slot.circuit_dropped = true;
        }
    }

    /// Arrivals taken in so far.
    pub(super) fn arrivals(&self) -> u64 {
        self.arrivals
    }

    /// Whether anything built waits for room in the socket, and when a timer of `handle` is due.
    pub(super) fn send_blocked_and_timeout(
        &mut self,
        handle: Option<ConnectionHandle>,
    ) -> (bool, Option<Instant>) {
        let slot = handle.and_then(|handle| self.slot(handle).ok());
        slot.map_or((false, None), |slot| {
            (slot.unsent.is_some(), slot.connection.poll_timeout())
        })
    }

    /// Takes in what is there, and serves every connection it was for.
    pub(super) fn receive_pending(&mut self) -> io::Result<()> {
        let now = Instant::now();
        for _ in 0..RECEIVES_MAX {
            if !self.receive(now)? {
                break;
            }
        }
        while let Some(handle) = self.unserved.pop() {
            self.serve(handle)?;
        }
        Ok(())
    }

    /// Takes in one arrival; false when nothing was there.
    fn receive(&mut self, now: Instant) -> io::Result<bool> {
        self.receives += 1;
        let got = match sys::receive_coalesced(self.socket.as_fd(), &mut self.receive_buffer, None)
        {
            Ok(got) => got,
            Err(error) => match error.kind() {
                // A refusal answers an earlier datagram; the protocol's timers see to a peer that
                // is gone.
                io::ErrorKind::WouldBlock
                | io::ErrorKind::Interrupted
                | io::ErrorKind::ConnectionRefused => return Ok(false),
                _ => return Err(error),
            },
        };
        self.arrivals += 1;
        let mut octets = BytesMut::from(&self.receive_buffer[..got.len]);
        while !octets.is_empty() {
            let datagram = octets.split_to(got.segment_size.min(octets.len()));
            self.dispatch(now, got.from, datagram)?;
        }
        Ok(true)
    }

    fn dispatch(&mut self, now: Instant, from: SocketAddr, datagram: BytesMut) -> io::Result<()> {
        self.response_buffer.clear();
        let event =
            self.endpoint
                .handle(now, from, None, None, datagram, &mut self.response_buffer);
        match event {
            Some(DatagramEvent::ConnectionEvent(handle, event)) => {
                if let Ok(slot) = self.slot(handle) {
                    slot.connection.handle_event(event);
                }
                if self.unserved.last() != Some(&handle) {
                    self.unserved.push(handle);
                }
            }
            Some(DatagramEvent::NewConnection(incoming)) => self.incoming.push_back(incoming),
            Some(DatagramEvent::Response(response)) => self.respond(Some(response))?,
            None => {}
        }
        Ok(())
    }

    fn respond(&mut self, response: Option<Transmit>) -> io::Result<()> {
        let Some(response) = response else {
            return Ok(());
        };
        let octets = std::mem::take(&mut self.response_buffer);
        let sent = self.send(&response, &octets[..response.size]);
        self.response_buffer = octets;
        match sent {
            // The asker asks again.
            Err(error) if error.kind() == io::ErrorKind::WouldBlock => Ok(()),
            other => other,
        }
    }

    /// Serves every connection: what nobody is there for must go on too.
    pub(super) fn serve_all(&mut self) -> io::Result<()> {
        self.receive_pending()?;
        for index in 0..self.slots.len() {
            self.serve(ConnectionHandle(index))?;
        }
        Ok(())
    }

    /// Acts on the timers of a connection, hears its events and sends what it has to send.
    pub(super) fn serve(&mut self, handle: ConnectionHandle) -> io::Result<()> {
        let Some(mut slot) = self.slots.get_mut(handle.0).and_then(Option::take) else {
            return Ok(());
        };
        let now = Instant::now();
        if slot.connection.poll_timeout().is_some_and(|at| at <= now) {
            slot.connection.handle_timeout(now);
        }
        let drained = self.exchange_endpoint_events(handle, &mut slot.connection);
        slot.poll_events();
        let sent = self.transmit(now, &mut slot);
        if !(drained && slot.circuit_dropped) {
            self.slots[handle.0] = Some(slot);
        }
        sent
    }

    /// Lets a connection and the endpoint tell each other what they must know; true when the
    /// endpoint has forgotten the connection.
    fn exchange_endpoint_events(
        &mut self,
        handle: ConnectionHandle,
        connection: &mut Connection,
    ) -> bool {
        while let Some(event) = connection.poll_endpoint_events() {
            if let Some(event) = self.endpoint.handle_event(handle, event) {
                connection.handle_event(event);
            }
        }
        connection.is_drained()
    }

    fn transmit(&mut self, now: Instant, slot: &mut ConnectionState) -> io::Result<()> {
        loop {
            if slot.unsent.is_none() {
                slot.transmit_buffer.clear();
                let segments = self.segments(slot.connection.current_mtu().into());
                slot.unsent =
                    slot.connection
                        .poll_transmit(now, segments, &mut slot.transmit_buffer);
            }
            let Some(transmit) = &slot.unsent else {
                return Ok(());
            };
            match self.send(transmit, &slot.transmit_buffer[..transmit.size]) {
                Ok(()) => slot.unsent = None,
                Err(error) if error.kind() == io::ErrorKind::WouldBlock => return Ok(()),
                Err(error) => return Err(error),
            }
        }
    }

    /// Datagrams of `len` octets that one send carries.
    pub(super) fn segments(&self, len: usize) -> usize {
        if self.can_segment {
            SEGMENTS_MAX.min(UDP_PAYLOAD_MAX / len.max(1)).max(1)
        } else {
            1
        }
    }

    /// Sends what was built.
    ///
    /// `WouldBlock` leaves it to be sent again; what the path refuses counts as lost, which the
    /// protocol repairs.
    fn send(&mut self, transmit: &Transmit, octets: &[u8]) -> io::Result<()> {
        self.sends += 1;
        let sent = sys::send_segmented(
            self.socket.as_fd(),
            Some(transmit.destination),
            &[IoSlice::new(octets)],
            transmit.segment_size,
        );
        let Err(error) = sent else {
            return Ok(());
        };
        match error.raw_os_error() {
            // A probe for a larger packet size that is too large.
            Some(libc::EMSGSIZE) => Ok(()),
            Some(libc::ENOBUFS) => Err(io::ErrorKind::WouldBlock.into()),
            Some(libc::EIO | libc::EINVAL) if transmit.segment_size.is_some() => {
                self.can_segment = false;
                Ok(())
            }
            _ => Err(error),
        }
    }
}

impl ConnectionState {
    fn poll_events(&mut self) {
        while let Some(event) = self.connection.poll() {
            match event {
                Event::Connected => self.connected = true,
                Event::ConnectionLost { reason } => self.close_reason = Some(reason),
                Event::Stream(StreamEvent::Finished { .. } | StreamEvent::Stopped { .. }) => {
                    self.acknowledged = true;
                }
                _ => {}
            }
        }
    }
}

/// Makes packets that are too large for the path get lost instead of cut, as the protocol's search
/// for the packet size wants it. A kernel that refuses leaves the search less exact, not wrong.
fn set_dont_fragment(socket: &UdpSocket, local: SocketAddr) {
    let (level, name, value) = match local {
        SocketAddr::V4(_) => (
            libc::IPPROTO_IP,
            libc::IP_MTU_DISCOVER,
            libc::IP_PMTUDISC_PROBE,
        ),
        SocketAddr::V6(_) => (
            libc::IPPROTO_IPV6,
            libc::IPV6_MTU_DISCOVER,
            libc::IPV6_PMTUDISC_PROBE,
        ),
    };
    let _ = sys::set_option(socket.as_fd(), level, name, value);
}
