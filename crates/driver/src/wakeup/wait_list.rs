//! Threads that wait for an arrival at a shared endpoint, and how the thread that received it wakes
//! them.

use super::EventFd;
use crate::sync::{AtomicUsize, Mutex, MutexGuard, Ordering};
use std::sync::{Arc, PoisonError};

/// The eventfds of waiting threads.
#[derive(Debug, Default)]
pub(crate) struct WaitList {
    eventfds: Mutex<Vec<Arc<EventFd>>>,
    /// How many, so that the lock is taken only when a thread waits.
    count: AtomicUsize,
}

impl WaitList {
    /// Adds a thread, which holds the lock of the pump: the next to take that lock sees it.
    pub(crate) fn add(&self, eventfd: Arc<EventFd>) {
        self.lock().push(eventfd);
        self.count.fetch_add(1, Ordering::Relaxed);
    }

    pub(crate) fn remove(&self, eventfd: &Arc<EventFd>) {
        self.lock().retain(|other| !Arc::ptr_eq(other, eventfd));
        self.count.fetch_sub(1, Ordering::Relaxed);
    }

    /// Wakes all. The caller holds the lock of the pump.
    pub(crate) fn wake_all(&self) {
        if self.count.load(Ordering::Relaxed) == 0 {
            return;
        }
        for eventfd in self.lock().iter() {
            eventfd.signal();
        }
    }

    fn lock(&self) -> MutexGuard<'_, Vec<Arc<EventFd>>> {
        self.eventfds.lock().unwrap_or_else(PoisonError::into_inner)
    }
}
