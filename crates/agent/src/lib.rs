//! Races against workers on another host: the agent there, and its client.
//!
//! An *agent* runs workers for trusted clients, one client at a time, with the same workers and
//! messages as a race within one host. It is made to run unattended: it authenticates peers, limits
//! every resource, and cleans up after each client.
//!
//! From the outside in:
//!
//! * [`keys`] - the user's key and the trusted keys.
//! * `version_exchange` - sixteen octets each way before authentication.
//! * `tls` - mutual authentication; nothing is parsed before it.
//! * [`connection`] - frames on the connection, with timeouts.
//! * [`server`] - the agent: connection limit, queue, session, workers, metrics.
//! * [`client`] - a [`client::Session`], remote workers, the environment of a race.
//! * `peer_check` - agents validate each other's address before circuits run between them.
//! * `path` - the kernel's facts about a connection's path. `sys` - the system calls for that.
//!
//! The protocol is in crate `control`: `session` the messages, `frame` the frames, `caps` the
//! limits, `vet` the validation of what an agent reports.

pub mod client;
pub mod connection;
pub mod keys;
mod path;
mod peer_check;
pub mod server;
mod sys;
mod tls;
mod version_exchange;

pub use client::{AgentAddress, AgentEnvironment, Session};
pub use keys::{KeyFolder, PublicKey};
pub use server::{Agent, AgentConfig};

/// Default port of an agent.
pub const DEFAULT_PORT: u16 = 7470;
