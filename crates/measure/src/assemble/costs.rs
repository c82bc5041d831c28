//! CPU cost per message, and the evidence that explains verdicts.

use super::responsive;
use super::view::TrialView;
use control::{CircuitReport, CpuUse, Workload};
use loadgen::contestant;
use loadgen::workload::slowdown::PLANTED_PAUSE_MS;
use results::{Cpu, Trial};

/// CPU cost per message, and the evidence that explains verdicts.
pub(super) fn costs(made: &mut Trial, view: &TrialView<'_>) {
    let (sender, receiver) = (&view.collected.sender, &view.collected.receiver);
    made.cpu.insert("sender".into(), cpu(&sender.cpu));
    made.cpu.insert("receiver".into(), cpu(&receiver.cpu));
    made.evidence
        .extend(view.collected.environment.evidence.clone());
    layers(made, view);
    zerocopy(made, view);
    planted_pauses(made, view);
    let messages = match view.trial.contest.workload {
        Workload::Delay | Workload::Connect | Workload::Transactions => {
            view.senders().map(|report| report.received).sum::<u64>() as f64
        }
        Workload::Responsive => responsive::bulk_messages(view).1,
        Workload::Send => view.sent_messages(),
        _ => view.delivered(),
    };
    if messages < 1.0 {
        return;
    }
    let task_ns = (sender.cpu.task_ns + receiver.cpu.task_ns) as f64;
    let reply_len = view
        .trial
        .contest
        .transactions
        .map_or(0, |load| load.reply_len);
    let bytes = messages * (view.trial.contest.size + reply_len) as f64;
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

/// For how long each end paused, where a slowdown was planted; the longest of several circuits.
fn planted_pauses(made: &mut Trial, view: &TrialView<'_>) {
    let longest = |reports: &[CircuitReport]| {
        let paused = reports.iter();
        paused
            .filter_map(|report| report.measures.get(PLANTED_PAUSE_MS).copied())
            .reduce(f64::max)
    };
    let ends = [
        ("sender", &view.collected.sender),
        ("receiver", &view.collected.receiver),
    ];
    for (end, report) in ends {
        if let Some(paused_ms) = longest(&report.circuits) {
            let name = format!("{end}.{PLANTED_PAUSE_MS}");
            made.evidence.insert(name, paused_ms);
        }
    }
}

/// Counts of the layers below both engines and of modules above both circuits, those above 0: cells
/// and what was wrong with them, what meters counted.
fn layers(made: &mut Trial, view: &TrialView<'_>) {
    let all = view.circuits().flat_map(|report| &report.counts);
    let is_of_layer = |name: &str| name.starts_with("cells_") || towpath::push::is_count(name);
    for (name, count) in all.filter(|(name, count)| is_of_layer(name) && **count > 0) {
        *made.evidence.entry(name.clone()).or_default() += *count as f64;
    }
}

/// Sends without a copy: how many the kernel was done with, which share of them it had copied after all,
/// and how many it refused.
fn zerocopy(made: &mut Trial, view: &TrialView<'_>) {
    let [sends, copied, refused] = ["zerocopy_sends", "zerocopy_copied", "zerocopy_refused"]
        .map(|name| view.count(name) as f64);
    if sends + refused > 0.0 {
        let share = copied / sends.max(1.0);
        made.evidence.insert("zerocopy_sends".into(), sends);
        made.evidence
            .insert("zerocopy_copied_fraction".into(), share);
        made.evidence.insert("zerocopy_refused".into(), refused);
    }
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
    let retransmitted = view.count("retransmissions") as f64;
    made.evidence.insert(
        "retransmissions_per_1000".into(),
        retransmitted * 1000.0 / messages,
    );
    made.evidence.insert(
        "receive_drops_per_1000".into(),
        dropped_of_1000(view.count("receive_drops"), view.sent()),
    );
    let mut host = view.collected.host.evidence(&view.collected.interfaces);
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
    further_links(made, view);
}

/// Octets that each of several links carried, both directions together, and the share of those
/// beyond the first. A kernel link has no counters of its own; what the interfaces sent is counted.
fn further_links(made: &mut Trial, view: &TrialView<'_>) {
    let interfaces = &view.collected.interfaces;
    if interfaces.len() < 2 {
        return;
    }
    let mut octets = Vec::new();
    for (at, interface) in interfaces.iter().enumerate() {
        let sent = view.collected.host.sum_of(&[interface]).send_bytes as f64;
        let name = format!("link_{}_octets", at + 1);
        octets.push(*made.evidence.entry(name).or_insert(sent));
    }
    let all: f64 = octets.iter().sum();
    let further: f64 = octets.iter().skip(1).sum();
    if all > 0.0 {
        made.evidence
            .insert("further_links_share".into(), further / all);
    }
}

/// Of a thousand messages sent, those dropped at the receiver. A counter of drops also counts what
/// was sent before the span began, so the share is bounded.
fn dropped_of_1000(dropped: u64, sent: u64) -> f64 {
    dropped.min(sent) as f64 * 1000.0 / sent.max(1) as f64
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

#[cfg(test)]
mod tests {
    use super::dropped_of_1000;

    #[test]
    fn drops_are_a_share_of_messages_sent() {
        // 523 of 1000 messages arrived; 477 in a thousand were dropped, not 912.
        assert_eq!(dropped_of_1000(477, 1000), 477.0);
        assert_eq!(dropped_of_1000(1095, 1000), 1000.0);
        assert_eq!(dropped_of_1000(0, 0), 0.0);
    }
}
