//! The endpoint: a UDP port with any number of circuits.

use super::circuit::Circuit;
use super::config::EndpointConfig;
use super::contexts::{self, EndpointIdentity};
use super::group::GroupEndpointConfig;
use super::live;
use super::supervision::{OpeningRequest, Refusal};
use crate::port_probe::{ASK_AFTER, PortProbe};
use driver::timeout::finite;
use engine::{
    Address, AssociationId, Associations, AssociationsExt, CommandError, Counters, Framing,
    Protocol,
};
use engine_xtp::pdu::Service;
use engine_xtp::{Holdings, RateLimit, Xtp};
use std::io;
use std::net::SocketAddr;
use std::path::PathBuf;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};
use wire::trace::{TraceLog, Traced};
use wire_shortcut::{RingReport, ShortcutHandle, ShortcutWire};
use wire_udp::UdpWire;

/// An XTP endpoint on a UDP port. Clones share it.
#[derive(Clone)]
pub struct Endpoint {
    inner: driver::Endpoint<Xtp, Traced<ShortcutWire>>,
    address: SocketAddr,
    identity: EndpointIdentity,
    trace: Option<Arc<TraceLog>>,
    shortcut: Option<ShortcutHandle>,
    serves_contexts: Arc<AtomicBool>,
}

/// Readiness of all circuits of an endpoint on one descriptor; see [`driver::Watch`].
pub type EndpointWatch = driver::Watch<Xtp, Traced<ShortcutWire>>;

impl Endpoint {
    /// Binds a port, 0 for any free one, whose circuits are byte streams.
    pub fn bind(local: SocketAddr, config: &EndpointConfig) -> io::Result<Endpoint> {
        Endpoint::bind_as(local, config, Framing::Stream)
    }

    /// Binds a port whose circuits keep message boundaries.
    pub fn bind_messages(local: SocketAddr, config: &EndpointConfig) -> io::Result<Endpoint> {
        Endpoint::bind_as(local, config, Framing::Messages)
    }

    fn bind_as(
        local: SocketAddr,
        config: &EndpointConfig,
        framing: Framing,
    ) -> io::Result<Endpoint> {
        let mut wire = UdpWire::bind(local)?;
        // The endpoint's helper thread ends waits that time out.
        wire.set_max_wait(None)?;
        wire.set_spin(config.spin);
        if let Some(socket) = wire::Wire::descriptor(&wire) {
            wire_udp::sys::set_buffers(socket, config.socket_buffer_len);
        }
        if !config.segmentation {
            wire.disable_segmentation()?;
        }
        let address = wire.local_addr()?;
        let trace = config.log()?;
        let wire = config.shortcut.wire(wire)?;
        let shortcut = wire.handle();
        let wire = Traced::new(wire, trace.clone(), Address::Socket(address));
        let engine = Xtp::new(config.config(framing));
        let inner = driver::Endpoint::new(engine, wire, config.send_buffer_len)?;
        let identity = EndpointIdentity {
            shortcut: shortcut.clone(),
            ..config.identity(address.to_string())
        };
        let endpoint = Endpoint {
            inner,
            address,
            identity,
            trace,
            shortcut,
            serves_contexts: Arc::default(),
        };
        if config.serves_contexts() {
            endpoint.serve_contexts()?;
        }
        Ok(endpoint)
    }

    /// Serves reports on the endpoint's associations to `towpath xtp contexts`, see [`contexts`].
    /// Returns the path of the socket, which is removed with the endpoint.
    ///
    /// # Errors
    ///
    /// `PermissionDenied` if the directory of the sockets is not private to the user.
    pub fn serve_contexts(&self) -> io::Result<PathBuf> {
        let path = contexts::serve(&self.inner, self.identity.clone(), contexts::snapshot_xtp)?;
        let own = Address::Socket(self.address);
        contexts::serve_changes(&self.inner, own, &path, live::change_by_words)?;
        self.serves_contexts.store(true, Ordering::Relaxed);
        Ok(path)
    }

    /// Makes the endpoint of a group write to the trace of this endpoint, and serve reports if this
    /// one does.
    pub(crate) fn share_introspection(&self, settings: &mut GroupEndpointConfig) {
        settings.trace = self.trace.clone();
        settings.contexts = self.serves_contexts.load(Ordering::Relaxed);
    }

    /// The address it is bound to.
    pub fn local_addr(&self) -> SocketAddr {
        self.address
    }

    /// Accepts circuits that peers open, or refuses them (the initial state).
    pub fn listen(&self, accept: bool) {
        self.inner.listen(accept);
    }

    /// The next circuit a peer opened; waits up to `limit`.
    ///
    /// # Errors
    ///
    /// `TimedOut`.
    pub fn accept(&self, limit: Duration) -> io::Result<Circuit> {
        self.inner.accept(finite(limit)).map(Circuit::new)
    }

    /// The next circuit a peer opened.
    ///
    /// # Errors
    ///
    /// `WouldBlock` when there is none.
    pub fn try_accept(&self) -> io::Result<Circuit> {
        self.inner.try_accept().map(Circuit::new)
    }

    /// Opens a circuit to the endpoint at `to`; waits up to `limit` for the handshake.
    ///
    /// # Errors
    ///
    /// `ConnectionRefused`, also when the peer's host says that the port is closed; `TimedOut`.
    pub fn connect(&self, to: SocketAddr, limit: Duration) -> io::Result<Circuit> {
        self.connect_by(to, limit, |engine, now| {
            engine.connect(now, &[Address::Socket(to)])
        })
    }

    /// Opens a circuit by a command of the engine and waits for the answer; a refusal says why.
    fn connect_by(
        &self,
        to: SocketAddr,
        limit: Duration,
        open: impl FnOnce(&mut Xtp, engine::Instant) -> Result<AssociationId, CommandError>,
    ) -> io::Result<Circuit> {
        self.offer_shortcut(to);
        let mut opened = None;
        let open = |engine: &mut Xtp, now| {
            let id = open(engine, now)?;
            opened = Some(id);
            Ok(id)
        };
        let connected = self
            .inner
            .open(Address::Socket(to), open)
            .and_then(|circuit| wait_answered(circuit, to, finite(limit)));
        match connected {
            Err(error) if error.kind() == io::ErrorKind::ConnectionRefused => {
                Err(opened.and_then(|id| self.refusal(id)).unwrap_or(error))
            }
            other => other.map(Circuit::new),
        }
    }

    /// The error of an opening that the peer refused, with its reason.
    fn refusal(&self, id: AssociationId) -> Option<io::Error> {
        let why = self.inner.with_pump(|pump| pump.engine().refusal(id))?;
        let text = format!(
            "the peer refuses the association: {}",
            Refusal::of(why).name()
        );
        Some(io::Error::new(io::ErrorKind::ConnectionRefused, text))
    }

    /// Whether openings wait for a decision.
    pub(super) fn is_supervised(&self) -> bool {
        self.inner.with_pump(|pump| pump.engine().is_supervised())
    }

    /// What a peer's opening asks for.
    pub(super) fn opening_request(&self, id: AssociationId) -> Option<OpeningRequest> {
        let now = engine::Instant::ZERO;
        let view = self
            .inner
            .with_pump(|pump| pump.engine().association(now, id))?;
        let Address::Socket(peer) = view.peer else {
            return None;
        };
        Some(OpeningRequest {
            peer,
            service: view.service.name(),
            sort: view.sort,
            reserves: view.reserves,
            first_data: view.receiving.next,
            is_waiting: view.awaits_admission,
        })
    }

    /// Runs a command of the engine.
    pub(super) fn command(&self, act: impl FnOnce(&mut Xtp, engine::Instant)) -> io::Result<()> {
        self.inner.command(act)
    }

    /// Opens a circuit for isochronous data: sent at `rate`, never retransmitted, and not subject
    /// to the window. Data that are lost or that the receiver has no space for are skipped. Waits
    /// up to `limit` for the handshake. Errors are those of [`connect`](Endpoint::connect).
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

    /// Opens a circuit for a bulk transfer into buffers that the receiving user posts
    /// ([`Circuit::post`], XTP's reservation mode): no more is sent than was posted. Without posts
    /// the receive window applies. Waits up to `limit` for the handshake.
    /// Errors are those of [`connect`](Endpoint::connect).
    pub fn connect_bulk(&self, to: SocketAddr, limit: Duration) -> io::Result<Circuit> {
        self.connect_as(to, Service::Bulk, limit)
    }

    fn connect_as(&self, to: SocketAddr, service: Service, limit: Duration) -> io::Result<Circuit> {
        self.connect_by(to, limit, |engine, now| {
            engine.open(now, Address::Socket(to), service)
        })
    }

    /// Opens a circuit to the endpoint at `to` without waiting. Data may be sent at once; its
    /// [`status`](Circuit::status) shows when the peer has answered.
    ///
    /// # Errors
    ///
    /// When the endpoint has its maximum number of circuits.
    pub fn begin_connect(&self, to: SocketAddr) -> io::Result<Circuit> {
        self.begin_connect_sorted(to, None)
    }

    /// [`begin_connect`](Endpoint::begin_connect) with a priority among the endpoint's circuits, which the peer's
    /// end takes too unless it has one of its own: the lowest is served first. None for the configured one.
    ///
    /// # Errors
    ///
    /// When the endpoint has its maximum number of circuits.
    pub fn begin_connect_sorted(&self, to: SocketAddr, sort: Option<u16>) -> io::Result<Circuit> {
        self.offer_shortcut(to);
        let to = Address::Socket(to);
        let opened = self.inner.open(to, |engine, now| {
            let id = engine.open(now, to, Service::Stream)?;
            if sort.is_some() {
                engine.set_sort(id, sort);
            }
            Ok(id)
        });
        let mut circuit = Circuit::new(opened?);
        circuit.flush()?;
        Ok(circuit)
    }

    /// Sends a request and receives its reply, truncated to the buffer; returns the reply's length.
    /// Set-up and close add no round trip: three packets in all, the last of which may be delayed
    /// up to a millisecond and coalesced with those of other transactions. The caller busy-polls
    /// for the reply for up to 100 us before it sleeps.
    ///
    /// # Errors
    ///
    /// `ConnectionRefused`, `TimedOut` or `ConnectionReset`.
    pub fn transact(
        &self,
        to: SocketAddr,
        request: &[u8],
        reply: &mut [u8],
        limit: Duration,
    ) -> io::Result<usize> {
        let mut circuit = self.open(to, Service::Transaction)?;
        circuit.set_delayed_ack();
        circuit.send_last(request, finite(limit))?;
        circuit.recv_all(reply, finite(limit))
    }

    /// Sends the request of a transaction without waiting; the reply is all that the circuit
    /// receives.
    ///
    /// # Errors
    ///
    /// `InvalidInput` when the request is longer than half the send buffer.
    pub fn begin_transaction(&self, to: SocketAddr, request: &[u8]) -> io::Result<Circuit> {
        let mut circuit = self.open(to, Service::Transaction)?;
        circuit.send_last(request, Duration::ZERO)?;
        Ok(circuit)
    }

    /// Sends one message as an unacknowledged datagram.
    pub fn send_datagram(&self, to: SocketAddr, message: &[u8]) -> io::Result<()> {
        self.open(to, Service::Datagram)?
            .send_last(message, Duration::ZERO)
    }

    /// Sends one message as an acknowledged datagram; waits up to `limit` for the acknowledgement.
    ///
    /// # Errors
    ///
    /// `TimedOut` or `ConnectionRefused`.
    pub fn send_acknowledged(
        &self,
        to: SocketAddr,
        message: &[u8],
        limit: Duration,
    ) -> io::Result<()> {
        let end = Instant::now() + finite(limit);
        let mut circuit = self.open(to, Service::AckedDatagram)?;
        circuit.send_last(message, finite(limit))?;
        circuit.drain(end.saturating_duration_since(Instant::now()))
    }

    /// Sends one message as an acknowledged datagram without waiting; the circuit is drained once
    /// the peer has acknowledged it.
    ///
    /// # Errors
    ///
    /// `InvalidInput` when the message is longer than half the send buffer.
    pub fn begin_acknowledged(&self, to: SocketAddr, message: &[u8]) -> io::Result<Circuit> {
        let mut circuit = self.open(to, Service::AckedDatagram)?;
        circuit.send_last(message, Duration::ZERO)?;
        Ok(circuit)
    }

    /// One descriptor for the readiness of all circuits. An endpoint has one watch.
    ///
    /// # Errors
    ///
    /// `AlreadyExists` for a second one, or out of descriptors.
    pub fn watch(&self) -> io::Result<EndpointWatch> {
        self.inner.watch()
    }

    /// Resources the endpoint holds now.
    pub fn holdings(&self) -> Holdings {
        self.inner.with_pump(|pump| pump.engine().holdings())
    }

    /// Aborts all circuits; their peers are told, and calls of their users fail once they look again.
    /// Errors are those of the wire.
    pub fn abort_all(&self) -> io::Result<()> {
        self.inner.command(|engine, now| {
            for view in engine.associations(now, usize::MAX) {
                engine.abort(now, view.association);
            }
        })
    }

    /// Its counters.
    pub fn counters(&self) -> Counters {
        self.inner.with_pump(|pump| pump.engine().counters())
    }

    /// Posts a receive buffer of `bytes` more on circuit `id`, in reservation mode
    /// ([`super::FlowControl::Reservation`]).
    pub fn post(&self, id: AssociationId, bytes: u64) -> io::Result<()> {
        self.inner
            .command(|engine, now| engine.post(now, id, bytes))
    }

    /// Admits a circuit that a peer opened, if admission is supervised.
    pub fn admit(&self, id: AssociationId) -> io::Result<()> {
        self.inner.command(|engine, now| engine.admit(now, id))
    }

    /// The peers of this host with which packets go through shared memory now; none if that is off.
    pub fn rings(&self) -> Vec<RingReport> {
        self.shortcut
            .as_ref()
            .map_or_else(Vec::new, ShortcutHandle::rings)
    }

    /// Ends the shared memory of all peers: packets go by UDP from now on. Associations do not notice.
    pub fn end_rings(&self) {
        if let Some(shortcut) = &self.shortcut {
            shortcut.end_rings();
        }
    }

    /// Offers rings to a peer to which this side opens a circuit, if they are wanted.
    fn offer_shortcut(&self, to: SocketAddr) {
        if let Some(shortcut) = &self.shortcut {
            shortcut.offer_to(to);
        }
    }

    fn open(&self, to: SocketAddr, service: Service) -> io::Result<Circuit> {
        self.offer_shortcut(to);
        let to = Address::Socket(to);
        let circuit = self
            .inner
            .open(to, |engine, now| engine.open(now, to, service));
        circuit.map(Circuit::new)
    }
}

/// Waits until the peer at `to` has answered, its host says that nothing listens there, or `limit` is over.
fn wait_answered(
    mut circuit: driver::Circuit<Xtp, Traced<ShortcutWire>>,
    to: SocketAddr,
    limit: Duration,
) -> io::Result<driver::Circuit<Xtp, Traced<ShortcutWire>>> {
    circuit.flush()?;
    let end = Instant::now() + limit;
    let mut probe = PortProbe::new(to);
    loop {
        let left = end.saturating_duration_since(Instant::now());
        let waited = circuit.wait_connected(left.min(ASK_AFTER));
        let is_waiting = circuit.status().closed.is_none() && left > ASK_AFTER;
        match waited {
            Err(error) if error.kind() == io::ErrorKind::TimedOut && is_waiting => {
                if probe.is_closed() {
                    let _ = circuit.abort();
                    let text = "nothing listens at the peer's port";
                    return Err(io::Error::new(io::ErrorKind::ConnectionRefused, text));
                }
            }
            other => return other.map(|()| circuit),
        }
    }
}
