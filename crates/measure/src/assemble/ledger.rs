//! Where the messages of a trial went, and whether the trial is valid.

use super::responsive;
use super::view::{TrialView, is_stream};
use crate::environment::EnvironmentReport;
use control::caps::QUOTA_EXCEEDED;
use control::{CircuitReport, Limits, Workload};
use loadgen::workload::silence::END_AWAITED_S;
use results::{Cpu, Ledger, Status, Trial};

/// The ledger; None for the null transport, and where packets are discarded: their messages do not arrive.
pub(super) fn ledger(view: &TrialView<'_>) -> Option<Ledger> {
    if view.trial.contestant == "null" {
        return None;
    }
    match view.trial.contest.workload {
        Workload::Throughput | Workload::Offered => Some(one_way(view)),
        Workload::Delay | Workload::Connect | Workload::Transactions => Some(request_reply(view)),
        Workload::Responsive => Some(beside_bulk(view)),
        Workload::Send => None,
    }
}

/// Messages sent against messages received.
fn one_way(view: &TrialView<'_>) -> Ledger {
    let sent = view.sent();
    let received = received(view, sent);
    // A duplicate hides a loss in the totals. Engines remove those of the link themselves.
    let arrive_twice = view.components().iter().any(|one| one.class().duplicates);
    let duplicated = view.data_link_stats().map_or(0, |link| link.duplicated);
    let duplicated = if arrive_twice { duplicated } else { 0 };
    let duplicates = received.saturating_sub(sent).max(duplicated.min(received));
    let delivered = received - duplicates;
    let mut ledger = Ledger {
        sent,
        delivered,
        duplicates,
        ..Ledger::default()
    };
    attribute_missing(&mut ledger, view, messages_dropped_max(view));
    ledger
}

/// Messages that the hosts dropped, at most: they count buffers, each of which may hold several.
fn messages_dropped_max(view: &TrialView<'_>) -> u64 {
    let buffers = view.count("receive_drops") + interface_drops(view);
    buffers.saturating_mul(view.messages_per_buffer_max())
}

/// Packets the interfaces dropped because a link did not drain their queue in time.
fn interface_drops(view: &TrialView<'_>) -> u64 {
    let collected = view.collected;
    collected.host.sum_of(&collected.interfaces).drops
}

/// Messages that engines say they missed, at most: those that lay in the bytes of a gap, and those on either side of it that
/// lost a part. A packet that is lost may hold parts of several messages.
fn missed_by_engines(view: &TrialView<'_>) -> u64 {
    let contest = &view.trial.contest;
    let smallest = contest.mix.as_ref().map_or(contest.size, |mix| mix.small);
    let within = view.count("bytes_lost") / smallest.max(1);
    within.saturating_add(view.count("gaps").saturating_mul(2))
}

/// Attributes missing messages: first to the link, whose counts are exact; then what engines missed, to the link if it has lost
/// or damaged any of their frames; then to host drops.
fn attribute_missing(ledger: &mut Ledger, view: &TrialView<'_>, dropped: u64) {
    let mut missing = ledger.sent.saturating_sub(ledger.delivered);
    let mut take = |count: u64| {
        let taken = count.min(missing);
        missing -= taken;
        taken
    };
    let link = view.data_link_stats().unwrap_or_default();
    ledger.lost_link = take(link.lost);
    ledger.corrupt = take(link.corrupted);
    let missed = take(missed_by_engines(view));
    match (link.lost, link.corrupted) {
        (0, 0) => ledger.lost_host = missed,
        (0, _) => ledger.corrupt += missed,
        (_, _) => ledger.lost_link += missed,
    }
    ledger.lost_host += take(dropped);
    ledger.in_flight = take(link.in_flight);
    // Both copies of a frame are damaged, of which the link counts one, and the other as a duplicate that has arrived.
    ledger.corrupt += take(link.corrupted.min(ledger.duplicates));
    if view.collected.environment.crosses_network {
        // Losses that no counter shows happened in the network.
        ledger.lost_link += take(u64::MAX);
    }
    ledger.unaccounted = missing as i64;
}

/// Messages received. For mixed sizes on a byte stream only bytes are known: when all bytes
/// arrived, all messages did.
fn received(view: &TrialView<'_>, sent: u64) -> u64 {
    let streams = view.receivers().any(|report| is_stream(&report.transport));
    if view.trial.contest.mix.is_none() || !streams {
        return view.delivered().round() as u64;
    }
    if view.received_bytes() == view.sent_bytes() {
        return sent;
    }
    (view.delivered().round() as u64).min(sent.saturating_sub(1))
}

/// Requests sent against replies received.
fn request_reply(view: &TrialView<'_>) -> Ledger {
    let sent: u64 = view.senders().map(|report| report.sent).sum();
    let replies: u64 = view.senders().map(|report| report.received).sum();
    let lost: f64 = view
        .senders()
        .filter_map(|report| report.measures.get("lost"))
        .sum();
    let mut ledger = Ledger {
        sent,
        delivered: replies.min(sent),
        duplicates: replies.saturating_sub(sent),
        ..Ledger::default()
    };
    attribute_missing(&mut ledger, view, lost as u64);
    ledger
}

/// Short messages and the bulk beside them.
fn beside_bulk(view: &TrialView<'_>) -> Ledger {
    let mut ledger = responsive::ledger(view);
    attribute_missing(&mut ledger, view, messages_dropped_max(view));
    ledger
}

/// The error that ended the trial. A quota error takes precedence: the other side reports only a
/// closed circuit.
fn error(view: &TrialView<'_>) -> Option<String> {
    let all = || view.circuits().filter_map(|report| report.error.as_ref());
    let spent = all().find(|error| *error == QUOTA_EXCEEDED);
    spent.or_else(|| all().next()).cloned()
}

/// What disturbed a trial on the hosts and in the environment, and the processor time of what else ran.
pub(super) fn note_disturbances(
    made: &mut Trial,
    on_hosts: Vec<String>,
    environment: &EnvironmentReport,
) {
    made.disturbed.extend(on_hosts);
    made.disturbed.extend(environment.disturbed.clone());
    for (name, &task_s) in &environment.cpu_s {
        let cpu = Cpu {
            task_s,
            ..Cpu::default()
        };
        made.cpu.insert(name.clone(), cpu);
    }
}

/// Sets the status of the trial, and what disturbed it.
pub(super) fn judge(made: &mut Trial, view: &TrialView<'_>) {
    if let Some(error) = error(view) {
        made.status = Status::Failed;
        made.reason = error;
    } else if let Some(reason) = view.circuits().find_map(|report| report.invalid.clone()) {
        made.status = Status::Invalid;
        made.reason = reason;
    } else if let Some(reason) = cut_short(view) {
        made.status = Status::Failed;
        made.reason = reason;
    } else if let Some(reason) = unloaded(view).or_else(|| ledger_fault(made, view)) {
        made.status = Status::Invalid;
        made.reason = reason;
    }
    let workers_s: f64 = made.cpu.values().map(|cpu| cpu.task_s).sum();
    let environment = &view.collected.environment;
    let collected = view.collected;
    let own_s =
        workers_s + collected.own_cpu_s + environment.other_process_cpu_s - collected.remote_cpu_s;
    let unreliable = view
        .components()
        .iter()
        .any(|component| !component.class().reliable);
    let expected = host::Expected {
        own_cpu_s: own_s,
        interfaces: view.collected.interfaces.clone(),
        expects_drops: unreliable,
        expects_losses: !environment.links.is_empty() || environment.crosses_network,
    };
    note_disturbances(
        made,
        host::disturbances(&collected.host, &expected),
        environment,
    );
    if let Some(ledger) = made.ledger.filter(|ledger| ledger.unaccounted != 0) {
        made.disturbed.push(format!(
            "the ledger does not close: {} messages unaccounted for",
            ledger.unaccounted
        ));
    }
}

/// What a circuit did not send of a fixed number of messages before its time was over; None for all others.
fn cut_short(view: &TrialView<'_>) -> Option<String> {
    view.trial.contest.messages?;
    let fewest = view.senders().map(|report| report.sent).min()?;
    too_few(fewest, &view.trial.limits)
}

/// Why so many messages are too few; None where they are not, or a pilot had no number to send.
fn too_few(sent: u64, limits: &Limits) -> Option<String> {
    let messages = limits.messages;
    let limit_s = limits.time_ns as f64 * 1e-9;
    (messages != u64::MAX && sent < messages).then(|| {
        format!(
            "a circuit sent {sent} of {messages} messages in {limit_s:.1} s, the longest that such a trial may take; \
             give it fewer messages"
        )
    })
}

/// Why a trial of short messages beside bulk was not under load; None for all others.
fn unloaded(view: &TrialView<'_>) -> Option<String> {
    match view.trial.contest.workload {
        Workload::Responsive => responsive::unloaded(view),
        _ => None,
    }
}

/// Lost or duplicated messages make a trial of a reliable transport invalid.
fn ledger_fault(made: &Trial, view: &TrialView<'_>) -> Option<String> {
    let ledger = made.ledger?;
    let reliable = view
        .components()
        .iter()
        .all(|component| component.class().reliable);
    let broken = ledger.delivered != ledger.sent || ledger.duplicates != 0;
    (reliable && broken).then(|| {
        format!(
            "the ledger does not close: {} messages sent, {} delivered, {} duplicated{}",
            ledger.sent,
            ledger.delivered,
            ledger.duplicates,
            given_up(view).unwrap_or_default()
        )
    })
}

/// That a receiver left before the end of its circuit.
fn given_up(view: &TrialView<'_>) -> Option<String> {
    let awaited_s = |report: &CircuitReport| report.measures.get(END_AWAITED_S).copied();
    let longest_s = view.circuits().filter_map(awaited_s).reduce(f64::max)?;
    Some(format!(
        "; a receiver heard nothing for {longest_s:.0} s after the last was sent, and left"
    ))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn trial_that_did_not_send_its_messages_says_how_many_it_sent() {
        let limits = |messages| Limits {
            messages,
            time_ns: 5_000_000_000,
            slice_ns: 1,
        };
        let said = too_few(12, &limits(500)).expect("too few");
        assert!(said.contains("12 of 500 messages in 5.0 s"), "{said}");
        assert_eq!(too_few(500, &limits(500)), None);
        assert_eq!(too_few(12, &limits(u64::MAX)), None, "a pilot");
    }
}
