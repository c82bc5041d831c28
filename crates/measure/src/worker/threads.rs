//! The measuring threads.

use super::{cpu, failed};
use crate::contestant::Leg;
use crate::workload::meter::{Meter, Metered};
use crate::workload::{Flags, both, client, connect, offered, server, sink, source};
use control::caps::SPENT;
use control::{CircuitReport, Job, Role, Workload};
use std::collections::BTreeMap;
use std::os::fd::OwnedFd;
use std::os::unix::net::UnixStream;
use std::sync::Arc;
use std::thread::JoinHandle;
use towpath::{Circuit, Listener, Options, Rendezvous, Transport};

/// Circuits ready to be measured.
pub(super) struct Circuits {
    pub(super) slots: Vec<CircuitSlot>,
}

/// What one thread works on.
pub(super) struct CircuitSlot {
    pub(super) transport: &'static dyn Transport,
    /// How the job writes it.
    pub(super) leg: String,
    pub(super) task: Task,
}

pub(super) enum Task {
    /// Move messages on a circuit that is there.
    Move(Box<dyn Circuit>),
    /// Make circuits again and again.
    Connect(Rendezvous, Box<Options>),
    /// Accept circuits again and again.
    Serve(Box<dyn Listener>),
    /// Nothing more: its peer is to notice.
    Over,
}

/// Sockets whose readers wait without a limit, to end their wait.
pub(super) struct Wakers(Vec<OwnedFd>);

impl Wakers {
    /// Those of `circuits`, for a job that waits without a limit.
    pub(super) fn of(circuits: &Circuits, job: &Job) -> Wakers {
        if job.workload != Workload::Delay {
            return Wakers(Vec::new());
        }
        let socket = |slot: &CircuitSlot| match &slot.task {
            Task::Move(circuit) if slot.transport.class().kernel => {
                circuit.descriptor()?.try_clone_to_owned().ok()
            }
            _ => None,
        };
        Wakers(circuits.slots.iter().filter_map(socket).collect())
    }

    /// Ends all waits: a receive that finds nothing more says so at once from now on.
    pub(super) fn wake(&self) {
        for socket in &self.0 {
            // What is no socket, or not connected, has no wait to end or is woken all the same.
            let _ = rustix::net::shutdown(socket, rustix::net::Shutdown::Read);
        }
    }
}

/// Threads at work.
pub(super) struct Running {
    threads: Vec<(String, JoinHandle<(CircuitReport, CircuitSlot)>)>,
}

/// Starts a thread for each circuit. `ring` closes when the last one is done.
pub(super) fn start(
    circuits: Circuits,
    job: &Job,
    flags: &Arc<Flags>,
    ring: UnixStream,
) -> Running {
    // Closed, and so readable at the other end, when the last thread drops its share.
    let ring = Arc::new(ring);
    let threads = circuits.slots.len() as u64;
    let spawn = |(index, slot): (usize, CircuitSlot)| {
        let (flags, ring) = (Arc::clone(flags), Arc::clone(&ring));
        let mut job = job.clone();
        job.seed = engine::SplitMix64::at(job.seed, index as u64);
        job.pace_bytes_per_s = job.pace_bytes_per_s.map(|pace| (pace / threads).max(1));
        let leg = slot.leg.clone();
        // Read before the peer may begin: a thread may start late, and drops count from here on.
        let before = counts(&slot);
        let work = move || {
            let result = measure_one(slot, &before, &job, &flags);
            drop(ring);
            result
        };
        (leg, std::thread::spawn(work))
    };
    let threads = circuits.slots.into_iter().enumerate().map(spawn).collect();
    Running { threads }
}

impl Running {
    /// Waits for all threads; their circuits come back so that they outlive the measurement.
    pub(super) fn join(self) -> (Vec<CircuitReport>, Vec<CircuitSlot>) {
        let mut reports = Vec::new();
        let mut slots = Vec::new();
        for (leg, thread) in self.threads {
            match thread.join() {
                Ok((report, slot)) => {
                    reports.push(report);
                    slots.push(slot);
                }
                Err(_) => reports.push(failed(leg, "the measuring thread panicked".into())),
            }
        }
        (reports, slots)
    }
}

/// What a circuit has counted so far.
fn counts(slot: &CircuitSlot) -> BTreeMap<String, u64> {
    match &slot.task {
        Task::Move(circuit) => circuit.counts(),
        _ => BTreeMap::new(),
    }
}

fn measure_one(
    mut slot: CircuitSlot,
    earlier: &BTreeMap<String, u64>,
    job: &Job,
    flags: &Flags,
) -> (CircuitReport, CircuitSlot) {
    // Options may change what a transport promises.
    let class = Leg::parse(&slot.leg).map_or_else(|_| slot.transport.class(), |leg| leg.class());
    let before = cpu::thread_switches();
    let meter = Meter::new(job, flags);
    let meter = meter.as_ref();
    let mut report = match &mut slot.task {
        Task::Connect(rendezvous, options) => {
            connect::client(slot.transport, rendezvous, options, job, flags, meter)
        }
        Task::Serve(listener) => connect::server(
            listener.as_mut(),
            job,
            flags,
            meter,
            class.stream,
            class.connectionless,
        ),
        Task::Move(circuit) => {
            let mut room = None;
            let circuit = Metered::wrap(circuit.as_mut(), meter, &mut room);
            let mut report = match (job.workload, job.role) {
                (Workload::Offered, Role::Source) => offered::source(circuit, job, flags),
                (Workload::Offered, _) => {
                    offered::sink(circuit, job, flags, class.stream, class.connectionless)
                }
                (_, Role::Source) => source::run(circuit, job, flags),
                (_, Role::Sink) => {
                    sink::run(circuit, job, flags, class.stream, class.connectionless)
                }
                (_, Role::Both) => both::run(circuit, job, flags, class.connectionless),
                (_, Role::Client) => {
                    client::run(circuit, job, flags, meter, class.stream, class.reliable)
                }
                (_, Role::Server) => server::run(circuit, job, flags, class.stream),
            };
            report.effective = circuit.effective();
            report.counts = circuit.counts();
            for (name, count) in &mut report.counts {
                *count = count.saturating_sub(earlier.get(name).copied().unwrap_or(0));
            }
            report
        }
        Task::Over => CircuitReport::default(),
    };
    if report.error.as_deref() == Some(SPENT) {
        slot.task = Task::Over;
    }
    let after = cpu::thread_switches();
    report
        .counts
        .insert(cpu::VOLUNTARY.into(), after.0 - before.0);
    report
        .counts
        .insert(cpu::INVOLUNTARY.into(), after.1 - before.1);
    report.transport = slot.leg.clone();
    (report, slot)
}
