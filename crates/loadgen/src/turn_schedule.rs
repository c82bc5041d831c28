//! When each contestant's turns are, and in which order: fixed before the first one, and kept by the workers with the
//! clock of their host.

use control::{TURNS_MAX, Turn, Turns};
use random::SplitMix64;

/// Counted length of a turn unless the race says otherwise, seconds: as short as it may be. Rates over 2 ms scatter as much as
/// those over 600 ms do on a shared machine, so that twice as many turns half as long have half the variance.
pub const TURN_S: f64 = TURN_MIN_S;

/// Shortest turn that a race may ask for, seconds: its 1.5 ms that do not count are a seventh of it.
pub const TURN_MIN_S: f64 = 0.01;

/// Longest counted part of a turn, for slow contestants or where a race asks for it, seconds.
pub const TURN_MAX_S: f64 = 0.05;

/// Rounds of a trial, at least.
const ROUNDS_MIN: usize = 3;

/// Rounds of a trial, at most.
const ROUNDS_MAX: usize = TURNS_MAX / 2;

/// Messages of the slowest contestant in a turn, at least: the one on its way at the end of a turn is
/// then a small part.
const MESSAGES_MIN: f64 = 20.0;

/// Time between the end of a turn and the begin of the next, in which what was sent drains, ns.
pub const GAP_NS: u64 = 500_000;

/// Time at the begin of each turn that does not count, ns.
pub const SETTLE_NS: u64 = 1_000_000;

/// The same for the first turn of a contestant: its processes and circuits are new.
const FIRST_SETTLE_NS: u64 = 10_000_000;

/// Length and number of the turns of a contest.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct TurnPlan {
    /// Turns of each contestant.
    pub rounds: usize,
    /// Counted part of a turn, ns.
    pub counted_ns: u64,
}

impl TurnPlan {
    /// For trials that measure `trial_s` in turns of `turn_s`, the slowest contestant at `slowest_per_s`
    /// messages a second. None where a turn would have too few messages.
    pub fn of(trial_s: f64, turn_s: f64, slowest_per_s: f64) -> Option<TurnPlan> {
        let least_s = MESSAGES_MIN / slowest_per_s.max(1e-9);
        if least_s > TURN_MAX_S {
            return None;
        }
        let wanted = (trial_s / turn_s.max(least_s)).round() as usize;
        let rounds = wanted.clamp(ROUNDS_MIN, ROUNDS_MAX);
        let counted_s = (trial_s / rounds as f64).max(least_s);
        Some(TurnPlan {
            rounds,
            counted_ns: (counted_s * 1e9) as u64,
        })
    }

    /// Time from the begin of the first turn until all are over, ns.
    pub fn wall_ns(&self, contestants: usize) -> u64 {
        let turn_ns = SETTLE_NS + self.counted_ns + GAP_NS;
        let first_ns = FIRST_SETTLE_NS - SETTLE_NS;
        contestants as u64 * (first_ns + self.rounds as u64 * turn_ns)
    }
}

/// The turns of all contestants of a contest.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct TurnSchedule {
    /// The contestant of each turn, in order.
    pub order: Vec<usize>,
    /// The turns, in the same order.
    pub windows: Vec<Turn>,
    /// When all turns are over, ns.
    pub over_ns: u64,
}

impl TurnSchedule {
    /// Turns of so many contestants from `start_ns` on, in random order within each round.
    pub fn new(
        plan: TurnPlan,
        contestants: usize,
        start_ns: u64,
        random: &mut SplitMix64,
    ) -> TurnSchedule {
        let (mut order, mut windows) = (Vec::new(), Vec::new());
        let mut round: Vec<usize> = (0..contestants).collect();
        let mut begin_ns = start_ns;
        for number in 0..plan.rounds {
            random.shuffle(&mut round);
            for &contestant in &round {
                let settle_ns = match number {
                    0 => FIRST_SETTLE_NS,
                    _ => SETTLE_NS,
                };
                let counted_from_ns = begin_ns + settle_ns;
                let end_ns = counted_from_ns + plan.counted_ns;
                order.push(contestant);
                windows.push(Turn {
                    begin_ns,
                    counted_from_ns,
                    end_ns,
                });
                begin_ns = end_ns + GAP_NS;
            }
        }
        TurnSchedule {
            order,
            windows,
            over_ns: begin_ns,
        }
    }

    /// When the first turn begins to count, ns.
    pub fn first_counted_ns(&self) -> u64 {
        self.windows
            .first()
            .map_or(u64::MAX, |turn| turn.counted_from_ns)
    }

    /// The turns of one contestant.
    pub fn of_contestant(&self, contestant: usize) -> Turns {
        let all = self.order.iter().zip(&self.windows);
        let own = all.filter(|(whose, _)| **whose == contestant);
        Turns {
            windows: own.map(|(_, turn)| *turn).collect(),
            over_ns: self.over_ns,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn schedule(seed: u64) -> TurnSchedule {
        let plan = TurnPlan::of(0.2, TURN_S, 1e6).expect("a plan");
        TurnSchedule::new(plan, 4, 1_000, &mut SplitMix64::new(seed))
    }

    #[test]
    fn every_contestant_has_one_turn_a_round_for_the_same_time() {
        let made = schedule(7);
        for round in made.order.chunks(4) {
            let mut sorted = round.to_vec();
            sorted.sort_unstable();
            assert_eq!(sorted, [0, 1, 2, 3]);
        }
        assert!(made.order.chunks(4).any(|round| round != [0, 1, 2, 3]));
        let counted = |contestant: usize| -> u64 {
            let turns = made.of_contestant(contestant);
            assert!(turns.is_valid());
            let counted = turns.windows.iter().map(|t| t.end_ns - t.counted_from_ns);
            counted.sum()
        };
        assert!((0..4).all(|contestant| counted(contestant) == 200_000_000));
    }

    #[test]
    fn time_of_all_turns_is_known_before() {
        let plan = TurnPlan::of(0.2, TURN_S, 1e6).expect("a plan");
        assert_eq!(schedule(1).over_ns - 1_000, plan.wall_ns(4));
    }

    #[test]
    fn turns_do_not_overlap_and_the_seed_decides_their_order() {
        let made = schedule(7);
        let apart = |pair: &[Turn]| pair[1].begin_ns == pair[0].end_ns + GAP_NS;
        assert!(made.windows.windows(2).all(apart));
        assert_eq!(made, schedule(7));
        assert_ne!(made.order, schedule(8).order);
    }

    #[test]
    fn slow_contestants_have_longer_turns_or_none() {
        assert_eq!(
            TurnPlan::of(0.2, TURN_S, 1e6).map(|plan| plan.rounds),
            Some(20)
        );
        assert_eq!(
            TurnPlan::of(0.2, TURN_S, 500.0).map(|plan| plan.rounds),
            Some(5)
        );
        assert_eq!(TurnPlan::of(0.2, TURN_S, 300.0), None);
        for (turn_s, rounds) in [(TURN_MIN_S, 40), (0.02, 20), (TURN_MAX_S, 8)] {
            let plan = TurnPlan::of(0.4, turn_s, 1e6);
            assert_eq!(plan.map(|plan| plan.rounds), Some(rounds));
        }
        let short = TurnPlan::of(0.03, TURN_S, 1e6).expect("a plan");
        assert_eq!(short.rounds, ROUNDS_MIN);
        assert_eq!(short.counted_ns, 10_000_000);
        let long = TurnPlan::of(600.0, TURN_S, 1e6).expect("a plan");
        assert_eq!(long.rounds, ROUNDS_MAX);
    }
}
