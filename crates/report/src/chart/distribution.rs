//! Cumulative distribution of packet sizes.

use super::{Axis, Line, Plot, percentiles, sizes};
use crate::quantity;
use crate::view::{Column, Setting, View};

/// The chart of the histograms `name`, whose values are bytes; None without any.
pub(crate) fn chart(view: &View, setting: &Setting, column: &Column, name: &str) -> Option<Plot> {
    let mut lines = Vec::new();
    for contestant in 0..view.contestants.len() {
        let entry = setting.entry(contestant, column);
        if let Some(histogram) = entry.and_then(|entry| percentiles::merged(entry, name)) {
            let points = shares(&histogram);
            lines.push(Line::measured(contestant, points));
        }
    }
    if lines.is_empty() {
        return None;
    }
    let bytes: Vec<f64> = lines
        .iter()
        .flat_map(|line| &line.points)
        .map(|p| p.0)
        .collect();
    let what = quantity::spaced(name);
    let x = Axis::log(&format!("{what}, bytes"), &bytes, |v| sizes::tick("", v));
    let ticks = [0.0, 0.25, 0.5, 0.75, 1.0].map(|share| (share, format!("{} %", share * 100.0)));
    let y = Axis::new("share up to this size", false, (0.0, 1.03), ticks.to_vec());
    let mut plot = Plot::new(format!("distribution of {what} at {}", column.label), x, y);
    plot.lines = lines;
    Some(plot)
}

fn shares(histogram: &hdrhistogram::Histogram<u64>) -> Vec<(f64, f64)> {
    let total = histogram.len() as f64;
    let mut points = Vec::new();
    let mut below = 0.0;
    for step in histogram.iter_recorded() {
        let size = step.value_iterated_to().max(1) as f64;
        let up_to = below + step.count_since_last_iteration() as f64;
        // Steps: the share rises at a size, not between two sizes.
        points.extend([(size, below / total), (size, up_to / total)]);
        below = up_to;
    }
    points
}
