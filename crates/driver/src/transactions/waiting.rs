//! What a user waits for, and where it finds it.

use super::place::PlaceName;
use super::state::State;
use super::work::By;

/// What a user waits for. What the thread that drives has taken in for itself it takes as it is, under the lock that it
/// holds anyway; what others have taken in lies where they left it, with a lock of its own.
pub(super) struct Waiting<O, F> {
    pub(super) who: By,
    /// The place of a call, if it waits for one reply: the state keeps that for it.
    pub(super) place: Option<PlaceName>,
    /// Takes what the endpoint's state has for it.
    pub(super) own: O,
    /// Takes what others have left for it.
    pub(super) take: F,
}

impl<O, F> Waiting<O, F> {
    /// What is there.
    #[inline]
    pub(super) fn take_under_lock<E, W, T>(&self, state: &mut State<E, W>) -> Option<T>
    where
        O: Fn(&mut State<E, W>) -> Option<T>,
        F: Fn() -> Option<T>,
    {
        (self.own)(state).or_else(&self.take)
    }
}
