//! The client of an agent: a session with a host elsewhere, and what a race needs of it.
//!
//! * [`Session`] - a session; a thread of its own keeps the connection alive.
//! * `handshake` - connect, version exchange, TLS, hello, queue.
//! * `session_thread` - that thread: requests, answers, and workers' messages in both directions.
//! * [`clock`] - the offset of the agent's clock.
//! * [`worker_host`] - an agent's host as a worker host of crate `loadgen`.
//! * [`environment`] - pairs of hosts as the environment of a race.
//! * `loads` - loads of its hosts, each in a worker.
//! * [`path_probe`] - measures the path to an agent; `path_diagnosis` - findings from that.
//!
//! Addresses, keys, TLS and frames are those of crate `agent`.
#![forbid(unsafe_code)]

pub mod clock;
pub mod environment;
mod handshake;
mod loads;
mod path_diagnosis;
pub mod path_probe;
mod session;
mod session_thread;
pub mod worker_host;

pub use environment::{AgentEnvironment, PathEnd};
pub use loads::{LOAD_FORM, LoadPlan};
pub use session::{Session, SessionError};
pub use worker_host::AgentHost;
