//! The endpoint: an address with any number of circuits.

use super::circuit::Circuit;
use super::config::EndpointConfig;
use super::contexts::{self, EndpointIdentity};
use super::endpoint_address::{AnyWire, EndpointAddress};
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
use std::net::{Ipv4Addr, SocketAddr};
use std::path::PathBuf;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};
use wire::trace::{TraceLog, Traced};
use wire_shortcut::{RingReport, ShortcutHandle};

/// An XTP endpoint: on a UDP port, or directly on IP or Ethernet ([`Endpoint::bind_at`]). Clones share it.
///
/// Peers are named by their [`Address`]: a [`SocketAddr`] on UDP, an [`IpAddr`](std::net::IpAddr) on IP, and
/// [`Address::Ether`] on Ethernet.
#[derive(Clone)]
pub struct Endpoint {
    pub(super) inner: driver::Endpoint<Xtp, Traced<AnyWire>>,
    address: Address,
    identity: EndpointIdentity,
    trace: Option<Arc<TraceLog>>,
    shortcut: Option<ShortcutHandle>,
    serves_contexts: Arc<AtomicBool>,
}

/// Readiness of all circuits of an endpoint on one descriptor; see [`driver::Watch`].
pub type EndpointWatch = driver::Watch<Xtp, Traced<AnyWire>>;

impl Endpoint {
    /// Binds a UDP port, 0 for any free one, whose circuits are byte streams.
    pub fn bind(local: SocketAddr, config: &EndpointConfig) -> io::Result<Endpoint> {
        Endpoint::bind_at(&local.into(), config, Framing::Stream)
    }

    /// Binds a UDP port whose circuits keep message boundaries.
    pub fn bind_messages(local: SocketAddr, config: &EndpointConfig) -> io::Result<Endpoint> {
        Endpoint::bind_at(&local.into(), config, Framing::Messages)
    }

    /// Binds an address on UDP, IP or Ethernet.
    ///
    /// ```no_run
    /// use std::net::IpAddr;
    /// use std::time::Duration;
    /// use towpath::xtp::{Endpoint, EndpointAddress, Framing};
    ///
    /// let limit = Duration::from_secs(5);
    /// let at = |address: &str| -> Result<EndpointAddress, std::net::AddrParseError> {
    ///     Ok(EndpointAddress::Ip { address: address.parse()?, port: 7 })
    /// };
    /// let (near, far) = (at("127.0.0.2")?, at("127.0.0.3")?);
    /// let server = Endpoint::bind_at(&far, &far.default_config(), Framing::Stream)?;
    /// server.listen(true);
    /// let client = Endpoint::bind_at(&near, &near.default_config(), Framing::Stream)?;
    /// let circuit = client.connect("127.0.0.3".parse::<IpAddr>()?, limit)?;
    /// circuit.close(limit)?;
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    ///
    /// # Errors
    ///
    /// Those of the socket, such as `PermissionDenied` without the right to raw sockets, and `NotFound` where there is no
    /// such interface; `InvalidInput` for options of UDP elsewhere, and for packets that the interface does not take.
    pub fn bind_at(
        local: &EndpointAddress,
        config: &EndpointConfig,
        framing: Framing,
    ) -> io::Result<Endpoint> {
        let opened = local.open(config, framing)?;
        let address = opened.address;
        let trace = config.log()?;
        let wire = Traced::new(opened.wire, trace.clone(), address);
        let engine = Xtp::new(opened.config);
        let inner = driver::Endpoint::new(engine, wire, config.send_buffer_len)?;
        let identity = EndpointIdentity {
            shortcut: opened.shortcut.clone(),
            ..config.identity(contexts::report::address(address))
        };
        let endpoint = Endpoint {
            inner,
            address,
            identity,
            trace,
            shortcut: opened.shortcut,
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
        contexts::serve_changes(&self.inner, self.address, &path, live::change_by_words)?;
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
    pub fn address(&self) -> Address {
        self.address
    }

    /// The same of an endpoint on UDP, or on IP (with port 0); 0.0.0.0:0 of one on Ethernet.
    pub fn local_addr(&self) -> SocketAddr {
        socket_address(self.address)
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
    pub fn connect(&self, to: impl Into<Address>, limit: Duration) -> io::Result<Circuit> {
        let to = to.into();
        self.connect_by(to, limit, |engine, now| engine.connect(now, &[to]))
    }

    /// Opens a circuit by a command of the engine and waits for the answer; a refusal says why.
    fn connect_by(
        &self,
        to: Address,
        limit: Duration,
        open: impl FnOnce(&mut Xtp, engine::Instant) -> Result<AssociationId, CommandError>,
    ) -> io::Result<Circuit> {
        self.prepare_opening(to)?;
        let mut opened = None;
        let open = |engine: &mut Xtp, now| {
            let id = open(engine, now)?;
            opened = Some(id);
            Ok(id)
        };
        let connected = self
            .inner
            .open(to, open)
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
        Some(OpeningRequest {
            peer: view.peer,
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
        to: impl Into<Address>,
        rate: RateLimit,
        limit: Duration,
    ) -> io::Result<Circuit> {
        let mut circuit = self.connect_as(to.into(), Service::Isochronous, limit)?;
        circuit.set_rate(Some(rate))?;
        Ok(circuit)
    }

    /// Opens a circuit for a bulk transfer into buffers that the receiving user posts
    /// ([`Circuit::post`], XTP's reservation mode): no more is sent than was posted. Without posts
    /// the receive window applies. Waits up to `limit` for the handshake.
    /// Errors are those of [`connect`](Endpoint::connect).
    pub fn connect_bulk(&self, to: impl Into<Address>, limit: Duration) -> io::Result<Circuit> {
        self.connect_as(to.into(), Service::Bulk, limit)
    }

    fn connect_as(&self, to: Address, service: Service, limit: Duration) -> io::Result<Circuit> {
        self.connect_by(to, limit, |engine, now| engine.open(now, to, service))
    }

    /// Opens a circuit to the endpoint at `to` without waiting. Data may be sent at once; its
    /// [`status`](Circuit::status) shows when the peer has answered.
    ///
    /// # Errors
    ///
    /// When the endpoint has its maximum number of circuits.
    pub fn begin_connect(&self, to: impl Into<Address>) -> io::Result<Circuit> {
        self.begin_connect_sorted(to, None)
    }

    /// [`begin_connect`](Endpoint::begin_connect) with a priority among the endpoint's circuits, which the peer's
    /// end takes too unless it has one of its own: the lowest is served first. None for the configured one.
    ///
    /// # Errors
    ///
    /// When the endpoint has its maximum number of circuits.
    pub fn begin_connect_sorted(
        &self,
        to: impl Into<Address>,
        sort: Option<u16>,
    ) -> io::Result<Circuit> {
        let to = to.into();
        self.prepare_opening(to)?;
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

    /// Before an opening: refuses a peer that this endpoint cannot have, and offers rings to one on this host, if they are
    /// wanted.
    pub(super) fn prepare_opening(&self, to: Address) -> io::Result<()> {
        let is_possible = match (self.address, to) {
            (Address::Socket(own), Address::Socket(to)) => (own.port() == 0) == (to.port() == 0),
            (Address::Ether(_), Address::Ether(_)) => true,
            _ => false,
        };
        if !is_possible {
            let [own, to] = [self.address, to].map(contexts::report::address);
            let text = format!(
                "an endpoint at {own} has no peer at {to}; on UDP a peer has an address and a port, on IP an address, on \
                 Ethernet a hardware address"
            );
            return Err(io::Error::new(io::ErrorKind::InvalidInput, text));
        }
        if let (Some(shortcut), Address::Socket(to)) = (&self.shortcut, to) {
            shortcut.offer_to(to);
        }
        Ok(())
    }
}

/// Waits until the peer at `to` has answered, its host says that nothing listens there, or `limit` is over.
fn wait_answered(
    mut circuit: driver::Circuit<Xtp, Traced<AnyWire>>,
    to: Address,
    limit: Duration,
) -> io::Result<driver::Circuit<Xtp, Traced<AnyWire>>> {
    circuit.flush()?;
    let end = Instant::now() + limit;
    let mut probe = PortProbe::of(to);
    loop {
        let left = end.saturating_duration_since(Instant::now());
        let waited = circuit.wait_connected(left.min(ASK_AFTER));
        let is_waiting = circuit.status().closed.is_none() && left > ASK_AFTER;
        match waited {
            Err(error) if error.kind() == io::ErrorKind::TimedOut && is_waiting => {
                if probe.as_mut().is_some_and(PortProbe::is_closed) {
                    let _ = circuit.abort();
                    let text = "nothing listens at the peer's port";
                    return Err(io::Error::new(io::ErrorKind::ConnectionRefused, text));
                }
            }
            other => return other.map(|()| circuit),
        }
    }
}

/// The Internet address of `address`; unspecified for others.
pub(super) fn socket_address(address: Address) -> SocketAddr {
    match address {
        Address::Socket(socket) => socket,
        Address::Station(_) | Address::Ether(_) => (Ipv4Addr::UNSPECIFIED, 0).into(),
    }
}
