//! Threads that wait for an arrival at a shared endpoint, and how the thread that received it wakes
//! them.

use rustix::event::{EventfdFlags, eventfd};
use std::cell::OnceCell;
use std::io;
use std::os::fd::OwnedFd;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Mutex, PoisonError};

/// An eventfd: one thread polls it, others make it readable.
#[derive(Debug)]
pub(crate) struct EventFd(OwnedFd);

impl EventFd {
    pub(crate) fn new() -> io::Result<EventFd> {
        let flags = EventfdFlags::NONBLOCK | EventfdFlags::CLOEXEC;
        Ok(EventFd(eventfd(0, flags)?))
    }

    pub(crate) fn descriptor(&self) -> &OwnedFd {
        &self.0
    }

    pub(crate) fn signal(&self) {
        // An error means that it is readable already.
        let _ = rustix::io::write(&self.0, &1u64.to_ne_bytes());
    }

    /// Makes it unreadable again.
    pub(crate) fn clear(&self) {
        // An error means that it was not readable.
        let _ = rustix::io::read(&self.0, &mut [0u8; 8]);
    }
}

thread_local! {
    static THREAD_EVENTFD: OnceCell<Arc<EventFd>> = const { OnceCell::new() };
}

/// The eventfd of the calling thread.
pub(crate) fn thread_eventfd() -> io::Result<Arc<EventFd>> {
    THREAD_EVENTFD.with(|slot| match slot.get() {
        Some(eventfd) => Ok(Arc::clone(eventfd)),
        None => {
            let eventfd = Arc::new(EventFd::new()?);
            Ok(Arc::clone(slot.get_or_init(|| eventfd)))
        }
    })
}

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

    fn lock(&self) -> std::sync::MutexGuard<'_, Vec<Arc<EventFd>>> {
        self.eventfds.lock().unwrap_or_else(PoisonError::into_inner)
    }
}
