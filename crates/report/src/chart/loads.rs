//! A metric against a load of a host or the link, a line a contestant.

use super::{Axis, Line, Mark, Plot, sizes};
use crate::quantity;
use crate::view::View;
use crate::view::loads::LoadSweep;
use results::{Cell, metric};

/// The curve of a sweep; None for offered loads, which have charts of their own, and without values.
pub(crate) fn chart(view: &View, sweep: &LoadSweep) -> Option<Plot> {
    if [Cell::LOAD_PERCENT, Cell::RATE].contains(&sweep.factor.as_str()) {
        return None;
    }
    let name = match sweep.workload.as_str() {
        "throughput" => metric::MBIT_PER_S,
        other => metric::primary(other),
    };
    let curve = |contestant: usize| -> (usize, Vec<(f64, f64)>) {
        let points = sweep.steps.iter().enumerate().filter_map(|(step, at)| {
            let (_, entry) = sweep.entry(step, contestant)?;
            Some((at.load, entry.estimate(name)?.median))
        });
        (contestant, points.collect())
    };
    let mut curves: Vec<_> = sweep.contestants().into_iter().map(curve).collect();
    curves.retain(|(_, points)| !points.is_empty());
    let values: Vec<f64> = curves
        .iter()
        .flat_map(|(_, points)| points.iter().map(|p| p.1))
        .collect();
    if values.is_empty() {
        return None;
    }
    let title = sizes::axis_title(name);
    let x = x_axis(sweep);
    let y = Axis::fitting(&title, &values, |value| sizes::tick(name, value));
    let mut plot = Plot::new(
        format!("{title} against {}, {}", sweep.load, sweep.title),
        x,
        y,
    );
    for (contestant, points) in curves {
        add(&mut plot, view, sweep, (contestant, points), name);
    }
    if plot.names.len() > sizes::NAMES_MAX {
        plot.names.clear();
    }
    Some(plot)
}

/// Linear from zero, as loads are; other numbers may span decades.
fn x_axis(sweep: &LoadSweep) -> Axis {
    let values: Vec<f64> = sweep.steps.iter().map(|step| step.load).collect();
    match values.iter().all(|value| *value > 0.0) {
        true => Axis::fitting(&sweep.load, &values, |value| sizes::tick("", value)),
        false => Axis::from_zero(&sweep.load, &values, quantity::short),
    }
}

/// The standard deviation of single trials in per cent of their mean, over the number of messages of
/// a trial; None for other factors.
pub(crate) fn deviation(view: &View, sweep: &LoadSweep) -> Option<Plot> {
    if sweep.factor != MESSAGES {
        return None;
    }
    let name = metric::primary(&sweep.workload);
    let at_step = |step: usize, contestant: usize| {
        let (_, entry) = sweep.entry(step, contestant)?;
        let values: Vec<f64> = entry.points(name).iter().map(|point| point.1).collect();
        Some((sweep.steps[step].load, deviation_percent(&values)?))
    };
    let steps = 0..sweep.steps.len();
    let curves = sweep.contestants().into_iter().map(|contestant| {
        let points = steps.clone().filter_map(|step| at_step(step, contestant));
        (contestant, points.collect::<Vec<_>>())
    });
    let mut curves: Vec<_> = curves.collect();
    curves.retain(|(_, points)| !points.is_empty());
    let values = curves.iter().flat_map(|(_, points)| points);
    let values: Vec<f64> = values.map(|point| point.1).collect();
    if values.is_empty() {
        return None;
    }
    let title = "standard deviation, % of the mean";
    let y = Axis::fitting(title, &values, quantity::short);
    let mut plot = Plot::new(format!("{title}, {}", sweep.title), x_axis(sweep), y);
    for (contestant, points) in curves {
        plot.marks.extend(points.iter().map(|&at| Mark {
            contestant,
            at,
            raw: false,
            hint: format!("{}: {} %", view.label(contestant), quantity::short(at.1)),
        }));
        plot.lines.push(Line::measured(contestant, points));
    }
    Some(plot)
}

/// The factor of the number of messages of a trial.
const MESSAGES: &str = "messages";

/// None of fewer than two values, or of a mean that is not positive.
fn deviation_percent(values: &[f64]) -> Option<f64> {
    let count = values.len() as f64;
    let mean = values.iter().sum::<f64>() / count;
    if values.len() < 2 || mean.is_nan() || mean <= 0.0 {
        return None;
    }
    let squares: f64 = values.iter().map(|value| (value - mean).powi(2)).sum();
    Some((squares / (count - 1.0)).sqrt() / mean * 100.0)
}

fn add(
    plot: &mut Plot,
    view: &View,
    sweep: &LoadSweep,
    (contestant, points): (usize, Vec<(f64, f64)>),
    name: &str,
) {
    let label = view.label(contestant);
    for &(load, value) in &points {
        plot.marks.push(Mark {
            contestant,
            at: (load, value),
            raw: false,
            hint: format!(
                "{label} {}: {}",
                sweep.place(&quantity::short(load)),
                quantity::measure(name, value)
            ),
        });
    }
    if let Some(last) = points.last() {
        plot.names.push((contestant, label.to_owned(), last.1));
    }
    plot.lines.push(Line::measured(contestant, points));
}
