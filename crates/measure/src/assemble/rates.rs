//! Throughput: warm-up, rates, shares.

use super::ledger::ledger;
use super::legs::{self, LegRate};
use super::view::{TrialView, send_span_s};
use crate::spec::Direction;
use control::{CircuitReport, Slice};
use results::metric::{S_PER_MESSAGE, TOTAL_S};
use results::{Series, Trial};

pub(super) fn throughput(made: &mut Trial, view: &TrialView<'_>) {
    let mut rates = Vec::new();
    let both = view.spec.direction == Direction::Both;
    let sinks = view.receivers().chain(view.senders().filter(|_| both));
    let sides = [&view.collected.receiver, &view.collected.sender];
    let names = sides.map(|side| legs::names(view, &side.circuits)).concat();
    for (report, leg) in sinks.zip(names) {
        let steady = SteadyPart::counted(view, report);
        made.warm_up_s = made.warm_up_s.max(steady.warm_up_s);
        if let Some(what) = steady.warning {
            made.disturbed.push(what);
        }
        let messages = view.messages(report, steady.messages, steady.bytes);
        rates.push(LegRate {
            leg,
            transport: report.transport.clone(),
            messages_per_s: messages / steady.span_s,
            bytes_per_s: steady.bytes as f64 / steady.span_s,
        });
    }
    let messages_per_s = view.counted(rates.iter().map(|rate| rate.messages_per_s));
    let bytes_per_s = view.counted(rates.iter().map(|rate| rate.bytes_per_s));
    let sent_per_s = view.sent_messages() / send_span_s(view).max(1e-9);
    made.metrics.insert("messages_per_s".into(), messages_per_s);
    made.metrics.insert("mbit_per_s".into(), bytes_per_s * 8e-6);
    made.metrics.insert("sent_per_s".into(), sent_per_s);
    if let Some(ledger) = ledger(view).filter(|ledger| ledger.sent > 0) {
        let lost = ledger.sent.saturating_sub(ledger.delivered);
        made.metrics
            .insert("loss_fraction".into(), lost as f64 / ledger.sent as f64);
    }
    match view.trial.contest.fan_out {
        Some(_) => slowest_and_fastest(made, &rates),
        None => shares(made, view, &rates),
    }
    if let Some(report) = view.receivers().next() {
        let per_message = |slice: &Slice| view.messages(report, slice.messages, slice.bytes);
        made.series.insert(
            "messages_per_s".into(),
            rate_series(&report.slices, per_message),
        );
    }
}

/// Time of a fixed number of messages a circuit: until the last circuit has sent and received them.
pub(super) fn total_time(made: &mut Trial, view: &TrialView<'_>, messages: u64) {
    let span_s = view.span_s();
    made.metrics.insert(TOTAL_S.into(), span_s);
    let each_s = span_s / messages.max(1) as f64;
    made.metrics.insert(S_PER_MESSAGE.into(), each_s);
}

/// Points of a time series kept in a result.
pub(super) const SERIES_MAX: usize = 250;

/// Each circuit's share of the total rate, when there are several.
fn shares(made: &mut Trial, view: &TrialView<'_>, rates: &[LegRate]) {
    let all: Vec<f64> = rates.iter().map(|rate| rate.messages_per_s).collect();
    if rates.len() < 2 || all.iter().sum::<f64>() <= 0.0 {
        return;
    }
    made.metrics.insert("fairness".into(), samples::jain(&all));
    legs::rates(made, view, rates);
}

/// The rates of the slowest and the fastest of several receivers, and how equal all are.
fn slowest_and_fastest(made: &mut Trial, rates: &[LegRate]) {
    let all: Vec<f64> = rates.iter().map(|rate| rate.messages_per_s).collect();
    let slowest = all.iter().copied().reduce(f64::min);
    let fastest = all.iter().copied().reduce(f64::max);
    for (name, rate) in [
        ("slowest_receiver_per_s", slowest),
        ("fastest_receiver_per_s", fastest),
        ("fairness", Some(samples::jain(&all))),
    ] {
        made.metrics.insert(name.into(), rate.unwrap_or(0.0));
    }
}

/// The part of a series after its warm-up.
pub(super) struct SteadyPart {
    pub(super) span_s: f64,
    pub(super) messages: u64,
    pub(super) bytes: u64,
    pub(super) warm_up_s: f64,
    pub(super) warning: Option<String>,
}

impl SteadyPart {
    /// What counts of a circuit's trial.
    pub(super) fn counted(view: &TrialView<'_>, report: &CircuitReport) -> SteadyPart {
        match (view.trial.contest.messages, &view.collected.turns) {
            (Some(_), _) => SteadyPart::all_of(report),
            (None, Some(_)) => SteadyPart::whole(&report.slices),
            (None, None) => SteadyPart::of(&report.slices),
        }
    }

    pub(super) fn of(slices: &[Slice]) -> SteadyPart {
        let (Some(first), Some(last)) = (slices.first(), slices.last()) else {
            return SteadyPart {
                span_s: f64::INFINITY,
                messages: 0,
                bytes: 0,
                warm_up_s: 0.0,
                warning: None,
            };
        };
        let rates: Vec<f64> = slices
            .windows(2)
            .filter(|pair| pair[1].at_ns > pair[0].at_ns)
            .map(|pair| {
                (pair[1].messages - pair[0].messages) as f64
                    / (pair[1].at_ns - pair[0].at_ns) as f64
            })
            .collect();
        let steady = samples::steady_state(&rates);
        let cut = match steady {
            samples::Steady::From(cut) => cut,
            _ => 0,
        };
        let start = slices.get(cut).unwrap_or(first);
        SteadyPart {
            warm_up_s: start.at_ns.saturating_sub(first.at_ns) as f64 * 1e-9,
            warning: (steady == samples::Steady::Never)
                .then(|| "no steady state within the trial".to_owned()),
            ..SteadyPart::between(*start, *last)
        }
    }

    /// All of a series of turns: each contestant's first turn settles for longer, and cutting off more
    /// of one than of another would leave them with different moments of the machine.
    pub(super) fn whole(slices: &[Slice]) -> SteadyPart {
        let first = slices.first().copied().unwrap_or_default();
        SteadyPart::between(first, slices.last().copied().unwrap_or(first))
    }

    /// All of a fixed number of messages, whose time is what was asked for; it may be shorter than a slice.
    fn all_of(report: &CircuitReport) -> SteadyPart {
        let begin = Slice {
            at_ns: report.first_ns,
            ..Slice::default()
        };
        let end = Slice {
            at_ns: report.last_ns,
            messages: report.received,
            bytes: report.received_bytes,
        };
        SteadyPart::between(begin, end)
    }

    fn between(start: Slice, end: Slice) -> SteadyPart {
        SteadyPart {
            span_s: (end.at_ns.saturating_sub(start.at_ns) as f64 * 1e-9).max(1e-9),
            messages: end.messages - start.messages,
            bytes: end.bytes - start.bytes,
            warm_up_s: 0.0,
            warning: None,
        }
    }
}

/// Rates between slices, thinned to at most [`SERIES_MAX`] points.
pub(super) fn rate_series(slices: &[Slice], count: impl Fn(&Slice) -> f64) -> Series {
    let step = slices.len().div_ceil(SERIES_MAX).max(1);
    let kept: Vec<&Slice> = slices.iter().step_by(step).collect();
    let mut series = Series {
        unit: "/s".into(),
        ..Series::default()
    };
    let Some(first) = kept.first() else {
        return series;
    };
    for pair in kept.windows(2).filter(|pair| pair[1].at_ns > pair[0].at_ns) {
        let span_s = (pair[1].at_ns - pair[0].at_ns) as f64 * 1e-9;
        series
            .at_s
            .push((pair[1].at_ns - first.at_ns) as f64 * 1e-9);
        series
            .values
            .push((count(pair[1]) - count(pair[0])) / span_s);
    }
    series
}
