//! SCTP: messages of many streams between two ends (RFC 9260).
//!
//! The modules, in the layout of every engine:
//!
//! * [`config`] - configuration, with the reason for each default and where it leaves the RFC's.
//! * [`endpoint`] - the engine itself: it finds the association of a packet and dispatches.
//! * `endpoint_state` - what all associations of an endpoint share: timers, tags, cookies' keys.
//! * [`LocalAddresses`] - an endpoint's addresses, and the paths between them and a peer's.
//! * `association` - one association: its state, tags and paths.
//! * `path` - an address of the peer with its RTT, congestion window and errors; `congestion` - the
//!   control of RFC 9260, or one of crate `congestion`.
//! * `tx/` - messages that wait, chunks in flight. `rx/` - TSNs that arrived, messages of streams.
//! * `procedure/` - one file a procedure: the handshake, data, acknowledgements, heartbeats, the end.
//! * [`pdu`] - one file a chunk, and the state cookie.
//! * [`discard`] - why packets were dropped, by count.
//!
//! A message is cut into chunks when it leaves: one ring of the host holds the bytes of all streams,
//! and its order is that of the TSNs. Messages go to the user in the order of their stream, as soon as
//! nothing of that stream is missing in front of them.
#![forbid(unsafe_code)]

mod addresses;
mod association;
pub mod config;
mod congestion;
pub mod discard;
pub mod endpoint;
mod endpoint_paths;
mod endpoint_state;
mod notice;
pub mod numbers;
mod path;
pub mod pdu;
mod procedure;
mod rx;
mod tx;

pub use addresses::LocalAddresses;
pub use config::{CongestionChoice, SctpConfig};
pub use discard::{DiscardReason, Discards};
pub use endpoint::Sctp;
pub use endpoint_paths::PathSummary;
pub use notice::Notice;
pub use path::PathStatus;
