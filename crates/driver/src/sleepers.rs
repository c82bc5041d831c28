//! Users asleep on a shared endpoint, and how one is woken by another who took in its arrival.

use rustix::event::{EventfdFlags, eventfd};
use std::cell::OnceCell;
use std::io;
use std::os::fd::OwnedFd;
use std::sync::atomic::{AtomicUsize, Ordering};
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
pub(crate) struct Sleepers {
    bells: Mutex<Vec<Arc<Bell>>>,
    /// How many, so that the lock is taken only for somebody.
    count: AtomicUsize,
}

impl Sleepers {
    /// Adds one, who holds the lock of the pump: whoever takes that lock next knows of it.
    pub(crate) fn add(&self, bell: Arc<Bell>) {
        self.lock().push(bell);
        self.count.fetch_add(1, Ordering::Relaxed);
    }

    pub(crate) fn remove(&self, bell: &Arc<Bell>) {
        self.lock().retain(|other| !Arc::ptr_eq(other, bell));
        self.count.fetch_sub(1, Ordering::Relaxed);
    }

    /// Wakes all of them. The caller holds the lock of the pump.
    pub(crate) fn wake(&self) {
        if self.count.load(Ordering::Relaxed) == 0 {
            return;
        }
        for bell in self.lock().iter() {
            bell.ring();
        }
    }

    fn lock(&self) -> std::sync::MutexGuard<'_, Vec<Arc<Bell>>> {
        self.bells.lock().unwrap_or_else(PoisonError::into_inner)
    }
}
