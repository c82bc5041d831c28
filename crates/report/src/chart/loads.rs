//! A metric against a load of a host or the link, a line a contestant.

use super::{Axis, Line, Mark, Plot, sizes};
use crate::quantity;
use crate::view::View;
use crate::view::loads::LoadSweep;
use results::{Cell, metric};

/// The curve of a sweep; None for offered loads, which have charts of their own, and without values.
pub(crate) fn chart(view: &View, sweep: &LoadSweep) -> Option<Plot> {
    if [Cell::LOAD_PERCENT, Cell::RATE].contains(&sweep.factor) {
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
    let loads: Vec<f64> = sweep.steps.iter().map(|step| step.load).collect();
    let title = metric::find(name).map_or(name, |metric| metric.label);
    let x = Axis::from_zero(sweep.load, &loads, quantity::short);
    let y = Axis::fitting(title, &values, |value| sizes::tick(name, value));
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
    plot.lines.push(Line {
        contestant,
        model: false,
        points,
    });
}
