//! One thread a process that carries on, each millisecond, what endpoints have queued and their users
//! have not sent: no message waits longer than that.

use crate::endpoint::Shared;
use std::sync::atomic::Ordering;
use std::sync::{Arc, Mutex, OnceLock, PoisonError, Weak};
use std::thread::{self, Thread};
use std::time::Duration;

/// The longest that a message waits in a queue whose stream has room below.
pub(crate) const DEFERRED_MAX: Duration = Duration::from_millis(1);

static WATCHED: Mutex<Vec<Weak<Shared>>> = Mutex::new(Vec::new());
static HELPER: OnceLock<Option<Thread>> = OnceLock::new();

/// Looks after an endpoint until nothing is queued in it.
pub(crate) fn watch(endpoint: &Arc<Shared>) {
    let mut watched = WATCHED.lock().unwrap_or_else(PoisonError::into_inner);
    let was_idle = watched.is_empty();
    watched.push(Arc::downgrade(endpoint));
    drop(watched);
    let helper = HELPER.get_or_init(|| {
        let builder = thread::Builder::new().name("xti-helper".into());
        builder
            .spawn(help)
            .ok()
            .map(|handle| handle.thread().clone())
    });
    if let (true, Some(helper)) = (was_idle, helper) {
        helper.unpark();
    }
}

fn help() {
    loop {
        let watched = WATCHED.lock().unwrap_or_else(PoisonError::into_inner);
        let idle = watched.is_empty();
        drop(watched);
        if idle {
            thread::park();
        }
        thread::sleep(DEFERRED_MAX);
        let all = std::mem::take(&mut *WATCHED.lock().unwrap_or_else(PoisonError::into_inner));
        let kept: Vec<Weak<Shared>> = all.into_iter().filter(carry_on).collect();
        WATCHED
            .lock()
            .unwrap_or_else(PoisonError::into_inner)
            .extend(kept);
    }
}

/// Runs what is scheduled in an endpoint; whether it must be looked at again.
fn carry_on(endpoint: &Weak<Shared>) -> bool {
    let Some(endpoint) = endpoint.upgrade() else {
        return false;
    };
    // Cleared first: what is queued from here on is noted anew.
    endpoint.listed.store(false, Ordering::Relaxed);
    let done = endpoint.run_if_free();
    !done && !endpoint.listed.swap(true, Ordering::Relaxed)
}
