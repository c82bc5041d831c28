//! Transports behind one contract.
//!
//! A *transport* moves messages between two processes: a kernel protocol, one particular way to
//! call it, or a protocol engine of this project. All are used the same way:
//!
//! ```
//! use std::time::{Duration, Instant};
//! use towpath::{Options, find};
//!
//! let tcp = find("tcp").expect("a known transport");
//! let options = Options::default();
//! let mut listener = tcp.listen(&options)?;
//! let rendezvous = listener.rendezvous()?;
//! // In practice the rendezvous is passed to another process.
//! let mut client = tcp.connect(&rendezvous, 0, &options)?;
//! let mut server = listener.accept(Instant::now() + Duration::from_secs(1))?;
//! client.send(b"hello")?;
//! client.flush()?;
//! let mut buffer = [0; 64];
//! assert_eq!(server.recv(&mut buffer)?, Some(5));
//! # Ok::<(), std::io::Error>(())
//! ```
//!
//! Where to start reading:
//!
//! * [`contract`] - [`Transport`], [`Listener`], [`Circuit`]: what each call promises.
//! * [`options`] - the options of listeners and circuits, and what an unset option means.
//! * [`parts`] - for transports: messages longer than a buffer, and what a transport without notes or
//!   memory of its own answers.
//! * [`usual`] - what most transports and circuits answer, by name.
//! * [`registry`] - all transports of this build, and how to add one.
//! * [`push`] - modules of a stream between the user of a circuit and its transport.
//! * `transport/` - one file per transport.
//! * `datagram`, `plain_circuit`, `stream`, `unix_socket`, `socket` - shared by the kernel transports:
//!   datagram sockets that learn their peer and circuits on them, stream sockets, Unix listeners,
//!   socket options.
//! * `shared_send` - TCP circuits that send shared messages without a copy, or from a file.
//! * `engine_circuit`, `engine_setup`, `medium` - shared by the transports whose engine runs in the
//!   user's thread: circuits, their parameters, and the wires below them.
//! * [`cells`] - the options of ATM cells below an engine.
//! * [`process_capture`] - captures of what no interface shows: packets through rings, and cells (`cell_capture`).
//! * `connection_info` - what a connection says of itself, for a series beside the rate.
//! * [`raw_sockets`] - raw sockets from a process that may open them.
//! * `source_filter` - a socket filter that passes packets of one source address.
//! * [`xtp`] - XTP as a library, with what the common contract leaves out: transactions, datagrams,
//!   many circuits on one endpoint, readiness.
//! * [`sctp`] - SCTP in a program: endpoints with several addresses, messages of streams, paths.
//! * [`channel`] - messages between processes of one host through shared memory, and [`channel_proxy`] to
//!   another host.
//! * [`vmtp`] - VMTP as a library: calls from many threads, servers.
//! * [`files`] - file transfer to one host, or to many at once by multicast.
//! * [`tunnel`] - TCP connections carried through XTP circuits.
//! * `sys/` - system calls that no library wraps safely; the only unsafe code of this crate. Those
//!   for UDP are in `wire-udp`, which the engines use too.

pub mod blocks;
mod cell_capture;
pub mod cells;
pub mod channel_proxy;
mod connection_info;
pub mod contract;
mod datagram;
mod engine_circuit;
mod engine_endpoint;
mod engine_setup;
pub mod files;
mod ip_datagrams;
mod listener_keys;
mod medium;
pub mod options;
pub mod parts;
mod peer_counts;
mod plain_circuit;
mod port_probe;
pub mod process_capture;
pub mod push;
pub mod raw_sockets;
pub mod registry;
mod runs;
pub mod sctp;
mod shared_send;
mod sharing;
mod shortcut_medium;
mod socket;
mod source_filter;
mod spare_endpoint;
mod stream;
mod sys;
pub mod transport;
pub mod tunnel;
mod udp_links;
mod udp_offloads;
mod unix_socket;
pub mod usual;
pub mod vmtp;
pub mod xti_carrier;
mod xti_sctp;
pub mod xtp;

pub use channel;

pub use contract::{
    ArrivalPiece, BLOCKING_TIMEOUT, Circuit, CircuitResult, CircuitsResult, Class, ConnectionInfo,
    Interest, LentArrival, Listener, NoConnectionInfo, Note, OptionHelp, Part, Reach,
    ReceiveCounts, Reliability, Rendezvous, Reserved, Sharing, Transport, Unavailable,
};
pub use options::{Family, Options};
pub use registry::{UnknownTransport, add, all, find};
pub use wire::discard::{DiscardMeter, Discarded};
