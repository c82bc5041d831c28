//! A thread that waits for what no descriptor of the kernel tells: protocols that run in this process.
//!
//! It leaves an endpoint alone while the program is in a call or has made one within the last millisecond, so that
//! it costs a busy program nothing; a program that polls hears of an event a millisecond late at most.

use crate::endpoint::Endpoint;
use std::sync::atomic::{AtomicU32, AtomicU64, Ordering};
use std::sync::{OnceLock, Weak};
use std::thread::{self, Thread};
use std::time::Duration;

/// How long the program has to be away before the thread looks at its endpoint.
const QUIET: Duration = Duration::from_millis(1);

/// How long one wait holds the endpoint.
const TURN: Duration = Duration::from_millis(50);

/// What an endpoint and its thread share.
#[derive(Default)]
pub(crate) struct Watcher {
    /// Calls that wait now.
    waiting: AtomicU32,
    /// Calls that were made.
    calls: AtomicU64,
    thread: OnceLock<Option<Thread>>,
}

impl Watcher {
    /// A call begins to wait.
    pub(crate) fn begin_wait(&self) {
        self.waiting.fetch_add(1, Ordering::Relaxed);
    }

    /// It has waited.
    pub(crate) fn end_wait(&self) {
        self.waiting.fetch_sub(1, Ordering::Relaxed);
    }

    /// A call has returned, and no descriptor tells what comes next.
    pub(crate) fn watch(&self, endpoint: Weak<Endpoint>) {
        self.calls.fetch_add(1, Ordering::Relaxed);
        let thread = self.thread.get_or_init(|| {
            let builder = thread::Builder::new().name("xti-watcher".into());
            let started = builder.spawn(move || run(&endpoint));
            started.ok().map(|handle| handle.thread().clone())
        });
        if let Some(thread) = thread {
            thread.unpark();
        }
    }
}

impl Drop for Watcher {
    fn drop(&mut self) {
        if let Some(Some(thread)) = self.thread.get() {
            thread.unpark();
        }
    }
}

/// Until the endpoint is gone.
fn run(endpoint: &Weak<Endpoint>) {
    while let Some(endpoint) = endpoint.upgrade() {
        let watcher = endpoint.watcher();
        let calls = watcher.calls.load(Ordering::Relaxed);
        if watcher.waiting.load(Ordering::Relaxed) > 0 {
            drop(endpoint);
            thread::sleep(TURN);
            continue;
        }
        thread::sleep(QUIET);
        let is_left = watcher.waiting.load(Ordering::Relaxed) == 0
            && watcher.calls.load(Ordering::Relaxed) == calls;
        if is_left && endpoint.waits_after(TURN) {
            drop(endpoint);
            thread::park();
        }
    }
}
