//! The turns of a trial that shared its time with other contestants.

use super::view::TrialView;
use control::{CircuitReport, Turn, Turns, Workload};
use loadgen::workload::slices::TURN_LATE_FRACTION;
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
    made.warm_up_s = made
        .warm_up_s
        .max(turns.open_ns() as f64 * 1e-9 - counted_s);
    note_late(made, view);
    let (unit, values) = match view.trial.contest.workload {
        Workload::Delay => ("us", delays_us(view)),
        _ => ("/s", rates(view)),
    };
    let series = Series {
        unit: unit.into(),
        at_s: ends_s(turns),
        values,
    };
    add_series(made, series);
}

/// Adds a value for each turn, if there is one. A circuit that failed has fewer turns, and so has one that got no processor
/// in one of them: they disturb the trial.
fn add_series(made: &mut Trial, series: Series) {
    let count = series.at_s.len();
    match count.abs_diff(series.values.len()) {
        0 => {
            made.series.insert(results::TURNS_SERIES.into(), series);
        }
        missing => made.disturbed.push(format!(
            "{missing} of its {count} turns are missing: a circuit failed, or other work took the processor"
        )),
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
    let delays: Vec<&Vec<f64>> = view
        .senders()
        .map(|report| &report.turn_delays_us)
        .collect();
    let turns = delays.iter().map(|values| values.len()).min().unwrap_or(0);
    let circuits = delays.len().max(1) as f64;
    let mean = |turn: usize| delays.iter().map(|values| values[turn]).sum::<f64>() / circuits;
    (0..turns).map(mean).collect()
}

/// Share of what a trial received after its turns from which it counts as disturbing others.
const LATE_FRACTION_MAX: f64 = 0.01;

/// What arrives when the next contestant counts takes some of its time.
fn note_late(made: &mut Trial, view: &TrialView<'_>) {
    let shares = view.circuits();
    let shares = shares.filter_map(|report| report.measures.get(TURN_LATE_FRACTION).copied());
    let late = shares.fold(0.0, f64::max);
    made.evidence.insert(TURN_LATE_FRACTION.into(), late);
    if late > LATE_FRACTION_MAX {
        made.disturbed.push(format!(
            "{:.1} % of what it received came after its turns, in those of others",
            late * 100.0
        ));
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use results::Cell;

    fn with_values(values: &[f64]) -> Trial {
        let mut made = Trial::empty(1, 1, Cell::default());
        let series = Series {
            unit: "/s".into(),
            at_s: vec![0.1, 0.2, 0.3],
            values: values.to_vec(),
        };
        add_series(&mut made, series);
        made
    }

    #[test]
    fn trial_with_all_of_its_turns_has_their_values() {
        let made = with_values(&[1.0, 2.0, 3.0]);
        assert_eq!(made.series[results::TURNS_SERIES].values, [1.0, 2.0, 3.0]);
        assert!(made.disturbed.is_empty());
    }

    #[test]
    fn trial_that_misses_turns_says_how_many_and_has_no_series() {
        let made = with_values(&[1.0]);
        assert!(made.series.is_empty());
        let [why] = made.disturbed.as_slice() else {
            panic!("{:?}", made.disturbed);
        };
        assert!(why.starts_with("2 of its 3 turns are missing: "), "{why}");
    }
}
