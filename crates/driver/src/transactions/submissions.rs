//! What threads want done, until a holder of the lock does it.

use super::state::Submission;

/// Submissions that wait.
#[derive(Default)]
pub(super) struct Submissions {
    pub(super) list: Vec<Submission>,
    /// They are to leave now; otherwise they may wait for company.
    pub(super) is_wanted: bool,
}

impl Submissions {
    pub(super) fn is_empty(&self) -> bool {
        self.list.is_empty()
    }

    /// Moves all of them into `taken`, which is empty and whose memory serves the next ones.
    pub(super) fn take(&mut self, taken: &mut Vec<Submission>) {
        std::mem::swap(taken, &mut self.list);
        self.is_wanted = false;
    }

    /// Forgets all of them.
    pub(super) fn clear(&mut self) {
        self.list.clear();
    }
}
