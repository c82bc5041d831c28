//! An endpoint shared by a listener, its circuits and a helper thread.
//!
//! The user's thread does the work while it is in a call. The helper checks every millisecond
//! whether a user took the lock, and serves the endpoint if none did: acknowledgements, timers and
//! data that flow control blocked go on while the user is elsewhere.

use super::endpoint::QuicEndpoint;
use quinn_proto::ConnectionHandle;
use rustix::event::{PollFd, PollFlags, Timespec, poll};
use std::io;
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::sync::atomic::{AtomicU32, AtomicU64, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError, TryLockError, Weak};
use std::time::{Duration, Instant};

/// How often the helper checks.
const HELPER_TICK: Duration = Duration::from_millis(1);

/// How long the helper sleeps after an error; the user's next call meets and reports it.
const HELPER_BACKOFF: Duration = Duration::from_millis(20);

pub(super) struct SharedEndpoint {
    endpoint: Mutex<QuicEndpoint>,
    /// The endpoint's socket, to sleep on without the lock.
    descriptor: OwnedFd,
    /// Users asleep on the socket, which a datagram must wake.
    waiters: AtomicU32,
    /// Locks taken by users, so that the helper sees whether there were any.
    lock_count: AtomicU64,
}

impl SharedEndpoint {
    /// Shares `endpoint` and starts its helper, which ends with the last user.
    pub(super) fn new(endpoint: QuicEndpoint) -> io::Result<Arc<SharedEndpoint>> {
        let shared = Arc::new(SharedEndpoint {
            descriptor: endpoint.socket().as_fd().try_clone_to_owned()?,
            endpoint: Mutex::new(endpoint),
            waiters: AtomicU32::new(0),
            lock_count: AtomicU64::new(0),
        });
        let weak = Arc::downgrade(&shared);
        std::thread::Builder::new()
            .name("towpath-quic".into())
            .spawn(move || run_helper(&weak))?;
        Ok(shared)
    }

    #[inline]
    pub(super) fn lock(&self) -> MutexGuard<'_, QuicEndpoint> {
        self.lock_count.fetch_add(1, Ordering::Relaxed);
        self.endpoint.lock().unwrap_or_else(PoisonError::into_inner)
    }

    pub(super) fn descriptor(&self) -> BorrowedFd<'_> {
        self.descriptor.as_fd()
    }

    /// Sleeps until a datagram arrives, a timer of `handle` expires, or `deadline` is reached.
    ///
    /// `seen` is the number of receives when the caller last held the lock: returns at once if the
    /// helper has received since.
    pub(super) fn sleep(
        &self,
        handle: Option<ConnectionHandle>,
        seen: u64,
        deadline: Instant,
    ) -> io::Result<()> {
        let (flags, until) = {
            let mut endpoint = self.lock();
            if endpoint.arrivals() != seen {
                return Ok(());
            }
            // Set under the lock, so that the helper does not receive from here on.
            self.waiters.fetch_add(1, Ordering::Relaxed);
            let (blocked, timer) = endpoint.send_blocked_and_timeout(handle);
            let mut flags = PollFlags::IN;
            flags.set(PollFlags::OUT, blocked);
            (flags, timer.map_or(deadline, |at| at.min(deadline)))
        };
        let left = until.saturating_duration_since(Instant::now());
        let limit = Timespec::try_from(left).ok();
        let result = poll(&mut [PollFd::new(&self.descriptor, flags)], limit.as_ref());
        self.waiters.fetch_sub(1, Ordering::Relaxed);
        match result {
            Ok(_) | Err(rustix::io::Errno::INTR) => Ok(()),
            Err(error) => Err(error.into()),
        }
    }
}

fn run_helper(weak: &Weak<SharedEndpoint>) {
    let mut seen = u64::MAX;
    loop {
        std::thread::park_timeout(HELPER_TICK);
        let Some(shared) = weak.upgrade() else {
            return;
        };
        let lock_count = shared.lock_count.load(Ordering::Relaxed);
        let users_idle = lock_count == seen;
        seen = lock_count;
        if users_idle && serve_if_idle(&shared).is_err() {
            std::thread::park_timeout(HELPER_BACKOFF);
        }
    }
}

fn serve_if_idle(shared: &SharedEndpoint) -> io::Result<()> {
    let mut endpoint = match shared.endpoint.try_lock() {
        Ok(endpoint) => endpoint,
        Err(TryLockError::Poisoned(poisoned)) => poisoned.into_inner(),
        Err(TryLockError::WouldBlock) => return Ok(()),
    };
    if shared.waiters.load(Ordering::Relaxed) > 0 {
        return Ok(());
    }
    endpoint.serve_all()
}
