//! Users asleep on a shared endpoint, and how one is woken by another who took in its arrival.

use rustix::event::{EventfdFlags, eventfd};
use std::cell::OnceCell;
use std::io;
use std::os::fd::OwnedFd;
use std::sync::{Arc, Mutex, PoisonError};

/// A descriptor that one thread sleeps on and others make readable.
#[derive(Debug)]
pub(crate) struct Bell(OwnedFd);

impl Bell {
    pub(crate) fn new() -> io::Result<Bell> {
        let flags = EventfdFlags::NONBLOCK | EventfdFlags::CLOEXEC;
        Ok(Bell(eventfd(0, flags)?))
    }

    pub(crate) fn descriptor(&self) -> &OwnedFd {
        &self.0
    }

    pub(crate) fn ring(&self) {
        // Full means that it rings already.
        let _ = rustix::io::write(&self.0, &1u64.to_ne_bytes());
    }

    /// Makes it quiet again.
    pub(crate) fn hush(&self) {
        // Empty means that it is quiet.
        let _ = rustix::io::read(&self.0, &mut [0u8; 8]);
    }
}

thread_local! {
    static OWN: OnceCell<Arc<Bell>> = const { OnceCell::new() };
}

/// The bell of the calling thread.
pub(crate) fn own_bell() -> io::Result<Arc<Bell>> {
    OWN.with(|own| match own.get() {
        Some(bell) => Ok(Arc::clone(bell)),
        None => {
            let bell = Arc::new(Bell::new()?);
            Ok(Arc::clone(own.get_or_init(|| bell)))
        }
    })
}

/// The bells of those asleep.
#[derive(Debug, Default)]
pub(crate) struct Sleepers(Mutex<Vec<Arc<Bell>>>);

impl Sleepers {
    pub(crate) fn add(&self, bell: Arc<Bell>) {
        self.lock().push(bell);
    }

    pub(crate) fn remove(&self, bell: &Arc<Bell>) {
        self.lock().retain(|other| !Arc::ptr_eq(other, bell));
    }

    /// Wakes all of them.
    pub(crate) fn wake(&self) {
        for bell in self.lock().iter() {
            bell.ring();
        }
    }

    fn lock(&self) -> std::sync::MutexGuard<'_, Vec<Arc<Bell>>> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}
