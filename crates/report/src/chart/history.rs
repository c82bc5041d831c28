//! One contest over runs: a line for each transport, and where the machine or the build changed.

use super::{Axis, Line, Mark, Number, Plot, Whisker};
use crate::quantity;
use results::Estimate;

/// A transport's values by run; the first is its index, which selects colour and shape.
pub(crate) type Curve<'a> = (usize, &'a [Option<Estimate>]);

/// Colour of lines that belong to no transport.
const NEUTRAL: usize = 7;

/// The chart of `metric`; `changed` has the runs, from 0, before which something changed. None with no
/// value.
pub(crate) fn chart(
    metric: &str,
    curves: &[Curve],
    runs: usize,
    changed: &[usize],
) -> Option<Plot> {
    let values = curves.iter().flat_map(|curve| curve.1.iter().flatten());
    let ends: Vec<f64> = values.flat_map(|value| [value.low, value.high]).collect();
    let high = ends.iter().copied().fold(f64::NAN, f64::max);
    if !high.is_finite() {
        return None;
    }
    let noun = crate::phrasing::metric_noun(metric);
    let y = Axis::from_zero(&noun, &ends, |value| super::sizes::tick(metric, value));
    let mut plot = Plot::new(format!("{noun} over runs"), run_axis(runs), y);
    for &run in changed {
        plot.lines.push(Line {
            contestant: NEUTRAL,
            model: true,
            points: vec![(run as f64 + 0.5, 0.0), (run as f64 + 0.5, high)],
        });
    }
    curves
        .iter()
        .for_each(|curve| add(&mut plot, metric, *curve));
    Some(plot)
}

/// Maximum ticks of the axis of runs.
const TICKS_MAX: usize = 12;

/// Runs are numbered from 1.
fn run_axis(runs: usize) -> Axis {
    let stride = runs.div_ceil(TICKS_MAX).max(1);
    let ticks = (1..=runs).step_by(stride);
    let named = ticks.map(|run| (run as f64, run.to_string()));
    Axis::new("run", false, (0.5, runs as f64 + 0.5), named.collect())
}

fn add(plot: &mut Plot, metric: &str, (contestant, values): Curve) {
    let known = values.iter().enumerate();
    let known: Vec<(f64, Estimate)> = known
        .filter_map(|(run, value)| Some((run as f64 + 1.0, (*value)?)))
        .filter(|(_, value)| value.median.is_finite())
        .collect();
    plot.lines.push(Line::measured(
        contestant,
        known.iter().map(|(x, value)| (*x, value.median)).collect(),
    ));
    for (x, value) in known {
        plot.whiskers.push(Whisker {
            contestant,
            x,
            low: value.low,
            high: value.high,
        });
        plot.numbers.push(Number {
            contestant,
            x,
            y: value.median,
            interval: Some((value.low, value.high)),
        });
        plot.marks.push(Mark {
            contestant,
            at: (x, value.median),
            raw: false,
            hint: format!("run {x}: {}", quantity::measure(metric, value.median)),
        });
    }
}
