//! What the helper sleeps through, and what wakes it.

use super::EventFd;
use crate::sync::{AtomicBool, AtomicU8, Mutex, MutexGuard, Ordering, fence};
use crate::sys::UnsubmittedStore;
use engine::AssociationId;
use std::io;
use std::sync::PoisonError;

/// How the helper sleeps.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[repr(u8)]
pub(crate) enum HelperSleep {
    /// It ticks each millisecond: nobody needs to wake it.
    Ticking,
    /// It ticks at its idle rate: to be woken for work.
    Idle,
    /// It sleeps until a deadline: to be woken for work, and when a user may have changed the
    /// engine's timeout.
    Parked,
}

/// The helper's sleep and the work that users leave to it.
pub(crate) struct HelperState {
    eventfd: EventFd,
    /// A [`HelperSleep`].
    sleep: AtomicU8,
    /// Packets that may be deferred are ready to be sent.
    flush_pending: AtomicBool,
    /// Stores with bytes that were not submitted to the engine.
    unsubmitted: Mutex<Vec<(AssociationId, UnsubmittedStore)>>,
    /// The last handle of the endpoint was dropped.
    is_closed: AtomicBool,
}

impl HelperState {
    pub(crate) fn new() -> io::Result<HelperState> {
        Ok(HelperState {
            eventfd: EventFd::new()?,
            sleep: AtomicU8::new(HelperSleep::Ticking as u8),
            flush_pending: AtomicBool::new(false),
            unsubmitted: Mutex::new(Vec::new()),
            is_closed: AtomicBool::new(false),
        })
    }

    /// What the helper polls.
    pub(crate) fn eventfd(&self) -> &EventFd {
        &self.eventfd
    }

    /// The helper will sleep so. Afterwards it looks for work and for the engine's timeout once
    /// more: what came before is found then, what comes later finds it asleep and wakes it.
    pub(crate) fn fall_asleep(&self, sleep: HelperSleep) {
        if sleep != HelperSleep::Ticking {
            self.sleep.store(sleep as u8, Ordering::Relaxed);
            fence(Ordering::SeqCst);
        }
    }

    /// The helper is awake.
    pub(crate) fn wake_up(&self) {
        self.sleep
            .store(HelperSleep::Ticking as u8, Ordering::Relaxed);
    }

    /// The caller took the lock of the pump, and may change the engine's timeout.
    #[inline]
    pub(crate) fn on_pump_locked(&self) {
        if self.sleep.load(Ordering::Relaxed) == HelperSleep::Parked as u8 {
            self.eventfd.signal();
        }
    }

    /// Wakes the helper, however it sleeps.
    pub(crate) fn signal(&self) {
        self.eventfd.signal();
    }

    /// Wakes the helper for work that was just left to it; if it ticks, its next tick is soon enough.
    fn signal_if_asleep(&self) {
        fence(Ordering::SeqCst);
        if self.sleep.load(Ordering::Relaxed) != HelperSleep::Ticking as u8 {
            self.eventfd.signal();
        }
    }

    /// Lists the store of circuit `id`, which holds bytes not yet submitted.
    #[cold]
    pub(crate) fn note_unsubmitted(&self, id: AssociationId, store: UnsubmittedStore) {
        self.lock_unsubmitted().push((id, store));
        self.signal_if_asleep();
    }

    /// Takes the list of stores with bytes not yet submitted.
    pub(crate) fn take_unsubmitted(&self) -> Vec<(AssociationId, UnsubmittedStore)> {
        std::mem::take(&mut *self.lock_unsubmitted())
    }

    /// Defers a flush to the next send of any user, or to the helper. The caller holds the lock of the pump: a helper that
    /// takes note of an earlier deferral meanwhile flushes after this one.
    pub(crate) fn defer_flush(&self) {
        if self.flush_pending.load(Ordering::Relaxed) {
            return;
        }
        self.flush_pending.store(true, Ordering::Relaxed);
        self.signal_if_asleep();
    }

    /// Whether a flush was deferred since the last call.
    pub(crate) fn take_flush_pending(&self) -> bool {
        self.flush_pending.swap(false, Ordering::AcqRel)
    }

    /// Whether users left work to it.
    pub(crate) fn has_work(&self) -> bool {
        self.flush_pending.load(Ordering::Relaxed) || !self.lock_unsubmitted().is_empty()
    }

    /// The last handle of the endpoint was dropped: the helper ends.
    pub(crate) fn close(&self) {
        self.is_closed.store(true, Ordering::Release);
        self.eventfd.signal();
    }

    pub(crate) fn is_closed(&self) -> bool {
        self.is_closed.load(Ordering::Acquire)
    }

    fn lock_unsubmitted(&self) -> MutexGuard<'_, Vec<(AssociationId, UnsubmittedStore)>> {
        self.unsubmitted
            .lock()
            .unwrap_or_else(PoisonError::into_inner)
    }
}
