//! The measuring threads.

mod fan_out;

use super::{cpu, failed, setup};
use crate::contestant::Component;
use crate::workload::client::ClientControl;
use crate::workload::meter::{Meter, MeteredCircuit};
use crate::workload::transactions::{self, Clients, StartGate, Tally};
use crate::workload::{
    WorkerFlags, bidirectional, client, connect, discarded, offered, responsive, server, sink,
    source,
};
use control::caps::QUOTA_EXCEEDED;
use control::{CircuitReport, Job, NO_SERIES, Role, Turns, Workload};
use std::collections::{BTreeMap, BTreeSet};
use std::os::fd::OwnedFd;
use std::os::unix::net::UnixStream;
use std::sync::Arc;
use std::thread::JoinHandle;
use towpath::{Circuit, Class, DiscardMeter, Listener, Options, Rendezvous, Transport};

/// Circuits ready to be measured.
#[derive(Default)]
pub(super) struct CircuitSlots {
    pub(super) slots: Vec<CircuitSlot>,
    /// Counts of each before the peer may send; empty if they are read when the threads start.
    earlier: Vec<BTreeMap<String, u64>>,
}

impl CircuitSlots {
    pub(super) fn of(slots: Vec<CircuitSlot>) -> CircuitSlots {
        CircuitSlots {
            slots,
            ..CircuitSlots::default()
        }
    }

    /// Reads the counts of circuits that may be sent to before their own side starts: where both sides
    /// send, one starts first.
    pub(super) fn read_counts(&mut self, job: &Job) {
        if job.role == Role::Both {
            self.earlier = self.slots.iter().map(counts).collect();
        }
    }
}

/// What one thread works on.
pub(super) struct CircuitSlot {
    pub(super) transport: &'static dyn Transport,
    /// Label of the component in the job.
    pub(super) component: String,
    pub(super) task: CircuitTask,
}

pub(super) enum CircuitTask {
    /// Move messages on an open circuit.
    Move(Box<dyn Circuit>),
    /// Send messages on a circuit whose packets are copied, counted and forgotten.
    Discard(Box<dyn Circuit>, DiscardMeter),
    /// Connect repeatedly.
    Connect(Rendezvous, Box<Options>),
    /// Accept repeatedly.
    Serve(Box<dyn Listener>),
    /// Finished: the circuit was closed so that the peer notices.
    Finished,
}

/// Sockets whose readers block without a timeout.
pub(super) struct BlockedReceivers(Vec<OwnedFd>);

impl BlockedReceivers {
    /// Those of `circuits`, for a job that blocks without a timeout.
    pub(super) fn of(circuits: &CircuitSlots, job: &Job) -> BlockedReceivers {
        if !setup::is_woken_at_end(job) {
            return BlockedReceivers(Vec::new());
        }
        let socket = |slot: &CircuitSlot| match &slot.task {
            CircuitTask::Move(circuit) if slot.transport.class().kernel => {
                circuit.descriptor()?.try_clone_to_owned().ok()
            }
            _ => None,
        };
        BlockedReceivers(circuits.slots.iter().filter_map(socket).collect())
    }

    /// Ends all blocking receives: after the shutdown they report end of file.
    pub(super) fn wake(&self) {
        for socket in &self.0 {
            // Errors do no harm: only sockets block, and an unconnected one is woken nevertheless.
            let _ = rustix::net::shutdown(socket, rustix::net::Shutdown::Read);
        }
    }
}

/// Running measuring threads.
pub(super) struct RunningThreads {
    threads: Vec<SpawnedThread>,
    clients: Arc<Clients>,
    workload: Workload,
}

/// A component's label, and its thread.
type SpawnedThread = (String, std::io::Result<MeasuringThread>);

type MeasuringThread = JoinHandle<Vec<(CircuitReport, CircuitSlot)>>;

/// Starts a thread for each circuit, or one for all those of a sender to several receivers. `done_sender` closes when the last one is done.
pub(super) fn start(
    mut circuits: CircuitSlots,
    job: &Job,
    flags: &Arc<WorkerFlags>,
    done_sender: UnixStream,
) -> RunningThreads {
    // The last thread to drop its reference closes it, which makes the other end readable.
    let done_sender = Arc::new(done_sender);
    let threads = circuits.slots.len() as u64;
    let clients = Arc::new(Clients::of(job));
    let is_first = firsts_of_components(&circuits.slots);
    let begins: BTreeSet<usize> = begins_of_components(job).collect();
    let mut earlier = std::mem::take(&mut circuits.earlier).into_iter();
    let spawn = |(index, slot): (usize, CircuitSlot)| {
        let (flags, done_sender) = (Arc::clone(flags), Arc::clone(&done_sender));
        let mut job = job.clone();
        job.seed = random::SplitMix64::at(job.seed, index as u64);
        job.series &= is_first[index];
        responsive::divide(&mut job, begins.contains(&index));
        job.pace_bytes_per_s = job.pace_bytes_per_s.map(|pace| (pace / threads).max(1));
        let component = slot.component.clone();
        // Read before the peer may start: drops count from here on, even if a thread starts late.
        let before = earlier.next().unwrap_or_else(|| counts(&slot));
        let clients = Arc::clone(&clients);
        let work = move || {
            let result = measure_one(slot, &before, &job, &flags, &clients);
            drop(done_sender);
            vec![result]
        };
        (component, std::thread::Builder::new().spawn(work))
    };
    let threads = match job.role {
        Role::SourceToAll | Role::SourceToOne => {
            vec![fan_out::spawn(circuits.slots, job, flags, &done_sender)]
        }
        _ => circuits.slots.into_iter().enumerate().map(spawn).collect(),
    };
    clients.gate.open();
    RunningThreads {
        threads,
        clients,
        workload: job.workload,
    }
}

impl RunningThreads {
    /// Waits for all threads; returns their circuits, so that they outlive the measurement.
    pub(super) fn join(self) -> (Vec<CircuitReport>, Vec<CircuitSlot>) {
        let mut reports = Vec::new();
        let mut slots = Vec::new();
        for (component, thread) in self.threads {
            match thread.map(JoinHandle::join) {
                Ok(Ok(measured)) => {
                    for (report, slot) in measured {
                        reports.push(report);
                        slots.push(slot);
                    }
                }
                Ok(Err(_)) => {
                    reports.push(failed(component, "the measuring thread panicked".into()));
                }
                Err(error) => {
                    let text = format!("no thread for a circuit: {error}; use fewer");
                    reports.push(failed(component, text));
                }
            }
        }
        if self.workload == Workload::Transactions {
            reports = transactions::merge_reports(reports, &self.clients);
        }
        (reports, slots)
    }
}

/// The number of the first circuit of each component, where each circuit has a slot.
fn begins_of_components(job: &Job) -> impl Iterator<Item = usize> {
    job.components.iter().scan(0, |next, component| {
        let begin = *next;
        *next += component.circuits as usize;
        Some(begin)
    })
}

/// Whether each circuit is the first one of its component.
fn firsts_of_components(slots: &[CircuitSlot]) -> Vec<bool> {
    let mut seen = BTreeSet::new();
    let mut is_first = |slot: &CircuitSlot| seen.insert(slot.component.clone());
    slots.iter().map(&mut is_first).collect()
}

/// Says why a circuit has no series that the job asked for.
fn note_missing_series(report: &mut CircuitReport, job: &Job, circuit: &dyn Circuit) {
    if job.series && job.sends() && report.connection.is_empty() {
        let why = circuit.connection_info().err();
        let why = why.unwrap_or("was too short to be looked at");
        report.effective.insert(NO_SERIES.into(), why.into());
    }
}

/// Current counts of a circuit.
fn counts(slot: &CircuitSlot) -> BTreeMap<String, u64> {
    match &slot.task {
        CircuitTask::Move(circuit) | CircuitTask::Discard(circuit, _) => circuit.counts(),
        _ => BTreeMap::new(),
    }
}

/// Runs the task of a slot, and reports what it measured with its switches of threads.
fn measure_one(
    mut slot: CircuitSlot,
    earlier: &BTreeMap<String, u64>,
    job: &Job,
    flags: &WorkerFlags,
    clients: &Clients,
) -> (CircuitReport, CircuitSlot) {
    let before = cpu::thread_switches();
    let mut report = run_task(&mut slot, earlier, job, flags, clients);
    let after = cpu::thread_switches();
    if let CircuitTask::Discard(_, meter) = &slot.task {
        discarded::note_into(&mut report, meter.discarded());
    }
    if report.error.as_deref() == Some(QUOTA_EXCEEDED) {
        slot.task = CircuitTask::Finished;
    }
    let switches = [
        (cpu::VOLUNTARY, after.0 - before.0),
        (cpu::INVOLUNTARY, after.1 - before.1),
    ];
    let switches = switches.map(|(name, count)| (name.into(), count));
    report.counts.extend(switches);
    report.transport = slot.component.clone();
    if let Some(turns) = flags.turns() {
        take_span(&mut report, turns);
    }
    (report, slot)
}

/// Runs the task of a slot, a function a task.
fn run_task(
    slot: &mut CircuitSlot,
    earlier: &BTreeMap<String, u64>,
    job: &Job,
    flags: &WorkerFlags,
    clients: &Clients,
) -> CircuitReport {
    // Options may change a transport's service class.
    let class = Component::parse(&slot.component)
        .map_or_else(|_| slot.transport.class(), |component| component.class());
    let meter = Meter::new(job, flags);
    let meter = meter.as_ref();
    match &mut slot.task {
        CircuitTask::Connect(rendezvous, options) => {
            connect::client(slot.transport, rendezvous, options, job, flags, meter)
        }
        CircuitTask::Serve(listener) => {
            let (stream, connectionless) = (class.stream, class.connectionless);
            connect::server(listener.as_mut(), job, flags, meter, stream, connectionless)
        }
        CircuitTask::Move(circuit) | CircuitTask::Discard(circuit, _) => {
            let control = ClientControl {
                flags,
                meter,
                stream: class.stream,
                reliable: class.reliable,
            };
            let tally = clients.tally(&slot.component);
            let tally = tally.map(|tally| (&clients.gate, tally));
            measure_circuit(circuit.as_mut(), earlier, job, &class, control, tally)
        }
        CircuitTask::Finished => CircuitReport::default(),
    }
}

/// Runs the loop of a job on an open circuit; its counts are those since `earlier`.
fn measure_circuit(
    circuit: &mut dyn Circuit,
    earlier: &BTreeMap<String, u64>,
    job: &Job,
    class: &Class,
    control: ClientControl<'_>,
    tally: Option<(&StartGate, &Tally)>,
) -> CircuitReport {
    let mut storage = None;
    let circuit = MeteredCircuit::wrap(circuit, control.meter, &mut storage);
    let mut report = move_messages(circuit, job, class, control, tally);
    report.effective = circuit.effective();
    note_missing_series(&mut report, job, circuit);
    report.counts = circuit.counts();
    for (name, count) in &mut report.counts {
        *count = count.saturating_sub(earlier.get(name).copied().unwrap_or(0));
    }
    report
}

/// The span of a loop with turns is the sum of its turns.
fn take_span(report: &mut CircuitReport, turns: &Turns) {
    let first = turns.windows.first().copied().unwrap_or_default();
    report.first_ns = first.counted_from_ns;
    report.last_ns = report.first_ns + turns.open_ns();
}

/// Runs the loop of a job on its circuit.
fn move_messages(
    circuit: &mut dyn Circuit,
    job: &Job,
    class: &Class,
    control: ClientControl<'_>,
    tally: Option<(&StartGate, &Tally)>,
) -> CircuitReport {
    let flags = control.flags;
    match (job.workload, job.role) {
        (Workload::Offered, Role::Source) => offered::source(circuit, job, flags),
        (Workload::Offered, _) => {
            offered::sink(circuit, job, flags, class.stream, class.connectionless)
        }
        (Workload::Transactions, Role::Server) => {
            transactions::server(circuit, job, flags, class.stream)
        }
        (Workload::Responsive, Role::Source) => responsive::bulk(circuit, job, flags),
        (Workload::Responsive, Role::Client) => responsive::short(circuit, job, control),
        // Senders to several receivers have a loop for all their circuits.
        (_, Role::Source | Role::SourceToAll | Role::SourceToOne) => {
            source::run(circuit, job, flags)
        }
        (_, Role::Sink) => sink::run(circuit, job, flags, class.stream, class.connectionless),
        (_, Role::Both) => bidirectional::run(circuit, job, flags, class.connectionless),
        (_, Role::Client) => match tally {
            Some(tally) => transactions::client(circuit, job, control, tally),
            None => client::run(circuit, job, control),
        },
        (_, Role::Server) => server::run(circuit, job, flags, class.stream),
    }
}
