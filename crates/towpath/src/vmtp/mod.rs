//! VMTP as a library: calls from many threads, and servers.
//!
//! ```
//! use std::time::Duration;
//! use towpath::vmtp::{Endpoint, EndpointConfig};
//!
//! let any = "127.0.0.1:0".parse().expect("an address");
//! let config = EndpointConfig::default();
//! let server = Endpoint::bind(any, &config)?;
//! let clock = server.create_entity(7)?;
//! let client = Endpoint::bind(any, &config)?;
//! client.locate(clock, server.local_addr());
//! let caller = client.create_client()?;
//! std::thread::scope(|scope| -> std::io::Result<()> {
//!     scope.spawn(|| {
//!         let request = server.receive(Duration::from_secs(5)).expect("a request");
//!         server.reply(request, &b"noon"[..]);
//!     });
//!     let reply = caller.call(clock, &b"what time is it?"[..], Duration::from_secs(5))?;
//!     assert_eq!(reply.octets, b"noon");
//!     Ok(())
//! })?;
//! # Ok::<(), std::io::Error>(())
//! ```
//!
//! An [`Endpoint`] has entities behind one UDP port. Any number of threads call through its
//! [`Client`]s and serve its requests; each waits for its own reply only. Messages have up to 4 MiB.
//! What travels with a message besides is its [`Note`]: `tag` is VMTP's code, 24 bits, from
//! 0x80_0000 on the user's in a reply; `Reliability::Retransmissions(0)` makes a call a datagram,
//! and a reply that of an idempotent transaction, of which no copy is kept; `call` says the rest:
//! priority, conditional and partial delivery, checks of headers alone.
//!
//! * [`stream`] - calls in flight together, answered in order.
//! * [`groups`] - calls to many servers at once.
//! * [`discovery`] - whether an entity, or a holder of a name, is there.
//! * [`entities`] - reports on the entities and calls of live endpoints.

pub mod discovery;
pub mod entities;
pub mod groups;
mod refusals;
pub mod stream;

use crate::engine_setup;
use crate::transport::vmtp::end::{entity, host_of};
use crate::xtp::contexts::{self, ReportSocket};
use crate::xtp::tracing;
use driver::TransactionEndpoint;
use engine::{Address, Transactions};
use engine_vmtp::{Vmtp, VmtpConfig};
use std::io;
use std::net::SocketAddr;
use std::sync::atomic::{AtomicU32, Ordering};
use std::sync::{Arc, Mutex};
use std::time::{Duration, Instant};
use wire::trace::{TraceLog, Traced};
use wire_udp::UdpWire;

pub use discovery::Found;
pub use driver::transactions::{Call, Message, Reply, Request};
pub use engine::{CallFlags, CallNote, EntityId, Note, Reliability};
pub use refusals::CallFailed;
pub use stream::Stream;

/// Discriminators of an endpoint's servers lie below this one; its clients get those from here on.
pub const SERVERS_MAX: u32 = 0x8000;

/// Clients of an endpoint, at most: discriminators have 16 bits, and the last two are the manager's.
const CLIENTS_MAX: u32 = 0x7ffe;

/// How an endpoint behaves.
#[derive(Clone, Debug)]
pub struct EndpointConfig {
    /// Octets of the longest packet, 580 to 65,507.
    pub packet_len: usize,
    /// Octets of the longest message, either way, at most 4 MiB.
    pub message_max: u32,
    /// Times a message is sent again without an answer before a call fails.
    pub retries_max: u32,
    /// How long a packet may live in the network. An endpoint that has just started probes clients
    /// that it does not know for four times as long; zero: never.
    pub packet_lifetime: Duration,
    /// Times a datagram is sent, of which one may arrive on a path without a way back.
    pub datagram_copies: u32,
    /// Where packets are traced; None: to the trace of the process, if it has one
    /// ([`crate::xtp::tracing`]).
    pub trace: Option<Arc<TraceLog>>,
}

impl Default for EndpointConfig {
    fn default() -> Self {
        let usual = VmtpConfig::default();
        EndpointConfig {
            packet_len: usual.packet_len,
            message_max: usual.message_max,
            retries_max: usual.retries_max,
            packet_lifetime: usual.packet_lifetime,
            datagram_copies: usual.datagram_copies,
            trace: None,
        }
    }
}

impl EndpointConfig {
    /// # Errors
    ///
    /// The first value out of range, and the range.
    fn check(&self) -> io::Result<()> {
        let packets = 580..=wire_udp::UDP_PAYLOAD_MAX;
        let refusal = match self {
            _ if !packets.contains(&self.packet_len) => format!(
                "a packet of {} octets is out of range; use 580 to {}",
                self.packet_len,
                packets.end()
            ),
            _ if self.message_max > 4 << 20 => {
                let max = self.message_max;
                format!("messages of {max} octets are out of range; use at most 4194304")
            }
            _ => return Ok(()),
        };
        Err(io::Error::new(io::ErrorKind::InvalidInput, refusal))
    }
}

/// Entities behind one UDP port.
pub struct Endpoint {
    inner: TransactionEndpoint<Vmtp, Traced<UdpWire>>,
    local: SocketAddr,
    clients: AtomicU32,
    /// Streams so far.
    streams: AtomicU32,
    /// What serves reports.
    reports: Mutex<Option<ReportSocket>>,
}

impl Endpoint {
    /// An endpoint at `local`; port 0 takes a free one.
    ///
    /// # Errors
    ///
    /// `InvalidInput` for a configuration out of range, or the system's.
    pub fn bind(local: SocketAddr, config: &EndpointConfig) -> io::Result<Endpoint> {
        config.check()?;
        let mut wire = UdpWire::bind(local)?;
        // A user that waits blocks in the receive; the endpoint ends it in time.
        wire.set_max_wait(None)?;
        let local = wire.local_addr()?;
        let trace = match &config.trace {
            Some(trace) => Some(Arc::clone(trace)),
            None => tracing::process_log()?,
        };
        let wire = Traced::new(wire, trace, Address::Socket(local));
        let engine = Vmtp::new(VmtpConfig {
            packet_len: config.packet_len,
            message_max: config.message_max,
            retries_max: config.retries_max,
            packet_lifetime: config.packet_lifetime,
            datagram_copies: config.datagram_copies.max(1),
            host: host_of(Address::Socket(local)),
            seed: engine_setup::random_seed(),
            secret: engine_setup::random_secret(),
            ..VmtpConfig::default()
        });
        let endpoint = Endpoint {
            inner: TransactionEndpoint::new(engine, wire)?,
            local,
            clients: AtomicU32::new(0),
            streams: AtomicU32::new(0),
            reports: Mutex::new(None),
        };
        if contexts::enabled_by_environment() {
            // An endpoint works without reports too.
            let _ = endpoint.serve_entities();
        }
        Ok(endpoint)
    }

    /// Where it is.
    pub fn local_addr(&self) -> SocketAddr {
        self.local
    }

    /// Creates an entity that is called, with this discriminator.
    ///
    /// # Errors
    ///
    /// `InvalidInput` for a discriminator of 0 or from [`SERVERS_MAX`] on.
    pub fn create_entity(&self, discriminator: u32) -> io::Result<EntityId> {
        if !(1..SERVERS_MAX).contains(&discriminator) {
            let text = format!(
                "discriminator {discriminator} is out of range; use 1 to {}",
                SERVERS_MAX - 1
            );
            return Err(io::Error::new(io::ErrorKind::InvalidInput, text));
        }
        let id = entity(
            u64::from(discriminator),
            host_of(Address::Socket(self.local)),
        );
        self.inner.create_entity(id)?;
        Ok(id)
    }

    /// Creates an entity that calls.
    ///
    /// # Errors
    ///
    /// `Other` when there are as many as there may be.
    pub fn create_client(&self) -> io::Result<Client<'_>> {
        let number = self.clients.fetch_add(1, Ordering::Relaxed);
        if number >= CLIENTS_MAX {
            let text = format!("an endpoint has at most {CLIENTS_MAX} clients; bind another");
            return Err(io::Error::other(text));
        }
        let host = host_of(Address::Socket(self.local));
        let entity = entity(u64::from(SERVERS_MAX + number), host);
        self.inner.create_entity(entity)?;
        Ok(Client {
            endpoint: self,
            entity,
        })
    }

    /// A client that [`create_client`](Endpoint::create_client) created.
    pub fn client_of(&self, entity: EntityId) -> Client<'_> {
        Client {
            endpoint: self,
            entity,
        }
    }

    /// Removes an entity: calls to it are refused from now on.
    ///
    /// # Errors
    ///
    /// That of a broken endpoint.
    pub fn remove_entity(&self, entity: EntityId) -> io::Result<()> {
        self.inner
            .with_engine(|engine, now| engine.remove_entity(now, entity))
    }

    /// The entity has moved to the endpoint at `at`, where one with its identifier was created; callers
    /// are told, and follow it.
    ///
    /// # Errors
    ///
    /// That of a broken endpoint.
    pub fn migrate(&self, entity: EntityId, at: SocketAddr) -> io::Result<()> {
        self.inner
            .with_engine(|engine, _| engine.migrate(entity, Address::Socket(at)))
    }

    /// Creates an entity with an identifier that another endpoint gave it: one that has moved here.
    ///
    /// # Errors
    ///
    /// `Other` when there are as many as there may be.
    pub fn adopt_entity(&self, entity: EntityId) -> io::Result<()> {
        self.inner.create_entity(entity)
    }

    /// Says where an entity of another endpoint is.
    pub fn locate(&self, entity: EntityId, at: SocketAddr) {
        self.inner.locate(entity, Address::Socket(at));
    }

    /// The next request for an entity of this endpoint, waiting for it up to `limit`.
    ///
    /// # Errors
    ///
    /// `TimedOut`.
    pub fn receive(&self, limit: Duration) -> io::Result<Request> {
        self.inner.receive(limit)
    }

    /// Answers a request.
    pub fn reply(&self, request: Request, reply: impl Into<Message>) {
        self.inner.reply(request, reply);
    }

    /// Answers a request with a code, or as an idempotent one.
    pub fn reply_noted(&self, request: Request, reply: impl Into<Message>, note: &Note) {
        self.inner.reply_noted(request, reply, note);
        self.inner.flush();
    }

    /// Passes a request on to another entity, with these octets: that one answers the caller. What
    /// is passed on has as many packet groups (of 16 KiB) as what came. Requests of a stream, and those to
    /// a group, cannot be passed on: call the other and answer.
    ///
    /// # Errors
    ///
    /// `InvalidInput` for such a request, or an entity that was not located; it is refused then.
    pub fn forward(
        &self,
        request: Request,
        to: EntityId,
        octets: impl Into<Message>,
    ) -> io::Result<()> {
        self.inner.forward(request, to, octets)
    }

    /// Refuses a request: its caller gets `ConnectionRefused`.
    pub fn refuse(&self, request: Request) {
        self.inner.refuse(request);
    }

    /// Serves with `threads` threads until `is_over`, which is asked every 50 ms of silence. Replies of
    /// services shorter than 20 us leave together with others if more requests have come already, but at
    /// the latest after 4 ms.
    pub fn serve(
        &self,
        threads: usize,
        answer: impl Fn(&Request) -> Vec<u8> + Sync,
        is_over: impl Fn() -> bool + Sync,
    ) {
        std::thread::scope(|scope| {
            for _ in 0..threads.max(1) {
                scope.spawn(|| {
                    while !is_over() {
                        if let Ok(request) = self.receive(Duration::from_millis(50)) {
                            self.serve_one(request, &answer);
                        }
                    }
                });
            }
        });
    }

    fn serve_one(&self, request: Request, answer: &impl Fn(&Request) -> Vec<u8>) {
        let began = Instant::now();
        let reply = answer(&request);
        if began.elapsed() < SHORT_SERVICE {
            self.inner.reply_noted(request, reply, &Note::default());
        } else {
            self.inner.reply(request, reply);
        }
    }
}

/// A service that takes less makes the reply before it wait for no longer than a send costs some times.
const SHORT_SERVICE: Duration = Duration::from_micros(20);

/// An entity that calls. Threads may share one: each call that is not answered has a client of its
/// own on the network.
pub struct Client<'a> {
    endpoint: &'a Endpoint,
    entity: EntityId,
}

impl Client<'_> {
    /// Calls `server` and waits for the reply up to `limit`.
    ///
    /// # Errors
    ///
    /// `InvalidInput` for an entity that was not located or a message that is too long, `TimedOut`
    /// when no reply came, `ConnectionRefused` when there is no such entity or it refused,
    /// `OutOfMemory` for a reply that exceeds what incoming messages may take, `Other` with VMTP's
    /// code otherwise ([`CallFailed`]).
    pub fn call(
        &self,
        server: EntityId,
        request: impl Into<Message>,
        limit: Duration,
    ) -> io::Result<Reply> {
        let call = self.begin(server, request, &Note::default());
        self.take(&call, limit).unwrap_or_else(|| {
            self.endpoint.inner.abandon(call);
            Err(io::ErrorKind::TimedOut.into())
        })
    }

    /// Calls as [`call`](Client::call) does, with a copy of `request`; the reply is copied into `reply`.
    /// Returns the reply's length: what exceeds the buffer is dropped. Once tables have their size,
    /// nothing is allocated. Errors are those of [`call`](Client::call).
    pub fn call_into(
        &self,
        server: EntityId,
        request: &[u8],
        reply: &mut [u8],
        limit: Duration,
    ) -> io::Result<usize> {
        let inner = &self.endpoint.inner;
        let answer = self.call(server, inner.message(request), limit)?;
        let len = answer.octets.len();
        let copied = len.min(reply.len());
        reply[..copied].copy_from_slice(&answer.octets[..copied]);
        inner.recycle(answer.octets);
        Ok(len)
    }

    /// Begins a call. It leaves with the next call, wait or flush, or when 16 or
    /// 48 KiB have come together.
    pub fn begin(&self, server: EntityId, request: impl Into<Message>, note: &Note) -> Call {
        self.endpoint
            .inner
            .begin(self.entity, server, request, note)
    }

    /// The outcome of a call, waiting for it up to `limit`; None when that is not long enough.
    /// Errors are those of [`call`](Client::call).
    pub fn take(&self, call: &Call, limit: Duration) -> Option<io::Result<Reply>> {
        let taken = self.endpoint.inner.take(call, limit)?;
        Some(taken.map_err(refusals::named))
    }

    /// The outcome of a call, if it has come. Errors are those of [`call`](Client::call).
    pub fn try_take(&self, call: &Call) -> Option<io::Result<Reply>> {
        self.endpoint.inner.poll();
        let taken = self.endpoint.inner.try_take(call)?;
        Some(taken.map_err(refusals::named))
    }

    /// Gives a call up.
    pub fn abandon(&self, call: Call) {
        self.endpoint.inner.abandon(call);
    }

    /// Sends a datagram, to which no reply is awaited.
    ///
    /// # Errors
    ///
    /// `InvalidInput` for an entity that was not located or a message that is too long.
    pub fn send_datagram(&self, server: EntityId, message: impl Into<Message>) -> io::Result<()> {
        let note = Note {
            reliability: Reliability::Retransmissions(0),
            ..Note::default()
        };
        let call = self.begin(server, message, &note);
        self.endpoint.inner.settle()?;
        match self.endpoint.inner.try_take(&call) {
            // It ended when it had left: there is nothing to be answered.
            Some(Err(error)) if error.kind() == io::ErrorKind::UnexpectedEof => Ok(()),
            Some(outcome) => outcome.map(drop),
            None => Ok(()),
        }
    }

    /// Sends what was begun.
    pub fn flush(&self) {
        self.endpoint.inner.flush();
    }

    /// The entity that calls.
    pub fn entity(&self) -> EntityId {
        self.entity
    }
}
