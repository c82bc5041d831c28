//! A planted slowdown: both ends of a contestant stand still for a known share of the time, by which is
//! shown how small a difference a race finds, and how soon.
//!
//! Both ends pause once a period, of a clock that they share where they are on one host. Whichever of
//! the two limits the rate loses the share: a pause of the other one alone is hidden by what is queued
//! between them. Pauses are rare and long, because a pause of the sender can put its receiver to sleep,
//! and waking it costs the sender more than a short pause takes.

use crate::clock::now_ns;
use control::CircuitReport;

/// Name of a measure: time for which a loop paused, ms.
pub const PLANTED_PAUSE_MS: &str = "planted_pause_ms";

/// Time between the begins of two pauses, ns.
const PERIOD_NS: u64 = 2_000_000;

/// How much slower a loop is to be.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct Slowdown {
    /// Length of the pause in each period, ns.
    pause_ns: u64,
    /// The period begins from which the next pause is due, ns.
    next_ns: u64,
    /// Time of all pauses so far, ns.
    paused_ns: u64,
}

impl Slowdown {
    /// A rate that is lower by `share`, between 0 and 1.
    pub(crate) fn by(share: f64) -> Slowdown {
        Slowdown {
            pause_ns: (share * PERIOD_NS as f64).round() as u64,
            ..Slowdown::default()
        }
    }

    /// Whether it slows at all.
    pub(crate) fn is_any(self) -> bool {
        self.pause_ns > 0
    }

    /// Pauses where a period has begun since the last pause; gives the time at the end. A loop that
    /// waited for longer than a period owes nothing for it.
    #[inline]
    pub(crate) fn pause_at(&mut self, at_ns: u64) -> u64 {
        match self.is_any() && at_ns >= self.next_ns {
            true => self.spin(at_ns),
            false => at_ns,
        }
    }

    /// Puts the time of all pauses into the report of its loop, if any were planted.
    pub(crate) fn note_into(self, report: &mut CircuitReport) {
        if self.is_any() {
            let paused_ms = self.paused_ns as f64 / 1e6;
            report.measures.insert(PLANTED_PAUSE_MS.into(), paused_ms);
        }
    }

    /// Keeps the processor meanwhile: a sleep is longer than what was asked for by tens of microseconds.
    #[cold]
    fn spin(&mut self, from_ns: u64) -> u64 {
        self.next_ns = (from_ns / PERIOD_NS + 1) * PERIOD_NS;
        let mut at_ns = from_ns;
        while at_ns < from_ns + self.pause_ns {
            std::hint::spin_loop();
            at_ns = now_ns();
        }
        self.paused_ns += at_ns - from_ns;
        at_ns
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn pauses_once_a_period_however_often_it_is_asked() {
        let mut slowdown = Slowdown::by(0.05);
        // The past of the clock: each pause ends with its first reading.
        let period = 7 * PERIOD_NS;
        let end_ns = slowdown.pause_at(period + 3);
        assert!(end_ns >= period + 3 + PERIOD_NS / 20);
        let paused_ns = slowdown.paused_ns;
        assert_eq!(paused_ns, end_ns - period - 3);
        for at_ns in [period + PERIOD_NS / 10, period + PERIOD_NS - 1] {
            assert_eq!(slowdown.pause_at(at_ns), at_ns);
        }
        assert_eq!(slowdown.paused_ns, paused_ns);
        slowdown.pause_at(period + PERIOD_NS);
        assert!(slowdown.paused_ns > paused_ns);
    }

    #[test]
    fn pause_lasts_its_share_of_a_period_and_no_longer_than_a_reading_more() {
        for share in [0.01, 0.05, 0.8] {
            let mut slowdown = Slowdown::by(share);
            let begin_ns = now_ns();
            let end_ns = slowdown.pause_at(begin_ns);
            let due_ns = (share * PERIOD_NS as f64).round() as u64;
            assert!(end_ns - begin_ns >= due_ns && end_ns <= now_ns());
            assert_eq!(slowdown.paused_ns, end_ns - begin_ns);
        }
    }

    #[test]
    fn loop_that_waited_for_many_periods_owes_one_pause() {
        let mut slowdown = Slowdown::by(0.01);
        slowdown.pause_at(5 * PERIOD_NS);
        slowdown.pause_at(90 * PERIOD_NS);
        let paused_ns = slowdown.paused_ns;
        assert_eq!(slowdown.pause_at(90 * PERIOD_NS + 1), 90 * PERIOD_NS + 1);
        assert_eq!(slowdown.paused_ns, paused_ns);
    }

    #[test]
    fn nothing_is_planted_by_default() {
        let mut slowdown = Slowdown::default();
        assert_eq!(slowdown.pause_at(7), 7);
        let mut report = CircuitReport::default();
        slowdown.note_into(&mut report);
        assert!(report.measures.is_empty());
        Slowdown::by(0.01).note_into(&mut report);
        assert_eq!(report.measures[PLANTED_PAUSE_MS], 0.0);
    }
}
