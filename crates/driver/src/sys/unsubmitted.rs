//! A store as the helper sees it: how far it was submitted.

use super::ring::Ring;
use std::sync::Arc;
use std::sync::atomic::Ordering;

/// A store with bytes that were not submitted to the engine, listed for the helper.
pub struct UnsubmittedStore {
    ring: Arc<Ring>,
}

impl UnsubmittedStore {
    pub(super) fn new(ring: Arc<Ring>) -> UnsubmittedStore {
        UnsubmittedStore { ring }
    }

    /// Notes the store; whether it was not noted before.
    #[inline]
    pub fn set_noted(&self) -> bool {
        self.ring.set_noted()
    }

    /// Clears the note, so that the producer lists the store again.
    pub fn clear_noted(&self) {
        self.ring.noted_unsubmitted.store(false, Ordering::SeqCst);
    }

    /// How far the store was submitted, if it holds more bytes.
    pub fn submitted_if_behind(&self) -> Option<u64> {
        let submitted = self.ring.consumer.submitted.load(Ordering::Relaxed);
        (self.ring.producer.head.load(Ordering::Acquire) > submitted).then_some(submitted)
    }
}
