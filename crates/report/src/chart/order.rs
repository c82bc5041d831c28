//! Trials in the order they ran: the value of each in parts of the median of its cell, so that trials
//! of different cells share an axis and a drift of the machine is seen.

use super::{Axis, Mark, Number, Plot};
use crate::quantity;
use crate::view::View;
use results::metric;

/// The chart; None with fewer than three trials of a known median.
pub(crate) fn chart(view: &View) -> Option<Plot> {
    let mut points: Vec<(usize, f64, f64, bool, String)> = Vec::new();
    for entry in view.settings.iter().flat_map(|setting| &setting.entries) {
        let name = metric::primary(&entry.cell.workload());
        let median = entry.estimate(name).map(|estimate| estimate.median);
        let Some(median) = median.filter(|median| *median > 0.0) else {
            continue;
        };
        for trial in entry.valid_trials() {
            let value = trial.metrics.get(name).copied();
            let Some(value) = value.filter(|value| value.is_finite()) else {
                continue;
            };
            let disturbed = trial.disturbed.first();
            let hint = format!(
                "trial {}, {} {}: {}{}",
                trial.index,
                view.label(entry.contestant),
                crate::phrasing::place(&entry.cell.without(results::Cell::TRANSPORT)),
                quantity::measure(name, value),
                disturbed.map_or(String::new(), |what| format!(
                    "; disturbed: {}",
                    quantity::clean(what, 120)
                )),
            );
            let place = (trial.index as f64, value / median);
            points.push((
                entry.contestant,
                place.0,
                place.1,
                disturbed.is_some(),
                hint,
            ));
        }
    }
    (points.len() > 2).then(|| plot(points))
}

fn plot(mut points: Vec<(usize, f64, f64, bool, String)>) -> Plot {
    points.sort_by(|a, b| a.1.total_cmp(&b.1));
    let places: Vec<f64> = points.iter().map(|point| point.1).collect();
    let ratios: Vec<f64> = points.iter().map(|point| point.2).collect();
    let x = Axis::from_zero("trial, in the order they ran", &places, quantity::short);
    let y = Axis::around_one("ratio to the median of its cell", &ratios);
    let mut plot = Plot::new("Trials in the order they ran".into(), x, y);
    for (contestant, x, y, disturbed, hint) in points {
        plot.numbers.push(Number {
            contestant,
            x,
            y,
            interval: None,
        });
        plot.marks.push(Mark {
            contestant,
            at: (x, y),
            raw: !disturbed,
            hint,
        });
    }
    plot
}
