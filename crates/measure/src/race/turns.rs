//! The contests of a block whose contestants take turns.

use super::{Race, RaceError, TrialSpec, describe};
use crate::assemble::TrialPosition;
use crate::spec::pilot_of;
use crate::trial::TrialError;
use crate::trial::turns::TurnTrials;
use crate::turn_plan::{TurnChoice, hindrance};
use loadgen::turn_schedule::TurnPlan;
use random::SplitMix64;
use std::sync::atomic::Ordering;

impl Race<'_> {
    /// Runs a contest with its contestants in turns; false where they run back to back. The lineup has
    /// contestants in random order, with whether each is the control.
    pub(super) fn contest_in_turns(
        &mut self,
        contest: usize,
        lineup: &[(usize, bool)],
        block: u32,
        share_s: f64,
    ) -> Result<bool, RaceError> {
        let Some(plan) = self.turn_plan(contest, lineup, share_s) else {
            return Ok(false);
        };
        let mut trials: Vec<(TrialSpec, bool)> = Vec::new();
        for &(contestant, control) in lineup {
            let trial = self.trial_spec(contest, contestant, share_s);
            trials.extend(trial.map(|trial| (trial, control)));
        }
        let what = format!("{} and others in turns", describe(&trials[0].0));
        let (began, started_s) = self.announce(&what, block);
        let set = self.environment.apply_setting(trials[0].0.contest.setting);
        let specs: Vec<TrialSpec> = trials.iter().map(|(trial, _)| trial.clone()).collect();
        let run = TurnTrials {
            spec: self.spec,
            trials: specs,
            plan,
            seed: self.random.next_u64(),
            link_seed: SplitMix64::at(self.spec.seed, u64::from(block)),
        };
        let outcomes = match set {
            Ok(()) => run.run(self.environment, self.stop),
            Err(why) => vec![Err(TrialError::Failed(why)); trials.len()],
        };
        let took_s = began.elapsed().as_secs_f64() / trials.len() as f64;
        for ((trial, control), outcome) in trials.iter().zip(&outcomes) {
            let position = TrialPosition {
                index: self.trials.len() as u64,
                block,
                control: *control,
                started_s,
            };
            let made = self.assembled(trial, position, outcome);
            self.keep(&made, took_s)?;
        }
        Ok(true)
    }

    /// The turns of a contest; None where its contestants run back to back.
    fn turn_plan(
        &self,
        contest: usize,
        lineup: &[(usize, bool)],
        share_s: f64,
    ) -> Option<TurnPlan> {
        let workload = self.contests[contest].workload;
        if self.spec.turns == TurnChoice::Off
            || self.stop.load(Ordering::Relaxed)
            || hindrance(self.spec, workload, self.environment).is_some()
        {
            return None;
        }
        let pilot = pilot_of(&self.contests, contest);
        let needs = lineup
            .iter()
            .filter_map(|(contestant, _)| self.pilot_estimates.get(&(pilot, *contestant)).copied());
        let needs: Vec<_> = needs.collect();
        if needs.len() < 2 {
            return None;
        }
        let length_s = needs.iter().map(|need| self.trial_length_s(*need, share_s));
        let slowest = needs.iter().map(|need| need.per_s);
        TurnPlan::of(
            length_s.fold(0.0, f64::max),
            self.spec.turn_s,
            slowest.fold(f64::INFINITY, f64::min),
        )
    }
}
