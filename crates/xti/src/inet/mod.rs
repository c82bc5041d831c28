//! `inet`: a provider of TPI whose connections are the kernel's sockets, of TCP or of this host (AF_UNIX), and one of
//! datagrams on its UDP sockets and those of this host.
//!
//! Two copies a byte, user to block and block to socket, as in the study's driver. What the kernel has
//! to say - readable, writable, connected - only schedules service procedures.
//!
//! * `requests` - primitives of the user, by state.
//! * `events` - connections that come, are made, or end.
//! * `transfer` - data both ways; `urgent` - expedited data.
//! * `datagram`, `unix_datagram` - datagrams of its UDP sockets, and of those of this host.
//! * `options` - options of the user on the sockets.
//! * `address` - addresses as octets.

mod address;
mod datagram;
mod events;
mod options;
mod requests;
mod transfer;
mod unix_datagram;
mod urgent;

pub use address::{SocketAddress, UnixName, decode, encode};
pub(crate) use datagram::{DATAGRAM_MAX, KernelUdp};
pub(crate) use options::event as options_event;
pub(crate) use requests::{BACKLOG, bind_error};

use crate::error::TliError;
use crate::provider::{self, flush_queues};
use crate::tpi::{Information, Primitive, ServiceType, State, TransportOption};
use socket2::{SockAddr, Socket};
use std::collections::{BTreeMap, VecDeque};
use std::io;
use std::net::SocketAddr;
use std::sync::atomic::{AtomicBool, AtomicU64};
use std::sync::{Arc, LazyLock, Mutex, PoisonError};
use streams::{Block, Context, Marks, Message, MessageKind, Module, ModuleInfo, Side};
use transfer::Outgoing;
pub(crate) use transfer::{arrival, receive};
pub(crate) use unix_datagram::UnixDatagrams;
pub(crate) use urgent::{receive_urgent, urgent_indication};

/// Octets of one primitive's data, and of one receive: the study's longest packet.
pub(crate) const TIDU: usize = 65_536;

/// Octets of `struct sockaddr_un`.
const UNIX_ADDRESS_LEN: i32 = 110;

/// Connections that may wait for the user whatever he asks for.
const INDICATIONS_MAX: u32 = 1024;

/// What every socket of a provider gets when it is made.
pub type Setup = Arc<dyn Fn(&Socket) -> io::Result<()> + Send + Sync>;

/// What a provider shares with those who wait for its socket.
#[derive(Default)]
pub(crate) struct Shared {
    /// The socket to wait on.
    socket: Mutex<Option<Arc<Socket>>>,
    /// The provider must not receive from the socket: a user thread does so directly, or nobody asked for data.
    pub(crate) received_outside: AtomicBool,
    /// The socket took less than it was given: data wait for it.
    pub(crate) send_blocked: AtomicBool,
    /// The user sends on: what a protocol in the process gets may wait there for more, until `unflushed` is cleared.
    pub(crate) sends_on: AtomicBool,
    pub(crate) unflushed: AtomicBool,
    /// Something arrived in part, and its rest says nothing: who waits looks again soon.
    pub(crate) look_soon: AtomicBool,
    /// System calls that sent, and that received.
    pub(crate) sends: AtomicU64,
    pub(crate) receives: AtomicU64,
    /// A connection that another stream accepted for this one, with its options.
    passed: Mutex<Option<(Socket, Vec<TransportOption>)>>,
}

impl Shared {
    pub(crate) fn set_socket(&self, socket: Option<Arc<Socket>>) {
        *self.socket.lock().unwrap_or_else(PoisonError::into_inner) = socket;
    }

    pub(crate) fn socket(&self) -> Option<Arc<Socket>> {
        self.socket
            .lock()
            .unwrap_or_else(PoisonError::into_inner)
            .clone()
    }
}

/// Streams that connections can be passed to, by token.
static ACCEPTORS: LazyLock<Mutex<BTreeMap<u32, Arc<Shared>>>> = LazyLock::new(Mutex::default);

/// The connection, or what comes before it.
enum Link {
    /// No socket.
    None,
    /// An address to connect from.
    Bound(Arc<Socket>),
    /// Accepts connections.
    Listening {
        socket: Arc<Socket>,
        limit: u32,
        waiting: VecDeque<Indication>,
    },
    /// Waits for the peer; the options of the connection.
    Connecting(Arc<Socket>, Vec<TransportOption>),
    /// Carries data.
    Connected(Arc<Socket>),
}

impl Link {
    fn socket(&self) -> Option<&Arc<Socket>> {
        match self {
            Link::None => None,
            Link::Bound(socket)
            | Link::Listening { socket, .. }
            | Link::Connecting(socket, _)
            | Link::Connected(socket) => Some(socket),
        }
    }
}

/// A connection that waits for the user's answer.
struct Indication {
    sequence: u32,
    socket: Socket,
}

/// The provider: the driver of a stream.
pub struct SocketProvider {
    /// Any address of its family.
    any: SocketAddress,
    setup: Setup,
    marks: Marks,
    state: State,
    link: Link,
    token: u32,
    options: options::SocketOptions,
    shared: Arc<Shared>,
    next_sequence: u32,
    outgoing: Outgoing,
    has_expedited: bool,
    /// A block to receive into.
    spare: Option<Block>,
}

impl SocketProvider {
    /// A provider of TCP whose write queue has `marks`; each socket it makes gets `setup`.
    pub fn new(setup: Setup, marks: Marks) -> SocketProvider {
        let token = provider::new_token();
        let shared = Arc::new(Shared::default());
        let mut acceptors = ACCEPTORS.lock().unwrap_or_else(PoisonError::into_inner);
        acceptors.insert(token, Arc::clone(&shared));
        SocketProvider {
            any: SocketAddr::from(([0, 0, 0, 0], 0)).into(),
            setup,
            marks,
            state: State::Unbound,
            link: Link::None,
            token,
            options: options::SocketOptions::tcp(),
            shared,
            next_sequence: 1,
            outgoing: Outgoing::default(),
            has_expedited: true,
            spare: None,
        }
    }

    /// The same without expedited data: an octet that a peer sends as urgent stays in its place in the stream
    /// (SO_OOBINLINE).
    pub fn without_expedited(setup: Setup, marks: Marks) -> SocketProvider {
        let in_line = move |socket: &Socket| {
            socket.set_out_of_band_inline(true)?;
            setup(socket)
        };
        let mut provider = SocketProvider::new(Arc::new(in_line), marks);
        provider.has_expedited = false;
        provider
    }

    /// A provider of connections of this host (AF_UNIX). A disconnect is a release to the peer, as the kernel says
    /// nothing else unless octets were not received.
    pub fn unix(setup: Setup, marks: Marks) -> SocketProvider {
        let mut provider = SocketProvider::new(setup, marks);
        provider.any = SocketAddress::Unix(UnixName::NONE);
        provider.options = options::SocketOptions::unix();
        provider.has_expedited = false;
        provider
    }

    /// The address in octets, of its family alone.
    fn decode(&self, octets: &[u8]) -> Option<SocketAddress> {
        let address = SocketAddress::decode(octets)?;
        let same = std::mem::discriminant(&address) == std::mem::discriminant(&self.any);
        same.then_some(address)
    }

    /// The token by which connections are passed to this stream (ACCEPTOR_id).
    pub fn token(&self) -> u32 {
        self.token
    }

    pub(crate) fn shared(&self) -> Arc<Shared> {
        Arc::clone(&self.shared)
    }

    fn set_link(&mut self, link: Link) {
        self.shared.set_socket(link.socket().cloned());
        self.link = link;
    }

    fn information(&self) -> Information {
        Information {
            tsdu: 0,
            etsdu: if self.has_expedited {
                urgent::ETSDU
            } else {
                -2
            },
            connect: -2,
            disconnect: -2,
            address: match self.any {
                SocketAddress::Internet(_) => 28,
                SocketAddress::Unix(_) => UNIX_ADDRESS_LEN,
            },
            options: crate::options::OPTIONS_MAX as i32,
            tidu: TIDU as i32,
            service: ServiceType::ConnectionsWithRelease,
            state: self.state as u32,
            flags: 0,
        }
    }

    /// Sends a primitive up.
    fn indicate(&self, context: &mut Context<'_>, primitive: &Primitive) {
        provider::indicate(context, primitive);
    }

    fn refuse(&self, context: &mut Context<'_>, of: u32, tli: TliError, errno: i32) {
        provider::refuse(context, of, tli, errno);
    }

    /// The stream fails: the user broke the protocol where there is no answer to say so.
    fn fail(&mut self, context: &mut Context<'_>) {
        self.set_link(Link::None);
        self.state = State::Unbound;
        provider::fail_stream(context);
    }

    /// Both queues of the stream are emptied, as before the end of a connection is told.
    fn flush_stream(&mut self, context: &mut Context<'_>) {
        self.outgoing.clear(context.pool());
        flush_queues(context);
    }
}

impl Drop for SocketProvider {
    fn drop(&mut self) {
        let mut acceptors = ACCEPTORS.lock().unwrap_or_else(PoisonError::into_inner);
        acceptors.remove(&self.token);
    }
}

impl Module for SocketProvider {
    fn info(&self) -> ModuleInfo {
        ModuleInfo::with_services("inet", self.marks, TIDU)
    }

    fn close(&mut self, context: &mut Context<'_>) {
        self.outgoing.clear(context.pool());
        self.set_link(Link::None);
    }

    fn put(&mut self, context: &mut Context<'_>, side: Side, message: Message) {
        match (side, message.kind()) {
            (Side::Read, MessageKind::Error) => self.failed_outside(context, &message),
            (Side::Read, _) => self.arrived(context, message),
            (Side::Write, MessageKind::Data) => self.data_request(context, message),
            (Side::Write, MessageKind::Proto | MessageKind::HighProto) => {
                self.primitive(context, message)
            }
            _ => provider::put_other(context, side, message),
        }
    }

    fn service(&mut self, context: &mut Context<'_>, side: Side) {
        match side {
            Side::Write => self.send_queued(context),
            Side::Read => self.receive_queued(context),
        }
    }

    fn ready(&mut self, context: &mut Context<'_>) {
        self.look_at_socket(context);
        if !context.is_empty(Side::Write) || self.outgoing.is_pending() {
            context.enable(Side::Write);
        }
    }
}

/// Address of a socket that was bound or connected.
fn local_address(socket: &Socket) -> Vec<u8> {
    octets_of(socket.local_addr())
}

fn remote_address(socket: &Socket) -> Vec<u8> {
    octets_of(socket.peer_addr())
}

fn octets_of(address: io::Result<SockAddr>) -> Vec<u8> {
    let address = address.ok().as_ref().and_then(SocketAddress::of_kernel);
    address.map(|address| address.encode()).unwrap_or_default()
}
