//! Who drives: takes in arrivals from the wire, one thread at a time.

use super::returns::Returns;
use std::sync::atomic::{AtomicBool, AtomicU8, AtomicU64, AtomicUsize, Ordering};

/// Nobody drives.
const NOBODY: u8 = 0;
/// A user that waits does.
const USER: u8 = 1;
/// The service thread does.
const SERVICE: u8 = 2;
/// The service thread does, and sleeps: a user may take over.
const SERVICE_SLEEPS: u8 = 3;

/// Who drives, and who would.
#[derive(Debug)]
pub(super) struct Driving {
    driver: AtomicU8,
    /// Times that a user began to drive.
    by_users: AtomicU64,
    /// Users that sleep and need another thread to drive.
    sleeping: AtomicUsize,
    /// Users that wait for a request.
    servers: AtomicUsize,
    /// The service thread looks every tick whether a user drives.
    is_watched: AtomicBool,
    /// The service thread is to drive.
    is_called: AtomicBool,
    /// The user that drives looks at what is submitted before it blocks; or the one that left is about to
    /// come back, or the next one drives instead.
    attends: AtomicBool,
    /// Callers that come and go.
    pub(super) callers: Returns,
    /// Servers that do.
    pub(super) serving: Returns,
}

impl Default for Driving {
    fn default() -> Self {
        Driving {
            driver: AtomicU8::new(NOBODY),
            by_users: AtomicU64::new(0),
            sleeping: AtomicUsize::new(0),
            servers: AtomicUsize::new(0),
            is_watched: AtomicBool::new(false),
            is_called: AtomicBool::new(false),
            attends: AtomicBool::new(false),
            callers: Returns::default(),
            // A first service that takes long would keep other requests waiting.
            serving: Returns::late(),
        }
    }
}

impl Driving {
    /// A user drives from now on, unless another thread does.
    pub(super) fn take_as_user(&self) -> bool {
        let take = |from| {
            self.driver
                .compare_exchange(from, USER, Ordering::SeqCst, Ordering::SeqCst)
                .is_ok()
        };
        let is_taken = take(NOBODY) || take(SERVICE_SLEEPS);
        if is_taken {
            // Only who drives writes it.
            let count = self.by_users.load(Ordering::Relaxed);
            self.by_users.store(count + 1, Ordering::Relaxed);
        }
        is_taken
    }

    /// The thread that drives drives no longer.
    pub(super) fn let_go(&self) {
        self.driver.store(NOBODY, Ordering::SeqCst);
    }

    pub(super) fn is_nobody(&self) -> bool {
        self.driver.load(Ordering::SeqCst) == NOBODY
    }

    /// Whether nobody drives, or the service thread sleeps while it does.
    pub(super) fn is_free(&self) -> bool {
        matches!(self.driver.load(Ordering::SeqCst), NOBODY | SERVICE_SLEEPS)
    }

    /// The service thread drives from now on, unless a user does.
    pub(super) fn take_as_service(&self) -> bool {
        let taken =
            self.driver
                .compare_exchange(NOBODY, SERVICE, Ordering::SeqCst, Ordering::SeqCst);
        taken.is_ok()
    }

    /// The service thread, which drives, sleeps: a user may take over.
    pub(super) fn sleep_as_service(&self) {
        self.driver.store(SERVICE_SLEEPS, Ordering::SeqCst);
    }

    /// Whether no user has taken over from the service thread.
    pub(super) fn service_drives(&self) -> bool {
        matches!(self.driver.load(Ordering::SeqCst), SERVICE | SERVICE_SLEEPS)
    }

    /// The service thread is awake; whether it still drives.
    pub(super) fn wake_as_service(&self) -> bool {
        let (from, to) = (SERVICE_SLEEPS, SERVICE);
        let kept = self
            .driver
            .compare_exchange(from, to, Ordering::SeqCst, Ordering::SeqCst);
        kept.is_ok()
    }

    /// Times that a user began to drive.
    pub(super) fn by_users(&self) -> u64 {
        self.by_users.load(Ordering::Relaxed)
    }

    /// A user sleeps, or does no longer.
    pub(super) fn note_sleeping(&self, sleeps: bool) {
        match sleeps {
            true => self.sleeping.fetch_add(1, Ordering::SeqCst),
            false => self.sleeping.fetch_sub(1, Ordering::SeqCst),
        };
    }

    pub(super) fn has_sleeping_users(&self) -> bool {
        self.sleeping.load(Ordering::SeqCst) > 0
    }

    /// A user waits for a request, or does no longer.
    pub(super) fn note_server(&self, waits: bool) {
        match waits {
            true => self.servers.fetch_add(1, Ordering::SeqCst),
            false => self.servers.fetch_sub(1, Ordering::SeqCst),
        };
    }

    /// Users that wait for a request.
    pub(super) fn waiting_for_requests(&self) -> usize {
        self.servers.load(Ordering::SeqCst)
    }

    /// The service thread is to look every tick whether a user drives; whether it did not before.
    pub(super) fn watch(&self) -> bool {
        !self.is_watched.load(Ordering::SeqCst) && !self.is_watched.swap(true, Ordering::SeqCst)
    }

    pub(super) fn is_watched(&self) -> bool {
        self.is_watched.load(Ordering::SeqCst)
    }

    /// The service thread looks no more: it drives, or a user does who has not left for a while.
    pub(super) fn end_watch(&self) {
        self.is_watched.store(false, Ordering::SeqCst);
        if self.is_nobody() {
            // A user has left at this moment, and has seen it watched.
            self.is_watched.store(true, Ordering::SeqCst);
        }
    }

    /// The service thread is to drive.
    pub(super) fn call_service(&self) {
        self.is_called.store(true, Ordering::SeqCst);
    }

    /// Whether it was to since this was asked last.
    pub(super) fn take_call(&self) -> bool {
        self.is_called.swap(false, Ordering::SeqCst)
    }

    /// Whether the user that drives is about to block, or looks at what is submitted first. Only who drives writes it:
    /// one alone, who has nobody to attend to, finds it as it is to be.
    pub(super) fn set_attends(&self, attends: bool) {
        if self.attends.load(Ordering::Relaxed) != attends {
            self.attends.store(attends, Ordering::SeqCst);
        }
    }

    /// The user that drives does not block now. Users that sleep, or were woken and are about to come back, may leave
    /// something to it.
    pub(super) fn attend(&self) {
        self.set_attends(self.has_sleeping_users() || self.callers.expected() > 0);
    }

    /// Whether what is submitted now is sent by the thread that drives.
    pub(super) fn attends(&self) -> bool {
        self.attends.load(Ordering::SeqCst)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn user_takes_over_from_a_service_thread_that_sleeps_and_from_no_other() {
        let driving = Driving::default();
        assert!(driving.take_as_service() && !driving.take_as_user());
        driving.sleep_as_service();
        assert!(driving.take_as_user() && !driving.take_as_user());
        assert!(!driving.wake_as_service(), "a user drives");
        assert!(!driving.take_as_service());
        driving.let_go();
        assert!(driving.take_as_service());
    }

    #[test]
    fn watch_goes_on_when_the_last_user_left_meanwhile() {
        let driving = Driving::default();
        assert!(driving.watch() && !driving.watch());
        driving.end_watch();
        assert!(driving.is_watched(), "nobody drives");
        assert!(driving.take_as_user());
        driving.end_watch();
        assert!(!driving.is_watched());
    }
}
