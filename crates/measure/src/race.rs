//! A whole race.

mod derived;
mod sizes;
mod turns;

use crate::assemble;
use crate::environment::Environment;
use crate::exec;
use crate::packet_sizes::PacketSizeSampler;
use crate::schedule::{Schedule, TRIAL_MIN_S, trial_min_s};
use crate::size_steps::SIZES_MAX;
use crate::spec::{self, Contest, RaceSpec, pilot_contests, pilot_of};
use crate::trial::{self, Collected, TrialError, TrialSpec};
use control::Workload;
use derived::{PilotEstimate, describe, estimate_from_pilot, limits, limits_of_count, plan_of};
use random::SplitMix64;
use results::{
    Histogram, Machine, Plan, RunFolder, RunStatus, Status, Summary, Trial, VerdictKind, WriteError,
};
use std::collections::BTreeMap;
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Instant, SystemTime, UNIX_EPOCH};

/// Seconds a pilot measures.
const PILOT_S: f64 = 0.12;

/// Target precision of a trial: half the spread between trials on a quiet machine.
const PRECISION_TARGET: stats::PrecisionTarget = stats::PrecisionTarget {
    relative_error: 0.005,
    min_s: 0.1,
    max_s: 10.0,
};

/// Points of a trial's time series.
const SLICES: f64 = 200.0;

/// What a race reports while it runs.
#[derive(Debug)]
pub enum Progress<'a> {
    /// The plan, before the first trial.
    Planned {
        /// Trials at most, pilots included.
        trials: u64,
        /// Seconds they will take.
        expected_s: f64,
    },
    /// A trial begins.
    Started {
        /// Trials done so far.
        done: u64,
        /// Trials at most.
        trials: u64,
        /// What it measures.
        what: &'a str,
        /// Its block, 0 for a pilot.
        block: u32,
        /// Seconds until the last trial is done, from what trials took so far.
        left_s: f64,
    },
    /// The time does not suffice for the blocks planned.
    Shortened {
        /// Blocks that will run.
        blocks: u32,
        /// Blocks that were planned.
        of: u32,
        /// Trials of a block.
        trials_per_block: u64,
        /// Seconds they will take yet; None when they end in time.
        late_s: Option<f64>,
    },
    /// A trial is done.
    Done(&'a Trial),
    /// Result of an interim look.
    Look {
        /// After this many blocks.
        blocks: u32,
        /// Verdicts that are decided.
        decided: usize,
        /// All verdicts.
        of: usize,
    },
}

/// Receives progress events.
pub trait Observer {
    /// Called from the thread that runs the race, between trials.
    fn progress(&mut self, progress: &Progress<'_>);
}

/// Why a race could not be run.
#[derive(Debug, thiserror::Error)]
pub enum RaceError {
    /// The result cannot be written.
    #[error(transparent)]
    Write(#[from] WriteError),
    /// There is nothing to measure.
    #[error("{0}")]
    Empty(String),
}

/// Runs a race into `folder`; returns the folder and the summary.
///
/// Within a block an emulated link treats the i-th frame of every contestant alike (common random
/// numbers).
///
/// `stop` ends the race after the current trial; finished trials are kept and summarised.
///
/// # Errors
///
/// When the result cannot be written. Trials that fail are part of the result.
pub fn run(
    spec: &RaceSpec,
    machine: &Machine,
    folder: &Path,
    environment: &mut dyn Environment,
    stop: &AtomicBool,
    observer: &mut dyn Observer,
) -> Result<(PathBuf, Summary), RaceError> {
    let plan = plan_of(spec, environment)?;
    let folder = RunFolder::create(folder, &plan, machine)?;
    let mut contests = spec::in_each_setting(&spec.contests(), &environment.settings());
    contests.retain(|contest| !spec.settled.contains(&contest.cell));
    if contests.is_empty() || spec.contestants.is_empty() {
        return Err(RaceError::Empty(
            "there is nothing to race; give transports and sizes".into(),
        ));
    }
    let (contests, at_most) = match spec.size_steps {
        None => (contests.clone(), contests),
        // Pilots find them; so far the ends are known.
        Some(_) => (Vec::new(), vec![contests; SIZES_MAX / 2].concat()),
    };
    let pilots = match spec.size_steps {
        None => pilot_contests(&contests).len(),
        // Two of each.
        Some(_) => 2 * at_most.len(),
    };
    let pilots = pilots * spec.contestants.len();
    let race = Race {
        schedule: Schedule::new(spec, &at_most, pilots as u64),
        spec,
        plan,
        environment,
        stop,
        observer,
        folder,
        open: vec![true; contests.len()],
        contests,
        began: Instant::now(),
        random: SplitMix64::new(spec.seed),
        trials: Vec::new(),
        pilot_estimates: BTreeMap::new(),
    };
    race.run()
}

struct Race<'a> {
    spec: &'a RaceSpec,
    plan: Plan,
    environment: &'a mut dyn Environment,
    stop: &'a AtomicBool,
    observer: &'a mut dyn Observer,
    folder: RunFolder,
    contests: Vec<Contest>,
    /// Whether each contest still runs.
    open: Vec<bool>,
    began: Instant,
    random: SplitMix64,
    trials: Vec<Trial>,
    /// Estimates of the pilots, by contest and contestant.
    pilot_estimates: BTreeMap<(usize, usize), PilotEstimate>,
    schedule: Schedule,
}

impl Race<'_> {
    fn run(mut self) -> Result<(PathBuf, Summary), RaceError> {
        self.report_plan();
        match self.spec.size_steps {
            Some(range) => self.find_sizes(range)?,
            None => self.pilots(0)?,
        }
        let looks = self.spec.blocks.looks.clone();
        // Without one good pilot there is nothing to repeat.
        let blocks = if self.pilot_estimates.is_empty() {
            0
        } else {
            self.spec.blocks.max
        };
        for block in 1..=blocks {
            self.shorten(block);
            if block > self.schedule.last_block || !self.block(block)? {
                break;
            }
            if looks.contains(&block) && block >= self.spec.blocks.min && self.interim_look(block) {
                break;
            }
        }
        let (status, reason) = self.status();
        let elapsed_s = self.began.elapsed().as_secs_f64();
        let mut summary = stats::summarise(&self.plan, &self.trials, status, &reason, elapsed_s);
        summary.warnings.extend(self.shortened_warning());
        let path = self.folder.finish(&summary)?;
        Ok((path, summary))
    }

    fn status(&self) -> (RunStatus, String) {
        if self.stop.load(Ordering::Relaxed) {
            return (RunStatus::Interrupted, "stopped by the user".into());
        }
        if !self
            .trials
            .iter()
            .any(|trial| trial.status == Status::Ok && trial.block > 0)
        {
            let reason = self.trials.iter().find(|trial| !trial.reason.is_empty());
            let reason = reason.map_or("no trial succeeded", |trial| trial.reason.as_str());
            return (RunStatus::Failed, reason.into());
        }
        (RunStatus::Complete, String::new())
    }

    fn report_plan(&mut self) {
        self.observer.progress(&Progress::Planned {
            trials: self.schedule.trials(),
            expected_s: self.schedule.expected_s(self.pilot_s()),
        });
    }

    /// Seconds a pilot measures.
    fn pilot_s(&self) -> f64 {
        PILOT_S.min(self.spec.trial_s.unwrap_or(PILOT_S))
    }

    /// Before a block: leaves out blocks that the time does not suffice for.
    fn shorten(&mut self, block: u32) {
        let elapsed_s = self.began.elapsed().as_secs_f64();
        let fewer = self.schedule.fit(block, elapsed_s);
        let late = !self.schedule.suffices(block, elapsed_s);
        let is_news = fewer || late && block == 1;
        if !is_news {
            return;
        }
        let done = self.trials.len() as u64;
        self.observer.progress(&Progress::Shortened {
            blocks: self.schedule.last_block,
            of: self.spec.blocks.max,
            trials_per_block: self.schedule.per_block,
            late_s: late.then(|| self.schedule.left_s(done, elapsed_s)),
        });
    }

    fn shortened_warning(&self) -> Option<String> {
        let (blocks, of) = (self.schedule.last_block, self.spec.blocks.max);
        (blocks < of).then(|| {
            format!(
                "the time given, {:.0} s, sufficed for {blocks} of {of} blocks; give more with --time",
                self.spec.time_s
            )
        })
    }

    /// One short trial of each cell, from contest `first` on: does it work, how fast is it, how long must a trial be?
    fn pilots(&mut self, first: usize) -> Result<(), RaceError> {
        let with_pilot = pilot_contests(&self.contests).into_iter();
        for contest in with_pilot.filter(|contest| *contest >= first) {
            for contestant in 0..self.spec.contestants.len() {
                if self.stop.load(Ordering::Relaxed) {
                    return Ok(());
                }
                self.pilot(contest, contestant)?;
            }
        }
        Ok(())
    }

    fn pilot(&mut self, contest: usize, contestant: usize) -> Result<(), RaceError> {
        let mut shape = self.contests[contest].clone();
        if shape.workload == Workload::Offered {
            // Measures the closed-loop capacity under the cell of the offered load.
            shape.workload = Workload::Throughput;
        }
        let trial = TrialSpec {
            limits: limits(u64::MAX, self.pilot_s().max(trial_min_s(&shape))),
            contest: shape,
            contestant: self.spec.contestants[contestant].clone(),
            rate_per_s: None,
            seed: self.random.next_u64(),
        };
        let made = self.trial(&trial, 0, false)?;
        if made.status == Status::Ok || made.status == Status::Invalid {
            // A sender to several receivers counts messages, not copies of them.
            let pairs = match trial.contest.fan_out {
                Some(_) => 1,
                None => self.environment.host_pairs().len(),
            };
            let need = estimate_from_pilot(&made, &trial, pairs);
            self.pilot_estimates.insert((contest, contestant), need);
        }
        Ok(())
    }

    /// One block: each cell that is not decided once, contestants of a contest in turns or back to back. False when stopped.
    fn block(&mut self, block: u32) -> Result<bool, RaceError> {
        let all = 0..self.contests.len();
        let mut order: Vec<usize> = all.filter(|&contest| self.open[contest]).collect();
        self.random.shuffle(&mut order);
        let elapsed_s = self.began.elapsed().as_secs_f64();
        let share_s = self.schedule.trial_share_s(block, elapsed_s);
        for contest in order {
            let mut lineup: Vec<(usize, bool)> = (0..self.spec.contestants.len())
                .map(|at| (at, false))
                .collect();
            let baseline = self
                .spec
                .contestants
                .iter()
                .position(|name| *name == self.spec.baseline);
            if let (true, Some(baseline)) = (self.spec.control, baseline) {
                lineup.push((baseline, true));
            }
            self.random.shuffle(&mut lineup);
            if self.contest_in_turns(contest, &lineup, block, share_s)? {
                continue;
            }
            for (contestant, control) in lineup {
                if self.stop.load(Ordering::Relaxed) {
                    return Ok(false);
                }
                if let Some(trial) = self.trial_spec(contest, contestant, share_s) {
                    self.trial(&trial, block, control)?;
                }
            }
        }
        Ok(true)
    }

    /// The trial of a cell; None when its pilot failed.
    fn trial_spec(&mut self, contest: usize, contestant: usize, share_s: f64) -> Option<TrialSpec> {
        let need = *self
            .pilot_estimates
            .get(&(pilot_of(&self.contests, contest), contestant))?;
        let shape = self.contests[contest].clone();
        let trial_s = self.trial_length_s(need, share_s);
        let percent = shape
            .load_percent
            .map(|part| need.capacity_per_s * f64::from(part) / 100.0);
        let rate_per_s = shape.rate_per_s.or(percent);
        let limits = match shape.workload {
            // Clients that ended one by one would leave the last ones alone.
            Workload::Offered | Workload::Transactions | Workload::Responsive => {
                limits(u64::MAX, trial_s.max(trial_min_s(&shape)))
            }
            _ if exec::name_of(&self.spec.contestants[contestant]).is_some() => {
                limits(u64::MAX, trial_s)
            }
            _ if shape.messages.is_some() => limits_of_count(&shape, need),
            _ => limits(
                ((need.per_s * trial_s) as u64).max(10),
                (trial_s * 2.0).max(0.1),
            ),
        };
        Some(TrialSpec {
            contest: shape,
            contestant: self.spec.contestants[contestant].clone(),
            limits,
            rate_per_s,
            seed: self.random.next_u64(),
        })
    }

    /// Seconds a trial of this cell measures.
    fn trial_length_s(&self, need: PilotEstimate, share_s: f64) -> f64 {
        let wanted_s = match self.spec.trial_s {
            Some(_) => share_s,
            None => need.trial_s,
        };
        wanted_s.min(share_s).max(TRIAL_MIN_S)
    }

    /// Reports that a trial begins, or all of a contest; gives the moment, and seconds since 1970.
    fn announce(&mut self, what: &str, block: u32) -> (Instant, f64) {
        let done = self.trials.len() as u64;
        let elapsed_s = self.began.elapsed().as_secs_f64();
        self.observer.progress(&Progress::Started {
            done,
            trials: self.schedule.trials(),
            what,
            block,
            left_s: self.schedule.left_s(done, elapsed_s),
        });
        let since = SystemTime::now().duration_since(UNIX_EPOCH);
        (
            Instant::now(),
            since.map_or(0.0, |since| since.as_secs_f64()),
        )
    }

    fn trial(&mut self, trial: &TrialSpec, block: u32, control: bool) -> Result<Trial, RaceError> {
        let (began, started_s) = self.announce(&describe(trial), block);
        let watched = self.spec.packet_sizes && block == 0;
        let watch = watched.then(PacketSizeSampler::start).and_then(Result::ok);
        let set = self.environment.apply_setting(trial.contest.setting);
        let position = assemble::TrialPosition {
            index: self.trials.len() as u64,
            block,
            control,
            started_s,
        };
        let mut made = self.measured(trial, position, set.map_err(TrialError::Failed));
        let packets = watch.and_then(PacketSizeSampler::finish);
        let sizes = packets.and_then(|sizes| Histogram::encode(&sizes, "B").ok());
        made.histograms
            .extend(sizes.map(|sizes| ("packet_size".to_owned(), sizes)));
        self.keep(&made, began.elapsed().as_secs_f64())?;
        Ok(made)
    }

    /// The record of a trial that is run now, unless its environment could not be set up.
    fn measured(
        &mut self,
        trial: &TrialSpec,
        position: assemble::TrialPosition,
        set: Result<(), TrialError>,
    ) -> Trial {
        let link_seed = SplitMix64::at(self.spec.seed, u64::from(position.block));
        let (spec, stop) = (self.spec, self.stop);
        if exec::name_of(&trial.contestant).is_some() {
            let run = |()| trial::run_program(spec, trial, link_seed, self.environment, stop);
            let outcome = set.and_then(run);
            if let Err(TrialError::Interrupted) = outcome {
                self.stop.store(true, Ordering::Relaxed);
            }
            return assemble::program_trial(trial, position, &outcome);
        }
        let run = |()| trial::run(spec, trial, link_seed, self.environment, stop);
        let outcome = set.and_then(run);
        self.assembled(trial, position, &outcome)
    }

    /// The record of an outcome; one that the user stopped stops the race.
    fn assembled(
        &self,
        trial: &TrialSpec,
        position: assemble::TrialPosition,
        outcome: &Result<Collected, TrialError>,
    ) -> Trial {
        if let Err(TrialError::Interrupted) = outcome {
            self.stop.store(true, Ordering::Relaxed);
        }
        assemble::trial(self.spec, trial, position, outcome)
    }

    /// Stores a trial that took so many seconds of the race.
    fn keep(&mut self, made: &Trial, took_s: f64) -> Result<(), RaceError> {
        self.schedule.learn(made.span_s, took_s, made.block == 0);
        self.folder.append(made)?;
        self.observer.progress(&Progress::Done(made));
        self.trials.push(made.clone());
        Ok(())
    }

    /// Takes an interim look at the verdicts; true when all are decided.
    fn interim_look(&mut self, block: u32) -> bool {
        let judgement = stats::judge_race(&self.plan, &self.trials);
        let open = |kind: VerdictKind| kind == VerdictKind::NotEnoughData;
        let all = judgement.verdicts.iter().chain(&judgement.overall);
        let decided = all.clone().filter(|verdict| !open(verdict.kind)).count();
        let of = all.count();
        self.observer.progress(&Progress::Look {
            blocks: block,
            decided,
            of,
        });
        self.close_decided(&judgement, block);
        judgement.decided()
    }

    /// Contests whose verdicts stand run no more, once the overall verdicts of their metric stand too:
    /// these are means over the same contests in every block.
    fn close_decided(&mut self, judgement: &stats::Judgement, block: u32) {
        for (contest, open) in self.contests.iter().zip(&mut self.open) {
            *open = *open && !judgement.is_settled(&contest.cell);
        }
        let trials = self.spec.contestants.len() + usize::from(self.spec.control);
        let running = self.open.iter().filter(|open| **open).count();
        self.schedule.leave_out(block, (running * trials) as u64);
    }
}
