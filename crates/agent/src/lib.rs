//! Races against workers on another host: the agent there. Its client is crate `agent-client`.
//!
//! An *agent* runs workers for trusted clients, one client at a time, with the same workers and
//! messages as a race within one host. It is made to run unattended: it authenticates peers, limits
//! every resource, and cleans up after each client.
//!
//! From the outside in:
//!
//! * [`AgentAddress`] - an agent's host and port as the user gives them.
//! * [`keys`] - the user's key and the trusted keys.
//! * [`version_exchange`] - sixteen octets each way before authentication.
//! * [`tls`] - mutual authentication; nothing is parsed before it.
//! * [`connection`] - frames on the connection, with timeouts.
//! * [`server`] - the agent: connection limit, queue, session, workers, metrics.
//! * `peer_check` - agents validate each other's address before circuits run between them.
//! * [`path`] - the kernel's facts about a connection's path. `sys` - the system calls for that.
//!
//! The protocol is in crate `control`: `session` the messages, `frame` the frames, `caps` the
//! limits, `vet` the validation of what an agent reports.

mod address;
pub mod connection;
pub mod keys;
pub mod path;
mod peer_check;
pub mod server;
mod sys;
pub mod tls;
pub mod version_exchange;

pub use address::AgentAddress;
pub use keys::{KeyFolder, PublicKey};
pub use server::{Agent, AgentConfig};

/// Default port of an agent.
pub const DEFAULT_PORT: u16 = 7470;
