//! Time a message over its size on linear axes, where the cost model is straight: medians as marks,
//! the fit as lines.

use super::{Axis, Line, Mark, Number, Plot, sizes};
use crate::quantity;
use crate::view::{Setting, View};
use results::{Cell, Fit, metric};

/// The chart of a setting; None without a fit of a contestant of it.
pub(crate) fn chart(view: &View, setting: &Setting) -> Option<Plot> {
    let fits = &view.run.summary.as_ref()?.fits;
    let fitted = (0..view.contestants.len()).filter_map(|contestant| {
        let name = view.contestants[contestant].name.as_str();
        let cell = setting.cell.clone().with(Cell::TRANSPORT, name);
        Some((contestant, fits.iter().find(|fit| fit.cell == cell)?))
    });
    let fitted: Vec<(usize, &Fit)> = fitted.collect();
    let title = match fitted.first()?.1.metric.as_str() {
        metric::DELAY_P50_US => "round trip, median",
        _ => "time per message",
    };
    let points: Vec<(usize, Vec<(f64, f64)>)> = fitted
        .iter()
        .map(|(contestant, fit)| (*contestant, measured_us(setting, *contestant, fit)))
        .collect();
    let all = || points.iter().flat_map(|(_, points)| points);
    let across: Vec<f64> = all().map(|point| point.0).collect();
    let up: Vec<f64> = all().map(|point| point.1).collect();
    let bytes = |value: f64| format!("{} B", sizes::tick("", value));
    let x = Axis::from_zero("message size", &across, bytes);
    let y = Axis::from_zero(title, &up, |value| sizes::tick(metric::DELAY_P50_US, value));
    let description = format!("{title} over message size, {}", view.title(setting));
    let mut plot = Plot::new(description, x, y);
    for ((contestant, fit), (_, points)) in fitted.into_iter().zip(points) {
        plot.lines.push(Line {
            contestant,
            model: true,
            points: line_us(fit),
        });
        add(&mut plot, view, contestant, &points);
    }
    if plot.names.len() > sizes::NAMES_MAX {
        plot.names.clear();
    }
    (!up.is_empty()).then_some(plot)
}

/// Medians in microseconds over bytes.
fn measured_us(setting: &Setting, contestant: usize, fit: &Fit) -> Vec<(f64, f64)> {
    let points = setting.entries_of(contestant).filter_map(|entry| {
        let size = entry.cell.size()? as f64;
        let time_us = match fit.metric.as_str() {
            metric::DELAY_P50_US => entry.estimate(metric::DELAY_P50_US)?.median,
            _ => 1e6 / entry.estimate(metric::MESSAGES_PER_S)?.median,
        };
        time_us.is_finite().then_some((size, time_us))
    });
    points.collect()
}

/// The ends of the fitted pieces, in microseconds over bytes.
fn line_us(fit: &Fit) -> Vec<(f64, f64)> {
    let scale = if fit.metric.ends_with("_us") {
        1.0
    } else {
        1e-3
    };
    let ends = fit.pieces.iter().flat_map(|piece| {
        let time = move |size: f64| (piece.fixed + piece.per_byte * size) * scale;
        [piece.from, piece.to].map(|size| (size, time(size)))
    });
    ends.filter(|(x, y)| x.is_finite() && y.is_finite())
        .collect()
}

fn add(plot: &mut Plot, view: &View, contestant: usize, points: &[(f64, f64)]) {
    let label = view.label(contestant);
    for &(size, time_us) in points {
        plot.numbers.push(Number {
            contestant,
            x: size,
            y: time_us,
            interval: None,
        });
        plot.marks.push(Mark {
            contestant,
            at: (size, time_us),
            raw: false,
            hint: format!(
                "{label} at {}: {}",
                quantity::bytes(size as u64),
                quantity::time_ns(time_us * 1e3)
            ),
        });
    }
    if let Some(last) = points.last() {
        plot.names.push((contestant, label.to_owned(), last.1));
    }
}
