//! The record of a trial whose contestant is a program of another project.

use super::ledger::note_disturbances;
use super::{TrialPosition, empty};
use crate::exec::Reading;
use crate::trial::{ProgramRun, TrialError, TrialSpec};
use control::ProgramReport;
use results::metric::{DELAY_P50_US, MBIT_PER_S, MESSAGES_PER_S};
use results::{Cpu, Ledger, Trial};

/// The trial record of `outcome`.
pub(crate) fn program_trial(
    trial: &TrialSpec,
    position: TrialPosition,
    outcome: &Result<ProgramRun, TrialError>,
) -> Trial {
    let mut made = empty(trial, position);
    match outcome {
        Ok(run) => fill(&mut made, trial, run),
        Err(error) => super::note_error(&mut made, error),
    }
    made
}

fn fill(made: &mut Trial, trial: &TrialSpec, run: &ProgramRun) {
    made.span_s = run.span_s();
    let size = trial.contest.size.max(1) as f64;
    let per_s = match run.reading {
        Reading::OctetsPerS(octets) => rate(made, octets / size, octets),
        Reading::PerS(messages) => rate(made, messages, messages * size),
        Reading::Us(us) => {
            made.metrics.insert(DELAY_P50_US.into(), us);
            1e6 / us
        }
    };
    made.metrics.extend(run.also.clone());
    costs(made, run, per_s * made.span_s);
    made.evidence.extend(run.environment.evidence.clone());
    made.evidence.extend(run.host.evidence(&run.interfaces));
    traffic(made, run, per_s * made.span_s);
    made.ledger = ledger(run);
    disturbances(made, run);
    made.metrics.retain(|_, value| value.is_finite());
    made.evidence.retain(|_, value| value.is_finite());
}

/// A throughput in messages and octets a second; gives the messages.
fn rate(made: &mut Trial, messages: f64, octets: f64) -> f64 {
    made.metrics.insert(MESSAGES_PER_S.into(), messages);
    made.metrics.insert(MBIT_PER_S.into(), octets * 8e-6);
    messages
}

/// CPU of both programs, with all their children.
fn costs(made: &mut Trial, run: &ProgramRun, messages: f64) {
    let cpu = |report: &ProgramReport| Cpu {
        task_s: report.cpu.task_ns as f64 * 1e-9,
        user_s: report.cpu.user_ns as f64 * 1e-9,
        system_s: report.cpu.system_ns as f64 * 1e-9,
        voluntary_switches: report.cpu.voluntary_switches,
        involuntary_switches: report.cpu.involuntary_switches,
    };
    made.cpu.insert("sender".into(), cpu(&run.client));
    made.cpu.insert("receiver".into(), cpu(&run.server));
    if messages < 1.0 {
        return;
    }
    let (sender, receiver) = (run.client.cpu.task_ns as f64, run.server.cpu.task_ns as f64);
    let each = [
        ("cpu_ns_per_message", sender + receiver),
        ("sender_cpu_ns_per_message", sender),
        ("receiver_cpu_ns_per_message", receiver),
    ];
    let each = each.map(|(name, ns)| (name.to_owned(), ns / messages));
    made.metrics.extend(each);
}

/// What the hosts' interfaces carried.
fn traffic(made: &mut Trial, run: &ProgramRun, messages: f64) {
    let [client, server] = run.traffic;
    let counted = [
        ("client_sent_octets", client.sent_octets),
        ("client_sent_packets", client.sent_packets),
        ("server_received_octets", server.received_octets),
        ("server_received_packets", server.received_packets),
    ];
    let counted = counted.map(|(name, count)| (name.to_owned(), count as f64));
    made.evidence.extend(counted);
    if messages >= 1.0 && client.sent_packets > 0 {
        made.evidence.insert(
            "packets_per_message".into(),
            client.sent_packets as f64 / messages,
        );
    }
}

/// Packets from the client's host to the server's over an emulated link, which counts its own losses.
/// Elsewhere nothing tells where a packet went.
fn ledger(run: &ProgramRun) -> Option<Ledger> {
    let links = run.environment.links.iter().copied();
    let there = links.map(|[there, _]| there).reduce(|sum, one| sum + one)?;
    // The link's frames are those of the measured time; the workers' counters begin a little earlier.
    let sent = there.frames;
    let received = run.traffic[1].received_packets.min(sent + there.duplicated);
    let delivered = received.saturating_sub(there.duplicated).min(sent);
    let mut missing = sent - delivered;
    let mut take = |count: u64| {
        let taken = count.min(missing);
        missing -= taken;
        taken
    };
    Some(Ledger {
        sent,
        delivered,
        lost_link: take(there.lost),
        corrupt: take(there.corrupted),
        in_flight: take(there.in_flight),
        lost_host: take(run.host.sum_of(&run.interfaces).drops),
        duplicates: there.duplicated,
        unaccounted: missing as i64,
    })
}

fn disturbances(made: &mut Trial, run: &ProgramRun) {
    let programs_s: f64 = made.cpu.values().map(|cpu| cpu.task_s).sum();
    let environment = &run.environment;
    let expected = host::Expected {
        own_cpu_s: programs_s + run.own_cpu_s + environment.other_process_cpu_s,
        interfaces: run.interfaces.clone(),
        // What the program sends is not known here.
        expects_drops: true,
        expects_losses: !environment.links.is_empty(),
    };
    note_disturbances(made, host::disturbances(&run.host, &expected), environment);
}
