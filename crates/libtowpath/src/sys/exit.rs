//! Draining at exit.

use crate::calls;
use crate::socket_table::SocketTable;
use std::panic::catch_unwind;
use std::sync::atomic::{AtomicU32, Ordering};

/// The process that has the library's threads; a forked child has none of them.
static OWNER: AtomicU32 = AtomicU32::new(0);

/// Whether this process has the library's threads, or none were started yet.
pub(crate) fn owns_threads() -> bool {
    let owner = OWNER.load(Ordering::Relaxed);
    owner == 0 || owner == std::process::id()
}

/// Registers the atexit(3) hook that drains all endpoints.
pub(crate) fn register_exit_hook(table: &mut SocketTable) {
    if !table.exit_hook_registered {
        table.exit_hook_registered = true;
        OWNER.store(std::process::id(), Ordering::Relaxed);
        // SAFETY: the function lives as long as the program and never unwinds.
        unsafe { libc::atexit(drain) };
    }
}

extern "C" fn drain() {
    if owns_threads() {
        // A panic cannot be reported any more.
        let _ = catch_unwind(calls::drain_all);
    }
}
