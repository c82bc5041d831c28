//! Verdicts, metrics and places as text.

use crate::quantity;
use results::{Cell, Verdict, metric};

/// A verdict as one sentence with its explanation, cleaned for printing.
pub(crate) fn sentence(verdict: &Verdict) -> String {
    quantity::clean(&results::phrasing::sentence(verdict), 700)
}

/// The sentence without its place, for where the place stands beside it.
pub(crate) fn sentence_without_place(verdict: &Verdict) -> String {
    let place = quantity::clean(&results::phrasing::contest_text(&verdict.contest), 700);
    let sentence = sentence(verdict);
    let claim = sentence.strip_prefix(&place).map(str::trim_start);
    claim.unwrap_or(&sentence).to_owned()
}

/// Whether a larger value of the metric is better.
pub(crate) fn more_is_better(name: &str) -> bool {
    metric::find(name).is_none_or(|metric| metric.more_is_better)
}

/// The metric as a noun.
pub(crate) fn metric_noun(name: &str) -> String {
    match name {
        metric::MESSAGES_PER_S | metric::DELIVERED_PER_S => "message rate".into(),
        metric::PEAK_PER_S => "peak message rate".into(),
        metric::MBIT_PER_S => "throughput".into(),
        metric::DELAY_P50_US => "round-trip time".into(),
        metric::CONNECTIONS_PER_S => "connection rate".into(),
        metric::TRANSACTIONS_PER_S => "transaction rate".into(),
        metric::SENT_PER_S => "send rate".into(),
        metric::ROUND_TRIPS_PER_MIN => "rate of round trips beside bulk".into(),
        other => match metric::find(other) {
            Some(metric) => metric.label.to_owned(),
            None => quantity::spaced(other),
        },
    }
}

/// The place of a contest: `at 64 B`, with other varied factors.
pub(crate) fn place(contest: &Cell) -> String {
    let mut parts = Vec::new();
    if let Some(size) = contest.size() {
        parts.push(format!("at {}", quantity::bytes(size)));
    } else if contest.0.contains_key(Cell::SIZE) {
        parts.push(format!(
            "at size {}",
            quantity::clean(&contest.text(Cell::SIZE), 40)
        ));
    }
    let rest = other_factors(contest);
    if !rest.is_empty() {
        parts.push(format!("with {rest}"));
    }
    parts.join(" ")
}

/// The factors besides transport, size and workload: `circuits 4, link lossy`.
pub(crate) fn other_factors(cell: &Cell) -> String {
    let known = [Cell::TRANSPORT, Cell::SIZE, Cell::WORKLOAD];
    let rest = cell
        .0
        .iter()
        .filter(|(name, _)| !known.contains(&name.as_str()));
    let named = rest.map(|(name, value)| {
        let value = quantity::clean(&value.to_string(), 40);
        format!("{} {value}", quantity::spaced(name))
    });
    named.collect::<Vec<_>>().join(", ")
}
