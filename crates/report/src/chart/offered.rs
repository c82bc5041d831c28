//! Open loop: delivered rate, loss and delay against the offered rate.

use super::{Axis, Line, Mark, Plot, sizes};
use crate::quantity;
use crate::view::{Column, Setting, View};
use results::metric;

/// The offered rate.
const OFFERED: &str = "offered_per_s";

/// The charts of a setting at one size, as far as it has their metrics.
pub(crate) fn charts(view: &View, setting: &Setting, column: &Column) -> Vec<Plot> {
    let delay = ["delay_p99_us", metric::DELAY_P50_US];
    let delay = delay.into_iter().find(|name| setting.has_metric(name));
    let wanted = [
        (
            Some(metric::DELIVERED_PER_S),
            "messages delivered per second",
        ),
        (
            Some("loss_fraction"),
            "messages lost, share of those offered",
        ),
        (delay, "delay from the scheduled send time"),
    ];
    let named = wanted
        .into_iter()
        .filter_map(|(name, title)| Some((name?, title)));
    named
        .filter_map(|(name, title)| chart(view, setting, column, name, title))
        .collect()
}

fn chart(view: &View, setting: &Setting, column: &Column, name: &str, title: &str) -> Option<Plot> {
    let curves: Vec<(usize, Vec<(f64, f64)>)> = (0..view.contestants.len())
        .map(|contestant| (contestant, curve(setting, contestant, column, name)))
        .filter(|curve| !curve.1.is_empty())
        .collect();
    if curves.is_empty() {
        return None;
    }
    let all = || curves.iter().flat_map(|curve| &curve.1);
    let offered: Vec<f64> = all().map(|point| point.0).collect();
    let values: Vec<f64> = all().map(|point| point.1).collect();
    let x = Axis::fitting("messages offered per second", &offered, |v| {
        sizes::tick(OFFERED, v)
    });
    let label = |value: f64| match name {
        "loss_fraction" => format!("{} %", quantity::short(value * 100.0)),
        _ => sizes::tick(name, value),
    };
    let y = match name {
        "loss_fraction" => Axis::from_zero(title, &values, label),
        _ => Axis::fitting(title, &values, label),
    };
    let at = format!("{title} against the offered rate, {}", column.label);
    let mut plot = Plot::new(at, x, y);
    // On the diagonal everything offered was delivered.
    plot.diagonal = name == metric::DELIVERED_PER_S;
    raw(&mut plot, view, setting, column, name);
    for (contestant, points) in curves {
        add(&mut plot, view, contestant, points, name);
    }
    Some(plot)
}

/// One dot per valid trial.
fn raw(plot: &mut Plot, view: &View, setting: &Setting, column: &Column, name: &str) {
    let entries = setting
        .entries
        .iter()
        .filter(|entry| entry.column() == *column);
    for entry in entries {
        let label = view.label(entry.contestant);
        for trial in entry.valid_trials() {
            let measures = (trial.metrics.get(OFFERED), trial.metrics.get(name));
            if let (Some(offered), Some(value)) = measures {
                plot.marks.push(Mark {
                    contestant: entry.contestant,
                    at: (*offered, *value),
                    raw: true,
                    hint: format!(
                        "{label}, block {}: {}",
                        trial.block,
                        quantity::measure(name, *value)
                    ),
                });
            }
        }
    }
}

fn curve(setting: &Setting, contestant: usize, column: &Column, name: &str) -> Vec<(f64, f64)> {
    let own = setting
        .entries_of(contestant)
        .filter(|entry| entry.column() == *column);
    let mut points: Vec<(f64, f64)> = own
        .filter_map(|entry| {
            Some((
                entry.estimate(OFFERED)?.median,
                entry.estimate(name)?.median,
            ))
        })
        .collect();
    points.sort_by(|a, b| a.0.total_cmp(&b.0));
    points
}

fn add(plot: &mut Plot, view: &View, contestant: usize, points: Vec<(f64, f64)>, name: &str) {
    let label = view.label(contestant);
    for (offered, value) in &points {
        plot.marks.push(Mark {
            contestant,
            at: (*offered, *value),
            raw: false,
            hint: format!(
                "{label} offered {}: {}",
                quantity::si(*offered, "/s"),
                quantity::measure(name, *value)
            ),
        });
    }
    // Loss and delay curves end close together beyond the knee, where names would overlap.
    let named = name == metric::DELIVERED_PER_S && view.contestants.len() <= sizes::NAMES_MAX;
    if let Some(last) = points.last().filter(|_| named) {
        plot.names.push((contestant, label.to_owned(), last.1));
    }
    plot.lines.push(Line::measured(contestant, points));
}
