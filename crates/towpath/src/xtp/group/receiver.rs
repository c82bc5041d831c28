//! The receiving end of a group.

use super::GroupEndpointConfig;
use super::config::{GroupCircuit, HostedGroup, ack_address, check_multicast, ipv6_scope};
use driver::timeout::finite;
use engine::{Address, Counters};
use engine_xtp::group::GroupEndpoint;
use std::io;
use std::net::{IpAddr, SocketAddr};
use std::os::fd::BorrowedFd;
use std::time::{Duration, Instant};
use wire::Wire;
use wire::trace::Traced;
use wire_udp::UdpWire;

/// A member of a group, with a stream from each sender.
pub struct Receiver {
    endpoint: HostedGroup,
    address: SocketAddr,
}

impl Receiver {
    /// Joins `group` on the interface that has the address `local` (unspecified: any; IPv6: the
    /// group's scope). Streams to the group are received from then on, also those already open.
    ///
    /// # Errors
    ///
    /// `InvalidInput` when `group` is no multicast address.
    pub fn join(
        group: SocketAddr,
        local: IpAddr,
        settings: &GroupEndpointConfig,
    ) -> io::Result<Receiver> {
        check_multicast(group)?;
        let mut wire = settings.bind_wire(local, ipv6_scope(group), 0)?;
        wire.join(Address::Socket(group))?;
        if settings.ack_to_group && settings.config.damping {
            wire.join(Address::Socket(ack_address(group)))?;
        }
        let engine = GroupEndpoint::new(settings.engine_config(Some(group)));
        Receiver::new(wire, engine, settings)
    }

    /// Listens at `local` for senders that replicate their packets to each receiver.
    pub fn listen(local: SocketAddr, settings: &GroupEndpointConfig) -> io::Result<Receiver> {
        let wire = settings.bind_wire(local.ip(), ipv6_scope(local), local.port())?;
        let engine = GroupEndpoint::new(settings.engine_config(None));
        Receiver::new(wire, engine, settings)
    }

    fn new(
        mut wire: UdpWire,
        engine: GroupEndpoint,
        settings: &GroupEndpointConfig,
    ) -> io::Result<Receiver> {
        let address = wire.local_addr()?;
        // The endpoint's helper thread ends waits that time out.
        wire.set_max_wait(None)?;
        // A receiver sends no user data, and an unused send buffer takes no memory.
        let endpoint = settings.host(engine, wire, SEND_BUFFER_LEN)?;
        endpoint.listen(true);
        Ok(Receiver { endpoint, address })
    }

    /// The source address of its control packets, by which senders identify it.
    pub fn local_addr(&self) -> SocketAddr {
        self.address
    }

    /// The next stream a sender opened; waits up to `limit`.
    ///
    /// # Errors
    ///
    /// `TimedOut`.
    pub fn accept(&self, limit: Duration) -> io::Result<Stream> {
        let circuit = self.endpoint.accept(finite(limit))?;
        Ok(Stream { circuit })
    }

    /// Its counters.
    pub fn counters(&self) -> Counters {
        let count = |pump: &mut driver::Pump<GroupEndpoint, Traced<UdpWire>>| {
            let engine: &dyn engine::Protocol = pump.engine();
            engine.counters()
        };
        self.endpoint.with_pump(count)
    }

    /// Packets that the system dropped because a buffer was full, see [`wire::Wire::receive_drops`].
    pub fn receive_drops(&self) -> Option<u64> {
        self.endpoint.with_pump(|pump| pump.receive_drops())
    }

    /// What its layer of cells counts ([`GroupEndpointConfig::cells`]); empty without one.
    pub fn cell_counts(&self) -> Vec<(&'static str, u64)> {
        self.endpoint.with_pump(|pump| pump.layer_counts())
    }

    /// Control packets sent, and those suppressed because another receiver's made them redundant
    /// (damping).
    pub fn control_packet_counts(&self) -> (u64, u64) {
        self.endpoint
            .with_pump(|pump| pump.engine().control_counts())
    }
}

/// Send buffer length of a receiver.
const SEND_BUFFER_LEN: usize = 64 << 10;

/// The stream of one sender.
pub struct Stream {
    circuit: GroupCircuit,
}

impl Stream {
    /// The sender.
    pub fn sender(&self) -> Address {
        self.circuit.peer()
    }

    /// Receives the bytes a stream has, or one message. Returns the length, or None when the sender
    /// ended the stream and all data were received. A message longer than the buffer is truncated;
    /// the length returned is that of the whole message.
    ///
    /// # Errors
    ///
    /// `TimedOut` when nothing arrived for `limit`; `ConnectionReset` when bytes were lost and will
    /// not be retransmitted, or the sender aborted or expelled this receiver.
    #[inline]
    pub fn recv(&mut self, buffer: &mut [u8], limit: Duration) -> io::Result<Option<usize>> {
        self.circuit.recv(buffer, finite(limit))
    }

    /// Receives the bytes a stream has without a copy: calls `take` with each chunk in place.
    /// Returns their total length, or None as [`recv`](Stream::recv) does.
    /// Errors are those of [`recv`](Stream::recv), and `Unsupported` for messages.
    pub fn recv_in_place(
        &mut self,
        take: impl FnMut(&[u8]),
        limit: Duration,
    ) -> io::Result<Option<usize>> {
        self.circuit.recv_in_place(take, finite(limit))
    }

    /// [`recv`](Stream::recv) without waiting.
    ///
    /// # Errors
    ///
    /// `WouldBlock` when there is nothing to receive, else those of `recv`.
    #[inline]
    pub fn try_recv(&mut self, buffer: &mut [u8]) -> io::Result<Option<usize>> {
        self.circuit.try_recv(buffer)
    }

    /// Processes arrived packets and sends the control packets due, without reading data.
    pub fn serve(&mut self) -> io::Result<()> {
        self.circuit.drive()
    }

    /// Waits up to `limit` until packets may have arrived.
    pub fn wait(&mut self, limit: Duration) -> io::Result<()> {
        self.circuit.wait(finite(limit))
    }

    /// A descriptor that is readable when packets arrived.
    pub fn descriptor(&self) -> Option<BorrowedFd<'_>> {
        self.circuit.descriptor()
    }

    /// Closes the stream. After its end, waits up to `limit` until the sender has the final
    /// acknowledgement; if it were lost, the sender would repeat its status request and report this
    /// receiver as silent. Before the end of the stream, leaves the group.
    ///
    /// # Errors
    ///
    /// `TimedOut` when the sender did not respond; all data have been received nevertheless.
    pub fn close(mut self, limit: Duration) -> io::Result<()> {
        let end = Instant::now() + finite(limit);
        if !self.circuit.status().finished {
            return self.circuit.abort();
        }
        loop {
            self.circuit.drive()?;
            if self.circuit.status().closed.is_some() {
                return Ok(());
            }
            let left = end.saturating_duration_since(Instant::now());
            if left.is_zero() {
                return Err(io::ErrorKind::TimedOut.into());
            }
            self.circuit.wait(left)?;
        }
    }
}
