//! Who drives: takes in arrivals from the wire, one thread at a time.

use std::cell::Cell;
use std::sync::atomic::{AtomicBool, AtomicU8, AtomicU64, AtomicUsize, Ordering};

/// Nobody drives.
const NOBODY: u8 = 0;
/// A user that waits does.
const USER: u8 = 1;
/// The service thread does.
const SERVICE: u8 = 2;
/// The service thread does, and sleeps: a user may take over.
const SERVICE_SLEEPS: u8 = 3;

/// Users that are away between two waits for less than this drive on when they come back; nobody is
/// woken to drive meanwhile. Waking a thread takes the processor 5 us and more, and the arrivals of so
/// short a time fit the wire's buffer.
const AWAY_SHORT_NS: u64 = 50_000;

/// The longest absence that counts.
const AWAY_MAX_NS: u64 = 10_000_000;

thread_local! {
    /// When this thread has left the drive of an endpoint where others wait, and which.
    static LEFT: Cell<(usize, u64)> = const { Cell::new((0, 0)) };
}

/// Who drives, and who would.
#[derive(Debug, Default)]
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
    /// How long users are away between two waits, smoothed.
    away_ns: AtomicU64,
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

    /// A user that drove leaves others who sleep.
    pub(super) fn note_left(&self, now_ns: u64) {
        LEFT.set((std::ptr::from_ref(self) as usize, now_ns));
    }

    /// A user comes to wait.
    pub(super) fn note_return(&self, now_ns: u64) {
        let (whom, left_ns) = LEFT.get();
        if whom != std::ptr::from_ref(self) as usize {
            return;
        }
        LEFT.set((0, 0));
        let away = now_ns.saturating_sub(left_ns).min(AWAY_MAX_NS);
        let smoothed = self.away_ns.load(Ordering::Relaxed);
        // Threads may overwrite each other's sample: it is an estimate.
        self.away_ns
            .store((smoothed * 7 + away) / 8, Ordering::Relaxed);
    }

    /// Whether users come back soon, as far as is known.
    pub(super) fn users_return_soon(&self) -> bool {
        self.away_ns.load(Ordering::Relaxed) < AWAY_SHORT_NS
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
    fn absence_is_that_of_a_user_who_left_this_endpoint() {
        let driving = Driving::default();
        driving.note_return(9_000_000);
        assert!(driving.users_return_soon());
        driving.note_left(1_000_000);
        Driving::default().note_return(9_000_000);
        driving.note_return(2_000_000);
        assert!(!driving.users_return_soon());
        for round in 0..40 {
            driving.note_left(round * 1000);
            driving.note_return(round * 1000 + 900);
        }
        assert!(driving.users_return_soon());
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
