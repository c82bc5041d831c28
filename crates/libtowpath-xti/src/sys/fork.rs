//! fork(2): the child goes on with its parent's endpoints.

use crate::table;
use std::cell::Cell;
use std::panic::catch_unwind;
use std::sync::Once;
use xti::HelperPause;

thread_local! {
    /// Between the two handlers of a fork, which its own thread calls.
    static PAUSE: Cell<Option<HelperPause>> = const { Cell::new(None) };
}

/// Registers what a fork needs, once a process.
pub(super) fn register() {
    static REGISTERED: Once = Once::new();
    REGISTERED.call_once(|| {
        // SAFETY: the handlers are functions that do not unwind.
        unsafe { libc::pthread_atfork(Some(before), Some(after), Some(after)) };
    });
}

/// What is queued leaves, else both processes would send it; the helper thread holds no lock meanwhile.
extern "C" fn before() {
    let _ = catch_unwind(|| {
        table::flush_all();
        PAUSE.set(Some(xti::pause_helper()));
    });
}

extern "C" fn after() {
    let _ = catch_unwind(|| drop(PAUSE.take()));
}
