//! Errors of testbeds.

use crate::links::LINKS_MAX;
use link::PathError;
use std::io;

/// Why a text is not a list of links; one line with the remedy.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum LinksError {
    /// The only link is invalid.
    #[error("{0}")]
    Link(PathError),
    /// One of several, numbered from 1, is invalid.
    #[error("link {0}: {1}")]
    Numbered(usize, PathError),
    /// One of several, numbered from 1, is empty.
    #[error(
        "link {0} is empty; give a link on each side of '+', delay=0 for one without limits, or leave out the '+'"
    )]
    Empty(usize),
    /// More than [`LINKS_MAX`].
    #[error("{0} links do not fit side by side; give {LINKS_MAX} at most")]
    TooMany(usize),
}

/// Why a testbed cannot be created; one line with the remedy.
#[derive(Debug, thiserror::Error)]
pub enum TestbedError {
    /// Not root, and no user namespaces.
    #[error(
        "this user may not create network namespaces: {0}; run as root, or allow user namespaces (sysctl kernel.unprivileged_userns_clone=1, user.max_user_namespaces above 0, kernel.apparmor_restrict_unprivileged_userns=0)"
    )]
    Privilege(io::Error),
    /// A process with several threads cannot enter a user namespace.
    #[error(
        "a process with several threads cannot become root of a user namespace; call testbed::enter_user_namespace before starting threads, or run as root"
    )]
    Threads,
    /// No TAP devices.
    #[error(
        "an emulated link needs /dev/net/tun: {0}; load the module tun, or ask for a kernel link (--link kernel,rate=...)"
    )]
    Tap(io::Error),
    /// No usable control groups.
    #[error(
        "a host's quota needs control groups: {0}; run as root where they are mounted, or leave out the quota"
    )]
    Quota(io::Error),
    /// The plan is invalid.
    #[error("{0}")]
    Plan(String),
    /// Another system error.
    #[error("{what}: {error}")]
    Kernel {
        /// The failed operation.
        what: String,
        /// The error.
        error: io::Error,
    },
}

impl TestbedError {
    /// A system error during `what`.
    pub(crate) fn kernel(what: impl Into<String>) -> impl FnOnce(io::Error) -> TestbedError {
        let what = what.into();
        |error| TestbedError::Kernel { what, error }
    }
}
