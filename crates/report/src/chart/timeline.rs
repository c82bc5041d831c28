//! Trials over time.

use super::{Axis, Line, Plot};
use crate::quantity;
use results::Series;

/// Series that a race records with `--series`, in the order of a reader's questions - what arrived, what
/// stood in the link's queue, why - and their words.
const CONNECTION: [(&str, &str); 9] = [
    ("goodput", "goodput"),
    ("link_queue", "queue of the link"),
    ("congestion_window", "congestion window"),
    ("send_window", "send window, set by the peer"),
    ("in_flight", "in flight"),
    ("smoothed_rtt", "smoothed round trip"),
    ("retransmissions", "retransmissions so far"),
    ("delivery_rate", "delivery rate, as the sender estimates it"),
    ("sending_rate", "limit of the sending rate"),
];

/// Names of the series of a race with `--series`, in order.
pub(crate) fn connection_names() -> impl Iterator<Item = &'static str> {
    CONNECTION.iter().map(|(name, _)| *name)
}

/// Where a series stands among the others of a trial: those of a connection last, in their order.
pub(crate) fn rank(name: &str) -> usize {
    let place = CONNECTION.iter().position(|(known, _)| *known == name);
    place.map_or(0, |place| place + 1)
}

/// The chart of a series of a trial; None with fewer than two finite points.
pub(crate) fn chart(name: &str, series: &Series, contestant: usize) -> Option<Plot> {
    let end_s = series.at_s.iter().copied().filter(|at| at.is_finite());
    chart_of_several(name, &[(contestant, series)], end_s.fold(0.0, f64::max))
}

/// The chart of one series of several contestants, to `end_s`; None where none has two finite points.
pub(crate) fn chart_of_several(name: &str, all: &[(usize, &Series)], end_s: f64) -> Option<Plot> {
    let mut lines = Vec::new();
    for &(contestant, series) in all {
        let both = series.at_s.iter().zip(&series.values);
        let finite = both.filter(|(at, value)| at.is_finite() && value.is_finite());
        let points: Vec<(f64, f64)> = finite.map(|(at, value)| (*at, *value)).collect();
        if points.len() >= 2 {
            lines.push(Line::measured(contestant, points));
        }
    }
    let points = || lines.iter().flat_map(|line| &line.points);
    let values: Vec<f64> = points().map(|point| point.1).collect();
    let times: Vec<f64> = points().map(|point| point.0).chain([end_s]).collect();
    let title = title(name, all.first()?.1);
    let x = Axis::from_zero("seconds since measuring began", &times, quantity::digits);
    let y = Axis::from_zero(&title, &values, |value| super::sizes::tick(name, value));
    let mut plot = Plot::new(format!("{title} over time"), x, y);
    plot.lines = lines;
    (!plot.lines.is_empty()).then_some(plot)
}

/// A series' name with its unit.
pub(crate) fn title(name: &str, series: &Series) -> String {
    let unit = quantity::clean(&series.unit, 20);
    let known = CONNECTION.iter().find(|(known, _)| *known == name);
    let name = known.map_or_else(|| quantity::spaced(name), |(_, words)| (*words).to_owned());
    if unit.is_empty() {
        name
    } else {
        format!("{name} ({unit})")
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use plotters::coord::ranged1d::Ranged;

    fn series(at_s: &[f64], values: &[f64]) -> Series {
        Series {
            unit: "kB".into(),
            at_s: at_s.to_vec(),
            values: values.to_vec(),
        }
    }

    #[test]
    fn charts_of_several_contestants_share_the_end_of_their_axis() {
        let (short, long) = (series(&[0.0, 1.0], &[1.0, 2.0]), series(&[0.5], &[9.0]));
        let plot = chart_of_several("in_flight", &[(0, &short), (1, &long)], 4.0);
        let plot = plot.expect("one line of two points");
        assert_eq!(plot.lines.len(), 1);
        assert!(plot.x.range().end >= 4.0);
        assert!(plot.description.starts_with("in flight (kB)"));
        assert!(chart_of_several("in_flight", &[(1, &long)], 4.0).is_none());
        assert!(chart_of_several("in_flight", &[], 4.0).is_none());
    }

    #[test]
    fn series_of_a_connection_stand_last_and_goodput_leads_them() {
        let mut names = ["smoothed_rtt", "goodput", "messages_per_s", "link_queue"];
        names.sort_by_key(|name| rank(name));
        assert_eq!(
            names,
            ["messages_per_s", "goodput", "link_queue", "smoothed_rtt"]
        );
    }
}
