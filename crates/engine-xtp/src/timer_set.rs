//! The timers of an association, or of a stream to a group. Their endpoint's table of timers has an entry for all of them.

use core::marker::PhantomData;
use engine::Instant;

/// Deadline of a timer that is not armed.
pub(crate) const NEVER: Instant = Instant::from_nanos(u64::MAX);

/// Names the timers of a [`TimerSet`].
pub(crate) trait TimerName: Copy {
    /// Its number, less than how many there are.
    fn index(self) -> usize;
}

/// `COUNT` timers with the names `T`.
#[derive(Clone, Debug)]
pub(crate) struct TimerSet<T, const COUNT: usize> {
    deadlines: [Instant; COUNT],
    names: PhantomData<T>,
}

impl<T: TimerName, const COUNT: usize> TimerSet<T, COUNT> {
    /// None is armed.
    pub(crate) const fn new() -> Self {
        TimerSet {
            deadlines: [NEVER; COUNT],
            names: PhantomData,
        }
    }

    /// Deadline of the timer, if it is armed.
    pub(crate) fn deadline(&self, timer: T) -> Option<Instant> {
        Some(self.deadlines[timer.index()]).filter(|&at| at != NEVER)
    }

    #[inline]
    pub(crate) fn is_armed(&self, timer: T) -> bool {
        self.deadlines[timer.index()] != NEVER
    }

    #[inline]
    pub(crate) fn arm(&mut self, timer: T, at: Instant) {
        self.deadlines[timer.index()] = at;
    }

    #[inline]
    pub(crate) fn disarm(&mut self, timer: T) {
        self.deadlines[timer.index()] = NEVER;
    }

    /// Disarms the timer if it expired, and says so.
    #[inline]
    pub(crate) fn take_expired(&mut self, timer: T, now: Instant) -> bool {
        let deadline = &mut self.deadlines[timer.index()];
        let is_expired = *deadline <= now;
        if is_expired {
            *deadline = NEVER;
        }
        is_expired
    }

    /// The earliest deadline; [`NEVER`] without an armed timer.
    pub(crate) fn earliest(&self) -> Instant {
        self.deadlines.iter().min().copied().unwrap_or(NEVER)
    }
}
