//! Transports behind one contract.
//!
//! A *transport* is a way to move messages between two processes: a kernel protocol, a way of
//! calling one, or an engine of this project. All of them are used the same way:
//!
//! ```
//! use std::time::{Duration, Instant};
//! use towpath::{Options, find};
//!
//! let tcp = find("tcp").expect("a known transport");
//! let options = Options::default();
//! let mut listener = tcp.listen(&options)?;
//! let rendezvous = listener.rendezvous()?;
//! // In life the rendezvous travels to another process.
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
//! * [`options`] - what can be set, and what an unset option means.
//! * [`registry`] - all transports of this build, and how to add one.
//! * `transport/` - one file each.
//! * `datagram`, `stream`, `hosted`, `medium`, `local`, `socket` - what the files of a kind share:
//!   ports that learn their peer, ends of byte streams, engines in the user's thread and the media
//!   below them, listeners with a local name, socket options.
//! * `doorkeeper` - sockets that hear one address only.
//! * [`xtp`] - XTP as a library of its own, with what the common contract has no words for:
//!   transactions, datagrams, many circuits on one endpoint, readiness.
//! * [`files`] - files to one host, or to many at once.
//! * [`forward`] - what any TCP program gets of it: connections carried through circuits.
//! * `sys/` - the system calls no library offers safely; the only unsafe code here. Those of UDP are
//!   in `wire-udp`, shared with the engines' wire.

pub mod contract;
mod datagram;
mod engine_circuit;
pub mod files;
mod medium;
pub mod options;
pub mod registry;
mod socket;
mod source_filter;
mod stream;
mod sys;
pub mod transport;
pub mod tunnel;
mod unix_socket;
pub mod xtp;

pub use contract::{
    Circuit, Class, Interest, Listener, OptionHelp, Reach, ReceiveCounts, Rendezvous, Transport,
    Unavailable,
};
pub use options::{Family, Options};
pub use registry::{UnknownTransport, all, find};
