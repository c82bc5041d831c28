//! XTI in user space, over TPI and the STREAMS runtime of crate `streams`.
//!
//! * [`tpi`] - primitives between user and provider, and the table of states.
//! * [`inet`] - providers on the kernel's TCP sockets, as the study of 2007 raced it, on UDP and on unix sockets.
//! * [`loopback`] - providers between ends of one host: ticlts, ticots, ticotsord.
//! * `connections` - the provider of connections over a protocol in the user's process: ticots, ticotsord.
//! * [`carrier`] - providers over a protocol that is no part of this crate, such as XTP and SCTP.
//! * [`datagrams`] - the provider of datagrams over the kernel's UDP, or over a driver that is no part of this crate.
//! * [`modules`] - `sockmod`, `timod` and `tirdwr`.
//! * [`endpoint`] - the functions of XTI: open, bind, connect, listen, accept, snd, rcv, release, and
//!   sndudata, rcvudata, rcvuderr of datagrams; options (optmgmt).
//! * [`sctp`] - options of SCTP (level 132); `options` - requests of options.
//! * [`sockets`] - the functions of XTI straight on sockets, without a stream.
//! * [`error`] - errors with the numbers of XTI.
//! * `helper`, `affinity` - the thread that carries deferred messages on within a millisecond, and on which processor.
//!
//! A message of `snd` is queued at the provider and leaves with others in one system call: when the
//! queue is full, when the user waits or receives, and after a millisecond at the latest. That is the
//! study's point: a switch into the kernel is paid a batch, not a message.
#![forbid(unsafe_code)]

mod affinity;
pub mod carrier;
mod connections;
pub mod datagrams;
pub mod endpoint;
pub mod error;
mod helper;
pub mod inet;
pub mod loopback;
pub mod modules;
mod options;
mod provider;
pub mod sctp;
pub mod sockets;
pub mod tpi;

pub use affinity::Affinity;
pub use connections::Waiter;
pub use endpoint::{
    DatagramFailure, Disconnection, Flags, Look, Shutdown, StreamOptions, With, XtiByteStream,
    XtiCall, XtiEndpoint, XtiReadiness, XtiReceived, XtiState,
};
pub use error::{Error, TliError};
pub use helper::{HelperPause, pause_helper};
pub use streams::{Hysteresis, Marks};
pub use tpi::ServiceType;
