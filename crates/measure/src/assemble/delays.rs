//! Round trips, connections, and the delays of an open loop.

use super::legs;
use super::rates::rate_series;
use super::view::{TrialView, send_span_s};
use crate::trial::ClockUncertainty;
use control::CircuitReport;
use results::{Histogram, Trial};
use std::collections::BTreeMap;

/// Round trips and connections: metrics and histogram come from the client side.
pub(super) fn delays(made: &mut Trial, view: &TrialView<'_>, kind: &str) {
    // With several receivers the first circuit's report has the times until all had a message, and its counts.
    let several = view.trial.contest.fan_out.is_some();
    let count = if several { 1 } else { usize::MAX };
    let circuits: Vec<&CircuitReport> = view.senders().take(count).collect();
    merge_delays(made, &circuits, "delay");
    let done: u64 = circuits.iter().map(|report| report.received).sum();
    let per_s = done as f64 / send_span_s(view).max(1e-9);
    if kind == "connection" {
        made.metrics.insert("connections_per_s".into(), per_s);
        if let Some(p50) = made.metrics.remove("delay_p50_us") {
            made.metrics.insert("connection_p50_us".into(), p50);
        }
    } else {
        made.metrics.insert("messages_per_s".into(), per_s);
        if !several {
            legs::delays(made, view, send_span_s(view).max(1e-9));
        }
    }
    let lost: f64 = circuits
        .iter()
        .filter_map(|report| report.measures.get("lost"))
        // The sum of no floating-point numbers is -0.
        .fold(0.0, |sum, lost| sum + lost);
    made.metrics
        .insert("loss_fraction".into(), lost / (done as f64 + lost).max(1.0));
    if let Some(report) = circuits.first() {
        made.series.insert(
            "messages_per_s".into(),
            rate_series(&report.slices, |s| s.messages as f64),
        );
    }
}

pub(super) fn offered(made: &mut Trial, view: &TrialView<'_>) {
    let sinks: Vec<&CircuitReport> = view.receivers().collect();
    merge_delays(made, &sinks, "delay");
    one_way(made, view);
    let span_s = send_span_s(view).max(1e-9);
    let sent = view.sent() as f64;
    let delivered = view.delivered();
    made.metrics.insert("offered_per_s".into(), sent / span_s);
    made.metrics.insert(
        "delivered_per_s".into(),
        delivered / made.span_s.max(span_s),
    );
    made.metrics.insert(
        "mbit_per_s".into(),
        delivered * view.trial.contest.size as f64 * 8e-6 / made.span_s.max(span_s),
    );
    made.metrics.insert(
        "loss_fraction".into(),
        ((sent - delivered) / sent.max(1.0)).max(0.0),
    );
    let lag = view
        .senders()
        .filter_map(|report| report.measures.get("lag_p99_us"));
    if let Some(lag) = lag.copied().reduce(f64::max) {
        made.metrics.insert("lag_p99_us".into(), lag);
    }
    if let Some(rate) = view.trial.rate_per_s {
        made.evidence.insert("asked_per_s".into(), rate);
    }
    if let Some(report) = sinks.first() {
        made.series.insert(
            "messages_per_s".into(),
            rate_series(&report.slices, |s| s.messages as f64),
        );
    }
}

/// One-way delays are reported with the clock uncertainty. They are dropped when it is unknown, or
/// larger than half the median delay.
fn one_way(made: &mut Trial, view: &TrialView<'_>) {
    let gap = &view.collected.clocks;
    if let ClockUncertainty::Within(bound_ns) = gap {
        let bound_us = *bound_ns as f64 / 1e3;
        made.evidence.insert("clock_bound_us".into(), bound_us);
    }
    if let ClockUncertainty::Unknown(why) = gap {
        made.disturbed
            .push(format!("one-way delays are left out: {why}"));
    }
    let median_us = made.metrics.get("delay_p50_us").copied().unwrap_or(0.0);
    if exceeds_clock_error(gap, median_us) {
        return;
    }
    made.metrics.retain(|name, _| !name.starts_with("delay_"));
    made.histograms.remove("delay");
    made.evidence.insert("one_way_left_out".into(), 1.0);
}

/// Whether a median one-way delay, us, is large enough beside the clock uncertainty.
pub(super) fn exceeds_clock_error(gap: &ClockUncertainty, median_us: f64) -> bool {
    match gap {
        ClockUncertainty::Same => true,
        ClockUncertainty::Within(bound_ns) => {
            median_us > *bound_ns as f64 / 1e3 * DELAY_PER_CLOCK_ERROR_MIN
        }
        ClockUncertainty::Unknown(_) => false,
    }
}

/// Smallest one-way delay that is reported, in units of the clock uncertainty.
const DELAY_PER_CLOCK_ERROR_MIN: f64 = 2.0;

/// The delays of all circuits, merged.
fn merged(circuits: &[&CircuitReport], name: &str) -> hdrhistogram::Histogram<u64> {
    let encoded = circuits
        .iter()
        .filter_map(|report| report.histograms.get(name));
    let mut merged = results::new_histogram();
    for hdr_v2 in encoded {
        let histogram = Histogram {
            unit: "ns".into(),
            hdr_v2: hdr_v2.clone(),
        };
        // All workers use the same bounds. A histogram that does not decode is skipped, which shows
        // in the sample count.
        if let Ok(histogram) = histogram.decode() {
            let _ = merged.add(&histogram);
        }
    }
    merged
}

/// Adds the merged histogram of that name to the record; gives its percentile in us where there are
/// enough samples.
pub(super) fn percentile_of(
    made: &mut Trial,
    circuits: &[&CircuitReport],
    name: &str,
    q: f64,
) -> Option<f64> {
    let merged = merged(circuits, name);
    if let (false, Ok(histogram)) = (merged.is_empty(), Histogram::encode(&merged, "ns")) {
        made.histograms.insert(name.into(), histogram);
    }
    let suffices = !merged.is_empty() && merged.len() >= samples::samples_needed(q);
    suffices.then(|| merged.value_at_quantile(q) as f64 / 1000.0)
}

/// Percentiles with enough samples, by metric name.
pub(super) fn percentiles(circuits: &[&CircuitReport]) -> Vec<(&'static str, f64)> {
    let merged = merged(circuits, "delay");
    let all = [
        ("delay_p50_us", 0.5),
        ("delay_p90_us", 0.9),
        ("delay_p99_us", 0.99),
        ("delay_p999_us", 0.999),
    ];
    let known = all
        .into_iter()
        .filter(|(_, q)| !merged.is_empty() && merged.len() >= samples::samples_needed(*q));
    known
        .map(|(name, q)| (name, merged.value_at_quantile(q) as f64 / 1000.0))
        .collect()
}

/// Percentiles with enough samples and the mean, by metric name, and the distribution of all; of one circuit its own
/// exact median and mean.
pub(super) fn delay_metrics(
    circuits: &[&CircuitReport],
    name: &str,
) -> (BTreeMap<&'static str, f64>, hdrhistogram::Histogram<u64>) {
    let merged = merged(circuits, name);
    let mut values: BTreeMap<&'static str, f64> = percentiles(circuits).into_iter().collect();
    if merged.is_empty() {
        return (BTreeMap::new(), merged);
    }
    values.insert("delay_mean_us", merged.mean() / 1000.0);
    if let [only] = circuits {
        for metric in ["delay_p50_us", "delay_mean_us"] {
            if let Some(&value) = only.measures.get(metric) {
                values.insert(metric, value);
            }
        }
    }
    (values, merged)
}

pub(super) fn merge_delays(made: &mut Trial, circuits: &[&CircuitReport], name: &str) {
    let (values, merged) = delay_metrics(circuits, name);
    if merged.is_empty() {
        return;
    }
    for (metric, value) in values {
        made.metrics.insert(metric.into(), value);
    }
    made.warm_up_s = circuits
        .iter()
        .filter_map(|report| report.measures.get("warm_up_s"))
        .copied()
        .fold(0.0, f64::max);
    if let Ok(histogram) = Histogram::encode(&merged, "ns") {
        made.histograms.insert("delay".into(), histogram);
    }
}
