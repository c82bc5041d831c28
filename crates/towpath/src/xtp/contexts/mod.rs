//! Reports on the associations and group streams of live endpoints, for their user.
//!
//! An endpoint with [`serve_contexts`](super::Endpoint::serve_contexts) listens on a Unix socket in
//! a private directory: `$XDG_RUNTIME_DIR/towpath`, or else `/tmp/towpath-UID`. A client that
//! connects as the same user or root receives an [`EndpointReport`] as JSON; nothing is read from
//! it. A second socket takes changes of options ([`request_change`]). The server thread sleeps until a client connects, so an endpoint pays nothing for reports
//! that are not requested.
//!
//! * [`report`], `group_report` - the report, as written to JSON.
//! * `socket_dir` - the directory of the sockets, and what makes it safe.
//! * `changes` - options that the user changes while an endpoint lives.
//! * `server` - the thread that serves reports.
//! * [`client`] - finds and queries endpoints; removes the sockets of killed processes.

mod changes;
pub mod client;
mod group_report;
pub mod report;
mod server;
mod socket_dir;

pub use changes::request_change;
pub(crate) use changes::serve_changes;
pub use client::{Queried, QueriedEndpoint, query, query_all, remove_stale_sockets};
pub(crate) use client::{query_report, query_sockets};
pub use group_report::{GroupMemberReport, GroupReceiverReport, GroupSenderReport};
pub use report::{AssociationReport, EndpointReport, RingsReport};
pub(crate) use server::{EndpointIdentity, SnapshotFn, serve, snapshot_group, snapshot_xtp};
pub(crate) use server::{ReportSocket, serve_reports};

/// The environment variable that, set to `on`, makes every endpoint of a process serve reports.
pub const VARIABLE: &str = "TOWPATH_CONTEXTS";

/// Whether the environment enables reports.
pub(crate) fn enabled_by_environment() -> bool {
    std::env::var_os(VARIABLE).is_some_and(|value| value == "on")
}
