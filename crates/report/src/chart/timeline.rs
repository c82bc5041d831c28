//! One trial over time.

use super::{Axis, Line, Plot};
use crate::quantity;
use results::Series;

/// The chart of a series of a trial; None with fewer than two finite points.
pub(crate) fn chart(name: &str, series: &Series, contestant: usize) -> Option<Plot> {
    let both = series.at_s.iter().zip(&series.values);
    let finite = both.filter(|(at, value)| at.is_finite() && value.is_finite());
    let points: Vec<(f64, f64)> = finite.map(|(at, value)| (*at, *value)).collect();
    if points.len() < 2 {
        return None;
    }
    let values: Vec<f64> = points.iter().map(|point| point.1).collect();
    let times: Vec<f64> = points.iter().map(|point| point.0).collect();
    let x = Axis::from_zero("seconds since measuring began", &times, quantity::digits);
    let title = title(name, series);
    let y = Axis::from_zero(&title, &values, |value| super::sizes::tick(name, value));
    let mut plot = Plot::new(format!("{title} over time"), x, y);
    plot.lines.push(Line {
        contestant,
        model: false,
        points,
    });
    Some(plot)
}

/// A series' name with its unit.
pub(crate) fn title(name: &str, series: &Series) -> String {
    let unit = quantity::clean(&series.unit, 20);
    let name = quantity::spaced(name);
    if unit.is_empty() {
        name
    } else {
        format!("{name} ({unit})")
    }
}
