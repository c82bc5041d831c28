//! CPU cost per message, and the evidence that explains verdicts.

use super::view::TrialView;
use crate::contestant;
use control::{CircuitReport, CpuUse, Workload};
use results::{Cpu, Trial};

/// CPU cost per message, and the evidence that explains verdicts.
pub(super) fn costs(made: &mut Trial, view: &TrialView<'_>) {
    let (sender, receiver) = (&view.collected.sender, &view.collected.receiver);
    made.cpu.insert("sender".into(), cpu(&sender.cpu));
    made.cpu.insert("receiver".into(), cpu(&receiver.cpu));
    made.evidence
        .extend(view.collected.environment.evidence.clone());
    let messages = match view.trial.contest.workload {
        Workload::Delay | Workload::Connect => {
            view.senders().map(|report| report.received).sum::<u64>() as f64
        }
        _ => view.delivered(),
    };
    if messages < 1.0 {
        return;
    }
    let task_ns = (sender.cpu.task_ns + receiver.cpu.task_ns) as f64;
    let bytes = messages * view.trial.contest.size as f64;
    made.metrics
        .insert("cpu_ns_per_message".into(), task_ns / messages);
    made.metrics
        .insert("cpu_ns_per_byte".into(), task_ns / bytes.max(1.0));
    made.metrics.insert(
        "sender_cpu_ns_per_message".into(),
        sender.cpu.task_ns as f64 / messages,
    );
    made.metrics.insert(
        "receiver_cpu_ns_per_message".into(),
        receiver.cpu.task_ns as f64 / messages,
    );
    evidence(made, view, messages);
}

fn evidence(made: &mut Trial, view: &TrialView<'_>, messages: f64) {
    let (sender, receiver) = (&view.collected.sender.cpu, &view.collected.receiver.cpu);
    let wakeups = sender.voluntary_switches + receiver.voluntary_switches;
    let preemptions = sender.involuntary_switches + receiver.involuntary_switches;
    let per_message = [
        ("calls_per_message", calls(view) as f64),
        ("wakeups_per_message", wakeups as f64),
        ("involuntary_switches_per_message", preemptions as f64),
        ("sender_cpu_ns_per_message", sender.task_ns as f64),
        ("receiver_cpu_ns_per_message", receiver.task_ns as f64),
    ];
    for (name, count) in per_message {
        if count > 0.0 {
            made.evidence.insert(name.into(), count / messages);
        }
    }
    for (name, count) in [
        ("retransmissions_per_1000", "retransmissions"),
        ("receive_drops_per_1000", "receive_drops"),
    ] {
        made.evidence
            .insert(name.into(), view.count(count) as f64 * 1000.0 / messages);
    }
    let mut host = view.collected.host.evidence(&view.collected.interface);
    if let Some(link) = view.data_link_stats() {
        // The emulated link counts exactly, and separately for the direction that carries data.
        host.insert("interface_packets".into(), link.frames as f64);
        let mean = link.bytes as f64 / link.frames.max(1) as f64;
        host.insert("packet_bytes_mean".into(), mean);
    }
    let packets = host.get("interface_packets").copied().unwrap_or(0.0);
    if packets > 0.0 && crosses_network(&view.trial.contestant) {
        made.evidence
            .insert("packets_per_message".into(), packets / messages);
        if let Some(&bytes) = host.get("packet_bytes_mean") {
            made.evidence.insert("mean_packet_bytes".into(), bytes);
        }
    }
    let ticks_s =
        (sender.user_ns + sender.system_ns + receiver.user_ns + receiver.system_ns) as f64 * 1e-9;
    // The kernel samples user and system time at its ticks; few samples give no usable split.
    if ticks_s >= TICKS_MIN * TICK_S {
        let user_s = (sender.user_ns + receiver.user_ns) as f64 * 1e-9;
        made.evidence
            .insert("cpu_user_fraction".into(), user_s / ticks_s);
    }
    made.evidence.extend(host);
}

/// Ticks needed for a user/system split of CPU time.
const TICKS_MIN: f64 = 200.0;

/// Tick length at CONFIG_HZ=250, the usual setting.
const TICK_S: f64 = 0.004;

/// System calls of both sides: as the transport counts them, else one per message or read.
fn calls(view: &TrialView<'_>) -> u64 {
    let one = |report: &CircuitReport| {
        let counted = |name: &str| report.counts.get(name).copied();
        let sends = counted("send_calls").unwrap_or(report.sent);
        let receives = counted("receive_calls").unwrap_or(report.calls.max(report.received));
        sends + receives
    };
    view.circuits().map(one).sum()
}

fn crosses_network(contestant: &str) -> bool {
    let components = contestant::components(contestant);
    components
        .iter()
        .any(|component| component.class().reach == towpath::Reach::Network)
}

fn cpu(used: &CpuUse) -> Cpu {
    Cpu {
        task_s: used.task_ns as f64 * 1e-9,
        user_s: used.user_ns as f64 * 1e-9,
        system_s: used.system_ns as f64 * 1e-9,
        voluntary_switches: used.voluntary_switches,
        involuntary_switches: used.involuntary_switches,
    }
}
