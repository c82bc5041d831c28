//! The agent: serves one client at a time and runs its workers.
//!
//! * [`session_state`] - which requests are valid when, without I/O: the fuzzed part.
//! * `connection_limiter` - connections not yet authenticated.
//! * `session` - the client being served.
//! * `queue` - waiting clients.
//! * `machine` - this host's capabilities and facts.
//! * [`raw_sockets`] - the process that keeps the right to raw sockets, where the operator allows them.
//! * [`privilege`] - dropping privileges and limiting workers.
//! * [`metrics`] - counters over HTTP.

mod connection_limiter;
mod machine;
pub mod metrics;
pub mod privilege;
mod queue;
pub mod raw_sockets;
mod session;
pub mod session_state;

pub use machine::{crosses_network, needs_fan_out};

use crate::connection::{ConnectionError, FramedConnection};
use crate::keys::{KeyFolder, PublicKey};
use crate::peer_check::{self, Tokens};
use crate::tls;
use crate::version_exchange::{self, AuthMode, CallerKind};
use connection_limiter::{ConnectionLimiter, ConnectionSlot};
use control::frame::{REQUEST_MAX, RESPONSE_MAX};
use control::session::{FromAgent, ToAgent};
use control::{Caps, PROTOCOL_VERSION};
use loadgen::WorkerHost;
use metrics::AgentMetrics;
use queue::ClientQueue;
use raw_sockets::RawSocketSource;
use session::{CLIENT_TIMEOUT, ClientSession};
use std::fmt;
use std::io;
use std::net::{IpAddr, SocketAddr, TcpListener, TcpStream};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::thread::JoinHandle;
use std::time::{Duration, Instant};

/// Timeout of the TLS handshake and of the first message.
const HANDSHAKE_TIMEOUT: Duration = Duration::from_secs(5);

/// Poll interval of the accept loop and of the queue.
const POLL_INTERVAL: Duration = Duration::from_millis(200);

/// Stack of a session's thread; nothing there recurses or has large locals.
pub(crate) const THREAD_STACK_LEN: usize = 512 << 10;

/// Receives the agent's log lines.
pub type Log = Box<dyn Fn(&str) + Send + Sync>;

/// Configuration of an agent.
pub struct AgentConfig {
    /// The address it listens on.
    pub listen: SocketAddr,
    /// Its keys; None for an agent without keys, on the loopback only.
    pub keys: Option<KeyFolder>,
    /// Limits for clients.
    pub caps: Caps,
    /// Where workers run: this host, except in tests.
    pub worker_host: Box<dyn WorkerHost + Send + Sync>,
    /// Where raw sockets for workers come from; None where the operator allows none.
    pub raw_sockets: Option<RawSocketSource>,
    /// Receives log lines.
    pub log: Log,
}

/// Why an agent cannot start.
#[derive(Debug, thiserror::Error)]
pub enum AgentError {
    /// Without keys it may not listen beyond the loopback.
    #[error(
        "without a key the agent listens on the loopback alone, not on {0}; \
             make one with `towpath key new`, and trust those of its clients"
    )]
    NoKeys(IpAddr),
    /// Its keys cannot be used.
    #[error(transparent)]
    Keys(#[from] crate::keys::KeyError),
    /// It cannot listen.
    #[error("cannot listen on {0}: {1}; give another address with --listen")]
    Listen(SocketAddr, io::Error),
}

/// A running agent. Dropping it ends the session and waits for its workers.
pub struct Agent {
    shared: Arc<AgentShared>,
    address: SocketAddr,
    acceptor: Option<JoinHandle<()>>,
}

/// State shared by all connections of an agent.
pub(crate) struct AgentShared {
    pub(crate) caps: Caps,
    pub(crate) worker_host: Box<dyn WorkerHost + Send + Sync>,
    pub(crate) tokens: Tokens,
    pub(crate) metrics: AgentMetrics,
    pub(crate) raw_sockets: Option<RawSocketSource>,
    queue: ClientQueue,
    keys: Option<KeyFolder>,
    log: Log,
    stop: AtomicBool,
    next_session: AtomicU64,
    limiter: Arc<ConnectionLimiter>,
}

impl AgentShared {
    pub(crate) fn is_stopped(&self) -> bool {
        self.stop.load(Ordering::Relaxed)
    }

    pub(crate) fn log(&self, line: fmt::Arguments<'_>) {
        (self.log)(&line.to_string());
    }

    fn auth_mode(&self) -> AuthMode {
        match self.keys {
            Some(_) => AuthMode::Keys,
            None => AuthMode::NoKeys,
        }
    }

    /// Logs an unauthenticated peer's error, rate-limited.
    fn log_unauthenticated(&self, from: IpAddr, error: &ConnectionError) {
        match self.limiter.may_log(Instant::now()) {
            None => {}
            Some(0) => self.log(format_args!("{from}: {error}")),
            Some(more) => self.log(format_args!(
                "{from}: {error} (and {more} more that proved nothing)"
            )),
        }
    }
}

/// A client that has authenticated and sent its hello.
pub(crate) struct AuthenticatedClient {
    connection: FramedConnection,
    /// The client's address and the local one.
    addresses: (SocketAddr, SocketAddr),
    key: Option<PublicKey>,
    /// For the log: its address and the name of its key.
    label: String,
}

impl Agent {
    /// Starts the agent.
    ///
    /// # Errors
    ///
    /// An [`AgentError`].
    pub fn start(settings: AgentConfig) -> Result<Agent, AgentError> {
        let AgentConfig {
            listen,
            keys,
            caps,
            worker_host: place,
            raw_sockets,
            log,
        } = settings;
        match &keys {
            None if !listen.ip().is_loopback() => return Err(AgentError::NoKeys(listen.ip())),
            None => {}
            // Report key errors now, not to the first client.
            Some(keys) => drop((keys.identity()?, keys.trusted()?)),
        }
        let socket = bind_listener(listen).map_err(|error| AgentError::Listen(listen, error))?;
        let address = socket
            .local_addr()
            .map_err(|error| AgentError::Listen(listen, error))?;
        let shared = Arc::new(AgentShared {
            caps,
            worker_host: place,
            tokens: Tokens::default(),
            metrics: AgentMetrics::default(),
            queue: ClientQueue::default(),
            keys,
            raw_sockets,
            log,
            stop: AtomicBool::new(false),
            next_session: AtomicU64::new(0),
            limiter: Arc::default(),
        });
        let theirs = Arc::clone(&shared);
        let accepting = std::thread::Builder::new()
            .name("agent".into())
            .stack_size(THREAD_STACK_LEN)
            .spawn(move || accept_loop(&socket, &theirs))
            .map_err(|error| AgentError::Listen(listen, error))?;
        Ok(Agent {
            shared,
            address,
            acceptor: Some(accepting),
        })
    }

    /// The address it listens on.
    pub fn address(&self) -> SocketAddr {
        self.address
    }

    /// Clients in the queue, the one being served included.
    pub fn clients(&self) -> usize {
        self.shared.queue.len()
    }

    /// Its counters as OpenMetrics text.
    pub fn metrics(&self) -> String {
        metrics::text(&self.shared.metrics, self.clients())
    }

    /// A source of that text that may outlive the agent.
    pub fn metrics_source(&self) -> impl Fn() -> String + Send + Sync + 'static {
        let shared = Arc::clone(&self.shared);
        move || metrics::text(&shared.metrics, shared.queue.len())
    }
}

impl Drop for Agent {
    fn drop(&mut self) {
        self.shared.stop.store(true, Ordering::Relaxed);
        if let Some(accepting) = self.acceptor.take() {
            // A panic there was already printed.
            let _ = accepting.join();
        }
    }
}

/// Binds the listener; the IPv6 unspecified address also accepts IPv4.
fn bind_listener(listen: SocketAddr) -> io::Result<TcpListener> {
    use socket2::{Domain, Protocol, Socket, Type};
    let socket = Socket::new(
        Domain::for_address(listen),
        Type::STREAM,
        Some(Protocol::TCP),
    )?;
    socket.set_reuse_address(true)?;
    if listen.is_ipv6() && listen.ip().is_unspecified() {
        socket.set_only_v6(false)?;
    }
    socket.bind(&listen.into())?;
    socket.listen(64)?;
    socket.set_nonblocking(true)?;
    Ok(socket.into())
}

fn accept_loop(socket: &TcpListener, shared: &Arc<AgentShared>) {
    let mut threads: Vec<JoinHandle<()>> = Vec::new();
    while !shared.is_stopped() {
        match socket.accept() {
            Ok((client, from)) => {
                threads.retain(|thread| !thread.is_finished());
                // If no descriptor or thread is available, the connection is closed.
                threads.extend(spawn_connection(client, canonical_ip(from.ip()), shared).ok());
            }
            Err(error) if error.kind() == io::ErrorKind::WouldBlock => wait_for_connection(socket),
            // Out of file descriptors: the connection stays in the kernel's backlog.
            Err(_) => std::thread::sleep(POLL_INTERVAL),
        }
    }
    for thread in threads {
        let _ = thread.join();
    }
}

/// Serves a connection in a thread of its own.
fn spawn_connection(
    client: TcpStream,
    from: IpAddr,
    shared: &Arc<AgentShared>,
) -> io::Result<JoinHandle<()>> {
    let (slot, evicted) = shared.limiter.admit(&client, from)?;
    if evicted {
        shared.metrics.count_rejected();
    }
    let shared = Arc::clone(shared);
    let thread = std::thread::Builder::new().name("session".into());
    thread
        .stack_size(THREAD_STACK_LEN)
        .spawn(move || serve_connection(client, from, slot, &shared))
}

/// Waits one poll interval for a connection.
fn wait_for_connection(socket: &TcpListener) {
    use rustix::event::{PollFd, PollFlags, poll};
    let span = crate::connection::timespec(POLL_INTERVAL);
    if poll(&mut [PollFd::new(socket, PollFlags::IN)], Some(&span)).is_err() {
        std::thread::sleep(POLL_INTERVAL);
    }
}

/// Converts an IPv4-mapped IPv6 address to IPv4.
pub(crate) fn canonical_ip(address: IpAddr) -> IpAddr {
    address.to_canonical()
}

/// Serves a connection from its first octet to its last.
fn serve_connection(socket: TcpStream, from: IpAddr, slot: ConnectionSlot, shared: &AgentShared) {
    let came = exchange_versions(socket, shared);
    drop(slot);
    match came {
        Ok(None) => {}
        Ok(Some(client)) => {
            let label = client.label.clone();
            match serve_client(client, shared) {
                // A client may leave by closing the connection.
                Ok(()) | Err(ConnectionError::Closed) => {}
                Err(error) => shared.log(format_args!("{label}: {error}")),
            }
        }
        Err(error) => shared.log_unauthenticated(from, &error),
    }
}

/// Version exchange; Some for a client to be served, None if done.
fn exchange_versions(
    mut socket: TcpStream,
    shared: &AgentShared,
) -> Result<Option<AuthenticatedClient>, ConnectionError> {
    let end = Instant::now() + version_exchange::TIMEOUT;
    socket.set_nonblocking(false)?;
    version_exchange::write_all(
        &mut socket,
        &version_exchange::encode_agent(shared.auth_mode()),
    )?;
    let mut theirs = [0; version_exchange::LEN];
    version_exchange::read_exact_until(&mut socket, &mut theirs, end)?;
    match version_exchange::parse_caller(&theirs) {
        None => {
            shared.metrics.count_unauthenticated();
            Ok(None)
        }
        Some(CallerKind::Agent) => {
            peer_check::answer_peer_check(socket, &shared.tokens)?;
            Ok(None)
        }
        Some(CallerKind::Client) => authenticate(socket, shared),
    }
}

/// Authenticates a client before anything it sends is parsed.
fn authenticate(
    socket: TcpStream,
    shared: &AgentShared,
) -> Result<Option<AuthenticatedClient>, ConnectionError> {
    let mut addresses = (socket.peer_addr()?, socket.local_addr()?);
    addresses.0.set_ip(canonical_ip(addresses.0.ip()));
    addresses.1.set_ip(canonical_ip(addresses.1.ip()));
    let wrong = |error: &dyn fmt::Display| ConnectionError::Refused(error.to_string());
    let mut trusted = Vec::new();
    let tls = match &shared.keys {
        None => None,
        Some(keys) => {
            let identity = keys.identity().map_err(|error| wrong(&error))?;
            trusted = keys.trusted().map_err(|error| wrong(&error))?;
            Some(tls::server_connection(&identity, &trusted).map_err(|error| wrong(&error))?)
        }
    };
    let mut connection = FramedConnection::new(socket, tls, REQUEST_MAX)?;
    let end = Instant::now() + HANDSHAKE_TIMEOUT;
    connection.handshake(end).inspect_err(|error| {
        if matches!(error, ConnectionError::Refused(_)) {
            shared.metrics.count_unauthenticated();
        }
    })?;
    let proved = connection.authenticated_key(&trusted);
    match connection.receive::<ToAgent>(end)? {
        ToAgent::Hello(PROTOCOL_VERSION) => {}
        _ => {
            let why = format!("this agent speaks version {PROTOCOL_VERSION} of the protocol");
            connection.send(&FromAgent::SessionEnded(why), RESPONSE_MAX)?;
            return Ok(None);
        }
    }
    let label = match &proved {
        None => addresses.0.to_string(),
        Some(key) => format!("{} ({})", addresses.0, key.name),
    };
    Ok(Some(AuthenticatedClient {
        connection,
        addresses,
        key: proved.map(|trusted| trusted.key),
        label,
    }))
}

/// Queues a client and serves its session.
fn serve_client(
    mut client: AuthenticatedClient,
    shared: &AgentShared,
) -> Result<(), ConnectionError> {
    let connection = &mut client.connection;
    let hello = FromAgent::Hello(machine::welcome(&shared.caps));
    connection.send(&hello, RESPONSE_MAX)?;
    let place = match shared.queue.join(client.key) {
        Ok(place) => place,
        Err(full) => {
            shared.metrics.count_rejected();
            return connection.send(&FromAgent::SessionEnded(full.to_string()), RESPONSE_MAX);
        }
    };
    if !wait_in_queue(connection, &place, shared)? {
        return Ok(());
    }
    let number = shared.next_session.fetch_add(1, Ordering::Relaxed);
    shared.log(format_args!("{} measures", client.label));
    shared.metrics.count_session();
    let (result, peer_check) = ClientSession::new(shared, &mut client, number).run();
    drop(place);
    // Joined after the queue entry is released, so that the next client need not wait.
    let _ = peer_check.map(session::PeerCheck::join);
    result
}

/// Waits until the client is first; false when it leaves.
fn wait_in_queue(
    connection: &mut FramedConnection,
    place: &queue::QueueEntry<'_>,
    shared: &AgentShared,
) -> Result<bool, ConnectionError> {
    let mut reported = None;
    loop {
        let ahead = place.ahead();
        if ahead == 0 {
            return Ok(true);
        }
        if reported != Some(ahead) {
            connection.send(&FromAgent::Queued(ahead), RESPONSE_MAX)?;
            reported = Some(ahead);
        }
        // A timeout here is no error.
        let _ = connection.wait(Instant::now() + POLL_INTERVAL);
        connection.flush()?;
        connection.read_available()?;
        while let Some(request) = connection.take_message::<ToAgent>()? {
            match request {
                ToAgent::Clock(number) => {
                    let now_ns = loadgen::clock::now_ns();
                    connection.send(&FromAgent::Clock(number, now_ns), RESPONSE_MAX)?;
                }
                ToAgent::Leave => return Ok(false),
                _ => {
                    shared.metrics.count_violation();
                    let why = "this client is still queued".to_owned();
                    connection.send(&FromAgent::SessionEnded(why), RESPONSE_MAX)?;
                    return Ok(false);
                }
            }
        }
        connection.check_timeouts()?;
        if connection.last_received_at().elapsed() > CLIENT_TIMEOUT {
            return Err(ConnectionError::TimedOut(CLIENT_TIMEOUT));
        }
        if shared.is_stopped() {
            connection.send(
                &FromAgent::SessionEnded("the agent was stopped".into()),
                RESPONSE_MAX,
            )?;
            return Ok(false);
        }
    }
}
