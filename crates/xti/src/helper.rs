//! One thread a process that carries on, each millisecond, what endpoints have queued and their users
//! have not sent: no message waits longer than that.

use crate::affinity::Place;
use crate::endpoint::Shared;
use rustix::process::{Pid, getpid};
use std::sync::atomic::Ordering;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError, Weak};
use std::thread::{self, Thread};
use std::time::Duration;

/// The longest that a message waits in a queue whose stream has room below.
pub(crate) const DEFERRED_MAX: Duration = Duration::from_millis(1);

static WATCHED: Mutex<Vec<Weak<Shared>>> = Mutex::new(Vec::new());
/// The thread, with the process that it runs in: a forked child has none.
static HELPER: Mutex<Option<(Pid, Thread)>> = Mutex::new(None);

/// Held by the helper while it uses endpoints.
static CARRYING: Mutex<()> = Mutex::new(());

/// Keeps the helper thread away from all endpoints, so that a fork finds none of them locked by it.
#[must_use = "the helper goes on when it is dropped"]
pub struct HelperPause {
    _carrying: MutexGuard<'static, ()>,
    _watched: MutexGuard<'static, Vec<Weak<Shared>>>,
}

/// Stops the helper thread for a fork; the child, which has no such thread, gets one when it needs it.
pub fn pause_helper() -> HelperPause {
    HelperPause {
        _carrying: CARRYING.lock().unwrap_or_else(PoisonError::into_inner),
        _watched: WATCHED.lock().unwrap_or_else(PoisonError::into_inner),
    }
}

/// Looks after an endpoint until nothing is queued in it.
pub(crate) fn watch(endpoint: &Arc<Shared>) {
    let mut watched = WATCHED.lock().unwrap_or_else(PoisonError::into_inner);
    watched.push(Arc::downgrade(endpoint));
    drop(watched);
    if let Some(helper) = helper() {
        helper.unpark();
    }
}

/// The helper of this process, which is started where there is none.
fn helper() -> Option<Thread> {
    let mut helper = HELPER.lock().unwrap_or_else(PoisonError::into_inner);
    let process = getpid();
    if helper.as_ref().is_none_or(|(of, _)| *of != process) {
        let builder = thread::Builder::new().name("xti-helper".into());
        let handle = builder.spawn(help).ok()?;
        *helper = Some((process, handle.thread().clone()));
    }
    helper.as_ref().map(|(_, thread)| thread.clone())
}

fn help() {
    let mut place = Place::default();
    loop {
        let watched = WATCHED.lock().unwrap_or_else(PoisonError::into_inner);
        let idle = watched.is_empty();
        drop(watched);
        if idle {
            thread::park();
        }
        thread::sleep(DEFERRED_MAX);
        let _carrying = CARRYING.lock().unwrap_or_else(PoisonError::into_inner);
        let all = std::mem::take(&mut *WATCHED.lock().unwrap_or_else(PoisonError::into_inner));
        let kept: Vec<Weak<Shared>> = all
            .into_iter()
            .filter(|endpoint| carry_on(endpoint, &mut place))
            .collect();
        WATCHED
            .lock()
            .unwrap_or_else(PoisonError::into_inner)
            .extend(kept);
    }
}

/// Runs what is scheduled in an endpoint; whether it must be looked at again.
fn carry_on(endpoint: &Weak<Shared>, place: &mut Place) -> bool {
    let Some(endpoint) = endpoint.upgrade() else {
        return false;
    };
    // Cleared first: what is queued from here on is noted anew.
    endpoint.listed.store(false, Ordering::Relaxed);
    endpoint.help_at(place);
    let done = endpoint.run_if_free();
    !done && !endpoint.listed.swap(true, Ordering::Relaxed)
}
