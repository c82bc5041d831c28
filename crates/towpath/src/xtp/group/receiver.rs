//! The end that receives.

use super::GroupEndpointConfig;
use super::config::{ack_address, check_multicast, ipv6_scope};
use driver::Endpoint;
use engine::{Address, Counters};
use engine_xtp::group::GroupEndpoint;
use std::io;
use std::net::{IpAddr, SocketAddr};
use std::os::fd::BorrowedFd;
use std::time::{Duration, Instant};
use wire::Wire;
use wire_udp::UdpWire;

/// A place in a group, with a stream from each sender that is heard.
pub struct Receiver {
    endpoint: Endpoint<GroupEndpoint, UdpWire>,
    address: SocketAddr,
}

impl Receiver {
    /// Joins `group` on the interface that has the address `local` (unspecified: any; IPv6: the group's
    /// scope). From then on streams to the group are received, those too that began before.
    ///
    /// # Errors
    ///
    /// `InvalidInput` when `group` is none, or the kernel's.
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
        Receiver::new(
            wire,
            GroupEndpoint::new(settings.engine_config(Some(group))),
        )
    }

    /// Listens at `local` for senders that repeat their packets to each receiver.
    ///
    /// # Errors
    ///
    /// The kernel's.
    pub fn listen(local: SocketAddr, settings: &GroupEndpointConfig) -> io::Result<Receiver> {
        let wire = settings.bind_wire(local.ip(), ipv6_scope(local), local.port())?;
        Receiver::new(wire, GroupEndpoint::new(settings.engine_config(None)))
    }

    fn new(mut wire: UdpWire, engine: GroupEndpoint) -> io::Result<Receiver> {
        let address = wire.local_addr()?;
        // The endpoint's helper ends waits whose time is over.
        wire.set_max_wait(None)?;
        // A receiver sends no user bytes; the store has no memory until somebody does.
        let endpoint = Endpoint::new(engine, wire, SEND_BUFFER_LEN)?;
        endpoint.listen(true);
        Ok(Receiver { endpoint, address })
    }

    /// The address it answers from, by which senders name it.
    pub fn local_addr(&self) -> SocketAddr {
        self.address
    }

    /// The next stream a sender opened; waits for one up to `limit`.
    ///
    /// # Errors
    ///
    /// `TimedOut` when none came, or the kernel's.
    pub fn accept(&self, limit: Duration) -> io::Result<Stream> {
        let circuit = self.endpoint.accept(limit)?;
        Ok(Stream { circuit })
    }

    /// The work done so far.
    pub fn counters(&self) -> Counters {
        let count = |pump: &mut driver::Pump<GroupEndpoint, UdpWire>| {
            let engine: &dyn engine::Engine = pump.engine();
            engine.counters()
        };
        self.endpoint.with_pump(count)
    }

    /// Answers sent, and answers left out because another receiver was heard to give them.
    pub fn control_packet_counts(&self) -> (u64, u64) {
        self.endpoint
            .with_pump(|pump| pump.engine().control_counts())
    }
}

/// Octets of the store of a receiver.
const SEND_BUFFER_LEN: usize = 64 << 10;

/// What one sender sends.
pub struct Stream {
    circuit: driver::Circuit<GroupEndpoint, UdpWire>,
}

impl Stream {
    /// The sender.
    pub fn sender(&self) -> Address {
        self.circuit.peer()
    }

    /// Receives what there is of a stream, or one message: its length, or None when the sender ended
    /// it and all is here. The part of a message beyond the buffer is dropped; the length tells.
    ///
    /// # Errors
    ///
    /// `TimedOut` when nothing came for `limit`, `ConnectionReset` when bytes were lost for good, the
    /// sender gave up or sent this receiver away, or the kernel's.
    #[inline]
    pub fn recv(&mut self, buffer: &mut [u8], limit: Duration) -> io::Result<Option<usize>> {
        self.circuit.recv(buffer, limit)
    }

    /// Receives what there is of a stream without copying it: `take` sees it piece by piece where it
    /// lies. Gives the length of all pieces, or None as [`recv`](Stream::recv) does.
    ///
    /// # Errors
    ///
    /// As [`recv`](Stream::recv), and `Unsupported` where messages are kept apart.
    pub fn recv_in_place(
        &mut self,
        take: impl FnMut(&[u8]),
        limit: Duration,
    ) -> io::Result<Option<usize>> {
        self.circuit.recv_in_place(take, limit)
    }

    /// As [`recv`](Stream::recv), without waiting.
    ///
    /// # Errors
    ///
    /// `WouldBlock` when nothing is there, else as `recv`.
    #[inline]
    pub fn try_recv(&mut self, buffer: &mut [u8]) -> io::Result<Option<usize>> {
        self.circuit.try_recv(buffer)
    }

    /// Takes in what came and answers it, for a user who has no use for it yet.
    ///
    /// # Errors
    ///
    /// The kernel's.
    pub fn serve(&mut self) -> io::Result<()> {
        self.circuit.drive()
    }

    /// Waits up to `limit` until something may have come.
    ///
    /// # Errors
    ///
    /// The kernel's.
    pub fn wait(&mut self, limit: Duration) -> io::Result<()> {
        self.circuit.wait(limit)
    }

    /// A descriptor that is readable when something arrived.
    pub fn descriptor(&self) -> Option<BorrowedFd<'_>> {
        self.circuit.descriptor()
    }

    /// Says goodbye. After the end of the stream it waits up to `limit` until the sender has heard
    /// that everything is here: to go away at once may leave it asking, and calling this receiver
    /// silent. Before the end it leaves the group.
    ///
    /// # Errors
    ///
    /// `TimedOut` when the sender was not heard again - everything is here all the same - or the
    /// kernel's.
    pub fn close(mut self, limit: Duration) -> io::Result<()> {
        let end = Instant::now() + limit;
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
