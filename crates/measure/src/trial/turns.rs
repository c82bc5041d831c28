//! Trials in turns: all contestants of a contest are alive at once, and one of them runs at a time.
//! Workers on other hosts get the times of their turns by the clocks of their hosts.

use super::jobs::has_direction;
use super::{
    ClockUncertainty, Collected, STOP_POLL, TrialError, TrialSpec, WorkerPair, await_running,
    check_supported, failed, of_program, send, spawn_all,
};
use crate::environment::{Environment, EnvironmentReport};
use crate::spec::{Direction, RaceSpec};
use control::{ToWorker, Turns};
use host::SnapshotDifference;
use loadgen::clock::now_ns;
use loadgen::turn_schedule::{GAP_NS, TurnPlan, TurnSchedule};
use random::SplitMix64;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

/// Time from the start to the first turn, ns, and the same for each contestant: every worker has
/// then started its threads.
const LEAD_NS: u64 = 5_000_000;
const LEAD_OF_CONTESTANT_NS: u64 = 1_000_000;

/// The same for a way to workers on other hosts, ns.
const LEAD_OF_AGENT_NS: u64 = 20_000_000;

/// How much longer than its turns a loop may take before it ends by itself, ns.
const SLACK_NS: u64 = 2_000_000_000;

/// The trials of one contest in one block, which take turns.
pub(crate) struct TurnTrials<'a> {
    /// The race.
    pub(crate) spec: &'a RaceSpec,
    /// A trial of each contestant.
    pub(crate) trials: Vec<TrialSpec>,
    /// Length and number of the turns.
    pub(crate) plan: TurnPlan,
    /// Seed of the order of turns.
    pub(crate) seed: u64,
    /// Seed of the link's random choices.
    pub(crate) link_seed: u64,
}

impl TurnTrials<'_> {
    /// Runs the trials; gives the outcome of each. One that fails leaves its turns empty, and the
    /// others keep theirs.
    pub(crate) fn run(
        mut self,
        environment: &mut dyn Environment,
        stop: &AtomicBool,
    ) -> Vec<Result<Collected, TrialError>> {
        self.lift_limits();
        let mut entrants = self.enter_all(environment, stop);
        let able = entrants.iter_mut().filter(|entrant| entrant.is_able());
        let mut able: Vec<&mut Entrant<'_>> = able.collect();
        let own = host::TaskCpu::of_self();
        environment.begin(self.link_seed);
        let is_remote = able.iter().any(|entrant| entrant.has_remote());
        let schedule = self.schedule(able.len(), is_remote);
        for (number, entrant) in able.iter_mut().enumerate() {
            entrant.start(schedule.of_contestant(number));
        }
        for entrant in &mut able {
            entrant.attempt(WorkerPair::await_running);
        }
        let late = now_ns() > schedule.first_counted_ns();
        watch(&schedule, &mut able, environment, stop);
        let share = 1.0 / able.len().max(1) as f64;
        let collected = entrants.iter_mut().zip(&self.trials);
        let collected: Vec<_> = collected
            .map(|(entrant, trial)| entrant.collect(self.spec, trial, environment))
            .collect();
        let mut shared = SharedSpan {
            own_cpu_s: (host::TaskCpu::of_self() - own).task_s * share,
            interfaces: environment.interfaces(),
            environment: environment.end(),
        };
        // The counters of an agent's host are those of all contestants together.
        let evidence = &mut shared.environment.evidence;
        evidence.retain(|name, _| !name.starts_with("agent_"));
        shared.note_late_start(late);
        entrants.into_iter().for_each(Entrant::end);
        let all = collected.into_iter().zip(&self.trials);
        all.map(|(outcome, trial)| match outcome {
            Ok(mut collected) => {
                shared.fill(&mut collected);
                Ok(collected)
            }
            Err(error) => Err(of_program(error, trial)),
        })
        .collect()
    }

    /// The turns end a trial, not a number of messages.
    fn lift_limits(&mut self) {
        let wall_ns = self.plan.wall_ns(self.trials.len());
        for trial in &mut self.trials {
            trial.limits.messages = u64::MAX;
            trial.limits.time_ns = wall_ns + SLACK_NS;
        }
    }

    fn enter_all<'a>(
        &self,
        environment: &dyn Environment,
        stop: &'a AtomicBool,
    ) -> Vec<Entrant<'a>> {
        let trials = self.trials.iter();
        let mut entrants: Vec<Entrant<'a>> = trials
            .map(|trial| Entrant::spawn(self.spec, trial, environment, stop))
            .collect();
        // An agent divides what it allows among the workers that it knows of.
        for entrant in &mut entrants {
            entrant.attempt(WorkerPair::set_up);
        }
        entrants
    }

    /// Turns for so many contestants that are ready.
    fn schedule(&self, contestants: usize, is_remote: bool) -> TurnSchedule {
        let way_ns = if is_remote { LEAD_OF_AGENT_NS } else { 0 };
        let lead_ns = LEAD_NS + LEAD_OF_CONTESTANT_NS * contestants as u64 + way_ns;
        let mut random = SplitMix64::new(self.seed);
        TurnSchedule::new(self.plan, contestants, now_ns() + lead_ns, &mut random)
    }
}

/// What all contestants of a contest share.
struct SharedSpan {
    own_cpu_s: f64,
    interfaces: Vec<String>,
    environment: EnvironmentReport,
}

impl SharedSpan {
    fn note_late_start(&mut self, late: bool) {
        if late {
            let what = "its workers started after the first turn had begun";
            self.environment.disturbed.push(what.into());
        }
    }

    fn fill(&self, collected: &mut Collected) {
        collected.own_cpu_s = self.own_cpu_s;
        collected.interfaces.clone_from(&self.interfaces);
        collected.environment = self.environment.clone();
        let disturbed = &mut collected.environment.disturbed;
        disturbed.extend(clock_disturbance(&collected.clocks));
    }
}

/// How far apart the ends of a contestant may be about the time before it is said, ns: half of what
/// does not count of a turn.
const CLOCK_ERROR_MAX_NS: u64 = 500_000;

/// What ends that disagree about the time did to a contestant's turns.
fn clock_disturbance(clocks: &ClockUncertainty) -> Option<String> {
    match clocks {
        ClockUncertainty::Within(gap_ns) if *gap_ns > CLOCK_ERROR_MAX_NS => Some(format!(
            "the clocks of its ends may have been {} us apart in its turns",
            gap_ns / 1000
        )),
        ClockUncertainty::Unknown(why) => Some(format!(
            "its ends may not have agreed about its turns: {why}"
        )),
        ClockUncertainty::Within(_) | ClockUncertainty::Same => None,
    }
}

/// A contestant's two workers.
struct Entrant<'a> {
    /// Its workers; none when they could not be spawned.
    pairs: Vec<WorkerPair<'a>>,
    /// Its turns; none before they begin.
    turns: Turns,
    /// What the host did in its turns.
    host: SnapshotDifference,
    /// Why it takes no further part.
    error: Option<TrialError>,
}

impl<'a> Entrant<'a> {
    /// Spawns the workers.
    fn spawn(
        spec: &RaceSpec,
        trial: &TrialSpec,
        environment: &dyn Environment,
        stop: &'a AtomicBool,
    ) -> Entrant<'a> {
        let mut pairs = Vec::new();
        let spawned = check_supported(spec, trial)
            .and_then(|()| spawn_all(&mut pairs, spec, trial, environment, stop));
        Entrant {
            pairs,
            turns: Turns::default(),
            host: SnapshotDifference::default(),
            error: spawned.err(),
        }
    }

    fn is_able(&self) -> bool {
        self.error.is_none()
    }

    fn has_remote(&self) -> bool {
        let mut pairs = self.pairs.iter();
        pairs.any(|pair| pair.listener.is_remote() || pair.connector.is_remote())
    }

    /// Takes a step with the workers, unless an earlier one has failed.
    fn attempt<T>(
        &mut self,
        step: impl FnOnce(&mut WorkerPair<'a>) -> Result<T, TrialError>,
    ) -> Option<T> {
        let pair = self.pairs.first_mut().filter(|_| self.error.is_none())?;
        match step(pair) {
            Ok(value) => Some(value),
            Err(error) => {
                self.error = Some(error);
                None
            }
        }
    }

    fn start(&mut self, turns: Turns) {
        self.turns = turns.clone();
        self.attempt(|pair| {
            let clocks = pair.jobs.clocks;
            for (worker, side) in [(&mut pair.listener, 1), (&mut pair.connector, 0)] {
                let theirs = turns.by_clock(clocks.offset_ns(side));
                send(worker, &ToWorker::GoInTurns(theirs), &[])?;
            }
            Ok(())
        });
    }

    /// The reports of its workers; the rest is shared with the other contestants.
    fn collect(
        &mut self,
        spec: &RaceSpec,
        trial: &TrialSpec,
        environment: &dyn Environment,
    ) -> Result<Collected, TrialError> {
        let reports = self.attempt(|pair| {
            let (listener, connector) = pair.collect(trial)?;
            let clocks = environment.host_pairs().first().map(|host_pair| {
                let clocks = pair.jobs.clocks;
                clocks.uncertainty(host_pair)
            });
            let remote_cpu_s = pair.remote_cpu_s(&listener, &connector);
            Ok((
                listener,
                connector,
                clocks.unwrap_or_default(),
                remote_cpu_s,
            ))
        });
        let Some((listener, connector, clocks, remote_cpu_s)) = reports else {
            let error = self.error.clone();
            return Err(error.unwrap_or_else(|| failed("it has no workers".into())));
        };
        let (sender, receiver) = match spec.direction {
            Direction::Reverse if has_direction(trial) => (listener, connector),
            _ => (connector, listener),
        };
        Ok(Collected {
            sender,
            receiver,
            pairs: Vec::new(),
            host: std::mem::take(&mut self.host),
            own_cpu_s: 0.0,
            remote_cpu_s,
            clocks,
            interfaces: Vec::new(),
            environment: EnvironmentReport::default(),
            turns: Some(std::mem::take(&mut self.turns)),
        })
    }

    fn end(self) {
        for pair in self.pairs {
            pair.connector.end();
            pair.listener.end();
        }
    }
}

impl WorkerPair<'_> {
    fn await_running(&mut self) -> Result<(), TrialError> {
        await_running(&mut self.listener, self.stop)?;
        await_running(&mut self.connector, self.stop)
    }
}

/// Waits until all turns are over, and reads the host's counters between any two of them, where
/// nothing is counted. Stops early when the user does.
fn watch(
    schedule: &TurnSchedule,
    entrants: &mut [&mut Entrant<'_>],
    environment: &dyn Environment,
    stop: &AtomicBool,
) {
    let mut before = environment.snapshot();
    for (&whose, turn) in schedule.order.iter().zip(&schedule.windows) {
        if !sleep_until(turn.end_ns + GAP_NS / 2, stop) {
            break;
        }
        let after = environment.snapshot();
        entrants[whose].host += before.until(&after);
        before = after;
    }
    sleep_until(schedule.over_ns, stop);
    if stop.load(Ordering::Relaxed) {
        for entrant in entrants {
            entrant.error.get_or_insert(TrialError::Interrupted);
        }
    }
}

/// Sleeps until a time of this process's clock; false when it is stopped before.
fn sleep_until(at_ns: u64, stop: &AtomicBool) -> bool {
    loop {
        let left = Duration::from_nanos(at_ns.saturating_sub(now_ns()));
        if left.is_zero() || stop.load(Ordering::Relaxed) {
            return !stop.load(Ordering::Relaxed);
        }
        std::thread::sleep(left.min(STOP_POLL));
    }
}
