//! Short messages beside bulk: round trips while the path was idle and under load, and the bulk's rate.

use super::delays::{merge_delays, percentile_of};
use super::rates::{SteadyPart, rate_series};
use super::view::TrialView;
use crate::trial::circuits_of;
use control::{CircuitReport, Slice};
use loadgen::workload::responsive::{IDLE, LOADED_REPLIES, LOADED_S, Phases};
use results::metric::{MBIT_PER_S, MESSAGES_PER_S, ROUND_TRIPS_PER_MIN};
use results::{Ledger, Trial};

/// Share of the time under load that bulk must have lasted for.
const BULK_SHARE_MIN: f64 = 0.9;

/// Reports of the circuits with short messages, or of those with bulk: the first circuit of each
/// transport has the short ones.
pub(super) fn part<'a>(
    view: &TrialView<'_>,
    reports: &'a [CircuitReport],
    is_short: bool,
) -> Vec<&'a CircuitReport> {
    let circuits = circuits_of(view.trial).max(1) as usize;
    let numbered = reports.iter().enumerate();
    let wanted = numbered.filter(|(at, _)| (at % circuits == 0) == is_short);
    wanted.map(|(_, report)| report).collect()
}

/// The measures of a trial.
pub(super) fn responsive(made: &mut Trial, view: &TrialView<'_>) {
    let short = part(view, &view.collected.sender.circuits, true);
    merge_delays(made, &short, "delay");
    for (name, q) in [
        ("idle_p50_us", 0.5),
        ("idle_p99_us", 0.99),
        ("idle_p999_us", 0.999),
    ] {
        let found = percentile_of(made, &short, IDLE, q);
        made.metrics
            .extend(found.map(|value| (name.to_owned(), value)));
    }
    let sum = |name: &str| {
        short
            .iter()
            .filter_map(|one| one.measures.get(name))
            .sum::<f64>()
    };
    let span_s = sum(LOADED_S) / short.len().max(1) as f64;
    if span_s > 0.0 {
        let per_min = sum(LOADED_REPLIES) / span_s * 60.0;
        made.metrics.insert(ROUND_TRIPS_PER_MIN.into(), per_min);
    }
    let (replies, lost) = short.iter().fold((0.0, 0.0), |(replies, lost), one| {
        let of_one = one.measures.get("lost").copied().unwrap_or(0.0);
        (replies + one.received as f64, lost + of_one)
    });
    made.metrics
        .insert("loss_fraction".into(), lost / (replies + lost).max(1.0));
    bulk(made, view);
}

/// What the bulk's receivers got while round trips counted as under load.
fn bulk(made: &mut Trial, view: &TrialView<'_>) {
    let phases = Phases::of(view.trial.limits.time_ns);
    let sinks = part(view, &view.collected.receiver.circuits, false);
    let (mut messages_per_s, mut bytes_per_s) = (0.0, 0.0);
    for report in &sinks {
        let from_ns = report.first_ns + phases.loaded_from_ns;
        let until_ns = report.first_ns + phases.end_ns;
        let counted = |slice: &&Slice| (from_ns..=until_ns).contains(&slice.at_ns);
        let counted: Vec<Slice> = report.slices.iter().filter(counted).copied().collect();
        let steady = SteadyPart::whole(&counted);
        let messages = view.messages(report, steady.messages, steady.bytes);
        messages_per_s += messages / steady.span_s;
        bytes_per_s += steady.bytes as f64 / steady.span_s;
    }
    made.metrics.insert(MESSAGES_PER_S.into(), messages_per_s);
    made.metrics.insert(MBIT_PER_S.into(), bytes_per_s * 8e-6);
    let (sent, delivered) = bulk_messages(view);
    let lost = (sent - delivered).max(0.0) / sent.max(1.0);
    made.evidence.insert("bulk_lost_fraction".into(), lost);
    if let Some(report) = sinks.first() {
        let count = |slice: &Slice| view.messages(report, slice.messages, slice.bytes);
        let series = rate_series(&report.slices, count);
        made.series.insert(MESSAGES_PER_S.into(), series);
    }
}

/// Messages of the bulk that were sent, and those that arrived.
pub(super) fn bulk_messages(view: &TrialView<'_>) -> (f64, f64) {
    let sent = part(view, &view.collected.sender.circuits, false);
    let sinks = part(view, &view.collected.receiver.circuits, false);
    let sent = sent.iter().map(|report| report.sent as f64).sum();
    (sent, sinks.iter().map(|one| view.delivered_by(one)).sum())
}

/// Short messages against their replies, and bulk sent against bulk received; lost ones are attributed
/// by the caller.
pub(super) fn ledger(view: &TrialView<'_>) -> Ledger {
    let short = part(view, &view.collected.sender.circuits, true);
    let requests: u64 = short.iter().map(|report| report.sent).sum();
    let replies: u64 = short.iter().map(|report| report.received).sum();
    let (sent, arrived) = bulk_messages(view);
    let (sent, arrived) = (sent as u64, arrived.round() as u64);
    Ledger {
        sent: requests + sent,
        delivered: replies.min(requests) + arrived.min(sent),
        duplicates: replies.saturating_sub(requests) + arrived.saturating_sub(sent),
        ..Ledger::default()
    }
}

/// Why the short messages were not under load all the time; None where they were.
pub(super) fn unloaded(view: &TrialView<'_>) -> Option<String> {
    let phases = Phases::of(view.trial.limits.time_ns);
    let lasted = |report: &&CircuitReport| report.last_ns.saturating_sub(report.first_ns) as f64;
    let least = (phases.end_ns - phases.bulk_from_ns) as f64 * BULK_SHARE_MIN;
    let sources = part(view, &view.collected.sender.circuits, false);
    let ended = sources.iter().find(|report| lasted(report) < least)?;
    Some(format!(
        "the bulk of {} ended after {:.2} s, before the short messages beside it",
        ended.transport,
        lasted(ended) * 1e-9
    ))
}
