//! TCP connections over XTP: one end of a tunnel (`towpath forward`).
//!
//! A tunnel has two ends. The near end accepts TCP connections and opens an XTP circuit for each
//! ([`Tunnel::to_xtp`]); the far end accepts circuits and opens a TCP connection for each
//! ([`Tunnel::from_xtp`]). Both directions are independent (half-close), and a reset on one side
//! becomes a reset on the other.
//!
//! One thread serves all connections of an endpoint: an epoll instance waits for the endpoint's
//! watch and for all sockets (`proxied_connection` is one connection). Backpressure: when one side
//! is not read, its socket buffer or window fills, and the other side is not read either. A
//! connection buffers at most 256 KiB each way besides its socket and circuit.
//!
//! Modules of STREAMS can be pushed on its circuits ([`Tunnel::set_modules`]), the same at both ends.
//!
//! When descriptors or ports run out, the tunnel accepts nothing for 100 ms. A target
//! that cannot be reached breaks its circuit, which the peer can tell from an end.

mod accept;
mod entrance;
mod lent;
mod limits;
mod local_socket;
mod modules;
mod proxied_connection;
mod rounds;
mod shared_watch;

pub use local_socket::{ExternalSockets, LocalSocket, MakeSocket};
pub use shared_watch::{CircuitUser, SharedWatch};

use crate::peer_counts::PeerCounts;
use crate::push::{ModuleStack, PushedStream};
use crate::xtp::{Circuit, Endpoint, EndpointConfig};
use engine::AssociationId;
use entrance::Entrance;
use lent::LentCircuits;
use limits::LimitedLog;
use proxied_connection::{ProxiedConnection, PumpOutcome};
use rustix::event::{Timespec, epoll};
use std::collections::{BTreeMap, HashMap};
use std::io;
use std::net::{IpAddr, SocketAddr};
use std::os::fd::OwnedFd;
use std::sync::Arc;
use std::time::{Duration, Instant};

/// Default limit of concurrent connections; further ones wait in the accept queue.
pub const CONNECTIONS_MAX: usize = 1000;

/// Bytes that are read from a socket, or taken from a circuit, at once. Measured: with a quarter of it a tunnel on one host
/// switches between threads twice as often, and moves two thirds as much.
const CHUNK_MAX: usize = 256 << 10;

/// How often the loop checks for stop, and for handshakes that timed out.
const HOUSEKEEPING_INTERVAL: Duration = Duration::from_millis(100);

/// Timeout of a handshake with the peer or the target.
const HANDSHAKE_TIMEOUT: Duration = Duration::from_secs(10);

/// Epoll tokens; connections count up from [`FIRST_CONNECTION_TOKEN`].
const WATCH_TOKEN: u64 = 0;
const LISTENER_TOKEN: u64 = 1;
const WAKEUP_TOKEN: u64 = 2;
const FIRST_CONNECTION_TOKEN: u64 = 3;

/// Counters of a tunnel's connections.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct TunnelCounts {
    /// Accepted so far.
    pub opened: u64,
    /// Closed in both directions.
    pub ended: u64,
    /// Reset by one side, or refused.
    pub broken: u64,
    /// User bytes from TCP to XTP.
    pub sent_bytes: u64,
    /// User bytes from XTP to TCP.
    pub received_bytes: u64,
}

/// Where connections come from, with the XTP peer or the TCP target of the other side.
enum TunnelSource {
    Tcp(Vec<Entrance>, SocketAddr),
    Xtp(SocketAddr),
    External(ExternalSockets),
}

/// One end of a tunnel.
pub struct Tunnel {
    source: TunnelSource,
    endpoint: Endpoint,
    watch: Arc<SharedWatch>,
    /// The watch is waited for here: no thread of the program looks in place of this one.
    waits_for_watch: bool,
    /// Looks of the program at the last housekeeping.
    looks: u64,
    epoll: OwnedFd,
    connections: HashMap<u64, ProxiedConnection>,
    by_circuit: HashMap<AssociationId, u64>,
    /// One of its connections had a priority.
    has_priorities: bool,
    lent: LentCircuits,
    next_token: u64,
    connections_max: usize,
    /// At the connection limit, or out of descriptors or ports: the listener is removed from the
    /// epoll interest.
    accept_paused: bool,
    /// Until when nothing is accepted.
    exhausted_until: Option<Instant>,
    peers: PeerCounts,
    idle_timeout: Option<Duration>,
    modules: Option<ModuleStack>,
    /// What the modules of connections that are over counted.
    module_counts: BTreeMap<String, u64>,
    log: LimitedLog,
    chunk_len: usize,
    handshake_timeout: Duration,
    /// All senders of [`ExternalSockets::incoming`] are gone.
    source_closed: bool,
    counts: TunnelCounts,
}

impl Tunnel {
    /// Accepts TCP connections at `listen`, and opens a circuit to the tunnel at `peer` for each.
    pub fn to_xtp(
        listen: SocketAddr,
        peer: SocketAddr,
        settings: &EndpointConfig,
    ) -> io::Result<Tunnel> {
        let entrances = vec![Entrance::bind(listen, None)?];
        let endpoint = Endpoint::bind(crate::socket::wildcard_address(&peer), settings)?;
        Tunnel::new(TunnelSource::Tcp(entrances, peer), endpoint, settings)
    }

    /// Accepts circuits at `listen` and opens a TCP connection to `target` for each.
    pub fn from_xtp(
        listen: SocketAddr,
        target: SocketAddr,
        settings: &EndpointConfig,
    ) -> io::Result<Tunnel> {
        let endpoint = Endpoint::bind(listen, settings)?;
        endpoint.listen(true);
        Tunnel::new(TunnelSource::Xtp(target), endpoint, settings)
    }

    /// Carries sockets that a program in this process hands over; the program keeps the other ends.
    ///
    /// # Errors
    ///
    /// When the process is out of descriptors.
    pub fn external(
        endpoint: Endpoint,
        external: ExternalSockets,
        settings: &EndpointConfig,
    ) -> io::Result<Tunnel> {
        Tunnel::new(TunnelSource::External(external), endpoint, settings)
    }

    fn new(
        source: TunnelSource,
        endpoint: Endpoint,
        settings: &EndpointConfig,
    ) -> io::Result<Tunnel> {
        let watch = match &source {
            TunnelSource::External(external) => Arc::clone(&external.watch),
            TunnelSource::Tcp(..) | TunnelSource::Xtp(_) => SharedWatch::new(&endpoint)?,
        };
        let epoll = epoll::create(epoll::CreateFlags::CLOEXEC)?;
        let readable = epoll::EventFlags::IN;
        let token = epoll::EventData::new_u64;
        epoll::add(&epoll, watch.descriptor(), token(WATCH_TOKEN), readable)?;
        match &source {
            TunnelSource::Tcp(entrances, _) => {
                for entrance in entrances {
                    let listener = &entrance.listener;
                    epoll::add(&epoll, listener, token(LISTENER_TOKEN), readable)?;
                }
            }
            TunnelSource::External(_) => {
                epoll::add(&epoll, watch.wakeup(), token(WAKEUP_TOKEN), readable)?
            }
            TunnelSource::Xtp(_) => {}
        }
        let handshake_timeout = match &source {
            TunnelSource::External(external) => external.handshake_timeout,
            _ => HANDSHAKE_TIMEOUT,
        };
        Ok(Tunnel {
            source,
            endpoint,
            watch,
            waits_for_watch: true,
            looks: 0,
            epoll,
            connections: HashMap::new(),
            by_circuit: HashMap::new(),
            has_priorities: false,
            lent: LentCircuits::default(),
            next_token: FIRST_CONNECTION_TOKEN,
            connections_max: CONNECTIONS_MAX,
            accept_paused: false,
            exhausted_until: None,
            peers: PeerCounts::default(),
            idle_timeout: None,
            modules: None,
            module_counts: BTreeMap::new(),
            log: LimitedLog::default(),
            // A message may take half of the send buffer at most.
            chunk_len: (settings.send_buffer_len / 2).clamp(1024, CHUNK_MAX),
            handshake_timeout,
            source_closed: false,
            counts: TunnelCounts::default(),
        })
    }

    /// Sets the limit of concurrent connections, at least one; further ones wait.
    pub fn set_connections_max(&mut self, connections_max: usize) {
        self.connections_max = connections_max.max(1);
    }

    /// Sets how many connections one peer may have at once: an IPv4 address, or an IPv6 network of
    /// 64 bits. Further ones are reset. None for no limit.
    pub fn set_per_peer_max(&mut self, per_peer_max: Option<usize>) {
        self.peers.max = per_peer_max;
    }

    /// Resets connections over which nothing came or went for this long; None for never.
    pub fn set_idle_timeout(&mut self, idle_timeout: Option<Duration>) {
        self.idle_timeout = idle_timeout;
    }

    /// Sets what receives a line when a connection is refused or cannot be made, at most one a
    /// second.
    pub fn set_log(&mut self, log: impl FnMut(&str) + Send + 'static) {
        self.log.sink = Some(Box::new(log));
    }

    /// Where it accepts connections: a TCP address, or XTP's UDP address.
    pub fn local_addr(&self) -> io::Result<SocketAddr> {
        match &self.source {
            TunnelSource::Tcp(entrances, _) if !entrances.is_empty() => {
                entrances[0].listener.local_addr()
            }
            _ => Ok(self.endpoint.local_addr()),
        }
    }

    /// The endpoint of its circuits.
    pub fn endpoint(&self) -> &Endpoint {
        &self.endpoint
    }

    /// The counters so far.
    pub fn counts(&self) -> TunnelCounts {
        self.counts
    }

    /// Open connections.
    pub fn connections(&self) -> usize {
        self.connections.len()
    }

    /// Receives what arrived at the endpoint; adds the connections that became ready to `todo`.
    fn poll_endpoint(
        &mut self,
        ready: &mut Vec<AssociationId>,
        todo: &mut Vec<u64>,
    ) -> io::Result<()> {
        let accepts = self.watch.receive(ready)?;
        self.note_ready(ready, accepts, todo);
        Ok(())
    }

    /// Adds the connections of circuits that became ready to `todo`, and accepts circuits.
    fn note_ready(&mut self, ready: &mut Vec<AssociationId>, accepts: bool, todo: &mut Vec<u64>) {
        let tokens = ready.drain(..).filter_map(|id| self.by_circuit.get(&id));
        todo.extend(tokens.copied());
        if accepts {
            self.accept_circuits(todo);
        }
    }

    /// Ends idle connections, looks at handshakes, and accepts what had to wait.
    fn housekeep(&mut self, now: Instant, todo: &mut Vec<u64>) {
        self.watch.check_cover(&mut self.looks);
        self.take_back_wanted(todo);
        let idle_timeout = self.idle_timeout;
        let is_idle = |connection: &ProxiedConnection| {
            idle_timeout.is_some_and(|timeout| connection.idle_for(now) >= timeout)
        };
        let connections = self.connections.iter();
        let idle: Vec<u64> = connections
            .filter(|(_, connection)| is_idle(connection))
            .map(|(&token, _)| token)
            .collect();
        for token in idle {
            self.end(token, PumpOutcome::Broken);
        }
        let opening = self
            .connections
            .iter()
            .filter(|(_, connection)| connection.is_handshaking());
        todo.extend(opening.map(|(&token, _)| token));
        if self.exhausted_until.is_some_and(|until| now >= until) {
            self.exhausted_until = None;
        }
        self.resume_accepting();
        self.accept_circuits(todo);
    }

    /// Sleeps until an event or `limit`; adds the connections whose sockets became ready to `todo`. True when the
    /// endpoint is to be polled: its watch is readable, or it has waited for as long as it may.
    fn wait(&mut self, limit: Duration, todo: &mut Vec<u64>) -> io::Result<bool> {
        let timeout = match self.update_cover()? {
            true => self.watch.prepare_wait()?,
            false => None,
        };
        let limit = timeout.map_or(limit, |timeout| timeout.min(limit));
        let limit = Timespec::try_from(limit).ok();
        let mut events = [const {
            epoll::Event {
                flags: epoll::EventFlags::empty(),
                data: epoll::EventData::new_u64(0),
            }
        }; 64];
        let count = match epoll::wait(&self.epoll, &mut events, limit.as_ref()) {
            Err(rustix::io::Errno::INTR) => 0,
            other => other?,
        };
        let mut polls = self.waits_for_watch
            && (count == 0 || timeout.is_some_and(|timeout| timeout.is_zero()));
        for event in &events[..count] {
            match event.data.u64() {
                WATCH_TOKEN => polls = true,
                LISTENER_TOKEN => self.accept_connections(todo),
                WAKEUP_TOKEN => self.on_wakeup(todo),
                token => match self.connections.get_mut(&token) {
                    Some(connection) => {
                        connection.set_readiness(event.flags);
                        todo.push(token);
                    }
                    None => self.take_back_if_used(token, event.flags, todo),
                },
            }
        }
        Ok(polls)
    }

    /// Whether all connections have ended and no more can be handed over.
    fn is_finished(&self) -> bool {
        self.source_closed && self.connections.is_empty() && self.lent.is_empty()
    }

    /// Adds a connection, of `peer` if its share is limited. On failure both sides are reset.
    fn add(
        &mut self,
        tcp: Box<dyn LocalSocket>,
        circuit: Circuit,
        connecting: bool,
        peer: Option<IpAddr>,
    ) -> io::Result<u64> {
        let token = self.next_token;
        // The end that accepted TCP opens the circuit.
        let connects = matches!(self.source, TunnelSource::Tcp(..));
        let sort = circuit.sort();
        self.has_priorities |= sort.is_some();
        let circuit = match PushedStream::new(circuit, self.modules.as_ref(), connects) {
            Ok(circuit) => circuit,
            Err(error) => {
                tcp.reset(Some(&error));
                return Err(error);
            }
        };
        let registered = self.register(&*tcp, token, peer);
        let (id, now) = (circuit.id(), Instant::now());
        let deadline = now + self.handshake_timeout;
        let connection =
            ProxiedConnection::new(tcp, circuit, connecting, deadline, peer).sorted(sort);
        if let Err(error) = registered {
            connection.fail(error.kind());
            return Err(error);
        }
        self.next_token += 1;
        self.by_circuit.insert(id, token);
        self.connections.insert(token, connection);
        Ok(token)
    }

    /// Counts the peer and waits for the socket.
    fn register(
        &mut self,
        tcp: &dyn LocalSocket,
        token: u64,
        peer: Option<IpAddr>,
    ) -> io::Result<()> {
        tcp.configure()?;
        let both = epoll::EventFlags::IN | epoll::EventFlags::OUT | epoll::EventFlags::ET;
        // What may lie behind the data of a short read.
        let both = both | epoll::EventFlags::RDHUP | epoll::EventFlags::PRI;
        let data = epoll::EventData::new_u64(token);
        epoll::add(&self.epoll, tcp.as_fd(), data, both)?;
        match peer {
            Some(peer) if !self.peers.add(peer) => {
                let text = format!("{peer} has as many connections as a peer may have");
                Err(io::Error::new(io::ErrorKind::QuotaExceeded, text))
            }
            _ => Ok(()),
        }
    }

    fn serve(&mut self, token: u64, buffer: &mut [u8]) -> PumpOutcome {
        let Some(connection) = self.connections.get_mut(&token) else {
            return PumpOutcome::Waiting;
        };
        let step = match connection.pump(buffer, &mut self.counts) {
            PumpOutcome::ForUser => self.lend(token),
            other => other,
        };
        self.end(token, step);
        step
    }

    /// Ends a connection if its outcome says so.
    fn end(&mut self, token: u64, outcome: PumpOutcome) {
        let (ended, broken) = match outcome {
            PumpOutcome::Waiting | PumpOutcome::MoreToDo | PumpOutcome::ForUser => return,
            PumpOutcome::Ended => (1, 0),
            PumpOutcome::Broken => (0, 1),
        };
        let Some(connection) = self.connections.remove(&token) else {
            return;
        };
        self.counts.ended += ended;
        self.counts.broken += broken;
        self.by_circuit.remove(&connection.circuit_id());
        if let Some(peer) = connection.peer() {
            self.peers.remove(peer);
        }
        self.keep_counts(&connection);
        if let (PumpOutcome::Broken, Some(text)) = (outcome, connection.failure()) {
            self.log.line(Instant::now(), &text);
        }
        connection.close(outcome == PumpOutcome::Broken);
    }
}
