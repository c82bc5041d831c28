//! One trial: spawns two fresh workers for each host pair, sets them up, starts them, and collects
//! their reports.

mod fan_out;
mod jobs;
mod program;
mod start_together;
pub(crate) mod turns;

use crate::environment::{Environment, EnvironmentReport};
use crate::spec::{Contest, Direction, RaceSpec};
use control::{FromWorker, Job, Limits, Role, ToWorker, Turns, WorkerReport, validate};
pub use jobs::cannot_discard;
use jobs::{ClockOffsets, Jobs, PairPath, check_supported, has_direction};
pub(crate) use jobs::{circuits_of, has_series};
use loadgen::worker_host::{WorkerHandle, WorkerHost};
use loadgen::{contestant, worker_program};
pub(crate) use program::{ProgramRun, run as run_program};
use start_together::start_together;
use std::ops::Range;
use std::os::fd::{AsFd, OwnedFd};
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};

/// Parameters of a trial.
#[derive(Clone, Debug)]
pub struct TrialSpec {
    /// The contest.
    pub contest: Contest,
    /// The contestant.
    pub contestant: String,
    /// Limits of messages and time.
    pub limits: Limits,
    /// Messages a second of the whole contestant, for an open loop.
    pub rate_per_s: Option<f64>,
    /// Seed of this trial.
    pub seed: u64,
}

/// What the workers of a trial measured.
#[derive(Clone, Debug)]
pub struct Collected {
    /// The sending (client) side; circuits of several pairs are concatenated, their costs summed.
    pub sender: WorkerReport,
    /// The receiving (server) side, likewise.
    pub receiver: WorkerReport,
    /// Circuits by host pair, where several ran at once; else empty.
    pub pairs: Vec<PairCircuits>,
    /// Host counters over the measured time.
    pub host: host::SnapshotDifference,
    /// CPU seconds of this process meanwhile, an emulated link included.
    pub own_cpu_s: f64,
    /// CPU seconds of workers on other hosts.
    pub remote_cpu_s: f64,
    /// Clock uncertainty between the two sides; the worst of several pairs.
    pub clocks: ClockUncertainty,
    /// The interfaces the traffic ran over, one a link.
    pub interfaces: Vec<String>,
    /// What the link and the loads did.
    pub environment: EnvironmentReport,
    /// The turns in which it ran; None for a trial that had the machine to itself.
    pub turns: Option<Turns>,
}

/// The circuits of one host pair among all of a trial.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct PairCircuits {
    /// The pair's name.
    pub name: String,
    /// Its circuits on the sending side.
    pub senders: Range<usize>,
    /// Its circuits on the receiving side.
    pub receivers: Range<usize>,
    /// Clock uncertainty between its two sides.
    pub clocks: ClockUncertainty,
}

/// Uncertainty of the clock offset between the two sides of a trial.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub enum ClockUncertainty {
    /// Both have the same clock.
    #[default]
    Same,
    /// At most this, ns, from round trips before, during and after the trial.
    Within(u64),
    /// Unknown, and why.
    Unknown(String),
}

impl ClockUncertainty {
    /// The worse of two.
    #[must_use]
    pub fn or_worse(self, other: ClockUncertainty) -> ClockUncertainty {
        use ClockUncertainty::{Same, Unknown, Within};
        match (self, other) {
            (Unknown(why), _) | (_, Unknown(why)) => Unknown(why),
            (Within(one), Within(other)) => Within(one.max(other)),
            (Within(only), Same) | (Same, Within(only)) => Within(only),
            (Same, Same) => Same,
        }
    }
}

/// Why a trial has no result.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum TrialError {
    /// It is not possible, or was aborted.
    #[error("{0}")]
    Failed(String),
    /// The user stopped it.
    #[error("stopped by the user")]
    Interrupted,
}

/// How long setting up may take, besides each of its circuits.
const SETUP_LIMIT: Duration = Duration::from_secs(15);

/// How far a trial may exceed its limit before it is aborted.
const OVERRUN_MAX: Duration = Duration::from_secs(10);

/// How often a wait checks the stop flag.
const STOP_POLL: Duration = Duration::from_millis(100);

/// Runs one trial; `link_seed` drives the random choices of an emulated link.
///
/// # Errors
///
/// A [`TrialError`]; the workers have exited in any case.
pub fn run(
    spec: &RaceSpec,
    trial: &TrialSpec,
    link_seed: u64,
    environment: &mut dyn Environment,
    stop: &AtomicBool,
) -> Result<Collected, TrialError> {
    check_supported(spec, trial)?;
    if let Some(fan_out) = trial.contest.fan_out {
        return fan_out::run((spec, fan_out), trial, link_seed, environment, stop);
    }
    let mut pairs = Vec::new();
    let spawned = spawn_all(&mut pairs, spec, trial, environment, stop);
    let spawned = spawned.and_then(|()| {
        let ids = pairs
            .first()
            .map(|pair| (pair.connector.pid(), pair.listener.pid()));
        let (connector, listener) = ids.unwrap_or_default();
        environment
            .workers_spawned(connector, listener)
            .map_err(failed)
    });
    let result = spawned.and_then(|()| measure(&mut pairs, spec, trial, link_seed, environment));
    for pair in pairs {
        pair.connector.end();
        pair.listener.end();
    }
    result.map_err(|error| of_program(error, trial))
}

/// The error, with the program that ran the workers where it is another one.
fn of_program(error: TrialError, trial: &TrialSpec) -> TrialError {
    match (error, contestant::program(&trial.contestant)) {
        (TrialError::Failed(why), Some(program)) => failed(format!("{}: {why}", program.display())),
        (error, _) => error,
    }
}

/// Spawns the workers of every host pair. When one cannot be spawned, `pairs` has those that run.
fn spawn_all<'a>(
    pairs: &mut Vec<WorkerPair<'a>>,
    spec: &RaceSpec,
    trial: &TrialSpec,
    environment: &dyn Environment,
    stop: &'a AtomicBool,
) -> Result<(), TrialError> {
    let program = contestant::program(&trial.contestant);
    let spawn = |worker_host: &dyn WorkerHost| {
        let worker = match &program {
            Some(program) => worker_host.spawn_program(&worker_program::located(program)),
            None => worker_host.spawn(),
        };
        worker.map_err(|error| failed(error.to_string()))
    };
    let all = environment.host_pairs();
    for host_pair in &all {
        let path = PairPath {
            addresses: [host_pair.connector, host_pair.listener]
                .map(|end| end.addresses(spec.circuit_options.ipv6)),
            delay_max: environment.path_delay_max(),
            peers: [
                host_pair.connector.allowed_peer(),
                host_pair.listener.allowed_peer(),
            ],
            clocks: ClockOffsets::read(host_pair)?,
        };
        let jobs = Jobs::of(spec, trial, &path, all.len());
        let listener = spawn(host_pair.listener)?;
        let connector = match spawn(host_pair.connector) {
            Ok(connector) => connector,
            Err(error) => {
                listener.end();
                return Err(error);
            }
        };
        pairs.push(WorkerPair {
            name: host_pair.name.clone(),
            jobs,
            listener,
            connector,
            stop,
        });
    }
    Ok(())
}

/// Sets all pairs up, starts them, and collects their reports.
fn measure(
    pairs: &mut [WorkerPair<'_>],
    spec: &RaceSpec,
    trial: &TrialSpec,
    link_seed: u64,
    environment: &mut dyn Environment,
) -> Result<Collected, TrialError> {
    for pair in pairs.iter_mut() {
        pair.set_up()?;
    }
    let measured = observe(spec, trial, link_seed, environment, || {
        start_all(pairs)?;
        let reports = pairs.iter_mut().map(|pair| pair.collect(trial));
        reports.collect::<Result<Vec<_>, _>>()
    });
    let (reports, mut collected) = measured?;
    let several = pairs.len() > 1;
    let host_pairs = environment.host_pairs();
    for ((pair, host_pair), (listener, connector)) in pairs.iter().zip(&host_pairs).zip(reports) {
        let clocks = pair.jobs.clocks.uncertainty(host_pair);
        collected.remote_cpu_s += pair.remote_cpu_s(&listener, &connector);
        let (sender, receiver) = match spec.direction {
            Direction::Reverse if has_direction(trial) => (listener, connector),
            _ => (connector, listener),
        };
        let part = PairCircuits {
            name: pair.name.clone(),
            senders: append_report(&mut collected.sender, sender),
            receivers: append_report(&mut collected.receiver, receiver),
            clocks: clocks.clone(),
        };
        collected.clocks = std::mem::take(&mut collected.clocks).or_worse(clocks);
        collected.pairs.extend(several.then_some(part));
    }
    Ok(collected)
}

/// What `measure` gives, and a trial without reports yet: what the host, the link and the loads did meanwhile.
fn observe<R>(
    spec: &RaceSpec,
    trial: &TrialSpec,
    link_seed: u64,
    environment: &mut dyn Environment,
    measure: impl FnOnce() -> Result<R, TrialError>,
) -> Result<(R, Collected), TrialError> {
    let own = host::TaskCpu::of_self();
    if spec.series {
        environment.record_queues(trial.limits.slice_ns);
    }
    environment.begin(link_seed);
    let before = environment.snapshot();
    let measured = measure();
    let host = before.until(&environment.snapshot());
    let environment_report = environment.end();
    let collected = Collected {
        sender: WorkerReport::default(),
        receiver: WorkerReport::default(),
        pairs: Vec::new(),
        host,
        own_cpu_s: (host::TaskCpu::of_self() - own).task_s,
        remote_cpu_s: 0.0,
        clocks: ClockUncertainty::Same,
        interfaces: environment.interfaces(),
        environment: environment_report,
        turns: None,
    };
    Ok((measured?, collected))
}

/// Appends the report of a pair; returns the range of its circuits.
fn append_report(all: &mut WorkerReport, report: WorkerReport) -> Range<usize> {
    let first = all.circuits.len();
    all.circuits.extend(report.circuits);
    all.effective.extend(report.effective);
    let (cpu, more) = (&mut all.cpu, report.cpu);
    cpu.task_ns += more.task_ns;
    cpu.user_ns += more.user_ns;
    cpu.system_ns += more.system_ns;
    cpu.voluntary_switches += more.voluntary_switches;
    cpu.involuntary_switches += more.involuntary_switches;
    first..all.circuits.len()
}

/// A single pair starts the receiver first; several pairs start at an agreed time.
fn start_all(pairs: &mut [WorkerPair<'_>]) -> Result<(), TrialError> {
    match pairs {
        [only] => only.start(),
        several => start_together(several),
    }
}

fn failed(what: String) -> TrialError {
    TrialError::Failed(what)
}

/// The two workers of a host pair, and their jobs.
struct WorkerPair<'a> {
    name: String,
    jobs: Jobs,
    listener: WorkerHandle,
    connector: WorkerHandle,
    stop: &'a AtomicBool,
}

impl WorkerPair<'_> {
    /// CPU seconds of workers on other hosts. Without path delay the agent is on this host: 0.
    fn remote_cpu_s(&self, listener: &WorkerReport, connector: &WorkerReport) -> f64 {
        if self.jobs.listener.path_delay_ns == 0 {
            return 0.0;
        }
        let both = [(&self.listener, listener), (&self.connector, connector)];
        let remote = both.iter().filter(|(worker, _)| worker.is_remote());
        remote
            .map(|(_, report)| report.cpu.task_ns as f64 * 1e-9)
            .sum()
    }

    fn set_up(&mut self) -> Result<(), TrialError> {
        let jobs = &self.jobs;
        send(
            &mut self.listener,
            &ToWorker::Listen(jobs.listener.clone()),
            &[],
        )?;
        let limit =
            SETUP_LIMIT + loadgen::worker::SETUP_OF_CIRCUIT * self.jobs.connector.circuits() as u32;
        let (message, descriptors) = receive(&mut self.listener, limit, self.stop)?;
        let FromWorker::Listening(frames) = message else {
            return Err(unexpected(message));
        };
        let connect = ToWorker::Connect(jobs.connector.clone(), frames);
        send(&mut self.connector, &connect, &descriptors)?;
        drop(descriptors);
        match receive(&mut self.connector, limit, self.stop)?.0 {
            FromWorker::Connected => {}
            other => return Err(unexpected(other)),
        }
        match receive(&mut self.listener, limit, self.stop)?.0 {
            FromWorker::Accepted => Ok(()),
            other => Err(unexpected(other)),
        }
    }

    /// Starts the receiving side first; two hosts that both send start at an agreed time.
    fn start(&mut self) -> Result<(), TrialError> {
        let stop = self.stop;
        let jobs = &self.jobs;
        if jobs.listener.role == Role::Both && jobs.clocks.0 != [None, None] {
            return start_together(std::slice::from_mut(self));
        }
        let listener_sends = matches!(jobs.listener.role, Role::Source);
        let order = if listener_sends {
            [&mut self.connector, &mut self.listener]
        } else {
            [&mut self.listener, &mut self.connector]
        };
        for worker in order {
            send(worker, &ToWorker::Go(0), &[])?;
            await_running(worker, stop)?;
        }
        Ok(())
    }

    /// Waits for the sides that send, sends `PeerDone` to the other of each, and collects both reports.
    fn collect(&mut self, trial: &TrialSpec) -> Result<(WorkerReport, WorkerReport), TrialError> {
        let jobs = &self.jobs;
        let path = Duration::from_nanos(jobs.listener.path_delay_ns);
        let limit = Duration::from_nanos(trial.limits.time_ns) + OVERRUN_MAX + path * 8;
        let stop = self.stop;
        let listener_leads = matches!(jobs.listener.role, Role::Source);
        let (leader, follower) = if listener_leads {
            (&mut self.listener, &mut self.connector)
        } else {
            (&mut self.connector, &mut self.listener)
        };
        let sent = await_done(leader, limit, stop)?;
        let both_send = jobs.listener.role == Role::Both;
        // One that saw the end of the circuit has finished and reads nothing more.
        if both_send {
            let sent = await_done(follower, limit, stop)?;
            let _ = send_peer_done(leader, sent);
        }
        let _ = send_peer_done(follower, sent);
        let leading = await_report(leader, &jobs.connector, limit, stop)?;
        if !both_send {
            await_done(follower, limit, stop)?;
        }
        let following = await_report(follower, &jobs.listener, limit, stop)?;
        Ok(jobs.clocks.to_local_clock(if listener_leads {
            (leading, following)
        } else {
            (following, leading)
        }))
    }
}

fn await_running(worker: &mut WorkerHandle, stop: &AtomicBool) -> Result<(), TrialError> {
    match receive(worker, SETUP_LIMIT, stop)?.0 {
        FromWorker::Running => Ok(()),
        other => Err(unexpected(other)),
    }
}

fn send_peer_done(follower: &mut WorkerHandle, sent: u64) -> Result<(), TrialError> {
    send(follower, &ToWorker::PeerDone(sent), &[])
}

fn await_done(
    worker: &mut WorkerHandle,
    limit: Duration,
    stop: &AtomicBool,
) -> Result<u64, TrialError> {
    match receive(worker, limit, stop)?.0 {
        FromWorker::SourceDone(sent) => Ok(sent),
        other => Err(unexpected(other)),
    }
}

/// The report of a worker. That of another program is checked against `job`, whose components are
/// the same on both sides.
fn await_report(
    worker: &mut WorkerHandle,
    job: &Job,
    limit: Duration,
    stop: &AtomicBool,
) -> Result<WorkerReport, TrialError> {
    match receive(worker, limit, stop)?.0 {
        FromWorker::Finished(mut report) => {
            if worker.is_other_program() {
                validate::report(&mut report, job)
                    .map_err(|why| failed(format!("a worker's report is invalid: {why}")))?;
            }
            Ok(*report)
        }
        other => Err(unexpected(other)),
    }
}

fn unexpected(message: FromWorker) -> TrialError {
    match message {
        FromWorker::Failed(what) => failed(what),
        other => failed(format!("a worker sent an unexpected message: {other:?}")),
    }
}

fn send(
    worker: &mut WorkerHandle,
    message: &ToWorker,
    descriptors: &[OwnedFd],
) -> Result<(), TrialError> {
    let borrowed: Vec<_> = descriptors.iter().map(AsFd::as_fd).collect();
    let sent = worker.channel.send(message, &borrowed);
    sent.map_err(|error| failed(error.to_string()))
}

/// Receives a message, checking the stop flag every [`STOP_POLL`].
fn receive(
    worker: &mut WorkerHandle,
    limit: Duration,
    stop: &AtomicBool,
) -> Result<(FromWorker, Vec<OwnedFd>), TrialError> {
    let end = Instant::now() + limit;
    while !stop.load(Ordering::Relaxed) {
        if worker.is_readable(STOP_POLL) {
            let received = worker.channel.receive(SETUP_LIMIT);
            return received.map_err(|error| failed(format!("a worker: {error}")));
        }
        if Instant::now() > end {
            return Err(failed(format!("a worker did not answer within {limit:?}")));
        }
    }
    Err(TrialError::Interrupted)
}
