//! The thread of a sender to several receivers.

use super::{CircuitSlot, CircuitTask, SpawnedThread, counts, cpu};
use crate::contestant::Component;
use crate::workload::fan_out_delay::{self, Receipt};
use crate::workload::meter::{Meter, MeteredCircuit};
use crate::workload::{WorkerFlags, fan_out};
use control::{CircuitReport, Job, Workload};
use std::os::unix::net::UnixStream;
use std::sync::Arc;
use towpath::Circuit;

/// Starts the thread.
pub(super) fn spawn(
    slots: Vec<CircuitSlot>,
    job: &Job,
    flags: &Arc<WorkerFlags>,
    done_sender: &Arc<UnixStream>,
) -> SpawnedThread {
    let (job, flags, done_sender) = (job.clone(), Arc::clone(flags), Arc::clone(done_sender));
    let component = slots.first().map(|slot| slot.component.clone());
    let work = move || {
        let measured = measure(slots, &job, &flags);
        drop(done_sender);
        measured
    };
    let thread = std::thread::Builder::new().spawn(work);
    (component.unwrap_or_default(), thread)
}

/// Runs the loop on all circuits. The first report has the switches of the thread.
fn measure(
    mut slots: Vec<CircuitSlot>,
    job: &Job,
    flags: &WorkerFlags,
) -> Vec<(CircuitReport, CircuitSlot)> {
    let before = cpu::thread_switches();
    let earlier: Vec<_> = slots.iter().map(counts).collect();
    let mut reports = send(&mut slots, job, flags);
    let after = cpu::thread_switches();
    for ((report, slot), earlier) in reports.iter_mut().zip(&slots).zip(earlier) {
        report.transport = slot.component.clone();
        if let CircuitTask::Move(circuit) = &slot.task {
            report.effective = circuit.effective();
        }
        report.counts = counts(slot);
        for (name, count) in &mut report.counts {
            *count = count.saturating_sub(earlier.get(name).copied().unwrap_or(0));
        }
    }
    if let Some(first) = reports.first_mut() {
        let switches = [
            (cpu::VOLUNTARY, after.0 - before.0),
            (cpu::INVOLUNTARY, after.1 - before.1),
        ];
        let switches = switches.map(|(name, count)| (name.to_owned(), count));
        first.counts.extend(switches);
    }
    reports.into_iter().zip(slots).collect()
}

fn send(slots: &mut [CircuitSlot], job: &Job, flags: &WorkerFlags) -> Vec<CircuitReport> {
    let receipt = slots
        .first()
        .map_or(Receipt::Flush, |slot| receipt(&slot.component));
    let meter = Meter::new(job, flags);
    let mut storage: Vec<Option<MeteredCircuit<'_>>> = slots.iter().map(|_| None).collect();
    let metered = slots.iter_mut().zip(&mut storage);
    let metered = metered.filter_map(|(slot, storage)| match &mut slot.task {
        CircuitTask::Move(circuit) => Some(MeteredCircuit::wrap(
            circuit.as_mut(),
            meter.as_ref(),
            storage,
        )),
        _ => None,
    });
    let mut circuits: Vec<&mut dyn Circuit> = metered.collect();
    match job.workload {
        Workload::Delay => fan_out_delay::run(&mut circuits, job, flags, receipt),
        _ => fan_out::source(&mut circuits, job, flags),
    }
}

/// How the sender of this component learns that a receiver has a message.
fn receipt(component: &str) -> Receipt {
    match Component::parse(component) {
        Ok(component) if component.transport().is_one_to_many() => Receipt::Flush,
        Ok(component) => Receipt::Answer {
            stream: component.class().stream,
            reliable: component.class().reliable,
        },
        // The worker has opened its circuits, so it reads well.
        Err(_) => Receipt::Flush,
    }
}
