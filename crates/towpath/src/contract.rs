//! The contract of a transport: [`Transport`], [`Listener`], [`Circuit`].

use crate::Options;
pub use crate::connection_info::{ConnectionInfo, NoConnectionInfo};
pub use crate::runs::ReceiveCounts;
pub use crate::sharing::Sharing;
pub use driver::{ArrivalPiece, LentArrival, Part, Reserved};
pub use engine::{Note, Reliability};
use std::collections::BTreeMap;
use std::io;
use std::os::fd::{BorrowedFd, OwnedFd};
use std::sync::Arc;
use std::time::{Duration, Instant};

/// Longest wait of a blocking call. Then it returns `WouldBlock`, so that the caller's loop can
/// check whether to stop.
pub const BLOCKING_TIMEOUT: Duration = Duration::from_millis(20);

/// A circuit that was opened or accepted, or why not.
pub type CircuitResult = io::Result<Box<dyn Circuit>>;

/// All circuits of a job, or why one of them could not be opened.
pub type CircuitsResult = io::Result<Vec<Box<dyn Circuit>>>;

/// A way to move messages between two processes. No method has a default body; what most answer is in [`usual`](crate::usual).
pub trait Transport: Send + Sync {
    /// Its name on the command line and in results.
    fn name(&self) -> &'static str;

    /// One line: the protocol, and the system calls used.
    fn summary(&self) -> &'static str;

    /// Its guarantees, and where it runs.
    fn class(&self) -> Class;

    /// The class of circuits that have the transport-specific options `own`.
    fn class_with(&self, own: &BTreeMap<String, String>) -> Class;

    /// Whether one end sends to several receivers. Only the connecting side sends; a message counts
    /// as received when all receivers have it.
    fn is_one_to_many(&self) -> bool;

    /// Whether the listening side sends only in answer to a message of the connecting side, one
    /// message each.
    fn only_answers(&self) -> bool;

    /// Whether only the connecting side sends, with options `own` of this transport: nothing answers,
    /// and no workload that needs an answer runs.
    fn is_one_way(&self, own: &BTreeMap<String, String>) -> bool;

    /// Whether an engine in the user's process sends for circuits with options `own` and waits for nothing that comes back, so that
    /// its packets may be discarded ([`Options::discard`]).
    fn sends_unanswered(&self, own: &BTreeMap<String, String>) -> bool;

    /// Whether an empty message of circuits with options `own` arrives as one: not on a byte stream, and not where it would be an end.
    fn carries_empty(&self, own: &BTreeMap<String, String>) -> bool;

    /// The option, as name and value, by which one circuit with options `own` of this transport sends to several listeners
    /// ([`connect_to_many`](Transport::connect_to_many)); both ends have to be given it. None where each listener
    /// has a circuit of its own.
    fn option_to_many(
        &self,
        own: &BTreeMap<String, String>,
        sharing: Sharing,
    ) -> Option<(&'static str, &'static str)>;

    /// Bytes of the longest message that the protocol carries, whatever the path; None where a path or
    /// a buffer decides, or nothing.
    fn message_max(&self) -> Option<u64>;

    /// Whether this host can run it with `options`.
    ///
    /// # Errors
    ///
    /// What is missing, and the remedy.
    fn available(&self, options: &Options) -> Result<(), Unavailable>;

    /// The options of this transport alone, allowed in [`Options::transport_specific`].
    fn options(&self) -> &[OptionHelp];

    /// Checks [`Options::transport_specific`], names and values, so that a race refuses a wrong
    /// option before it starts.
    ///
    /// # Errors
    ///
    /// A sentence that names the option and its valid values.
    fn check_options(&self, own: &BTreeMap<String, String>) -> Result<(), String>;

    /// Listens on a free port or name.
    fn listen(&self, options: &Options) -> io::Result<Box<dyn Listener>>;

    /// Opens circuit number `index` (below `options.circuits`) to a listener.
    fn connect(&self, rendezvous: &Rendezvous, index: usize, options: &Options) -> CircuitResult;

    /// Opens all `options.circuits` to a listener, in order. With [`Options::share_endpoint`] those
    /// of transactions are entities of one endpoint; the listener's options must say the same.
    fn connect_all(&self, rendezvous: &Rendezvous, options: &Options) -> CircuitsResult;

    /// Opens one circuit to several listeners, which sends each message to all of them, or to one, and receives nothing. All have the
    /// option of [`option_to_many`](Transport::option_to_many).
    ///
    /// # Errors
    ///
    /// `Unsupported` for a transport without such circuits; else those of [`connect`](Transport::connect).
    fn connect_to_many(&self, rendezvous: &[Rendezvous], options: &Options) -> CircuitResult;
}

/// Whether a transport called `name` has every option of `own` among `options`.
///
/// # Errors
///
/// A sentence that names the option and those there are.
pub fn check_names(
    name: &str,
    options: &[OptionHelp],
    own: &BTreeMap<String, String>,
) -> Result<(), String> {
    let known = |key: &str| options.iter().any(|option| option.name == key);
    match own.keys().find(|key| !known(key)) {
        None => Ok(()),
        Some(key) if key == "cells" => Err(crate::cells::no_cells_below(name)),
        Some(key) => {
            let names: Vec<&str> = options.iter().map(|option| option.name).collect();
            let has = if names.is_empty() {
                "has none of its own".to_owned()
            } else {
                format!("has {}", names.join(", "))
            };
            Err(format!("{name} has no option '{key}'; it {has}"))
        }
    }
}

/// Help text of a transport-specific option.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct OptionHelp {
    /// Its name in `NAME=VALUE`.
    pub name: &'static str,
    /// Valid values, the default first: `on|off`, or `BYTES`.
    pub values: &'static str,
    /// Its effect, in one line.
    pub meaning: &'static str,
}

/// The accepting side.
pub trait Listener: Send {
    /// The address that [`Transport::connect`] takes.
    fn rendezvous(&self) -> io::Result<Rendezvous>;

    /// Accepts the next circuit.
    ///
    /// A connection-oriented transport waits for a peer. A connectionless one returns at once; its
    /// circuit takes the source of the first message it receives as its peer, and sends before that
    /// fail with `NotConnected`. With `options.circuits` above 1, the n-th circuit accepted is
    /// circuit n of the connecting side if the class is connectionless; otherwise circuits come in
    /// the order in which they connected. With a deadline that has passed it looks once at what arrived.
    ///
    /// # Errors
    ///
    /// `TimedOut` when no peer connected before `deadline`; the next call goes on with one that had begun to.
    fn accept(&mut self, deadline: Instant) -> CircuitResult;
}

/// One end of a circuit. All calls are made from one thread. No method has a default body; what most answer is in
/// [`usual`](crate::usual).
///
/// Measuring loops call [`send_shared_run`](Circuit::send_shared_run) and
/// [`recv_run`](Circuit::recv_run): one dynamically dispatched call for many messages; the calls
/// per message inside it are dispatched statically.
pub trait Circuit: Send {
    /// Sends one message whole, without blocking. A byte stream that sent only part of it counts
    /// the message as sent, and sends the rest first in the next call.
    ///
    /// # Errors
    ///
    /// `WouldBlock` when nothing of it was sent.
    fn try_send(&mut self, message: &[u8]) -> io::Result<()>;

    /// Receives one message, or the bytes a stream has, without blocking. None: end of stream. What
    /// exceeds the buffer of a message is dropped: see [`receive_part`](Circuit::receive_part).
    ///
    /// # Errors
    ///
    /// `WouldBlock` when there is nothing to receive.
    fn try_recv(&mut self, buffer: &mut [u8]) -> io::Result<Option<usize>>;

    /// Sends one message whole, blocking.
    ///
    /// # Errors
    ///
    /// `WouldBlock` after [`BLOCKING_TIMEOUT`]; nothing was sent then.
    fn send(&mut self, message: &[u8]) -> io::Result<()>;

    /// Receives one message, or at least one byte of a stream, blocking. None: end of stream.
    ///
    /// # Errors
    ///
    /// `WouldBlock` after [`BLOCKING_TIMEOUT`].
    fn recv(&mut self, buffer: &mut [u8]) -> io::Result<Option<usize>>;

    /// Sends `message` up to `count` times, blocking; returns how many were sent, at least one.
    /// Errors are those of [`send`](Circuit::send), if the first message could not be sent.
    fn send_run(&mut self, message: &[u8], count: usize) -> io::Result<usize>;

    /// [`send_run`](Circuit::send_run) from shared, immutable memory. A transport with zero-copy
    /// send transmits from it directly, and releases its reference when the peer has the message.
    /// Errors are those of [`send`](Circuit::send), if the first message could not be sent.
    fn send_shared_run(&mut self, message: &Arc<[u8]>, count: usize) -> io::Result<usize>;

    /// Receives up to `calls` times, blocking. None: end of stream. What arrived may lie elsewhere and only be counted.
    /// Errors are those of [`recv`](Circuit::recv), if the first call received nothing.
    fn recv_run(&mut self, buffer: &mut [u8], calls: usize) -> io::Result<Option<ReceiveCounts>>;

    /// Sends one message whole with what travels with it, blocking. With a note that says nothing
    /// it is [`send`](Circuit::send).
    ///
    /// # Errors
    ///
    /// `Unsupported` when the note says more than the default in a field that the transport does
    /// not carry, else those of [`send`](Circuit::send).
    fn send_noted(&mut self, message: &[u8], note: &Note) -> io::Result<()>;

    /// Receives the next part of a message, or at least one byte of a stream, blocking. What does
    /// not fit into `buffer` stays for the next receive of any kind. None: end of stream.
    ///
    /// # Errors
    ///
    /// `WouldBlock` after [`BLOCKING_TIMEOUT`].
    fn receive_part(&mut self, buffer: &mut [u8]) -> io::Result<Option<Part>>;

    /// Reserves room for a message of `len` bytes, or for bytes of a stream, where they will be sent
    /// from, blocking. The user writes all pieces, then calls [`commit`](Circuit::commit). Whatever
    /// is sent before that takes the place, and the reservation is gone.
    ///
    /// Transports of the kernel, which copies what is sent, have no such memory; those with an
    /// engine in the user's process do ([`Class::kernel`]).
    ///
    /// # Errors
    ///
    /// `Unsupported` without such memory, else those of [`send`](Circuit::send).
    fn reserve(&mut self, len: usize) -> io::Result<Reserved<'_>>;

    /// Sends what was written where room was reserved last, as one message.
    /// Errors are those of [`send_noted`](Circuit::send_noted), and `Unsupported` for a tag that lies among the
    /// bytes, as XTP's do: there is no room for it. `InvalidInput` when nothing is reserved.
    fn commit(&mut self, note: &Note) -> io::Result<()>;

    /// Lends what arrived next where it lies, blocking, until it is dropped. None: end of stream. A
    /// message that lies in several arrivals is lent in as many.
    ///
    /// # Errors
    ///
    /// `Unsupported` without memory that both sides see, as for [`reserve`](Circuit::reserve), else
    /// those of [`recv`](Circuit::recv).
    fn take_arrival(&mut self) -> io::Result<Option<LentArrival<'_>>>;

    /// Sends all data that the circuit coalesces to fill a packet or a buffer.
    ///
    /// A message that must leave now needs a flush, a receive or a wait after it.
    ///
    /// # Errors
    ///
    /// `WouldBlock` when some data could not be sent within [`BLOCKING_TIMEOUT`].
    fn flush(&mut self) -> io::Result<()>;

    /// Ends this direction: the peer's `recv` returns None after all data. A connectionless
    /// transport can only flush; one of calls waits until the peer has them all.
    ///
    /// # Errors
    ///
    /// `WouldBlock` as for [`flush`](Circuit::flush); call again. Why calls failed.
    fn finish(&mut self) -> io::Result<()>;

    /// Flushes, then sleeps until the circuit may be ready or `deadline` is reached.
    fn wait(&mut self, interest: Interest, deadline: Instant) -> io::Result<()>;

    /// A descriptor for poll in the caller's own event loop.
    fn descriptor(&self) -> Option<BorrowedFd<'_>>;

    /// When the circuit must be called next for its timers.
    fn next_deadline(&self) -> Option<Instant>;

    /// Options in effect, read back from the system: `congestion`, `send_buffer`,
    /// `receive_buffer`, `nodelay`, `segmentation`, ...
    fn effective(&self) -> BTreeMap<String, String>;

    /// What the connection says of itself now: for a series beside the rate (`race --series`). Costs a
    /// system call or a lock, so it is called once in many messages.
    ///
    /// # Errors
    ///
    /// Why it says nothing: a clause after the transport's name.
    fn connection_info(&self) -> Result<ConnectionInfo, NoConnectionInfo>;

    /// Counters of the transport: `retransmissions`, `receive_drops`, `packets_sent`,
    /// `packets_received`, `send_calls`, `receive_calls` (system calls, failed ones included),
    /// `no_buffers` (sends refused with ENOBUFS), ... A counter that is not available is left out.
    fn counts(&self) -> BTreeMap<String, u64>;
}

/// The readiness that [`Circuit::wait`] waits for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Interest {
    /// Data to receive, or the end of the stream.
    Read,
    /// Space to send.
    Write,
}

/// The address of a listener.
#[derive(Debug)]
pub struct Rendezvous {
    /// From how far away it can be used.
    pub reach: Reach,
    /// The address, in the transport's own format.
    pub bytes: Vec<u8>,
    /// Descriptors to pass along with it. A pipe's reader sees the end only when every copy of the
    /// write end is closed, so drop the rendezvous once all circuits are connected.
    pub descriptors: Vec<OwnedFd>,
}

impl Rendezvous {
    /// An address without descriptors.
    pub fn new(reach: Reach, bytes: Vec<u8>) -> Rendezvous {
        Rendezvous {
            reach,
            bytes,
            descriptors: Vec::new(),
        }
    }
}

/// How far apart the two ends may be.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Reach {
    /// Processes that can pass descriptors to each other.
    Process,
    /// Processes on one host (and in one network namespace).
    Host,
    /// Hosts on a network.
    Network,
}

/// Guarantees of a transport, and where it runs.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Class {
    /// All data sent arrive, or an error is reported.
    pub reliable: bool,
    /// Data arrive in the order sent.
    pub ordered: bool,
    /// A message that the path duplicates arrives twice.
    pub duplicates: bool,
    /// Payload is encrypted on the path.
    pub encrypted: bool,
    /// A byte stream without message boundaries.
    pub stream: bool,
    /// The protocol runs in the kernel, not in the user's process.
    pub kernel: bool,
    /// No handshake: the first message opens the circuit.
    pub connectionless: bool,
    /// Circuits can be opened repeatedly, so that connection set-up can be measured.
    pub connects: bool,
    /// A slow receiver blocks the sender.
    pub flow_control: bool,
    /// One direction can end while the other goes on: see [`Circuit::finish`].
    pub half_close: bool,
    /// Message transactions: a message of the connecting side is a call, and its reply comes before
    /// the next call. Where it is false, messages go either way at any time.
    pub calls: bool,
    /// How far apart the two ends may be.
    pub reach: Reach,
    /// Checksums that protect the data on the path.
    pub checksum: &'static str,
    /// The congestion control; empty for none.
    pub congestion: &'static str,
    /// Batching and offloads in use.
    pub offload: &'static str,
}

/// Why a transport cannot be used.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Unavailable {
    /// What is missing.
    pub reason: String,
    /// The remedy.
    pub remedy: String,
}
