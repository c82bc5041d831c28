//! A descriptor that one thread polls and others make readable.

use rustix::event::{EventfdFlags, eventfd};
use std::cell::OnceCell;
use std::io;
use std::os::fd::OwnedFd;
use std::sync::Arc;

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

    /// Makes it unreadable again; whether it was readable.
    pub(crate) fn clear(&self) -> bool {
        rustix::io::read(&self.0, &mut [0u8; 8]).is_ok()
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
