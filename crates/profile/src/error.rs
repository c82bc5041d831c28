//! Why there is no profile.

use std::io;

/// Why there is no profile; one line that names the thing and the remedy.
#[derive(Debug, thiserror::Error)]
pub enum ProfileError {
    /// The kernel lets this user sample no kernel stacks.
    #[error(
        "this user may not sample the kernel: {0}; run as root, or allow it with sysctl kernel.perf_event_paranoid=1 and kernel.kptr_restrict=0"
    )]
    Privilege(io::Error),
    /// The kernel has no performance events.
    #[error("this kernel has no performance events: {0}; use one built with CONFIG_PERF_EVENTS")]
    Absent(io::Error),
    /// The kernel's symbols are hidden or absent.
    #[error(
        "the kernel hides the names of its procedures (/proc/kallsyms); run as root, or allow it with sysctl kernel.kptr_restrict=0"
    )]
    Symbols,
    /// The kernel refused something else.
    #[error("{what}: {error}")]
    System {
        /// What was being done.
        what: &'static str,
        /// What the kernel said.
        error: io::Error,
    },
}

impl ProfileError {
    /// What the kernel said when an event was to be opened.
    pub(crate) fn event(error: io::Error) -> ProfileError {
        match error.kind() {
            io::ErrorKind::PermissionDenied => ProfileError::Privilege(error),
            io::ErrorKind::Unsupported => ProfileError::Absent(error),
            _ => ProfileError::System {
                what: "a performance event",
                error,
            },
        }
    }
}
