//! The agent: it lets clients in one at a time and runs their workers.
//!
//! * [`state`] - what may be asked when, apart from sockets: the part that a fuzzer feeds.
//! * `doors` - connections that have proved nothing yet.
//! * `session` - the client whose turn it is.
//! * `queue` - the others.
//! * `machine` - what this host is and has.
//! * [`privilege`] - what is given up.
//! * [`metrics`] - counts on request.

mod doors;
mod machine;
pub mod metrics;
pub mod privilege;
mod queue;
mod session;
pub mod state;

pub use machine::crosses;

use crate::greeting::{self, Tokens};
use crate::keys::{KeyFolder, PublicKey};
use crate::link::{Link, LinkError};
use crate::preface::{self, Caller, Mode};
use crate::tls;
use control::frame::{ANSWER_MAX, REQUEST_MAX};
use control::session::{FromAgent, ToAgent};
use control::{Caps, PROTOCOL_VERSION};
use doors::{Doors, Entering};
use measure::Place;
use metrics::Counts;
use queue::Queue;
use session::{SILENCE, Session};
use std::fmt;
use std::io;
use std::net::{IpAddr, SocketAddr, TcpListener, TcpStream};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::thread::JoinHandle;
use std::time::{Duration, Instant};

/// How long keys may take to prove, and then the first message.
const HELLO_LIMIT: Duration = Duration::from_secs(5);

/// How often a client in the queue is looked at.
const TICK: Duration = Duration::from_millis(200);

/// Octets of a session's stack; nothing there recurses or keeps large values.
pub(crate) const STACK: usize = 512 << 10;

/// Hears what the agent does, a line each.
pub type Log = Box<dyn Fn(&str) + Send + Sync>;

/// What an agent is asked to be.
pub struct Settings {
    /// Where it listens.
    pub listen: SocketAddr,
    /// Its keys; None to ask for none, which it does on the loopback alone.
    pub keys: Option<KeyFolder>,
    /// What clients may ask for.
    pub caps: Caps,
    /// Where workers run: this process's host, but for tests.
    pub place: Box<dyn Place + Send + Sync>,
    /// Hears of it.
    pub log: Log,
}

/// Why there is no agent.
#[derive(Debug, thiserror::Error)]
pub enum AgentError {
    /// It would listen to a network without asking for keys.
    #[error(
        "without a key the agent listens on the loopback alone, not on {0}; \
             make one with `towpath key new`, and trust those of its clients"
    )]
    Open(IpAddr),
    /// Its keys are of no use.
    #[error(transparent)]
    Keys(#[from] crate::keys::KeyError),
    /// It cannot listen.
    #[error("cannot listen on {0}: {1}; give another address with --listen")]
    Listen(SocketAddr, io::Error),
}

/// An agent at work. It ends when this is dropped: its client is told, workers are joined.
pub struct Agent {
    shared: Arc<Shared>,
    address: SocketAddr,
    accepting: Option<JoinHandle<()>>,
}

/// What all connections of an agent have in common.
pub(crate) struct Shared {
    pub(crate) caps: Caps,
    pub(crate) place: Box<dyn Place + Send + Sync>,
    pub(crate) tokens: Tokens,
    pub(crate) counts: Counts,
    queue: Queue,
    keys: Option<KeyFolder>,
    log: Log,
    stop: AtomicBool,
    sessions: AtomicU64,
    doors: Arc<Doors>,
}

impl Shared {
    pub(crate) fn is_stopped(&self) -> bool {
        self.stop.load(Ordering::Relaxed)
    }

    pub(crate) fn log(&self, line: fmt::Arguments<'_>) {
        (self.log)(&line.to_string());
    }

    fn mode(&self) -> Mode {
        match self.keys {
            Some(_) => Mode::Keys,
            None => Mode::Open,
        }
    }

    /// Says what a stranger did, unless strangers do much.
    fn log_stranger(&self, from: IpAddr, error: &LinkError) {
        match self.doors.may_say(Instant::now()) {
            None => {}
            Some(0) => self.log(format_args!("{from}: {error}")),
            Some(more) => self.log(format_args!(
                "{from}: {error} (and {more} more that proved nothing)"
            )),
        }
    }
}

/// A client that has proved its key and said what it is.
pub(crate) struct Client {
    link: Link,
    /// Its own, and this host's.
    addresses: (SocketAddr, SocketAddr),
    key: Option<PublicKey>,
    /// Its address, and the name its key is trusted by.
    who: String,
}

impl Agent {
    /// Begins to listen.
    ///
    /// # Errors
    ///
    /// An [`AgentError`].
    pub fn start(settings: Settings) -> Result<Agent, AgentError> {
        let Settings {
            listen,
            keys,
            caps,
            place,
            log,
        } = settings;
        match &keys {
            None if !listen.ip().is_loopback() => return Err(AgentError::Open(listen.ip())),
            None => {}
            // What is wrong with them is said now and not to the first client.
            Some(keys) => drop((keys.identity()?, keys.trusted()?)),
        }
        let socket = bind(listen).map_err(|error| AgentError::Listen(listen, error))?;
        let address = socket
            .local_addr()
            .map_err(|error| AgentError::Listen(listen, error))?;
        let shared = Arc::new(Shared {
            caps,
            place,
            tokens: Tokens::default(),
            counts: Counts::default(),
            queue: Queue::default(),
            keys,
            log,
            stop: AtomicBool::new(false),
            sessions: AtomicU64::new(0),
            doors: Arc::default(),
        });
        let theirs = Arc::clone(&shared);
        let accepting = std::thread::Builder::new()
            .name("agent".into())
            .stack_size(STACK)
            .spawn(move || accept(&socket, &theirs))
            .map_err(|error| AgentError::Listen(listen, error))?;
        Ok(Agent {
            shared,
            address,
            accepting: Some(accepting),
        })
    }

    /// Where it listens.
    pub fn address(&self) -> SocketAddr {
        self.address
    }

    /// Clients that measure or wait.
    pub fn clients(&self) -> usize {
        self.shared.queue.len()
    }

    /// What it has counted, as OpenMetrics text.
    pub fn metrics(&self) -> String {
        metrics::text(&self.shared.counts, self.clients())
    }

    /// A handle to its counts that may outlive it.
    pub fn metrics_source(&self) -> impl Fn() -> String + Send + Sync + 'static {
        let shared = Arc::clone(&self.shared);
        move || metrics::text(&shared.counts, shared.queue.len())
    }
}

impl Drop for Agent {
    fn drop(&mut self) {
        self.shared.stop.store(true, Ordering::Relaxed);
        if let Some(accepting) = self.accepting.take() {
            // A panic there was told when it happened.
            let _ = accepting.join();
        }
    }
}

/// Listens; IPv6's any-address takes IPv4 too.
fn bind(listen: SocketAddr) -> io::Result<TcpListener> {
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

fn accept(socket: &TcpListener, shared: &Arc<Shared>) {
    let mut threads: Vec<JoinHandle<()>> = Vec::new();
    while !shared.is_stopped() {
        match socket.accept() {
            Ok((client, from)) => {
                threads.retain(|thread| !thread.is_finished());
                // Without a descriptor or a thread for it the connection is closed.
                threads.extend(receive(client, plain(from.ip()), shared).ok());
            }
            Err(error) if error.kind() == io::ErrorKind::WouldBlock => idle(socket),
            // Descriptors are short, and the connection stays in line until some are free.
            Err(_) => std::thread::sleep(TICK),
        }
    }
    for thread in threads {
        let _ = thread.join();
    }
}

/// Serves a connection in a thread of its own.
fn receive(client: TcpStream, from: IpAddr, shared: &Arc<Shared>) -> io::Result<JoinHandle<()>> {
    let (entering, crowded) = shared.doors.enter(&client, from)?;
    if crowded {
        shared.counts.turned_away();
    }
    let shared = Arc::clone(shared);
    let thread = std::thread::Builder::new().name("session".into());
    thread
        .stack_size(STACK)
        .spawn(move || connection(client, from, entering, &shared))
}

/// Waits a little for somebody to come.
fn idle(socket: &TcpListener) {
    use rustix::event::{PollFd, PollFlags, poll};
    let span = crate::link::timespec(TICK);
    if poll(&mut [PollFd::new(socket, PollFlags::IN)], Some(&span)).is_err() {
        std::thread::sleep(TICK);
    }
}

/// An IPv4 address that came through an IPv6 socket is one of IPv4.
pub(crate) fn plain(address: IpAddr) -> IpAddr {
    address.to_canonical()
}

/// A connection from its first octet to its last.
fn connection(socket: TcpStream, from: IpAddr, entering: Entering, shared: &Shared) {
    let came = enter(socket, shared);
    drop(entering);
    match came {
        Ok(None) => {}
        Ok(Some(client)) => {
            let who = client.who.clone();
            match serve(client, shared) {
                // To hang up is to leave; the last answers need not have been read.
                Ok(()) | Err(LinkError::Closed) => {}
                Err(error) => shared.log(format_args!("{who}: {error}")),
            }
        }
        Err(error) => shared.log_stranger(from, &error),
    }
}

/// Finds out who came; a client is to be served, all others are done with.
fn enter(mut socket: TcpStream, shared: &Shared) -> Result<Option<Client>, LinkError> {
    let end = Instant::now() + preface::LIMIT;
    socket.set_nonblocking(false)?;
    preface::write(&mut socket, &preface::agent(shared.mode()))?;
    let mut theirs = [0; preface::LEN];
    preface::read(&mut socket, &mut theirs, end)?;
    match preface::read_caller(&theirs) {
        None => {
            shared.counts.strangers();
            Ok(None)
        }
        Some(Caller::Agent) => {
            greeting::answer(socket, &shared.tokens)?;
            Ok(None)
        }
        Some(Caller::Client) => prove(socket, shared),
    }
}

/// A client's keys are proved before anything it says is looked at.
fn prove(socket: TcpStream, shared: &Shared) -> Result<Option<Client>, LinkError> {
    let mut addresses = (socket.peer_addr()?, socket.local_addr()?);
    addresses.0.set_ip(plain(addresses.0.ip()));
    addresses.1.set_ip(plain(addresses.1.ip()));
    let wrong = |error: &dyn fmt::Display| LinkError::Keys(error.to_string());
    let mut trusted = Vec::new();
    let tls = match &shared.keys {
        None => None,
        Some(keys) => {
            let identity = keys.identity().map_err(|error| wrong(&error))?;
            trusted = keys.trusted().map_err(|error| wrong(&error))?;
            Some(tls::server(&identity, &trusted).map_err(|error| wrong(&error))?)
        }
    };
    let mut link = Link::new(socket, tls, REQUEST_MAX)?;
    let end = Instant::now() + HELLO_LIMIT;
    link.shake_hands(end).inspect_err(|error| {
        if matches!(error, LinkError::Keys(_)) {
            shared.counts.strangers();
        }
    })?;
    let proved = link.proved(&trusted);
    match link.receive::<ToAgent>(end)? {
        ToAgent::Hello(PROTOCOL_VERSION) => {}
        _ => {
            let why = format!("this agent speaks version {PROTOCOL_VERSION} of the protocol");
            link.send(&FromAgent::Over(why), ANSWER_MAX)?;
            return Ok(None);
        }
    }
    let who = match &proved {
        None => addresses.0.to_string(),
        Some(key) => format!("{} ({})", addresses.0, key.name),
    };
    Ok(Some(Client {
        link,
        addresses,
        key: proved.map(|trusted| trusted.key),
        who,
    }))
}

/// A client in the line, and its session when it is its turn.
fn serve(mut client: Client, shared: &Shared) -> Result<(), LinkError> {
    let link = &mut client.link;
    let hello = FromAgent::Hello(machine::welcome(&shared.caps));
    link.send(&hello, ANSWER_MAX)?;
    let place = match shared.queue.join(client.key) {
        Ok(place) => place,
        Err(full) => {
            shared.counts.turned_away();
            return link.send(&FromAgent::Over(full.to_string()), ANSWER_MAX);
        }
    };
    if !wait(link, &place, shared)? {
        return Ok(());
    }
    let number = shared.sessions.fetch_add(1, Ordering::Relaxed);
    shared.log(format_args!("{} measures", client.who));
    shared.counts.session();
    let (result, greeting) = Session::new(shared, &mut client, number).run();
    drop(place);
    // The next client need not wait for it.
    let _ = greeting.map(session::Greeting::join);
    result
}

/// Until it is the client's turn; false when it leaves.
fn wait(link: &mut Link, place: &queue::Place<'_>, shared: &Shared) -> Result<bool, LinkError> {
    let mut told = None;
    loop {
        let ahead = place.ahead();
        if ahead == 0 {
            return Ok(true);
        }
        if told != Some(ahead) {
            link.send(&FromAgent::Queued(ahead), ANSWER_MAX)?;
            told = Some(ahead);
        }
        // Nothing having come is no fault yet.
        let _ = link.wait(Instant::now() + TICK);
        link.flush()?;
        link.fill()?;
        while let Some(request) = link.take::<ToAgent>()? {
            match request {
                ToAgent::Clock(number) => {
                    let now_ns = measure::clock::now_ns();
                    link.send(&FromAgent::Clock(number, now_ns), ANSWER_MAX)?;
                }
                ToAgent::Leave => return Ok(false),
                _ => {
                    shared.counts.faults();
                    let why = "it is not this client's turn yet".to_owned();
                    link.send(&FromAgent::Over(why), ANSWER_MAX)?;
                    return Ok(false);
                }
            }
        }
        link.check()?;
        if link.heard().elapsed() > SILENCE {
            return Err(LinkError::Silent(SILENCE));
        }
        if shared.is_stopped() {
            link.send(&FromAgent::Over("the agent was stopped".into()), ANSWER_MAX)?;
            return Ok(false);
        }
    }
}
