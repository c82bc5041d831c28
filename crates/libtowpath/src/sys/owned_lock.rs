//! A lock that knows who has it, so that a signal handler which interrupted its owner is refused and does not wait for
//! itself (signal-safety(7): read and write may be called there).

use std::cell::UnsafeCell;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::Duration;

/// Turns of a wait that look at once, and those that give the processor away.
const TURNS_OF_LOOKS: u32 = 64;
const TURNS_OF_YIELDS: u32 = 1024;

/// How long each further turn sleeps.
const TURN: Duration = Duration::from_micros(50);

/// The lock. What it guards is changed in short steps that never wait, so who finds it taken looks again.
pub(crate) struct OwnedLock<T> {
    /// The thread that has the lock; 0 for none.
    owner: AtomicUsize,
    value: UnsafeCell<T>,
}

// SAFETY: the value is reached by the owner of the lock alone.
unsafe impl<T: Send> Sync for OwnedLock<T> {}

/// Gives the lock back, after a panic too.
struct Held<'a>(&'a AtomicUsize);

impl Drop for Held<'_> {
    fn drop(&mut self) {
        self.0.store(0, Ordering::Release);
    }
}

impl<T> OwnedLock<T> {
    pub(crate) const fn new(value: T) -> OwnedLock<T> {
        OwnedLock {
            owner: AtomicUsize::new(0),
            value: UnsafeCell::new(value),
        }
    }

    /// Runs `action` with the value; None when this thread has the lock, which a signal handler interrupted.
    #[inline]
    pub(crate) fn with<R>(&self, action: impl FnOnce(&mut T) -> R) -> Option<R> {
        // SAFETY: no memory is passed.
        let me = unsafe { libc::pthread_self() } as usize;
        if self.owner.load(Ordering::Relaxed) == me {
            return None;
        }
        let mut turns = 0;
        while self
            .owner
            .compare_exchange_weak(0, me, Ordering::Acquire, Ordering::Relaxed)
            .is_err()
        {
            pause(&mut turns);
        }
        let held = Held(&self.owner);
        // SAFETY: this thread is the owner, and its handlers do not come here.
        let done = action(unsafe { &mut *self.value.get() });
        drop(held);
        Some(done)
    }

    /// In a forked child, whose only thread this is: forgets the value, which another thread of the parent may have
    /// been changing, and whose lock it may have had.
    pub(crate) fn renew_in_child(&self, value: T) {
        // SAFETY: there is no other thread, and fork(2) is not called with the lock held.
        unsafe { self.value.get().write(value) };
        self.owner.store(0, Ordering::Release);
    }
}

fn pause(turns: &mut u32) {
    *turns = turns.saturating_add(1);
    if *turns < TURNS_OF_LOOKS {
        std::hint::spin_loop();
    } else if *turns < TURNS_OF_YIELDS {
        std::thread::yield_now();
    } else {
        std::thread::sleep(TURN);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn owner_that_comes_again_is_refused_and_others_wait() {
        let lock = OwnedLock::new(0u64);
        let inner = lock.with(|_| lock.with(|_| ()));
        assert_eq!(inner, Some(None));
        std::thread::scope(|scope| {
            for _ in 0..4 {
                scope.spawn(|| {
                    let counted = (0..1000).filter_map(|_| lock.with(|count| *count += 1));
                    counted.for_each(drop);
                });
            }
        });
        assert_eq!(lock.with(|count| *count), Some(4000));
    }
}
