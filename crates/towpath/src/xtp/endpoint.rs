//! A port with any number of circuits.

use super::circuit::Circuit;
use super::config::EndpointConfig;
use super::contexts::{self, EndpointIdentity};
use engine::{Address, AssociationId, Counters, Engine, Framing};
use engine_xtp::pdu::Service;
use engine_xtp::{Holdings, RateLimit, Xtp};
use std::io;
use std::net::SocketAddr;
use std::path::PathBuf;
use std::time::{Duration, Instant};
use wire::trace::Traced;
use wire_udp::UdpWire;

/// A UDP port that speaks XTP. Clones share it.
#[derive(Clone)]
pub struct Endpoint {
    inner: driver::Endpoint<Xtp, Traced<UdpWire>>,
    address: SocketAddr,
    identity: EndpointIdentity,
}

/// The readiness of all circuits of an endpoint on one descriptor; see [`driver::Watch`].
pub type EndpointWatch = driver::Watch<Xtp, Traced<UdpWire>>;

impl Endpoint {
    /// Binds a port, 0 for one the kernel picks, whose circuits are byte streams.
    ///
    /// # Errors
    ///
    /// What the kernel says about the address.
    pub fn bind(local: SocketAddr, config: &EndpointConfig) -> io::Result<Endpoint> {
        Endpoint::bind_as(local, config, Framing::Stream)
    }

    /// Binds a port whose circuits keep messages apart.
    ///
    /// # Errors
    ///
    /// What the kernel says about the address.
    pub fn bind_messages(local: SocketAddr, config: &EndpointConfig) -> io::Result<Endpoint> {
        Endpoint::bind_as(local, config, Framing::Messages)
    }

    fn bind_as(
        local: SocketAddr,
        config: &EndpointConfig,
        framing: Framing,
    ) -> io::Result<Endpoint> {
        let mut wire = UdpWire::bind(local)?;
        // The endpoint's helper ends waits whose time is over.
        wire.set_max_wait(None)?;
        wire.set_spin(config.spin);
        if let Some(socket) = wire::Wire::descriptor(&wire) {
            wire_udp::sys::set_buffers(socket, config.socket_buffer_len);
        }
        if !config.segmentation {
            wire.disable_segmentation()?;
        }
        let address = wire.local_addr()?;
        let wire = Traced::new(wire, config.log()?, Address::Socket(address));
        let engine = Xtp::new(config.config(framing));
        let inner = driver::Endpoint::new(engine, wire, config.send_buffer_len)?;
        let identity = config.identity(address.to_string());
        let endpoint = Endpoint {
            inner,
            address,
            identity,
        };
        if config.serves_contexts() {
            endpoint.serve_contexts()?;
        }
        Ok(endpoint)
    }

    /// Tells its user what the endpoint's associations are doing, from now on, when asked with
    /// `towpath xtp contexts`; see [`contexts`]. Gives the path of the socket, which goes with the
    /// endpoint.
    ///
    /// # Errors
    ///
    /// A folder for sockets that is not the user's alone, or the system's.
    pub fn serve_contexts(&self) -> io::Result<PathBuf> {
        contexts::serve(&self.inner, self.identity.clone(), contexts::snapshot_xtp)
    }

    /// The address it is bound to.
    pub fn local_addr(&self) -> SocketAddr {
        self.address
    }

    /// Accepts circuits that peers open, or refuses them, as it does at first.
    pub fn listen(&self, accept: bool) {
        self.inner.listen(accept);
    }

    /// The next circuit a peer opened; waits for one up to `limit`.
    ///
    /// # Errors
    ///
    /// `TimedOut` when none came, or the kernel's.
    pub fn accept(&self, limit: Duration) -> io::Result<Circuit> {
        self.inner.accept(limit).map(Circuit::new)
    }

    /// The next circuit a peer opened.
    ///
    /// # Errors
    ///
    /// `WouldBlock` when there is none, or the kernel's.
    pub fn try_accept(&self) -> io::Result<Circuit> {
        self.inner.try_accept().map(Circuit::new)
    }

    /// Opens a circuit to the endpoint at `to` and waits up to `limit` until it is ready.
    ///
    /// # Errors
    ///
    /// `ConnectionRefused`, `TimedOut`, or the kernel's.
    pub fn connect(&self, to: SocketAddr, limit: Duration) -> io::Result<Circuit> {
        let circuit = self.inner.connect(Address::Socket(to), limit)?;
        Ok(Circuit::new(circuit))
    }

    /// Opens a circuit for bytes that are worth something at their time only: they leave at `rate`,
    /// nothing is sent again, and no window holds them back. What gets lost is left out, and what
    /// the receiver has no room for too. Waits up to `limit` until it is ready.
    ///
    /// # Errors
    ///
    /// As [`connect`](Endpoint::connect).
    pub fn connect_isochronous(
        &self,
        to: SocketAddr,
        rate: RateLimit,
        limit: Duration,
    ) -> io::Result<Circuit> {
        let mut circuit = self.connect_as(to, Service::Isochronous, limit)?;
        circuit.set_rate(Some(rate))?;
        Ok(circuit)
    }

    /// Opens a circuit for a bulk of bytes into buffers that the receiving user posts
    /// ([`Circuit::post`]): no more is sent than there is room for. A receiver that posts none has
    /// its window. Waits up to `limit` until it is ready.
    ///
    /// # Errors
    ///
    /// As [`connect`](Endpoint::connect).
    pub fn connect_bulk(&self, to: SocketAddr, limit: Duration) -> io::Result<Circuit> {
        self.connect_as(to, Service::Bulk, limit)
    }

    fn connect_as(&self, to: SocketAddr, service: Service, limit: Duration) -> io::Result<Circuit> {
        let to = Address::Socket(to);
        let open = |engine: &mut Xtp, now| engine.open(now, to, service);
        self.inner.connect_by(to, limit, open).map(Circuit::new)
    }

    /// Begins a circuit to the endpoint at `to` and waits for nothing: what is sent on it follows
    /// the opening, and its [`status`](Circuit::status) tells when the peer has answered.
    ///
    /// # Errors
    ///
    /// When the endpoint holds as many circuits as it may, or the kernel's.
    pub fn begin_connect(&self, to: SocketAddr) -> io::Result<Circuit> {
        let mut circuit = self.open(to, Service::Stream)?;
        circuit.flush()?;
        Ok(circuit)
    }

    /// Sends a request and receives its reply, cut off if the buffer is shorter; gives the reply's
    /// length. Set-up and close take no round trip of their own: three packets in all, the last of
    /// which may travel up to a millisecond later, with those of other transactions. The caller looks
    /// for the reply for up to 100 us before it sleeps.
    ///
    /// # Errors
    ///
    /// `ConnectionRefused`, `TimedOut`, `ConnectionReset`, or the kernel's.
    pub fn transact(
        &self,
        to: SocketAddr,
        request: &[u8],
        reply: &mut [u8],
        limit: Duration,
    ) -> io::Result<usize> {
        let mut circuit = self.open(to, Service::Transaction)?;
        circuit.set_delayed_ack();
        circuit.send_last(request, limit)?;
        circuit.recv_all(reply, limit)
    }

    /// Sends the request of a transaction and waits for nothing; the reply is what the circuit receives
    /// up to its end.
    ///
    /// # Errors
    ///
    /// `InvalidInput` when the request is longer than half the send store, or the kernel's.
    pub fn begin_transaction(&self, to: SocketAddr, request: &[u8]) -> io::Result<Circuit> {
        let mut circuit = self.open(to, Service::Transaction)?;
        circuit.send_last(request, Duration::ZERO)?;
        Ok(circuit)
    }

    /// Sends one message in a packet and forgets it.
    ///
    /// # Errors
    ///
    /// The kernel's.
    pub fn send_datagram(&self, to: SocketAddr, message: &[u8]) -> io::Result<()> {
        self.open(to, Service::Datagram)?
            .send_last(message, Duration::ZERO)
    }

    /// Sends one message and waits up to `limit` until the peer has it.
    ///
    /// # Errors
    ///
    /// `TimedOut`, `ConnectionRefused`, or the kernel's.
    pub fn send_acknowledged(
        &self,
        to: SocketAddr,
        message: &[u8],
        limit: Duration,
    ) -> io::Result<()> {
        let end = Instant::now() + limit;
        let mut circuit = self.open(to, Service::AckedDatagram)?;
        circuit.send_last(message, limit)?;
        circuit.drain(end.saturating_duration_since(Instant::now()))
    }

    /// Sends one message and waits for nothing: the circuit is drained once the peer has it.
    ///
    /// # Errors
    ///
    /// `InvalidInput` when the message is longer than half the send store, or the kernel's.
    pub fn begin_acknowledged(&self, to: SocketAddr, message: &[u8]) -> io::Result<Circuit> {
        let mut circuit = self.open(to, Service::AckedDatagram)?;
        circuit.send_last(message, Duration::ZERO)?;
        Ok(circuit)
    }

    /// A way to wait for all circuits at once, on one descriptor. An endpoint has one watch.
    ///
    /// # Errors
    ///
    /// `AlreadyExists` for a second one, or out of descriptors.
    pub fn watch(&self) -> io::Result<EndpointWatch> {
        self.inner.watch()
    }

    /// What the endpoint holds right now.
    pub fn holdings(&self) -> Holdings {
        self.inner.with_pump(|pump| pump.engine().holdings())
    }

    /// The work done so far.
    pub fn counters(&self) -> Counters {
        self.inner.with_pump(|pump| pump.engine().counters())
    }

    /// Makes room for `bytes` more on circuit `id`, in reservation mode
    /// ([`super::FlowControl::Reservation`]).
    pub fn post(&self, id: AssociationId, bytes: u64) -> io::Result<()> {
        self.inner
            .command(|engine, now| engine.post(now, id, bytes))
    }

    /// Admits a circuit a peer opened, if openings are supervised.
    pub fn admit(&self, id: AssociationId) -> io::Result<()> {
        self.inner.command(|engine, now| engine.admit(now, id))
    }

    fn open(&self, to: SocketAddr, service: Service) -> io::Result<Circuit> {
        let to = Address::Socket(to);
        let circuit = self
            .inner
            .open(to, |engine, now| engine.open(now, to, service));
        circuit.map(Circuit::new)
    }
}
