//! Trials of one sender and several receivers, each in a worker of its own.
//!
//! The sender has a circuit to each receiver, or one that reaches all: a group, which the receivers join, or what it opens to each
//! of them, as a ring of shared memory.

use super::jobs::{ClockOffsets, Jobs, PairPath};
use super::{
    ClockUncertainty, Collected, OVERRUN_MAX, PairCircuits, SETUP_LIMIT, TrialError, TrialSpec,
    append_report, await_done, await_report, await_running, failed, observe, of_program, receive,
    send, send_peer_done, unexpected,
};
use crate::environment::{Environment, HostPair};
use crate::spec::{FanOut, FanOutChoice, RaceSpec};
use control::{
    CircuitReport, ComponentSpec, FromWorker, Job, RendezvousFrame, Role, ToWorker, WorkerReport,
    Workload,
};
use loadgen::contestant;
use loadgen::worker_host::{WorkerHandle, WorkerHost};
use std::os::fd::OwnedFd;
use std::sync::atomic::AtomicBool;
use std::time::Duration;
use towpath::Sharing;

/// The measure of a sender's report that counts octets.
const SENT_BYTES: &str = "sent_bytes";

/// Runs one trial. Errors: a [`TrialError`]; the workers have exited in any case.
pub(super) fn run(
    (spec, fan_out): (&RaceSpec, FanOut),
    trial: &TrialSpec,
    link_seed: u64,
    environment: &mut dyn Environment,
    stop: &AtomicBool,
) -> Result<Collected, TrialError> {
    let mut workers = Workers {
        sender: None,
        receivers: Vec::new(),
        outlet: Outlet::of(trial, fan_out),
        stop,
    };
    let result = workers
        .spawn((spec, fan_out), trial, environment)
        .and_then(|()| workers.set_up())
        .and_then(|()| workers.measure((spec, fan_out), trial, link_seed, environment));
    workers.end();
    result.map_err(|error| of_program(error, trial))
}

/// Whether receivers join a group.
pub(crate) fn is_group(contestant: &str) -> bool {
    let components = contestant::components(contestant);
    components
        .iter()
        .any(|component| component.transport().is_one_to_many())
}

/// The option by which a group's sender waits until all have acknowledged a message.
const ACKNOWLEDGED: &str = ",acknowledged=on";

/// Bytes of a receiver's answer.
const ANSWER_LEN: u64 = 1;

/// Whether the sender waits until all receivers have a message.
fn asks(trial: &TrialSpec) -> bool {
    trial.contest.workload == Workload::Delay
}

/// How the sender reaches its receivers.
enum Outlet {
    /// A circuit to each.
    Circuits,
    /// One circuit of a group, which all join; the transport with that group.
    Group(String),
    /// One circuit that is opened to all of them; the transport with the option for it.
    ToMany(String),
}

impl Outlet {
    fn of(trial: &TrialSpec, fan_out: FanOut) -> Outlet {
        let contestant = trial.contestant.as_str();
        let asks = asks(trial);
        if is_group(contestant) {
            let group = towpath::xtp::group::example_group();
            let label = contestant::without_number(contestant);
            let acknowledged = match asks && !label.contains(ACKNOWLEDGED) {
                true => ACKNOWLEDGED,
                false => "",
            };
            return Outlet::Group(format!("{label}{acknowledged},group={group}"));
        }
        if asks {
            // Each receiver answers, which one circuit to all cannot bring back.
            return Outlet::Circuits;
        }
        let components = contestant::components(contestant);
        let sharing = match fan_out.choice {
            FanOutChoice::All => Sharing::All,
            FanOutChoice::One => Sharing::One,
        };
        let first = components.first();
        match first.and_then(|one| one.for_worker().to_many(sharing)) {
            Some(component) => Outlet::ToMany(component.to_string()),
            None => Outlet::Circuits,
        }
    }

    /// Whether one circuit reaches all.
    fn is_one_circuit(&self) -> bool {
        !matches!(self, Outlet::Circuits)
    }

    /// What a receiver listens with, where that is not the transport as it was given.
    fn of_receiver(&self) -> Option<String> {
        match self {
            Outlet::Circuits => None,
            Outlet::Group(label) => Some(format!("{label},receivers=1")),
            Outlet::ToMany(label) => Some(label.clone()),
        }
    }

    /// What the sender connects with, as [`Self::of_receiver`].
    fn of_sender(&self, receivers: u32) -> Option<String> {
        match self {
            Outlet::Circuits => None,
            Outlet::Group(label) => Some(format!("{label},receivers={receivers}")),
            Outlet::ToMany(label) => Some(label.clone()),
        }
    }
}

/// The workers of a trial.
struct Workers<'a> {
    sender: Option<Member>,
    receivers: Vec<Member>,
    outlet: Outlet,
    stop: &'a AtomicBool,
}

/// A worker and its job.
struct Member {
    name: String,
    job: Job,
    clocks: ClockOffsets,
    worker: WorkerHandle,
}

impl Workers<'_> {
    /// Spawns a worker for each receiver, on the listening hosts in turn, and the sender.
    fn spawn(
        &mut self,
        (spec, fan_out): (&RaceSpec, FanOut),
        trial: &TrialSpec,
        environment: &mut dyn Environment,
    ) -> Result<(), TrialError> {
        let pairs = environment.host_pairs();
        for number in 0..fan_out.receivers as usize {
            let pair = &pairs[number % pairs.len()];
            let mut jobs = jobs(spec, trial, environment, pair)?;
            let name = match pairs.len() {
                1 => format!("receiver{}", number + 1),
                _ => pair.name.clone(),
            };
            if let Some(label) = self.outlet.of_receiver() {
                jobs.listener.components = one(label);
            }
            if matches!(self.outlet, Outlet::Group(_)) {
                // Its circuit acknowledges for it.
                jobs.listener.role = Role::Sink;
            }
            if let Some(label) = self.outlet.of_sender(fan_out.receivers) {
                jobs.connector.components = one(label);
            }
            self.add_to_sender(&jobs, fan_out, pair)?;
            self.receivers.push(Member {
                name,
                job: jobs.listener,
                clocks: jobs.clocks,
                worker: spawned(pair.listener)?,
            });
        }
        let pids = (self.sender.as_ref(), self.receivers.first());
        let pids = (pid(pids.0), pid(pids.1));
        environment.workers_spawned(pids.0, pids.1).map_err(failed)
    }

    /// Adds a receiver's circuit to the job of the sender, which the first receiver starts.
    fn add_to_sender(
        &mut self,
        jobs: &Jobs,
        fan_out: FanOut,
        pair: &HostPair<'_>,
    ) -> Result<(), TrialError> {
        if let Some(sender) = &mut self.sender {
            if sender.job.peer != jobs.connector.peer {
                // Several hosts answer it; each of its circuits has its own listener.
                sender.job.peer = None;
            }
            if !matches!(self.outlet, Outlet::Group(_)) {
                sender
                    .job
                    .components
                    .extend(jobs.connector.components.clone());
            }
            return Ok(());
        }
        let mut job = jobs.connector.clone();
        job.role = match fan_out.choice {
            FanOutChoice::All => Role::SourceToAll,
            FanOutChoice::One => Role::SourceToOne,
        };
        self.sender = Some(Member {
            name: String::new(),
            job,
            clocks: jobs.clocks,
            worker: spawned(pair.connector)?,
        });
        Ok(())
    }

    fn sender(&mut self) -> Result<&mut Member, TrialError> {
        self.sender
            .as_mut()
            .ok_or_else(|| failed("it has no sender".into()))
    }

    /// Listeners first; the sender connects to all of them.
    fn set_up(&mut self) -> Result<(), TrialError> {
        let (mut frames, mut descriptors) = (Vec::new(), Vec::new());
        let stop = self.stop;
        for receiver in &mut self.receivers {
            let listen = ToWorker::Listen(receiver.job.clone());
            send(&mut receiver.worker, &listen, &[])?;
            let (theirs, passed) = listening(receiver, stop)?;
            // The receivers of a group all say the same.
            if !matches!(self.outlet, Outlet::Group(_)) || frames.is_empty() {
                frames.extend(theirs);
                descriptors.extend(passed);
            }
        }
        let sender = self.sender()?;
        let connect = ToWorker::Connect(sender.job.clone(), frames);
        send(&mut sender.worker, &connect, &descriptors)?;
        drop(descriptors);
        match receive(&mut sender.worker, SETUP_LIMIT, stop)?.0 {
            FromWorker::Connected => {}
            other => return Err(unexpected(other)),
        }
        for receiver in &mut self.receivers {
            match receive(&mut receiver.worker, SETUP_LIMIT, stop)?.0 {
                FromWorker::Accepted => {}
                other => return Err(unexpected(other)),
            }
        }
        Ok(())
    }

    fn measure(
        &mut self,
        (spec, fan_out): (&RaceSpec, FanOut),
        trial: &TrialSpec,
        link_seed: u64,
        environment: &mut dyn Environment,
    ) -> Result<Collected, TrialError> {
        let measured = observe(spec, trial, link_seed, environment, || {
            self.start()?;
            self.collect(trial)
        });
        let ((sender, receivers), mut collected) = measured?;
        collected.sender = as_by_circuit(sender, fan_out, &receivers);
        for (number, (receiver, report)) in self.receivers.iter().zip(receivers).enumerate() {
            if receiver.worker.is_remote() {
                collected.remote_cpu_s += report.cpu.task_ns as f64 * 1e-9;
            }
            collected.pairs.push(PairCircuits {
                name: receiver.name.clone(),
                senders: number..number + 1,
                receivers: append_report(&mut collected.receiver, report),
                clocks: ClockUncertainty::Same,
            });
        }
        Ok(collected)
    }

    /// Receivers first.
    fn start(&mut self) -> Result<(), TrialError> {
        let stop = self.stop;
        for member in self.receivers.iter_mut().chain(&mut self.sender) {
            send(&mut member.worker, &ToWorker::Go(0), &[])?;
            await_running(&mut member.worker, stop)?;
        }
        Ok(())
    }

    /// The reports of the sender and of each receiver, which is told how many messages went to it.
    fn collect(
        &mut self,
        trial: &TrialSpec,
    ) -> Result<(WorkerReport, Vec<WorkerReport>), TrialError> {
        let stop = self.stop;
        let is_one_circuit = self.outlet.is_one_circuit();
        let sender = self.sender()?;
        let path = Duration::from_nanos(sender.job.path_delay_ns);
        let limit = Duration::from_nanos(trial.limits.time_ns) + OVERRUN_MAX + path * 8;
        await_done(&mut sender.worker, limit, stop)?;
        let leading = await_report(&mut sender.worker, &sender.job, limit, stop)?;
        let clocks = sender.clocks;
        for (number, receiver) in self.receivers.iter_mut().enumerate() {
            let circuit = if is_one_circuit { 0 } else { number };
            let sent = leading
                .circuits
                .get(circuit)
                .map_or(0, |report| report.sent);
            // A receiver that saw the end of its circuit has finished and reads nothing more.
            let _ = send_peer_done(&mut receiver.worker, sent);
        }
        let mut following = Vec::new();
        for receiver in &mut self.receivers {
            await_done(&mut receiver.worker, limit, stop)?;
            let report = await_report(&mut receiver.worker, &receiver.job, limit, stop)?;
            let (report, _) = receiver
                .clocks
                .to_local_clock((report, WorkerReport::default()));
            following.push(report);
        }
        let (_, leading) = clocks.to_local_clock((WorkerReport::default(), leading));
        Ok((leading, following))
    }

    fn end(self) {
        for member in self.sender.into_iter().chain(self.receivers) {
            member.worker.end();
        }
    }
}

/// A report with a circuit for each receiver. One circuit that reaches all sent each message to all; one whose messages they share out sent
/// each of them what it got, and the first of them what nobody got.
fn as_by_circuit(
    mut report: WorkerReport,
    fan_out: FanOut,
    receivers: &[WorkerReport],
) -> WorkerReport {
    let count = fan_out.receivers as usize;
    let first = match &report.circuits[..] {
        [one] if count > 1 => one,
        _ => return report,
    };
    // Counts of the circuit itself stand once.
    let copy = CircuitReport {
        transport: first.transport.clone(),
        sent: first.sent,
        received: first.received,
        first_ns: first.first_ns,
        last_ns: first.last_ns,
        measures: first.measures.clone(),
        ..CircuitReport::default()
    };
    report.circuits.resize(count, copy);
    if fan_out.choice == FanOutChoice::One {
        share_out(&mut report.circuits, receivers);
    }
    report
}

/// Says of each circuit that it sent what its receiver got, in messages and octets; the first one has the rest of what it sent.
fn share_out(circuits: &mut [CircuitReport], receivers: &[WorkerReport]) {
    let got = |of: fn(&CircuitReport) -> u64, number: usize| -> u64 {
        let report = receivers.get(number);
        report.map_or(0, |report| report.circuits.iter().map(of).sum())
    };
    let (mut messages, mut octets) = (0, 0);
    for (number, circuit) in circuits.iter_mut().enumerate().skip(1) {
        circuit.sent = got(|one| one.received, number);
        let bytes = got(|one| one.received_bytes, number);
        circuit.measures.insert(SENT_BYTES.to_owned(), bytes as f64);
        messages += circuit.sent;
        octets += bytes;
    }
    let Some(first) = circuits.first_mut() else {
        return;
    };
    first.sent = first.sent.saturating_sub(messages);
    if let Some(bytes) = first.measures.get_mut(SENT_BYTES) {
        *bytes = (*bytes - octets as f64).max(0.0);
    }
}

/// The jobs of a receiver and of a sender to it alone.
fn jobs(
    spec: &RaceSpec,
    trial: &TrialSpec,
    environment: &dyn Environment,
    pair: &HostPair<'_>,
) -> Result<Jobs, TrialError> {
    let path = PairPath {
        addresses: [pair.connector, pair.listener]
            .map(|end| end.addresses(spec.circuit_options.ipv6)),
        delay_max: environment.path_delay_max(),
        peers: [pair.connector.allowed_peer(), pair.listener.allowed_peer()],
        clocks: ClockOffsets::read(pair)?,
    };
    let mut jobs = Jobs::of(spec, trial, &path, 1);
    if asks(trial) {
        for job in [&mut jobs.connector, &mut jobs.listener] {
            job.reply_len = ANSWER_LEN;
        }
    }
    Ok(jobs)
}

/// What a listening worker says of where it is.
fn listening(
    receiver: &mut Member,
    stop: &AtomicBool,
) -> Result<(Vec<RendezvousFrame>, Vec<OwnedFd>), TrialError> {
    let (message, descriptors) = receive(&mut receiver.worker, SETUP_LIMIT, stop)?;
    match message {
        FromWorker::Listening(frames) => Ok((frames, descriptors)),
        other => Err(unexpected(other)),
    }
}

fn one(transport: String) -> Vec<ComponentSpec> {
    vec![ComponentSpec {
        transport,
        circuits: 1,
    }]
}

fn spawned(host: &dyn WorkerHost) -> Result<WorkerHandle, TrialError> {
    host.spawn().map_err(|error| failed(error.to_string()))
}

fn pid(member: Option<&Member>) -> u32 {
    member.map_or(0, |member| member.worker.pid())
}
