//! A UDP socket, the library's endpoint, and its connections.

use crate::options::{self, Options};
use crate::source_filter;
use crate::udp_offloads::UdpOffloads;
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

/// Most datagrams in one segmented send.
const SEGMENTS_MAX: usize = 64;

/// Most receives in a row, so that a flood does not keep a user from sending.
const RECEIVES_MAX: usize = 64;

/// A connection and its state.
pub(super) struct ConnectionState {
    pub(super) connection: Connection,
    /// The handshake is complete.
    pub(super) connected: bool,
    /// Why it was closed or lost.
    pub(super) close_reason: Option<ConnectionError>,
    /// The peer acknowledged all of this end's stream, or stopped it (STOP_SENDING).
    pub(super) acknowledged: bool,
    /// A datagram batch that the socket had no space for.
    unsent: Option<Transmit>,
    transmit_buffer: Vec<u8>,
    /// Its circuit is gone; the connection is kept until it has drained (RFC 9000 s. 10.2).
    circuit_dropped: bool,
}

/// A socket and its connections.
pub(super) struct QuicEndpoint {
    socket: UdpSocket,
    endpoint: Endpoint,
    incoming: VecDeque<Incoming>,
    /// Indexed by the library's handle, a small number that is reused.
    slots: Vec<Option<Box<ConnectionState>>>,
    /// Connections that received packets since they were last served.
    unserved: Vec<ConnectionHandle>,
    receive_buffer: Vec<u8>,
    response_buffer: Vec<u8>,
    can_segment: bool,
    /// Receives are coalesced, if the kernel can.
    coalesces: bool,
    arrivals: u64,
    pub(super) sends: u64,
    pub(super) receives: u64,
}

impl QuicEndpoint {
    /// Binds a socket; with `server` it accepts connections.
    pub(super) fn bind(
        local: SocketAddr,
        server: Option<Arc<ServerConfig>>,
        options: &Options,
    ) -> io::Result<QuicEndpoint> {
        let socket = source_filter::bind_udp(local, options.only_from)?;
        socket.set_nonblocking(true)?;
        sys::set_buffers(socket.as_fd(), options.buffers.unwrap_or(BUFFER_LEN));
        set_dont_fragment(&socket, local);
        let wanted = UdpOffloads::parse(&options.transport_specific).map_err(options::invalid)?;
        let can_coalesce = !wanted.gro || sys::set_coalescing(socket.as_fd(), true).is_ok();
        let can_segment = wanted.gso && can_coalesce && sys::can_segment(socket.as_fd());
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
            coalesces: wanted.gro && can_coalesce,
            arrivals: 0,
            sends: 0,
            receives: 0,
        })
    }

    pub(super) fn socket(&self) -> &UdpSocket {
        &self.socket
    }

    /// Starts a handshake.
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

    /// Accepts the next connection of a peer, if any.
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

    /// Marks a connection whose circuit was dropped, to be freed once drained.
    pub(super) fn release(&mut self, handle: ConnectionHandle) {
        if let Ok(slot) = self.slot(handle) {
            slot.circuit_dropped = true;
        }
    }

    /// Receives so far.
    pub(super) fn arrivals(&self) -> u64 {
        self.arrivals
    }

    /// Whether datagrams of `handle` wait for space in the socket, and when its next timer expires.
    pub(super) fn send_blocked_and_timeout(
        &mut self,
        handle: Option<ConnectionHandle>,
    ) -> (bool, Option<Instant>) {
        let slot = handle.and_then(|handle| self.slot(handle).ok());
        slot.map_or((false, None), |slot| {
            (slot.unsent.is_some(), slot.connection.poll_timeout())
        })
    }

    /// Receives pending datagrams, and serves every connection that got some.
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

    /// Receives once; false when nothing was pending.
    fn receive(&mut self, now: Instant) -> io::Result<bool> {
        self.receives += 1;
        let got = match sys::receive_coalesced(self.socket.as_fd(), &mut self.receive_buffer, None)
        {
            Ok(got) => got,
            Err(error) => match error.kind() {
                // ECONNREFUSED reports an ICMP error for an earlier datagram; QUIC's timers detect
                // a peer that is gone.
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
            // The peer retransmits what caused the response.
            Err(error) if error.kind() == io::ErrorKind::WouldBlock => Ok(()),
            other => other,
        }
    }

    /// Serves every connection, also those whose user is not in a call.
    pub(super) fn serve_all(&mut self) -> io::Result<()> {
        self.receive_pending()?;
        for index in 0..self.slots.len() {
            self.serve(ConnectionHandle(index))?;
        }
        Ok(())
    }

    /// Runs a connection's timers, handles its events and sends its datagrams.
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

    /// Exchanges events between a connection and the endpoint; true once the connection drained.
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

    /// Whether a receive may be several datagrams.
    pub(super) fn coalesces(&self) -> bool {
        self.coalesces
    }

    /// Datagrams of `len` octets that fit in one send.
    pub(super) fn segments(&self, len: usize) -> usize {
        if self.can_segment {
            SEGMENTS_MAX.min(UDP_PAYLOAD_MAX / len.max(1)).max(1)
        } else {
            1
        }
    }

    /// Sends a batch of datagrams.
    ///
    /// After `WouldBlock` the caller sends it again; datagrams that the path refuses count as lost,
    /// and QUIC retransmits.
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
            // A path MTU probe that was too large.
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

/// Sets Don't Fragment, as QUIC's path MTU discovery requires (RFC 9000 s. 14): a packet above the
/// path MTU is dropped. If the kernel refuses, the search is less exact, not wrong.
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
