//! Why there is no testbed.

use std::io;

/// Why a testbed cannot be had; one line that names the thing and the remedy.
#[derive(Debug, thiserror::Error)]
pub enum TestbedError {
    /// Neither root nor an ordinary user with namespaces of their own.
    #[error(
        "this user may make no network namespace: {0}; run as root, or allow user namespaces (sysctl kernel.unprivileged_userns_clone=1, user.max_user_namespaces above 0, kernel.apparmor_restrict_unprivileged_userns=0)"
    )]
    Privilege(io::Error),
    /// The process has several threads, so that it cannot enter a user namespace any more.
    #[error(
        "a process with several threads cannot become root of a user namespace; call testbed::enter_user_namespace before starting threads, or run as root"
    )]
    Threads,
    /// No TAP devices.
    #[error(
        "an emulated link needs /dev/net/tun: {0}; load the module tun, or ask for a kernel link (--link kernel,rate=...)"
    )]
    Tap(io::Error),
    /// No control groups.
    #[error(
        "a host's quota needs control groups: {0}; run as root where they are mounted, or leave out the quota"
    )]
    Quota(io::Error),
    /// What was asked for makes no sense.
    #[error("{0}")]
    Plan(String),
    /// The kernel refused something else.
    #[error("{what}: {error}")]
    Kernel {
        /// What was being done.
        what: String,
        /// What the kernel said.
        error: io::Error,
    },
}

impl TestbedError {
    /// What the kernel said while `what` was being done.
    pub(crate) fn kernel(what: impl Into<String>) -> impl FnOnce(io::Error) -> TestbedError {
        let what = what.into();
        |error| TestbedError::Kernel { what, error }
    }
}
