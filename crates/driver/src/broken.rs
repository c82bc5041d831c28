//! A panic in an engine, remembered and told to everybody who calls its endpoint.
//!
//! The engine may be left inconsistent, so nobody runs it again: each call returns the error that
//! [`Broken::error`] makes, and threads that wait are woken to meet it.

use std::io;
use std::ops::{Deref, DerefMut};
use std::sync::{Mutex, MutexGuard, OnceLock, PoisonError, TryLockError};

/// What is known of a panic under the lock.
#[derive(Debug, Default)]
pub(crate) struct Broken(OnceLock<String>);

impl Broken {
    /// The error of every call from now on; None while the endpoint works.
    #[inline]
    pub(crate) fn error(&self) -> Option<io::Error> {
        self.0.get().map(|thread| error_of(thread))
    }

    /// Whether a thread panicked.
    pub(crate) fn is_broken(&self) -> bool {
        self.0.get().is_some()
    }

    fn mark(&self) {
        let thread = std::thread::current();
        self.0
            .get_or_init(|| thread.name().unwrap_or("without a name").to_owned());
    }
}

#[cold]
fn error_of(thread: &str) -> io::Error {
    io::Error::other(format!(
        "endpoint broken: panic in its engine, in thread '{thread}', whose message says where; make \
         another endpoint, and report the message"
    ))
}

/// What a lock protects, and who is to know of a panic under it.
pub(crate) trait Breakable {
    /// What the lock protects.
    type Locked;

    /// The lock.
    fn mutex(&self) -> &Mutex<Self::Locked>;

    /// What is known of a panic under it.
    fn broken(&self) -> &Broken;

    /// Wakes every thread that waits for something.
    fn wake_everybody(&self);
}

/// Takes the lock of `owner`. Errors: a panic under the lock.
#[inline]
pub(crate) fn lock<O: Breakable>(owner: &O) -> io::Result<Guard<'_, O>> {
    guard(owner, look(owner))
}

/// Takes the lock of `owner` if it is free; None if it is not. Errors: a panic under the lock.
pub(crate) fn try_lock<O: Breakable>(owner: &O) -> io::Result<Option<Guard<'_, O>>> {
    match owner.mutex().try_lock() {
        Ok(locked) => guard(owner, locked).map(Some),
        Err(TryLockError::Poisoned(poisoned)) => guard(owner, poisoned.into_inner()).map(Some),
        Err(TryLockError::WouldBlock) => Ok(None),
    }
}

/// Takes the lock to look at what it protects: after a panic inconsistent, never unsafe.
#[inline]
pub(crate) fn look<O: Breakable>(owner: &O) -> MutexGuard<'_, O::Locked> {
    owner.mutex().lock().unwrap_or_else(PoisonError::into_inner)
}

#[inline]
fn guard<'a, O: Breakable>(
    owner: &'a O,
    locked: MutexGuard<'a, O::Locked>,
) -> io::Result<Guard<'a, O>> {
    if let Some(error) = owner.broken().error() {
        return Err(error);
    }
    Ok(Guard {
        locked,
        owner,
        was_panicking: std::thread::panicking(),
    })
}

/// A lock held. Dropped by a panic, it marks the owner broken.
pub(crate) struct Guard<'a, O: Breakable> {
    locked: MutexGuard<'a, O::Locked>,
    owner: &'a O,
    /// The thread was unwinding already when it took the lock.
    was_panicking: bool,
}

impl<O: Breakable> Deref for Guard<'_, O> {
    type Target = O::Locked;

    fn deref(&self) -> &O::Locked {
        &self.locked
    }
}

impl<O: Breakable> DerefMut for Guard<'_, O> {
    fn deref_mut(&mut self) -> &mut O::Locked {
        &mut self.locked
    }
}

impl<O: Breakable> Guard<'_, O> {
    #[cold]
    fn dropped_by_panic(&self) {
        if !self.was_panicking {
            self.owner.broken().mark();
            self.owner.wake_everybody();
        }
    }
}

impl<O: Breakable> Drop for Guard<'_, O> {
    #[inline]
    fn drop(&mut self) {
        if std::thread::panicking() {
            self.dropped_by_panic();
        }
    }
}
