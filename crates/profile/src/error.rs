//! Why there is no profile.

use std::io;

/// Why there is no profile; one line with cause and remedy.
#[derive(Debug, thiserror::Error)]
pub enum ProfileError {
    /// This user may not sample kernel stacks.
    #[error(
        "this user may not sample the kernel: {0}; run as root, or allow it with sysctl kernel.perf_event_paranoid=1 and kernel.kptr_restrict=0"
    )]
    Privilege(io::Error),
    /// The kernel has no performance events.
    #[error("this kernel has no performance events: {0}; use one built with CONFIG_PERF_EVENTS")]
    Absent(io::Error),
    /// The kernel's symbols are hidden or absent.
    #[error(
        "the kernel hides its symbols (/proc/kallsyms); run as root, or allow it with sysctl kernel.kptr_restrict=0"
    )]
    Symbols,
    /// The function tracer refused what it had allowed before.
    #[error(transparent)]
    FunctionTracer(#[from] crate::function_tracer::NoFunctionTracer),
    /// The kernel refused something else.
    #[error("{what}: {error}")]
    System {
        /// The failed operation.
        what: &'static str,
        /// The kernel's error.
        error: io::Error,
    },
}

impl ProfileError {
    /// The kernel's error when opening an event.
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
