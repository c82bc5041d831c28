//! The turns of a trial that shared its time with other contestants.

use super::view::TrialView;
use crate::turn_plan::{GAP_NS, SETTLE_NS};
use crate::workload::slices::TURN_OVERRUN_MS;
use control::{CircuitReport, Turn, Turns, Workload};
use results::{Series, Trial};

/// Number, length and values of the turns; nothing for a trial that had the machine to itself.
pub(super) fn turns(made: &mut Trial, view: &TrialView<'_>) {
    let Some(turns) = &view.collected.turns else {
        return;
    };
    let counted_s = turns.windows.iter().map(counted_s).sum::<f64>();
    let count = turns.windows.len() as f64;
    made.evidence.insert("turns".into(), count);
    let mean_ms = counted_s * 1e3 / count.max(1.0);
    made.evidence.insert("turn_ms".into(), mean_ms);
    made.warm_up_s = made.warm_up_s.max(turns.open_ns() as f64 * 1e-9 - counted_s);
    note_overrun(made, view);
    let (unit, values) = match view.trial.contest.workload {
        Workload::Delay => ("us", delays_us(view)),
        _ => ("/s", rates(view)),
    };
    let series = Series {
        unit: unit.into(),
        at_s: ends_s(turns),
        values,
    };
    // A circuit that failed has fewer turns.
    if series.values.len() == series.at_s.len() {
        made.series.insert(results::TURNS_SERIES.into(), series);
    }
}

fn counted_s(turn: &Turn) -> f64 {
    (turn.end_ns - turn.counted_from_ns) as f64 * 1e-9
}

/// Ends of the turns, seconds since the first one began.
fn ends_s(turns: &Turns) -> Vec<f64> {
    let first_ns = turns.windows.first().map_or(0, |turn| turn.begin_ns);
    let ends = turns.windows.iter();
    ends.map(|turn| (turn.end_ns - first_ns) as f64 * 1e-9)
        .collect()
}

/// Messages a second of each turn, all circuits together.
fn rates(view: &TrialView<'_>) -> Vec<f64> {
    let received = view.circuits().filter(|report| report.received > 0);
    let series: Vec<Vec<f64>> = received.map(|report| rates_of(view, report)).collect();
    let turns = series.iter().map(Vec::len).min().unwrap_or(0);
    let sum = |turn: usize| series.iter().map(|rates| rates[turn]).sum();
    (0..turns).map(sum).collect()
}

fn rates_of(view: &TrialView<'_>, report: &CircuitReport) -> Vec<f64> {
    let pairs = report.slices.windows(2);
    let rate = |pair: &[control::Slice]| {
        let bytes = pair[1].bytes - pair[0].bytes;
        let messages = view.messages(report, pair[1].messages - pair[0].messages, bytes);
        messages * 1e9 / (pair[1].at_ns - pair[0].at_ns).max(1) as f64
    };
    pairs.map(rate).collect()
}

/// Median delay of each turn, us; the mean over circuits.
fn delays_us(view: &TrialView<'_>) -> Vec<f64> {
    let delays: Vec<&Vec<f64>> = view.senders().map(|report| &report.turn_delays_us).collect();
    let turns = delays.iter().map(|values| values.len()).min().unwrap_or(0);
    let circuits = delays.len().max(1) as f64;
    let mean = |turn: usize| delays.iter().map(|values| values[turn]).sum::<f64>() / circuits;
    (0..turns).map(mean).collect()
}

/// What arrives later than the next contestant begins to count takes some of its time.
fn note_overrun(made: &mut Trial, view: &TrialView<'_>) {
    let overruns = view.circuits();
    let overruns = overruns.filter_map(|report| report.measures.get(TURN_OVERRUN_MS).copied());
    let overrun_ms = overruns.fold(0.0, f64::max);
    made.evidence.insert(TURN_OVERRUN_MS.into(), overrun_ms);
    if overrun_ms > (GAP_NS + SETTLE_NS) as f64 * 1e-6 {
        made.disturbed.push(format!(
            "a turn ran over by {overrun_ms:.1} ms, into that of another contestant"
        ));
    }
}
