//! Where a caller waits for its reply.

use super::Reply;
use std::collections::VecDeque;
use std::io;
use std::sync::{Condvar, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

/// Octets of the replies to a call to a group that wait for its caller, at most; those beyond are
/// lost.
const WAITING_BYTES_MAX: usize = 64 << 20;

/// The place of one call: the thread that takes in a reply fills it, once, or once for each member of
/// a group.
#[derive(Debug, Default)]
pub(super) struct Place {
    outcomes: Mutex<VecDeque<io::Result<Reply>>>,
    filled: Condvar,
}

impl Place {
    /// Fills the place and wakes its caller.
    pub(super) fn fill(&self, outcome: io::Result<Reply>) {
        let mut outcomes = self.lock();
        let len = |outcome: &io::Result<Reply>| match outcome {
            Ok(reply) => reply.octets.len(),
            Err(_) => 0,
        };
        let waiting: usize = outcomes.iter().map(len).sum();
        if outcomes.is_empty() || waiting + len(&outcome) <= WAITING_BYTES_MAX {
            outcomes.push_back(outcome);
        }
        self.filled.notify_one();
    }

    /// What it was filled with first.
    pub(super) fn take(&self) -> Option<io::Result<Reply>> {
        self.lock().pop_front()
    }

    /// Waits until it is filled; None when that takes longer than `limit`.
    pub(super) fn wait(&self, limit: Duration) -> Option<io::Result<Reply>> {
        let waited = self
            .filled
            .wait_timeout_while(self.lock(), limit, |outcomes| outcomes.is_empty());
        waited.unwrap_or_else(PoisonError::into_inner).0.pop_front()
    }

    fn lock(&self) -> MutexGuard<'_, VecDeque<io::Result<Reply>>> {
        self.outcomes.lock().unwrap_or_else(PoisonError::into_inner)
    }
}
