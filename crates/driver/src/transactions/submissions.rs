//! What threads want done, until a holder of the lock does it.

use super::state::Submission;
use crate::sync::{AtomicBool, Mutex, MutexGuard, Ordering};
use std::sync::PoisonError;

/// Submissions that wait for company, at most.
const SUBMISSIONS_MAX: usize = 16;

/// Octets of their messages, at most: those of a call of the wire. More wait for no other, and the other end for them.
const OCTETS_MAX: usize = 48 << 10;

/// The list of submissions, and whether it has any.
///
/// A thread that leaves one tries to take the endpoint's lock afterwards; who holds that lock looks for submissions
/// after it has let go of it. One of the two finds what the other did: both exchange the word that says whether there
/// are any, and the later exchange follows all that came before the other (a fence would take twice the time).
#[derive(Default)]
pub(super) struct SubmissionList {
    list: Mutex<Submissions>,
    /// Written under the list's lock.
    has_any: AtomicBool,
}

impl SubmissionList {
    fn lock(&self) -> MutexGuard<'_, Submissions> {
        self.list.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Adds one; whether so many wait that they are to leave.
    pub(super) fn push(&self, submission: Submission) -> bool {
        let mut list = self.lock();
        self.has_any.swap(true, Ordering::AcqRel);
        list.push(submission)
    }

    /// Sees to it that what this thread has left is worked off: by `try_work`, which says whether it got the endpoint's
    /// lock (None from a broken endpoint), or by the thread that has the lock.
    pub(super) fn see_to(&self, mut try_work: impl FnMut() -> Option<bool>) {
        let mut is_announced = false;
        loop {
            match try_work() {
                Some(true) if self.has_any_after_release() => {
                    // It was left since, and its thread has found the lock taken.
                }
                Some(false) if !is_announced => {
                    // The thread that has the lock looks when it lets go of it, and may have looked just now.
                    self.want();
                    is_announced = true;
                }
                _ => return,
            }
        }
    }

    /// Whether there are any, for a thread that has let go of the endpoint's lock.
    #[inline]
    pub(super) fn has_any_after_release(&self) -> bool {
        let (acquired, seen) = (Ordering::AcqRel, Ordering::Acquire);
        let none = self.has_any.compare_exchange(false, false, acquired, seen);
        none.is_err()
    }

    /// Whether there are any, for a thread that looks again later.
    #[inline]
    pub(super) fn has_any(&self) -> bool {
        self.has_any.load(Ordering::Relaxed)
    }

    /// What waits, under the endpoint's lock.
    #[inline]
    pub(super) fn left(&self) -> Left {
        match self.has_any() {
            true => self.lock().left(),
            false => Left::Nothing,
        }
    }

    /// They are to leave now.
    fn want(&self) {
        self.lock().is_wanted = true;
    }

    /// Whether they are to leave now, for a thread that has let go of the endpoint's lock.
    pub(super) fn are_wanted_after_release(&self) -> bool {
        self.has_any_after_release() && self.lock().is_wanted
    }

    /// Moves all of them into `taken`, which is empty and whose memory serves the next ones.
    #[inline]
    pub(super) fn take(&self, taken: &mut Vec<Submission>) {
        if self.has_any() {
            let mut list = self.lock();
            self.has_any.store(false, Ordering::Release);
            list.take(taken);
        }
    }

    /// Forgets all of them.
    pub(super) fn clear(&self) {
        let mut list = self.lock();
        self.has_any.store(false, Ordering::Release);
        list.clear();
    }
}

/// Submissions that wait.
#[derive(Default)]
struct Submissions {
    list: Vec<Submission>,
    /// Octets of their messages.
    octets: usize,
    /// They are to leave now; otherwise they may wait for company.
    is_wanted: bool,
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
    fn push(&mut self, submission: Submission) -> bool {
        self.octets += submission.octets();
        self.list.push(submission);
        self.list.len() >= SUBMISSIONS_MAX || self.octets >= OCTETS_MAX
    }

    /// What waits.
    fn left(&self) -> Left {
        match (self.list.is_empty(), self.is_wanted) {
            (true, _) => Left::Nothing,
            (false, true) => Left::Wanted,
            (false, false) => Left::Waits(self.octets),
        }
    }

    /// Moves all of them into `taken`, which is empty and whose memory serves the next ones.
    fn take(&mut self, taken: &mut Vec<Submission>) {
        std::mem::swap(taken, &mut self.list);
        self.is_wanted = false;
        self.octets = 0;
    }

    /// Forgets all of them.
    fn clear(&mut self) {
        self.list.clear();
        self.octets = 0;
    }
}

#[cfg(all(test, feature = "loom"))]
mod models {
    use super::*;
    use engine::TransactionId;
    use loom::thread;
    use std::sync::Arc;

    /// What one thread leaves while another has the endpoint's lock is worked off by one of them.
    #[test]
    fn models_submission_is_found_by_who_had_the_lock_or_by_who_left_it() {
        loom::model(|| {
            let shared = Arc::new((Mutex::new(()), SubmissionList::default()));
            let other = Arc::clone(&shared);
            let holder = thread::spawn(move || {
                drop(other.0.lock().unwrap());
                if other.1.has_any_after_release() {
                    see_to(&other);
                }
            });
            shared.1.push(Submission::Refuse(TransactionId(1)));
            see_to(&shared);
            holder.join().unwrap();
            assert!(!shared.1.has_any_after_release(), "nobody saw to it");
        });
    }

    fn see_to(shared: &(Mutex<()>, SubmissionList)) {
        let (lock, list) = shared;
        list.see_to(|| {
            let got = lock.try_lock();
            if got.is_ok() {
                list.take(&mut Vec::new());
            }
            Some(got.is_ok())
        });
    }
}

#[cfg(all(test, not(feature = "loom")))]
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

    #[test]
    fn list_has_any_until_they_are_taken_or_forgotten() {
        let list = SubmissionList::default();
        assert!(!list.has_any_after_release() && list.left() == Left::Nothing);
        list.push(reply(3));
        assert!(list.has_any_after_release() && list.left() == Left::Waits(3));
        assert!(!list.are_wanted_after_release());
        list.want();
        assert!(list.are_wanted_after_release() && list.left() == Left::Wanted);
        let mut taken = Vec::new();
        list.take(&mut taken);
        assert!(taken.len() == 1 && !list.has_any() && !list.are_wanted_after_release());
        list.push(reply(3));
        list.clear();
        assert!(!list.has_any() && list.left() == Left::Nothing);
    }
}
