//! What live endpoints are doing, told to their user.
//!
//! An endpoint that [`answers`](super::Endpoint::answer_contexts) listens on a socket in a folder
//! of the user alone: `$XDG_RUNTIME_DIR/towpath`, or `/tmp/towpath-UID` where there is none. Whoever
//! connects, and is that user or root, gets an [`EndpointReport`] as JSON; nothing is read. The
//! thread behind it sleeps until somebody does, so an endpoint that nobody asks pays nothing.
//!
//! * [`report`] - what is told, as it stands in the JSON.
//! * `folder` - where the sockets are, and what makes the folder safe.
//! * `server` - the thread that answers.
//! * [`reader`] - finds endpoints and asks them; sweeps what processes that were killed left.

pub mod client;
pub mod report;
mod server;
mod socket_dir;

pub use client::{QueriedEndpoint, query, query_all};
pub use report::{AssociationReport, EndpointReport};
pub(crate) use server::{EndpointIdentity, SnapshotFn, serve, snapshot_xtp};

/// The environment variable that has every endpoint of a process answer, with the value `on`.
pub const VARIABLE: &str = "TOWPATH_CONTEXTS";

/// Whether the environment asks for it.
pub(crate) fn enabled_by_environment() -> bool {
    std::env::var_os(VARIABLE).is_some_and(|value| value == "on")
}
