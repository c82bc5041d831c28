//! Users asleep on a shared endpoint, and how one is woken by another who took in its arrival.

use rustix::event::{EventfdFlags, eventfd};
use std::cell::OnceCell;
use std::io;
use std::os::fd::OwnedFd;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Mutex, PoisonError};

/// A descriptor that one thread sleeps on and others make readable.
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
        // Full means that it rings already.
        let _ = rustix::io::write(&self.0, &1u64.to_ne_bytes());
    }

    /// Makes it quiet again.
    pub(crate) fn clear(&self) {
        // Empty means that it is quiet.
        let _ = rustix::io::read(&self.0, &mut [0u8; 8]);
    }
}

thread_local! {
    static THREAD_EVENTFD: OnceCell<Arc<EventFd>> = const { OnceCell::new() };
}

/// The bell of the calling thread.
pub(crate) fn thread_eventfd() -> io::Result<Arc<EventFd>> {
    THREAD_EVENTFD.with(|slot| match slot.get() {
        Some(eventfd) => Ok(Arc::clone(eventfd)),
        None => {
            let eventfd = Arc::new(EventFd::new()?);
            Ok(Arc::clone(slot.get_or_init(|| eventfd)))
        }
    })
}

/// The bells of those asleep.
#[derive(Debug, Default)]
pub(crate) struct WaitList {
    eventfds: Mutex<Vec<Arc<EventFd>>>,
    /// How many, so that the lock is taken only for somebody.
    count: AtomicUsize,
}

impl WaitList {
    /// Adds one, who holds the lock of the pump: whoever takes that lock next knows of it.
    pub(crate) fn add(&self, eventfd: Arc<EventFd>) {
        self.lock().push(eventfd);
        self.count.fetch_add(1, Ordering::Relaxed);
    }

    pub(crate) fn remove(&self, eventfd: &Arc<EventFd>) {
        self.lock().retain(|other| !Arc::ptr_eq(other, eventfd));
        self.count.fetch_sub(1, Ordering::Relaxed);
    }

    /// Wakes all of them. The caller holds the lock of the pump.
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
