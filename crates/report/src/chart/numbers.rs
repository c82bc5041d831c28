//! The numbers behind a chart, as rows of a table.

use super::Plot;

/// A number of a chart as measured, without the offset that keeps marks apart.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(crate) struct Number {
    /// Its contestant.
    pub contestant: usize,
    /// Its x.
    pub x: f64,
    /// Its y.
    pub y: f64,
    /// The ends of its interval, if it has one.
    pub interval: Option<(f64, f64)>,
}

/// Maximum rows of a chart's table; a curve of percentiles has some hundred points.
const ROWS_MAX: usize = 1_000;

/// The numbers of a chart: those given with it, else the points of its lines without models, else
/// the ends of its bars.
pub(crate) fn numbers(plot: &Plot) -> Vec<Number> {
    let plain = |contestant: usize, (x, y): (f64, f64)| Number {
        contestant,
        x,
        y,
        interval: None,
    };
    let mut rows = plot.numbers.clone();
    if rows.is_empty() {
        let lines = plot.lines.iter().filter(|line| !line.model);
        rows.extend(lines.flat_map(|line| {
            let points = line.points.iter();
            points.map(|&point| plain(line.contestant, point))
        }));
    }
    if rows.is_empty() {
        let bars = plot.bars.iter();
        rows.extend(bars.map(|bar| plain(bar.contestant, (bar.from, bar.to))));
    }
    rows.retain(|row| row.x.is_finite() && row.y.is_finite());
    rows.truncate(ROWS_MAX);
    rows
}

/// A number with at most six significant digits.
pub(crate) fn plain(value: f64) -> String {
    if !value.is_finite() {
        return String::new();
    }
    let rounded: f64 = format!("{value:.5e}").parse().unwrap_or(value);
    rounded.to_string()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::chart::{Axis, Line};

    fn plot() -> Plot {
        let axis = |title: &str| Axis::from_zero(title, &[1.0], |value| value.to_string());
        Plot::new("a chart".into(), axis("x"), axis("y"))
    }

    #[test]
    fn numbers_of_lines_leave_out_models_and_what_is_no_number() {
        let mut plot = plot();
        for model in [true, false] {
            plot.lines.push(Line {
                contestant: 3,
                model,
                points: vec![(1.0, 2.0), (2.0, f64::NAN)],
            });
        }
        let rows = numbers(&plot);
        assert_eq!(rows.len(), 1);
        assert_eq!((rows[0].contestant, rows[0].x, rows[0].y), (3, 1.0, 2.0));
    }

    #[test]
    fn plain_numbers_have_six_digits() {
        assert_eq!(plain(1_234_567.0), "1234570");
        assert_eq!(plain(0.1 + 0.2), "0.3");
        assert_eq!(plain(f64::INFINITY), "");
    }
}
