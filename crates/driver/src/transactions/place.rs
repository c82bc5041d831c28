//! Where a caller waits for its reply.

use super::Reply;
use std::io;
use std::sync::{Condvar, Mutex, PoisonError};
use std::time::Duration;

/// The place of one call: filled once, by the thread that took in the reply.
#[derive(Debug, Default)]
pub(super) struct Place {
    outcome: Mutex<Option<io::Result<Reply>>>,
    filled: Condvar,
}

impl Place {
    /// Fills the place and wakes its caller. What is there already stays.
    pub(super) fn fill(&self, outcome: io::Result<Reply>) {
        let mut place = self.outcome.lock().unwrap_or_else(PoisonError::into_inner);
        place.get_or_insert(outcome);
        self.filled.notify_one();
    }

    /// What it was filled with, once.
    pub(super) fn take(&self) -> Option<io::Result<Reply>> {
        let mut place = self.outcome.lock().unwrap_or_else(PoisonError::into_inner);
        place.take()
    }

    /// Waits until it is filled; None when that takes longer than `limit`.
    pub(super) fn wait(&self, limit: Duration) -> Option<io::Result<Reply>> {
        let place = self.outcome.lock().unwrap_or_else(PoisonError::into_inner);
        let waited = self
            .filled
            .wait_timeout_while(place, limit, |place| place.is_none());
        waited.unwrap_or_else(PoisonError::into_inner).0.take()
    }
}
