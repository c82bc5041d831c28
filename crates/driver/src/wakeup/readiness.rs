//! Readiness of an endpoint's watch.

use super::EventFd;
use crate::sync::{AtomicBool, Ordering};
use std::sync::OnceLock;

/// The eventfd of the endpoint's watch, if it has one. Signalled and cleared under the lock of the
/// pump only.
#[derive(Debug, Default)]
pub(crate) struct Readiness {
    eventfd: OnceLock<EventFd>,
    is_signalled: AtomicBool,
}

impl Readiness {
    /// Sets the eventfd; false when there is a watch already.
    pub(crate) fn set_eventfd(&self, eventfd: EventFd) -> bool {
        self.eventfd.set(eventfd).is_ok()
    }

    /// Makes the watch readable if `is_ready` says so and it is not readable already.
    #[inline]
    pub(crate) fn signal_if(&self, is_ready: impl FnOnce() -> bool) {
        if let Some(eventfd) = self.eventfd.get()
            && is_ready()
            && !self.is_signalled.swap(true, Ordering::Relaxed)
        {
            eventfd.signal();
        }
    }

    /// Makes the watch readable, whatever it was: its thread is to poll anew.
    pub(crate) fn signal(&self) {
        if let Some(eventfd) = self.eventfd.get() {
            self.is_signalled.store(true, Ordering::Relaxed);
            eventfd.signal();
        }
    }

    /// Makes the watch unreadable.
    pub(crate) fn clear(&self) {
        if self.is_signalled.swap(false, Ordering::Relaxed)
            && let Some(eventfd) = self.eventfd.get()
        {
            eventfd.clear();
        }
    }
}
