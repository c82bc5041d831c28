//! The far end of a race on another host, and the way to it.
//!
//! An *agent* runs workers for clients that it trusts, one client at a time, with the same workers
//! and messages as a race within one host. It is made to be left running: it believes nothing that
//! is not proved, allows nothing without a limit, and ends what it began.
//!
//! From the outside in:
//!
//! * [`keys`] - who this user is and whom they trust, in files of their own.
//! * `preface` - the sixteen octets each way before anybody is known.
//! * `tls` - both ends prove their keys; before that nothing is parsed.
//! * [`link`] - frames on the connection; none may hang.
//! * [`server`] - the agent: queue, session, workers, counts.
//! * [`client`] - the measuring side: a [`client::Session`], places for workers, a stage.
//! * `greeting` - agents that meet, so that circuits can run between them.
//! * `path` - what the kernel knows of a connection's way. `sys` - how it is asked.
//!
//! What travels is in crate `control`: `session` the messages, `frame` the frames, `caps` the limits,
//! `vet` what makes a stranger's report safe to read.

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

/// The port an agent listens on unless told otherwise.
pub const DEFAULT_PORT: u16 = 7470;
