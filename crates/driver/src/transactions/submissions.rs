//! What threads want done, until a holder of the lock does it.

use super::state::Submission;

/// Submissions that wait for company, at most.
const SUBMISSIONS_MAX: usize = 16;

/// Octets of their messages, at most: those of a call of the wire. More wait for no other, and the other end for them.
const OCTETS_MAX: usize = 48 << 10;

/// Submissions that wait.
#[derive(Default)]
pub(super) struct Submissions {
    list: Vec<Submission>,
    /// Octets of their messages.
    octets: usize,
    /// They are to leave now; otherwise they may wait for company.
    pub(super) is_wanted: bool,
}

/// What waits.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Left {
    /// Nothing.
    Nothing,
    /// Messages of so many octets, which may wait for company.
    Waits(usize),
    /// What is to leave now.
    Wanted,
}

impl Submissions {
    /// Adds one; whether so many wait that they are to leave.
    pub(super) fn push(&mut self, submission: Submission) -> bool {
        self.octets += submission.octets();
        self.list.push(submission);
        self.list.len() >= SUBMISSIONS_MAX || self.octets >= OCTETS_MAX
    }

    /// What waits.
    pub(super) fn left(&self) -> Left {
        match (self.list.is_empty(), self.is_wanted) {
            (true, _) => Left::Nothing,
            (false, true) => Left::Wanted,
            (false, false) => Left::Waits(self.octets),
        }
    }

    pub(super) fn is_empty(&self) -> bool {
        self.list.is_empty()
    }

    /// Moves all of them into `taken`, which is empty and whose memory serves the next ones.
    pub(super) fn take(&mut self, taken: &mut Vec<Submission>) {
        std::mem::swap(taken, &mut self.list);
        self.is_wanted = false;
        self.octets = 0;
    }

    /// Forgets all of them.
    pub(super) fn clear(&mut self) {
        self.list.clear();
        self.octets = 0;
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use engine::{Note, TransactionId};

    fn reply(len: usize) -> Submission {
        Submission::Reply {
            transaction: TransactionId(1),
            reply: vec![0; len].into(),
            note: Note::default(),
        }
    }

    #[test]
    fn so_many_submissions_or_octets_of_messages_leave() {
        let mut submissions = Submissions::default();
        let short = (1..).find(|_| submissions.push(reply(20)));
        assert_eq!(short, Some(SUBMISSIONS_MAX));
        submissions.take(&mut Vec::new());
        let long = (1..).find(|_| submissions.push(reply(16 << 10)));
        assert_eq!(
            (long, submissions.left()),
            (Some(3), Left::Waits(OCTETS_MAX))
        );
        submissions.is_wanted = true;
        assert_eq!(submissions.left(), Left::Wanted);
        submissions.clear();
        assert_eq!(submissions.left(), Left::Nothing);
        assert!(!submissions.push(reply(16 << 10)));
    }
}
