//! Verdicts in words. The only module that turns a verdict into a sentence.

use crate::quantity;
use results::{Cell, Verdict, VerdictKind, metric};

/// A verdict as one sentence, reason included.
pub(crate) fn sentence(verdict: &Verdict) -> String {
    let place = place(&verdict.contest);
    let start = if place.is_empty() {
        String::new()
    } else {
        format!("{place} ")
    };
    let mut text = format!("{start}{}", claim(verdict));
    if !verdict.because.is_empty() {
        text.push_str(&format!(
            "; because {}",
            quantity::clean(&verdict.because, 300)
        ));
    }
    text
}

fn claim(verdict: &Verdict) -> String {
    let who = quantity::clean(&verdict.contestant, 60);
    let other = quantity::clean(&verdict.baseline, 60);
    let ratio = quantity::ratio(verdict.ratio);
    let range = range(verdict);
    let what = thing(&verdict.metric);
    match verdict.kind {
        VerdictKind::Faster | VerdictKind::Slower if more_is_better(&verdict.metric) => {
            format!("{who} moves {ratio} the {what} of {other} {range}")
        }
        VerdictKind::Faster | VerdictKind::Slower => {
            format!("{who} takes {ratio} the {what} of {other} {range}")
        }
        VerdictKind::Equal => format!("{who} equals {other} in {what} {range}"),
        VerdictKind::NotEnoughData => {
            let more = match verdict.blocks_needed {
                Some(blocks) => format!("about {blocks} blocks would tell"),
                None => "more blocks might tell".into(),
            };
            format!("{who} against {other} is open in {what}: {ratio} {range}; {more}")
        }
    }
}

/// The interval of a verdict, in brackets.
pub(crate) fn range(verdict: &Verdict) -> String {
    format!(
        "({} ... {})",
        quantity::digits(verdict.low),
        quantity::digits(verdict.high)
    )
}

/// Whether a larger value of the measure is the better one.
pub(crate) fn more_is_better(name: &str) -> bool {
    metric::find(name).is_none_or(|metric| metric.more_is_better)
}

/// What a measure counts, as a noun.
pub(crate) fn thing(name: &str) -> String {
    match name {
        metric::MESSAGES_PER_S | metric::DELIVERED_PER_S => "messages".into(),
        metric::MBIT_PER_S => "bits".into(),
        metric::DELAY_P50_US => "round-trip time".into(),
        metric::CONNECTIONS_PER_S => "connections".into(),
        other => match metric::find(other) {
            Some(metric) => metric.label.to_owned(),
            None => quantity::words(other),
        },
    }
}

/// Where a contest took place: `at 64 B`, with any other factor that was varied.
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
        format!("{} {value}", quantity::words(name))
    });
    named.collect::<Vec<_>>().join(", ")
}
