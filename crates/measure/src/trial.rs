//! One trial: two fresh workers, set up, started, collected.

use crate::contestant;
use crate::place::{ClockOffset, Place, WorkerHandle};
use crate::spec::{Contest, Direction, RaceSpec};
use crate::stage::{Stage, Surroundings};
use control::{FromWorker, Job, Leg, Limits, Rate, Role, Side, ToWorker, WorkerReport, Workload};
use std::net::IpAddr;
use std::os::fd::{AsFd, OwnedFd};
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};

/// What a trial is to do.
#[derive(Clone, Debug)]
pub struct TrialSpec {
    /// The contest.
    pub contest: Contest,
    /// The contestant.
    pub contestant: String,
    /// Messages, and the longest time.
    pub limits: Limits,
    /// Messages a second of the whole contestant, for an open loop.
    pub rate_per_s: Option<f64>,
    /// Seed of this trial.
    pub seed: u64,
}

/// What the two workers of a trial measured.
#[derive(Clone, Debug)]
pub struct Collected {
    /// The sending (asking) side.
    pub sender: WorkerReport,
    /// The receiving (answering) side.
    pub receiver: WorkerReport,
    /// Host counters over the measured time.
    pub host: host::Difference,
    /// CPU seconds the measuring process itself took meanwhile, an emulated link included.
    pub own_s: f64,
    /// CPU seconds of those workers that ran on other hosts.
    pub elsewhere_s: f64,
    /// How far the clocks of the two sides may be apart, ns, by round trips before, during and after
    /// the trial; None where both have the same.
    pub clock_bound_ns: Option<u64>,
    /// The interface the traffic ran over.
    pub interface: String,
    /// What the link and the loads did.
    pub surroundings: Surroundings,
}

/// Why a trial brought no numbers.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum TrialError {
    /// It cannot be done or broke off.
    #[error("{0}")]
    Failed(String),
    /// The user stopped it.
    #[error("stopped by the user")]
    Interrupted,
}

/// How long setting up may take.
const SETUP_LIMIT: Duration = Duration::from_secs(15);

/// How much longer than its limit a trial may take before it is given up.
const GRACE: Duration = Duration::from_secs(10);

/// How often a wait looks whether the user wants to stop.
const LOOK: Duration = Duration::from_millis(100);

/// Runs one trial; the fate of frames on an emulated link follows `link_seed`.
///
/// # Errors
///
/// A [`TrialError`]; the workers are gone in any case.
pub fn run(
    spec: &RaceSpec,
    trial: &TrialSpec,
    link_seed: u64,
    stage: &mut dyn Stage,
    stop: &AtomicBool,
) -> Result<Collected, TrialError> {
    can_do(spec, trial)?;
    let spawn = |place: &dyn Place| place.spawn().map_err(|error| failed(error.to_string()));
    let places = stage.places();
    let clocks = Clocks::read(places)?;
    let path = Path {
        bind: places.1.address(spec.settings.ipv6),
        longest: stage.longest_way(),
        peers: [places.0.peer(), places.1.peer()],
        clocks,
    };
    let jobs = Jobs::of(spec, trial, path);
    let listener = spawn(places.1)?;
    let connector = match spawn(places.0) {
        Ok(connector) => connector,
        Err(error) => {
            listener.end();
            return Err(error);
        }
    };
    let spawned = stage.spawned(connector.id(), listener.id());
    let mut pair = Pair {
        listener,
        connector,
        stop,
    };
    let result = spawned
        .map_err(failed)
        .and_then(|()| pair.run(spec, trial, &jobs, link_seed, stage));
    let Pair {
        listener,
        connector,
        ..
    } = pair;
    connector.end();
    listener.end();
    let mut collected = result?;
    collected.clock_bound_ns = clocks.bound_with(Clocks::read(stage.places())?);
    Ok(collected)
}

/// The clocks of the connecting and the listening side, against this process's.
#[derive(Clone, Copy)]
struct Clocks([Option<ClockOffset>; 2]);

impl Clocks {
    fn read(places: (&dyn Place, &dyn Place)) -> Result<Clocks, TrialError> {
        let read = |place: &dyn Place| {
            let clock = place.clock();
            clock.map_err(|error| failed(format!("{}: {error}", place.name())))
        };
        Ok(Clocks([read(places.0)?, read(places.1)?]))
    }

    fn offset_ns(&self, side: usize) -> i64 {
        self.0[side].map_or(0, |clock| clock.offset_ns)
    }

    /// How far one side's clock may be from where it was thought to be at the other's, given both
    /// readings: what either leaves open, and what they differ by.
    fn bound_with(self, later: Clocks) -> Option<u64> {
        if self.0 == [None, None] {
            return None;
        }
        let side = |at: usize| {
            let (first, last) = (
                self.0[at].unwrap_or_default(),
                later.0[at].unwrap_or_default(),
            );
            let moved = first.offset_ns.abs_diff(last.offset_ns);
            first.bound_ns.max(last.bound_ns.saturating_add(moved))
        };
        Some(side(0).saturating_add(side(1)))
    }
}

/// Whether the transports can do the workload at all.
fn can_do(spec: &RaceSpec, trial: &TrialSpec) -> Result<(), TrialError> {
    let forward = spec.direction == Direction::Forward;
    for leg in contestant::legs(&trial.contestant) {
        if trial.contest.workload == Workload::Connect && !leg.class().connects {
            return Err(failed(format!(
                "{leg} makes no connections, both its ends are made at once; \
                 measure its throughput or delay"
            )));
        }
        let one_way = matches!(
            trial.contest.workload,
            Workload::Throughput | Workload::Offered
        );
        if leg.transport().is_one_to_many() && !(one_way && forward) {
            return Err(failed(format!(
                "{leg} goes from one sender to many receivers and nothing comes back; \
                 measure its throughput or offered load in the forward direction"
            )));
        }
    }
    Ok(())
}

fn failed(what: String) -> TrialError {
    TrialError::Failed(what)
}

struct Pair<'a> {
    listener: WorkerHandle,
    connector: WorkerHandle,
    stop: &'a AtomicBool,
}

impl Pair<'_> {
    fn run(
        &mut self,
        spec: &RaceSpec,
        trial: &TrialSpec,
        jobs: &Jobs,
        link_seed: u64,
        stage: &mut dyn Stage,
    ) -> Result<Collected, TrialError> {
        self.set_up(jobs)?;
        let own = host::TaskCpu::of_self();
        stage.begin(link_seed);
        let before = stage.snapshot();
        let measured = self.go(jobs).and_then(|()| self.collect(jobs, trial));
        let measured = measured.map(|reports| jobs.clocks.bring_home(reports));
        let host = before.until(&stage.snapshot());
        let surroundings = stage.end();
        let (listener, connector) = measured?;
        let own_s = (host::TaskCpu::of_self() - own).task_s;
        let elsewhere = |worker: &WorkerHandle, report: &WorkerReport| {
            let task_s = report.cpu.task_ns as f64 * 1e-9;
            if worker.is_elsewhere() { task_s } else { 0.0 }
        };
        let elsewhere_s =
            elsewhere(&self.listener, &listener) + elsewhere(&self.connector, &connector);
        let (sender, receiver) = match spec.direction {
            Direction::Reverse if has_direction(trial) => (listener, connector),
            _ => (connector, listener),
        };
        Ok(Collected {
            sender,
            receiver,
            host,
            own_s,
            elsewhere_s,
            clock_bound_ns: None,
            interface: stage.interface().to_owned(),
            surroundings,
        })
    }

    fn set_up(&mut self, jobs: &Jobs) -> Result<(), TrialError> {
        send(
            &mut self.listener,
            &ToWorker::Listen(jobs.listener.clone()),
            &[],
        )?;
        let (message, descriptors) = receive(&mut self.listener, SETUP_LIMIT, self.stop)?;
        let FromWorker::Listening(frames) = message else {
            return Err(unexpected(message));
        };
        let connect = ToWorker::Connect(jobs.connector.clone(), frames);
        send(&mut self.connector, &connect, &descriptors)?;
        drop(descriptors);
        match receive(&mut self.connector, SETUP_LIMIT, self.stop)?.0 {
            FromWorker::Connected => {}
            other => return Err(unexpected(other)),
        }
        match receive(&mut self.listener, SETUP_LIMIT, self.stop)?.0 {
            FromWorker::Accepted => Ok(()),
            other => Err(unexpected(other)),
        }
    }

    /// Starts the receiving side first; two hosts that both send begin at the same time.
    fn go(&mut self, jobs: &Jobs) -> Result<(), TrialError> {
        let stop = self.stop;
        if jobs.listener.role == Role::Both && jobs.clocks.0 != [None, None] {
            return self.go_together(jobs);
        }
        let listener_sends = matches!(jobs.listener.role, Role::Source);
        let order = if listener_sends {
            [&mut self.connector, &mut self.listener]
        } else {
            [&mut self.listener, &mut self.connector]
        };
        for worker in order {
            send(worker, &ToWorker::Go(0), &[])?;
            running(worker, stop)?;
        }
        Ok(())
    }

    /// Names a time that both have heard of when it comes.
    fn go_together(&mut self, jobs: &Jobs) -> Result<(), TrialError> {
        let stop = self.stop;
        let at_ns = crate::clock::now_ns() + HEAD_START_NS + 2 * jobs.listener.path_ns;
        for (worker, side) in [(&mut self.connector, 0), (&mut self.listener, 1)] {
            let theirs_ns = at_ns.saturating_add_signed(jobs.clocks.offset_ns(side));
            send(worker, &ToWorker::Go(theirs_ns), &[])?;
        }
        running(&mut self.connector, stop)?;
        running(&mut self.listener, stop)
    }

    /// Waits for the active side, tells the other, and takes both reports.
    fn collect(
        &mut self,
        jobs: &Jobs,
        trial: &TrialSpec,
    ) -> Result<(WorkerReport, WorkerReport), TrialError> {
        let path = Duration::from_nanos(jobs.listener.path_ns);
        let limit = Duration::from_nanos(trial.limits.time_ns) + GRACE + path * 8;
        let stop = self.stop;
        let listener_leads = matches!(jobs.listener.role, Role::Source);
        let (leader, follower) = if listener_leads {
            (&mut self.listener, &mut self.connector)
        } else {
            (&mut self.connector, &mut self.listener)
        };
        let sent = await_done(leader, limit, stop)?;
        // A follower that has seen the end by itself is done and reads nothing more.
        let _ = leader_done(follower, sent);
        let leading = finished(leader, limit, stop)?;
        await_done(follower, limit, stop)?;
        let following = finished(follower, limit, stop)?;
        Ok(if listener_leads {
            (leading, following)
        } else {
            (following, leading)
        })
    }
}

/// How far ahead a common start lies, besides the way there, ns.
const HEAD_START_NS: u64 = 5_000_000;

fn running(worker: &mut WorkerHandle, stop: &AtomicBool) -> Result<(), TrialError> {
    match receive(worker, SETUP_LIMIT, stop)?.0 {
        FromWorker::Running => Ok(()),
        other => Err(unexpected(other)),
    }
}

fn leader_done(follower: &mut WorkerHandle, sent: u64) -> Result<(), TrialError> {
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

fn finished(
    worker: &mut WorkerHandle,
    limit: Duration,
    stop: &AtomicBool,
) -> Result<WorkerReport, TrialError> {
    match receive(worker, limit, stop)?.0 {
        FromWorker::Finished(report) => Ok(*report),
        other => Err(unexpected(other)),
    }
}

fn unexpected(message: FromWorker) -> TrialError {
    match message {
        FromWorker::Failed(what) => failed(what),
        other => failed(format!("a worker answered out of order: {other:?}")),
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

/// Receives, looking now and then whether the user wants to stop.
fn receive(
    worker: &mut WorkerHandle,
    limit: Duration,
    stop: &AtomicBool,
) -> Result<(FromWorker, Vec<OwnedFd>), TrialError> {
    let end = Instant::now() + limit;
    while !stop.load(Ordering::Relaxed) {
        if worker.is_readable(LOOK) {
            let received = worker.channel.receive(SETUP_LIMIT);
            return received.map_err(|error| failed(format!("a worker: {error}")));
        }
        if Instant::now() > end {
            return Err(failed(format!("a worker did not answer within {limit:?}")));
        }
    }
    Err(TrialError::Interrupted)
}

/// Whether the direction of a workload can be turned round.
fn has_direction(trial: &TrialSpec) -> bool {
    matches!(
        trial.contest.workload,
        Workload::Throughput | Workload::Offered
    )
}

/// The way to the listening worker.
#[derive(Clone, Copy)]
struct Path {
    bind: Option<IpAddr>,
    longest: Duration,
    /// Whom the connecting and the listening side speak with.
    peers: [Option<IpAddr>; 2],
    clocks: Clocks,
}

impl Clocks {
    /// Reports of the listening and the connecting side, in this process's time.
    fn bring_home(self, reports: (WorkerReport, WorkerReport)) -> (WorkerReport, WorkerReport) {
        let (mut listener, mut connector) = reports;
        control::vet::shift(&mut listener, self.offset_ns(1));
        control::vet::shift(&mut connector, self.offset_ns(0));
        (listener, connector)
    }
}

struct Jobs {
    clocks: Clocks,
    listener: Job,
    connector: Job,
}

impl Jobs {
    fn of(spec: &RaceSpec, trial: &TrialSpec, path: Path) -> Jobs {
        let (connector_role, listener_role) = roles(spec, trial);
        let reversed = matches!(listener_role, Role::Source);
        let (near, far) = if reversed { (1, 0) } else { (0, 1) };
        let job = |side, role, place| Job {
            side,
            role,
            workload: trial.contest.workload,
            legs: legs(spec, trial),
            settings: settings(spec, trial),
            bind: path.bind,
            peer: path.peers[usize::from(side == Side::Listen)],
            clock_ns: {
                let own = usize::from(side == Side::Listen);
                path.clocks.offset_ns(own) - path.clocks.offset_ns(1 - own)
            },
            pace_bytes_per_s: None,
            path_ns: path.longest.as_nanos() as u64,
            message_len: trial.contest.size,
            mix: trial.contest.mix,
            limits: trial.limits,
            rate: rate(spec, trial),
            pin: [spec.pin.0, spec.pin.1][place],
            priority: [spec.priority.0, spec.priority.1][place],
            busy_poll: spec.busy_poll && trial.contest.workload == Workload::Delay,
            seed: trial.seed,
        };
        Jobs {
            clocks: path.clocks,
            connector: job(Side::Connect, connector_role, near),
            listener: job(Side::Listen, listener_role, far),
        }
    }
}

fn roles(spec: &RaceSpec, trial: &TrialSpec) -> (Role, Role) {
    match (trial.contest.workload, spec.direction) {
        (Workload::Delay | Workload::Connect, _) => (Role::Client, Role::Server),
        (Workload::Throughput, Direction::Both) => (Role::Both, Role::Both),
        (_, Direction::Reverse) => (Role::Sink, Role::Source),
        _ => (Role::Source, Role::Sink),
    }
}

fn legs(spec: &RaceSpec, trial: &TrialSpec) -> Vec<Leg> {
    let leg = |leg: &contestant::Leg| Leg {
        transport: leg.to_string(),
        circuits: spec.circuits,
    };
    contestant::legs(&trial.contestant)
        .iter()
        .map(leg)
        .collect()
}

/// Nagle's algorithm would hold back the second half of a request or a reply.
fn settings(spec: &RaceSpec, trial: &TrialSpec) -> control::Settings {
    let mut settings = spec.settings.clone();
    settings.buffers = trial.contest.buffers.or(settings.buffers);
    // The pilot of an open loop runs closed, and is an open loop's in all else.
    if trial.contest.cell.workload() != "throughput" && settings.nodelay.is_none() {
        settings.nodelay = Some(true);
    }
    settings
}

fn rate(spec: &RaceSpec, trial: &TrialSpec) -> Option<Rate> {
    let circuits = legs(spec, trial)
        .iter()
        .map(|leg| leg.circuits)
        .sum::<u32>();
    trial.rate_per_s.map(|per_s| Rate {
        per_s: per_s / f64::from(circuits.max(1)),
        arrivals: spec.arrivals,
    })
}
