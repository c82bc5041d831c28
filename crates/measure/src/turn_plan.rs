//! Turns: where contestants can take them, and in which order they do.
//!
//! All contestants of a contest are alive at once and one of them runs at a time, so that all see
//! the same machine. A round has a turn of each contestant, in random order. The times of all turns
//! are fixed before the first one: the workers keep them by the clock of their host.

use crate::environment::Environment;
use crate::spec::{MessageCounts, RaceSpec};
use control::{TURNS_MAX, Turn, Turns, Workload};
use engine::SplitMix64;
use std::collections::BTreeMap;

/// Whether contestants take turns.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum TurnChoice {
    /// Where pausing changes nothing.
    #[default]
    Auto,
    /// In every contest; a race in which they cannot is refused.
    On,
    /// Nowhere: trials run back to back.
    Off,
}

impl TurnChoice {
    /// Its name on the command line and in a plan.
    pub fn name(self) -> &'static str {
        match self {
            TurnChoice::Auto => "auto",
            TurnChoice::On => "on",
            TurnChoice::Off => "off",
        }
    }
}

/// Counted length of a turn unless the race says otherwise, seconds: many in a trial, because the speed of
/// a shared machine changes several times a second, and much longer than the change-over.
pub const TURN_S: f64 = 0.02;

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
pub(crate) const GAP_NS: u64 = 500_000;

/// Time at the begin of each turn that does not count, ns.
pub(crate) const SETTLE_NS: u64 = 1_000_000;

/// The same for the first turn of a contestant: its processes and circuits are new.
const FIRST_SETTLE_NS: u64 = 10_000_000;

/// Length and number of the turns of a contest.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(crate) struct TurnPlan {
    /// Turns of each contestant.
    pub(crate) rounds: usize,
    /// Counted part of a turn, ns.
    pub(crate) counted_ns: u64,
}

impl TurnPlan {
    /// For trials that measure `trial_s` in turns of `turn_s`, the slowest contestant at `slowest_per_s`
    /// messages a second. None where a turn would have too few messages.
    pub(crate) fn of(trial_s: f64, turn_s: f64, slowest_per_s: f64) -> Option<TurnPlan> {
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
    pub(crate) fn wall_ns(&self, contestants: usize) -> u64 {
        let turn_ns = SETTLE_NS + self.counted_ns + GAP_NS;
        let first_ns = FIRST_SETTLE_NS - SETTLE_NS;
        contestants as u64 * (first_ns + self.rounds as u64 * turn_ns)
    }
}

/// The turns of all contestants of a contest.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct TurnSchedule {
    /// The contestant of each turn, in order.
    pub(crate) order: Vec<usize>,
    /// The turns, in the same order.
    pub(crate) windows: Vec<Turn>,
    /// When all turns are over, ns.
    pub(crate) over_ns: u64,
}

impl TurnSchedule {
    /// Turns of so many contestants from `start_ns` on, in random order within each round.
    pub(crate) fn new(
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
    pub(crate) fn first_counted_ns(&self) -> u64 {
        self.windows
            .first()
            .map_or(u64::MAX, |turn| turn.counted_from_ns)
    }

    /// The turns of one contestant.
    pub(crate) fn of_contestant(&self, contestant: usize) -> Turns {
        let all = self.order.iter().zip(&self.windows);
        let own = all.filter(|(whose, _)| **whose == contestant);
        Turns {
            windows: own.map(|(_, turn)| *turn).collect(),
            over_ns: self.over_ns,
        }
    }
}

/// Why contestants cannot take turns in a workload; None where they can.
pub(crate) fn hindrance(
    spec: &RaceSpec,
    workload: Workload,
    environment: &dyn Environment,
) -> Option<String> {
    let contestants = spec.contestants.len() + usize::from(spec.control);
    if contestants < 2 {
        return Some("one contestant alone has nobody to take turns with".into());
    }
    if spec.fan_out.is_some() {
        return Some("what a sender has for several receivers would drain in a pause".into());
    }
    if spec.messages != MessageCounts::ByTime {
        return Some("a trial of a fixed number of messages would end amid its turns".into());
    }
    if spec.series {
        return Some("series of a connection (--series) would have gaps".into());
    }
    let is_program = |label: &String| crate::exec::name_of(label).is_some();
    if spec.contestants.iter().any(is_program) {
        return Some("a program of another project runs by itself and does not pause".into());
    }
    let of_workload = match workload {
        Workload::Offered => Some("messages are offered at given times, also during a pause"),
        Workload::Connect => Some("connections end on timers of the system, also during a pause"),
        Workload::Transactions => Some("clients that wait for a server would be cut off"),
        Workload::Responsive => Some("the queues of the bulk would empty during a pause"),
        Workload::Delay if spec.busy_poll => Some("ends that busy-poll would not rest"),
        Workload::Throughput | Workload::Delay => None,
    };
    of_workload
        .map(str::to_owned)
        .or_else(|| environment.pause_hindrance(contestants))
}

/// How the trials of each workload run, by workload: `in turns`, or `back to back` and why.
///
/// # Errors
///
/// The reason, where a race in turns is asked for and its contestants cannot take turns.
pub fn notes(
    spec: &RaceSpec,
    environment: &dyn Environment,
) -> Result<BTreeMap<String, String>, String> {
    let mut notes = BTreeMap::new();
    for name in &spec.workloads {
        let workload = crate::spec::workload_named(name);
        let hindrance = hindrance(spec, workload, environment);
        let how = match (spec.turns, hindrance) {
            (TurnChoice::Off, _) => "back to back: asked for".to_owned(),
            (TurnChoice::On, Some(why)) => return Err(format!("no turns in {name}: {why}")),
            (TurnChoice::Auto, Some(why)) => format!("back to back: {why}"),
            (_, None) => format!("in turns of about {:.0} ms", spec.turn_s * 1e3),
        };
        notes.insert(format!("{}{name}", results::TURNS_PREFIX), how);
    }
    Ok(notes)
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
            Some(10)
        );
        assert_eq!(
            TurnPlan::of(0.2, TURN_S, 500.0).map(|plan| plan.rounds),
            Some(5)
        );
        assert_eq!(TurnPlan::of(0.2, TURN_S, 300.0), None);
        for (turn_s, rounds) in [(TURN_MIN_S, 40), (TURN_S, 20), (TURN_MAX_S, 8)] {
            let plan = TurnPlan::of(0.4, turn_s, 1e6);
            assert_eq!(plan.map(|plan| plan.rounds), Some(rounds));
        }
        let short = TurnPlan::of(0.05, TURN_S, 1e6).expect("a plan");
        assert_eq!(short.rounds, ROUNDS_MIN);
        assert!(short.counted_ns >= 10_000_000);
        let long = TurnPlan::of(600.0, TURN_S, 1e6).expect("a plan");
        assert_eq!(long.rounds, ROUNDS_MAX);
    }

    #[test]
    fn workloads_that_a_pause_would_change_run_back_to_back() {
        let hosts = crate::LocalHost::new("towpath".into(), Vec::new());
        let environment: (&dyn crate::WorkerHost, &dyn crate::WorkerHost) = (&hosts, &hosts);
        let mut spec = RaceSpec::one_block(&["tcp", "udp"], &["throughput", "offered"]);
        spec.turns = TurnChoice::Auto;
        let made = notes(&spec, &environment).expect("a race");
        assert!(made["turns.throughput"].starts_with("in turns"), "{made:?}");
        assert!(made["turns.offered"].starts_with("back to back: "));
        spec.turns = TurnChoice::On;
        let why = notes(&spec, &environment).expect_err("offered load");
        assert!(why.starts_with("no turns in offered: "), "{why}");
        spec.workloads.pop();
        spec.contestants.pop();
        let why = notes(&spec, &environment).expect_err("one contestant");
        assert!(why.contains("one contestant"), "{why}");
    }
}
