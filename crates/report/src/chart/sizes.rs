//! A metric against the message size: medians on lines, a dot per trial, intervals, and the cost
//! model if there is one.

use super::{Axis, Line, Mark, Number, Plot, Whisker};
use crate::quantity;
use crate::view::{Entry, Setting, View};
use results::{Cell, Fit, metric};

/// How a metric is shown.
pub(crate) struct Shape {
    /// The metric.
    pub metric: &'static str,
    /// The title of the y axis, unit included.
    pub title: &'static str,
    /// Always logarithmic.
    pub log: bool,
    /// Whether the fitted lines are drawn.
    pub fits: bool,
}

/// Offset of single trials from their median, as a share of the axis.
pub(crate) const RAW_OFFSET: f64 = 0.022;

/// Up to this many contestants, names stand at the line ends; beyond, only in the legend.
pub(crate) const NAMES_MAX: usize = 9;

/// The chart; None without cells of two plain sizes.
pub(crate) fn chart(view: &View, setting: &Setting, shape: &Shape) -> Option<Plot> {
    let shown: Vec<&Entry> = setting
        .entries
        .iter()
        .filter(|entry| entry.cell.size().is_some() && entry.estimate(shape.metric).is_some())
        .collect();
    let mut sizes: Vec<u64> = shown.iter().filter_map(|entry| entry.cell.size()).collect();
    sizes.sort_unstable();
    sizes.dedup();
    // One size is a column of the table, and no curve.
    if sizes.len() < 2 {
        return None;
    }
    let title = format!(
        "{} against message size, {}",
        shape.title,
        view.title(setting)
    );
    let mut plot = Plot::new(title, Axis::sizes(&sizes), y_axis(shape, &shown));
    for entry in &shown {
        marks(&mut plot, view, entry, shape);
    }
    for contestant in 0..view.contestants.len() {
        line(&mut plot, view, setting, contestant, shape);
    }
    if plot.names.len() > NAMES_MAX {
        plot.names.clear();
    }
    Some(plot)
}

fn y_axis(shape: &Shape, shown: &[&Entry]) -> Axis {
    let mut values = Vec::new();
    for entry in shown {
        values.extend(entry.points(shape.metric).iter().map(|point| point.1));
        if let Some(estimate) = entry.estimate(shape.metric) {
            values.extend([estimate.median, estimate.low, estimate.high]);
        }
    }
    let label = |value: f64| tick(shape.metric, value);
    match shape.log {
        true => Axis::log(shape.title, &values, label),
        false => Axis::fitting(shape.title, &values, label),
    }
}

/// The title of an axis of a metric: its label, and the unit that ticks do not carry.
pub(crate) fn axis_title(name: &str) -> String {
    let Some(metric) = metric::find(name) else {
        return quantity::spaced(name);
    };
    match metric.unit {
        "Mbit/s" => format!("{}, bit/s", metric.label),
        // Ticks of times carry their unit.
        "" | "us" | "ns/message" => metric.label.to_owned(),
        unit => format!("{}, {unit}", metric.label),
    }
}

/// A tick's label: the value, its prefix, and for times the unit.
pub(crate) fn tick(metric: &str, value: f64) -> String {
    let trim = |text: String| match text.split_once(' ') {
        Some((number, unit)) if number.contains('.') => {
            let number = number.trim_end_matches('0').trim_end_matches('.');
            format!("{number} {unit}").trim_end().to_owned()
        }
        _ => text.trim_end().to_owned(),
    };
    match metric::find(metric).map_or("", |metric| metric.unit) {
        _ if value == 0.0 => "0".into(),
        "us" => trim(quantity::time_ns(value * 1e3)),
        "ns/message" => trim(quantity::time_ns(value)),
        "Mbit/s" => trim(quantity::si(value * 1e6, "")),
        _ => trim(quantity::si(value, "")),
    }
}

/// The x of a size, slightly different for each contestant, so that equal values do not overlap.
pub(crate) fn offset_by_contestant(x: &Axis, view: &View, contestant: usize, size: u64) -> f64 {
    let count = view.contestants.len() as f64;
    let middle = (count - 1.0) / 2.0;
    let step = (0.06 / count).min(0.008);
    x.offset(size.max(1) as f64, (contestant as f64 - middle) * step)
}

fn marks(plot: &mut Plot, view: &View, entry: &Entry, shape: &Shape) {
    let (Some(estimate), Some(size)) = (entry.estimate(shape.metric), entry.cell.size()) else {
        return;
    };
    let contestant = entry.contestant;
    let x = offset_by_contestant(&plot.x, view, contestant, size);
    let label = view.label(contestant);
    let place = format!("{label} at {}", entry.column().label);
    for (block, value) in entry.points(shape.metric) {
        plot.marks.push(Mark {
            contestant,
            at: (plot.x.offset(x, RAW_OFFSET), value),
            raw: true,
            hint: format!(
                "{place}, block {block}: {}",
                quantity::measure(shape.metric, value)
            ),
        });
    }
    plot.numbers.push(Number {
        contestant,
        x: size as f64,
        y: estimate.median,
        interval: Some((estimate.low, estimate.high)),
    });
    plot.whiskers.push(Whisker {
        contestant,
        x,
        low: estimate.low,
        high: estimate.high,
    });
    plot.marks.push(Mark {
        contestant,
        at: (x, estimate.median),
        raw: false,
        hint: format!(
            "{place}: median {} ({} to {}) of {} trials",
            quantity::measure(shape.metric, estimate.median),
            quantity::measure(shape.metric, estimate.low),
            quantity::measure(shape.metric, estimate.high),
            estimate.n,
        ),
    });
}

fn line(plot: &mut Plot, view: &View, setting: &Setting, contestant: usize, shape: &Shape) {
    let medians: Vec<(f64, f64)> = setting
        .entries_of(contestant)
        .filter_map(|entry| {
            let x = offset_by_contestant(&plot.x, view, contestant, entry.cell.size()?);
            Some((x, entry.estimate(shape.metric)?.median))
        })
        .collect();
    let Some(last) = medians.last().copied() else {
        return;
    };
    plot.names
        .push((contestant, view.label(contestant).to_owned(), last.1));
    match fitted(view, setting, contestant, shape) {
        Some(points) => plot.lines.push(Line {
            contestant,
            model: true,
            points,
        }),
        None => plot.lines.push(Line::measured(contestant, medians)),
    }
}

/// The fitted line, in steps fine enough for a logarithmic axis.
fn fitted(
    view: &View,
    setting: &Setting,
    contestant: usize,
    shape: &Shape,
) -> Option<Vec<(f64, f64)>> {
    let name = view.contestants[contestant].name.as_str();
    let cell = setting.cell.clone().with(Cell::TRANSPORT, name);
    let fits = &view.run.summary.as_ref()?.fits;
    let wanted = |fit: &&Fit| fit.metric == shape.metric && fit.cell == cell;
    let fit = fits.iter().find(wanted).filter(|_| shape.fits)?;
    let mut points = Vec::new();
    for piece in &fit.pieces {
        let from = piece.from.max(1.0);
        if !(from.is_finite() && piece.to.is_finite() && from <= piece.to) {
            continue;
        }
        for step in 0..=24 {
            let size = from * (piece.to / from).powf(f64::from(step) / 24.0);
            points.push((size, piece.fixed + piece.per_byte * size));
        }
    }
    (points.len() > 1).then_some(points)
}
