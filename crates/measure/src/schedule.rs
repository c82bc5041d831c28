//! How the time of a race is divided over its trials, and how long the rest will take.
//!
//! A trial has a least length and costs something to start, so a time may be too short for the
//! blocks asked for. Then the race has fewer blocks, though never fewer than its minimum, and what
//! that takes is said. The cost of a trial is learnt from those that are done.

use crate::spec::{Contest, RaceSpec};
use control::Workload;

/// Seconds a trial measures at least.
pub(crate) const TRIAL_MIN_S: f64 = 0.05;

/// Seconds a trial of an open loop measures at least.
const OFFERED_MIN_S: f64 = 0.1;

/// Seconds that a trial with an idle part and a loaded one measures at least.
const RESPONSIVE_MIN_S: f64 = 0.4;

/// Service times that a trial of transactions measures at least.
const SERVICES_MIN: u32 = 10;

/// Seconds a trial of a contest measures at least.
pub(crate) fn trial_min_s(contest: &Contest) -> f64 {
    let service = contest.transactions.map(|load| load.service * SERVICES_MIN);
    match contest.workload {
        Workload::Offered => OFFERED_MIN_S,
        Workload::Responsive => RESPONSIVE_MIN_S,
        _ => TRIAL_MIN_S.max(service.unwrap_or_default().as_secs_f64()),
    }
}

/// Seconds that starting and ending a trial cost before any has run: two processes and their
/// connection, 20 to 40 ms on a quiet machine.
const OVERHEAD_S: f64 = 0.03;

/// Share by which a race may exceed its time: less than the last block of ten.
const EXCESS_MAX: f64 = 0.05;

/// Weight of a new trial in the learnt means: the last twenty trials or so decide.
const NEW_WEIGHT: f64 = 0.05;

/// The division of a race's time.
#[derive(Clone, Debug)]
pub(crate) struct Schedule {
    time_s: f64,
    trial_s: Option<f64>,
    blocks_min: u32,
    /// The last block that will run, as far as known.
    pub(crate) last_block: u32,
    pilots: u64,
    /// Trials of a block, as long as none is left out.
    pub(crate) per_block: u64,
    /// Blocks that had another number of trials, and their trials.
    past: (u32, u64),
    /// Least length of a trial, seconds, mean over the contests.
    least_s: f64,
    /// What a trial takes beside the length asked for, seconds.
    overhead_s: f64,
    /// What a trial takes, seconds; None before the first.
    trial_cost_s: Option<f64>,
}

impl Schedule {
    /// For `pilots` trials of `pilot_s`, and blocks with a trial of each contest and contestant.
    pub(crate) fn new(spec: &RaceSpec, contests: &[Contest], pilots: u64) -> Schedule {
        let contestants = spec.contestants.len() + usize::from(spec.control);
        let least_s = contests.iter().map(trial_min_s).sum::<f64>() / contests.len().max(1) as f64;
        Schedule {
            time_s: spec.time_s,
            trial_s: spec.trial_s,
            blocks_min: spec.blocks.min,
            last_block: spec.blocks.max,
            pilots,
            per_block: (contests.len() * contestants) as u64,
            past: (0, 0),
            least_s: spec.trial_s.unwrap_or(least_s),
            overhead_s: OVERHEAD_S,
            trial_cost_s: None,
        }
    }

    /// All trials, pilots included.
    pub(crate) fn trials(&self) -> u64 {
        let (blocks, trials) = self.past;
        let coming = self.last_block.saturating_sub(blocks);
        self.pilots + trials + self.per_block * u64::from(coming)
    }

    /// Blocks after `block` have `per_block` trials: contests that were decided run no more, and their
    /// time goes to the others.
    pub(crate) fn leave_out(&mut self, block: u32, per_block: u64) {
        let (blocks, trials) = self.past;
        let more = self.per_block * u64::from(block.saturating_sub(blocks));
        self.past = (block, trials + more);
        self.per_block = per_block;
    }

    /// Seconds the race is expected to take, before its first trial. With `--trial` the trials
    /// decide; else the time that was given, unless even the fewest blocks need more.
    pub(crate) fn expected_s(&self, pilot_s: f64) -> f64 {
        let pilots_s = self.pilots as f64 * (pilot_s + self.overhead_s);
        let block_s = self.per_block as f64 * (self.least_s + self.overhead_s);
        match self.trial_s {
            Some(_) => pilots_s + block_s * f64::from(self.last_block),
            None => self
                .time_s
                .max(pilots_s + block_s * f64::from(self.blocks_min)),
        }
    }

    /// Learns from a trial that was asked to measure `asked_s` and took `took_s` in all. Pilots
    /// teach what it costs to start a trial, not how long one is.
    pub(crate) fn learn(&mut self, asked_s: f64, took_s: f64, pilot: bool) {
        let mix = |old: f64, new: f64| old + NEW_WEIGHT * (new - old);
        self.overhead_s = mix(self.overhead_s, (took_s - asked_s).max(0.0));
        if !pilot {
            self.trial_cost_s = Some(match self.trial_cost_s {
                Some(old) => mix(old, took_s),
                None => took_s,
            });
        }
    }

    /// Before `block`: how many blocks there will be, given the seconds that passed. True when
    /// these are fewer than before.
    pub(crate) fn fit(&mut self, block: u32, elapsed_s: f64) -> bool {
        if self.trial_s.is_some() {
            return false;
        }
        let left_s = self.time_s * (1.0 + EXCESS_MAX) - elapsed_s;
        let more = (left_s / self.least_block_s()).max(0.0) as u32;
        let last = (block - 1).saturating_add(more).max(self.blocks_min);
        let fewer = last < self.last_block;
        self.last_block = last.min(self.last_block);
        fewer
    }

    /// Whether the blocks from `block` on end in time.
    pub(crate) fn suffices(&self, block: u32, elapsed_s: f64) -> bool {
        let blocks = f64::from((self.last_block + 1).saturating_sub(block));
        let end_s = elapsed_s + blocks * self.least_block_s();
        self.trial_s.is_some() || end_s <= self.time_s * (1.0 + EXCESS_MAX)
    }

    fn least_block_s(&self) -> f64 {
        self.per_block as f64 * (self.least_s + self.overhead_s)
    }

    /// Seconds a trial of this block may measure.
    pub(crate) fn trial_share_s(&self, block: u32, elapsed_s: f64) -> f64 {
        if let Some(trial_s) = self.trial_s {
            return trial_s;
        }
        let blocks = (self.last_block + 1).saturating_sub(block).max(1);
        let trials = self.per_block * u64::from(blocks);
        let left_s = self.time_s - elapsed_s;
        (left_s / trials as f64 - self.overhead_s).max(TRIAL_MIN_S)
    }

    /// Seconds until the last trial is done, after `done` of them.
    pub(crate) fn left_s(&self, done: u64, elapsed_s: f64) -> f64 {
        let trials = self.trials().saturating_sub(done) as f64;
        match self.trial_cost_s {
            Some(cost_s) => trials * cost_s,
            None => (self.expected_s(self.least_s) - elapsed_s)
                .max(trials * (self.least_s + self.overhead_s)),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// The spec's only contest, `count` times.
    fn contests(spec: &RaceSpec, count: usize) -> Vec<Contest> {
        let only = spec.contests().pop().expect("a contest");
        vec![only; count]
    }

    #[test]
    fn trial_of_transactions_lasts_for_several_services() {
        let mut spec = RaceSpec::one_block(&["tcp"], &["transactions"]);
        assert_eq!(trial_min_s(&contests(&spec, 1)[0]), TRIAL_MIN_S);
        spec.transactions.service = std::time::Duration::from_millis(20);
        assert!((trial_min_s(&contests(&spec, 1)[0]) - 0.2).abs() < 1e-9);
    }

    /// 15 sizes of two contestants and the control, in 5 to 20 blocks.
    fn schedule(time_s: f64, min: u32) -> Schedule {
        let mut spec = RaceSpec::one_block(&["tcp", "udp"], &["throughput"]);
        spec.time_s = time_s;
        spec.control = true;
        (spec.blocks.min, spec.blocks.max) = (min, 20);
        Schedule::new(&spec, &contests(&spec, 15), 30)
    }

    /// Runs the race on trials that take `overhead_s` more than asked; gives blocks and seconds.
    fn run(schedule: &mut Schedule, overhead_s: f64) -> (u32, f64) {
        let mut elapsed_s = 0.0;
        for _ in 0..30 {
            elapsed_s += 0.12 + overhead_s;
            schedule.learn(0.12, 0.12 + overhead_s, true);
        }
        let mut block = 1;
        loop {
            schedule.fit(block, elapsed_s);
            if block > schedule.last_block {
                return (block - 1, elapsed_s);
            }
            let share_s = schedule.trial_share_s(block, elapsed_s);
            for _ in 0..schedule.per_block {
                elapsed_s += share_s + overhead_s;
                schedule.learn(share_s, share_s + overhead_s, false);
            }
            block += 1;
        }
    }

    #[test]
    fn race_keeps_its_time_by_fewer_blocks() {
        for (time_s, overhead_s) in [(60.0, 0.02), (60.0, 0.1), (40.0, 0.05), (300.0, 0.2)] {
            let (blocks, took_s) = run(&mut schedule(time_s, 3), overhead_s);
            assert!(blocks >= 3, "{blocks}");
            assert!(took_s <= 1.1 * time_s, "{took_s} s of {time_s}");
            assert!(took_s >= 0.6 * time_s, "{took_s} s of {time_s}");
        }
        assert_eq!(
            run(&mut schedule(300.0, 5), 0.02).0,
            20,
            "there is time for all"
        );
    }

    #[test]
    fn race_that_cannot_keep_its_time_says_so_before() {
        let mut schedule = schedule(12.0, 5);
        // 30 pilots and 5 blocks of 45 trials, 0.05 s and 0.03 s each at least.
        let said_s = schedule.expected_s(0.12);
        assert!((said_s - 22.5).abs() < 0.1, "{said_s}");
        assert!(schedule.fit(1, 4.5), "20 blocks do not fit");
        assert_eq!(schedule.last_block, 5);
        assert!(!schedule.suffices(1, 4.5));
        let (blocks, took_s) = run(&mut schedule, 0.03);
        assert_eq!(blocks, 5);
        assert!(took_s < 1.1 * said_s, "{took_s} s of {said_s} said");
    }

    #[test]
    fn time_left_is_learnt_and_never_zero_before_the_end() {
        let mut schedule = schedule(12.0, 20);
        for done in 0..schedule.trials() {
            // Ten times as long as promised.
            let left_s = schedule.left_s(done, done as f64 * 0.5);
            assert!(left_s > 0.0, "{done}");
            let truth_s = (schedule.trials() - done) as f64 * 0.5;
            if done > 200 {
                assert!(
                    (left_s / truth_s - 1.0).abs() < 0.05,
                    "{left_s} of {truth_s}"
                );
            }
            schedule.learn(0.05, 0.5, done < 30);
        }
    }

    #[test]
    fn contests_left_out_give_their_time_to_the_others() {
        let mut schedule = schedule(60.0, 20);
        let all = schedule.trials();
        let share_s = schedule.trial_share_s(6, 20.0);
        schedule.leave_out(5, 9);
        assert_eq!(schedule.trials(), 30 + 5 * 45 + 15 * 9);
        assert!(schedule.trials() < all);
        assert!(schedule.trial_share_s(6, 20.0) > 4.0 * share_s);
        schedule.leave_out(10, 3);
        assert_eq!(schedule.trials(), 30 + 5 * 45 + 5 * 9 + 10 * 3);
    }

    #[test]
    fn given_trial_length_decides_the_time() {
        let mut spec = RaceSpec::one_block(&["tcp"], &["delay"]);
        (spec.trial_s, spec.time_s) = (Some(2.0), 1.0);
        let mut schedule = Schedule::new(&spec, &contests(&spec, 4), 4);
        assert!(schedule.expected_s(0.12) > 8.0);
        assert!(!schedule.fit(1, 100.0) && schedule.suffices(1, 100.0));
        assert_eq!(schedule.trial_share_s(1, 100.0), 2.0);
    }
}
