//! A planted slowdown: a sender that takes a known share longer for its messages, by which is shown
//! how small a difference a race finds, and how soon.

use crate::clock::now_ns;

/// Time by which a pause may have been too long, at most, ns: a reading of the clock. A thread that is
/// interrupted amid a pause would otherwise be spared the next ones.
const OVERSHOOT_MAX_NS: f64 = 100.0;

/// Longest time between two readings of the clock that counts as work, ns: ten times a long run of
/// messages. What takes longer was interrupted, or waited, and a pause for it would run into the turns of others.
const WORK_MAX_NS: u64 = 10 * super::RUN_LONG_NS;

/// How much slower a sending loop is to be.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct Slowdown {
    /// Pause for each ns of work, ns.
    pause_per_ns: f64,
    /// Pause that is still due, ns; below 0 where the last one was too long.
    due_ns: f64,
}

impl Slowdown {
    /// A rate that is lower by `share`, between 0 and 1: work and pause together take 1 / (1 - share)
    /// of the time.
    pub(crate) fn by(share: f64) -> Slowdown {
        Slowdown {
            pause_per_ns: share / (1.0 - share),
            due_ns: 0.0,
        }
    }

    /// Whether it slows at all.
    pub(crate) fn is_any(self) -> bool {
        self.pause_per_ns > 0.0
    }

    /// Pauses for the work between two readings of the clock; gives the time at the end.
    #[inline]
    pub(crate) fn pause_after(&mut self, since_ns: u64, done_ns: u64) -> u64 {
        match self.is_any() {
            true => self.spin(since_ns, done_ns),
            false => done_ns,
        }
    }

    /// Keeps the processor meanwhile: a sleep would be longer than most pauses, and wakes late.
    #[cold]
    fn spin(&mut self, since_ns: u64, done_ns: u64) -> u64 {
        let until_ns = done_ns + self.owe(done_ns.saturating_sub(since_ns));
        let mut at_ns = done_ns;
        while at_ns < until_ns {
            std::hint::spin_loop();
            at_ns = now_ns();
        }
        self.pay(at_ns - done_ns);
        at_ns
    }

    /// Adds what some work costs; gives what is due.
    fn owe(&mut self, worked_ns: u64) -> u64 {
        self.due_ns += worked_ns.min(WORK_MAX_NS) as f64 * self.pause_per_ns;
        self.due_ns as u64
    }

    fn pay(&mut self, paused_ns: u64) {
        self.due_ns = (self.due_ns - paused_ns as f64).max(-OVERSHOOT_MAX_NS);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn pauses_add_up_to_the_share_whatever_a_reading_takes() {
        for (share, reading_ns) in [(0.01, 1), (0.01, 30), (0.05, 30), (0.5, 70)] {
            let mut slowdown = Slowdown::by(share);
            let (mut worked, mut paused) = (0u64, 0u64);
            for run in 0..10_000u64 {
                let work_ns = 20_000 + 37 * (run % 101);
                let due_ns = slowdown.owe(work_ns);
                // The first reading at or after the end of the pause.
                let pause_ns = due_ns.next_multiple_of(reading_ns);
                slowdown.pay(pause_ns);
                worked += work_ns;
                paused += pause_ns;
            }
            let found = paused as f64 / (worked + paused) as f64;
            assert!((found / share - 1.0).abs() < 1e-4, "{found} of {share}");
        }
    }

    #[test]
    fn interrupted_pause_does_not_spare_the_next_ones() {
        let mut slowdown = Slowdown::by(0.01);
        slowdown.owe(100_000);
        slowdown.pay(5_000_000);
        assert_eq!(slowdown.owe(100_000), 1_010 - OVERSHOOT_MAX_NS as u64);
    }

    #[test]
    fn pause_ends_when_it_is_due_and_nothing_is_planted_by_default() {
        let begin_ns = now_ns();
        let end_ns = Slowdown::by(0.5).pause_after(begin_ns, begin_ns + 50_000);
        assert!(end_ns >= begin_ns + 99_999, "{}", end_ns - begin_ns);
        assert!(now_ns() >= end_ns);
        let of_interrupted = Slowdown::by(0.5).owe(1_000 * WORK_MAX_NS);
        assert_eq!(of_interrupted, WORK_MAX_NS);
        assert_eq!(Slowdown::default().pause_after(3, 7), 7);
    }
}
