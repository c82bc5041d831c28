//! The turns of a job whose contestant shares its time with others.

use serde::{Deserialize, Serialize};

/// When the loops of a job run. All times are CLOCK_MONOTONIC of the worker's host, ns.
///
/// Every worker knows its turns from the start, by the clock of its host, and needs no message between
/// two of them.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Turns {
    /// The turns of this job, in order, apart from each other.
    pub windows: Vec<Turn>,
    /// When the last turn of any contestant has ended. The loops finish then, not before, so that
    /// what ending costs falls into nobody's turn.
    pub over_ns: u64,
}

/// A turn: the time in which a loop may send.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Turn {
    /// When it begins.
    pub begin_ns: u64,
    /// When it begins to count. Before, the loops get under way, and what is left of another
    /// contestant's turn drains.
    pub counted_from_ns: u64,
    /// When it ends.
    pub end_ns: u64,
}

/// Turns of a job, at most: a time series has a slice for each.
pub const TURNS_MAX: usize = 4096;

impl Turns {
    /// Time that the loops may send in all, ns.
    pub fn open_ns(&self) -> u64 {
        let open = self.windows.iter().map(|turn| turn.end_ns - turn.begin_ns);
        open.sum()
    }

    /// The same turns by a clock that is ahead by `offset_ns`.
    #[must_use]
    pub fn by_clock(&self, offset_ns: i64) -> Turns {
        let moved = |at_ns: u64| at_ns.saturating_add_signed(offset_ns);
        let windows = self.windows.iter().map(|turn| Turn {
            begin_ns: moved(turn.begin_ns),
            counted_from_ns: moved(turn.counted_from_ns),
            end_ns: moved(turn.end_ns),
        });
        Turns {
            windows: windows.collect(),
            over_ns: moved(self.over_ns),
        }
    }

    /// Whether the turns are ascending, apart, and before the end.
    pub fn is_valid(&self) -> bool {
        let ends = self.windows.iter().all(|turn| {
            turn.begin_ns <= turn.counted_from_ns
                && turn.counted_from_ns < turn.end_ns
                && turn.end_ns <= self.over_ns
        });
        let apart = |pair: &[Turn]| pair[0].end_ns <= pair[1].begin_ns;
        let count = (1..=TURNS_MAX).contains(&self.windows.len());
        count && ends && self.windows.windows(2).all(apart)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Turns of begin, begin of what counts, and end.
    fn turns(windows: &[(u64, u64, u64)], over_ns: u64) -> Turns {
        let turn = |&(begin_ns, counted_from_ns, end_ns): &(u64, u64, u64)| Turn {
            begin_ns,
            counted_from_ns,
            end_ns,
        };
        Turns {
            windows: windows.iter().map(turn).collect(),
            over_ns,
        }
    }

    #[test]
    fn turns_by_another_clock_keep_their_lengths() {
        let turns = turns(&[(100, 110, 150)], 160);
        let ahead = turns.by_clock(1_000);
        assert_eq!((ahead.windows[0].begin_ns, ahead.over_ns), (1_100, 1_160));
        assert_eq!(ahead.open_ns(), turns.open_ns());
        assert_eq!(ahead.by_clock(-1_000), turns);
    }

    #[test]
    fn valid_turns_are_ascending_apart_and_longer_than_settling() {
        let valid = turns(&[(10, 19, 20), (20, 20, 31)], 31);
        assert!(valid.is_valid());
        assert_eq!(valid.open_ns(), 21);
        let invalid = [
            turns(&[], 5),
            turns(&[(10, 20, 20)], 99),
            turns(&[(10, 9, 20)], 99),
            turns(&[(10, 11, 20), (19, 20, 40)], 99),
            turns(&[(10, 11, 20)], 19),
            turns(&[(10, 11, 20); TURNS_MAX + 1], 99),
        ];
        for (index, wrong) in invalid.iter().enumerate() {
            assert!(!wrong.is_valid(), "{index}");
        }
    }
}
