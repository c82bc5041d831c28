//! Delay against percentile, on an axis with one decade per nine.

use super::{Axis, Line, Plot, sizes};
use crate::quantity;
use crate::view::{Column, Entry, Setting, View};
use hdrhistogram::Histogram;

/// Points per decade of 1 / (1 - q).
const STEPS: i32 = 16;

/// A percentile q needs this times 1 / (1 - q) samples.
const SAMPLES: f64 = 10.0;

/// The chart of the merged histograms `name` of a column; None without any.
pub(crate) fn chart(view: &View, setting: &Setting, column: &Column, name: &str) -> Option<Plot> {
    let mut lines = Vec::new();
    let mut names = Vec::new();
    for contestant in 0..view.contestants.len() {
        let merged = setting
            .entry(contestant, column)
            .and_then(|entry| merged(entry, name));
        let points = merged.as_ref().map(curve).unwrap_or_default();
        if let Some(last) = points.last() {
            names.push((contestant, view.label(contestant).to_owned(), last.1));
            lines.push(Line::measured(contestant, points));
        }
    }
    if lines.is_empty() {
        return None;
    }
    let all = || lines.iter().flat_map(|line| &line.points);
    let right = all().map(|point| point.0).fold(10.0, f64::max);
    let values: Vec<f64> = all().map(|point| point.1).collect();
    let what = quantity::spaced(name);
    let y = Axis::log(&format!("{what} (log)"), &values, |ns| {
        sizes::tick("delay_p50_us", ns / 1e3)
    });
    let at = &column.label;
    let mut plot = Plot::new(format!("{what} by percentile at {at}"), x_axis(right), y);
    plot.lines = lines;
    if names.len() <= sizes::NAMES_MAX {
        plot.names = names;
    }
    Some(plot)
}

/// The sum of the histograms of all valid trials.
pub(crate) fn merged(entry: &Entry, name: &str) -> Option<Histogram<u64>> {
    let mut sum: Option<Histogram<u64>> = None;
    for trial in entry.valid_trials() {
        let Some(Ok(one)) = trial.histograms.get(name).map(results::Histogram::decode) else {
            continue;
        };
        match &mut sum {
            None => sum = Some(one),
            Some(sum) => {
                sum.auto(true);
                // Adding fails only for a range that cannot grow; this one resizes.
                let _ = sum.add(one);
            }
        }
    }
    sum.filter(|histogram| !histogram.is_empty())
}

fn curve(histogram: &Histogram<u64>) -> Vec<(f64, f64)> {
    let limit = histogram.len() as f64 / SAMPLES;
    let steps = (limit.log10() * f64::from(STEPS)).floor();
    if steps.is_nan() || steps < 1.0 {
        return Vec::new();
    }
    let mut points: Vec<(f64, f64)> = Vec::new();
    for step in 0..=(steps as i32).min(STEPS * 9) {
        let x = 10f64.powf(f64::from(step) / f64::from(STEPS));
        let value = histogram.value_at_quantile(1.0 - 1.0 / x) as f64;
        points.push((x, value.max(1.0)));
    }
    points
}

fn x_axis(right: f64) -> Axis {
    const TICKS: [(f64, &str); 7] = [
        (2.0, "50 %"),
        (10.0, "90 %"),
        (100.0, "99 %"),
        (1e3, "99.9 %"),
        (1e4, "99.99 %"),
        (1e5, "99.999 %"),
        (1e6, "1 - 10\u{207b}\u{2076}"),
    ];
    let ticks = TICKS
        .iter()
        .map(|(x, name)| (*x, (*name).to_owned()))
        .collect();
    Axis::new("percentile of messages", true, (1.0, right * 1.02), ticks)
}
