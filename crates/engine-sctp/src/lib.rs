//! SCTP: messages of many streams between two ends (RFC 9260).
//!
//! The modules, in the layout of every engine:
//!
//! * [`config`] - configuration, with the reason for each default and where it leaves the RFC's.
//! * [`endpoint`] - the engine itself: it finds the association of a packet and dispatches.
//! * `endpoint_state` - what all associations of an endpoint share: timers, tags, cookies' keys.
//! * [`LocalAddresses`] - an endpoint's addresses, and the paths between them and a peer's.
//! * `association` - one association: its state, tags and paths.
//! * `auth` - the keys of an association and the codes of its packets.
//! * `path` - an address of the peer with its RTT, congestion window and errors; `congestion` - the
//!   control of RFC 9260, or one of crate `congestion`.
//! * `path_mtu` - the longest packet that a path carries, found by probes (RFC 8899).
//! * `tx/` - messages that wait, chunks in flight. `rx/` - TSNs that arrived, messages of streams.
//! * `procedure/` - one file a procedure: the handshake, data, acknowledgements, heartbeats, the end.
//! * [`pdu`] - one file a chunk, and the state cookie.
//! * `introspection` - associations as a report shows them. [`discard`] - why packets were dropped, by count.
//!
//! A message is cut into chunks when it leaves: one ring of the host holds the bytes of all streams,
//! and its order is that of the TSNs. Messages go to the user in the order of their stream, as soon as
//! nothing of that stream is missing in front of them.
#![forbid(unsafe_code)]

mod addresses;
mod association;
mod association_table;
mod auth;
pub mod config;
mod congestion;
pub mod discard;
mod dynamic_addresses;
pub mod endpoint;
mod endpoint_addresses;
mod endpoint_auth;
mod endpoint_chunks;
mod endpoint_paths;
mod endpoint_ports;
mod endpoint_state;
mod introspection;
mod notice;
pub mod numbers;
mod path;
mod path_mtu;
pub mod pdu;
mod procedure;
mod ready_queue;
mod reconfig;
mod rx;
mod tx;

pub use ::congestion::RtoBounds;
pub use addresses::LocalAddresses;
pub use auth::{Authentication, KEY_LEN_MAX, SharedKey};
pub use config::{AddressSchedule, CongestionChoice, Scheduler, SctpConfig};
pub use discard::{DiscardReason, Discards};
pub use endpoint::Sctp;
pub use endpoint_auth::AuthSummary;
pub use endpoint_paths::PathSummary;
pub use introspection::AssociationView;
pub use notice::{AddressChange, Notice, ReconfigOutcome, StreamDirection};
pub use path::{PathParameters, PathStatus};
