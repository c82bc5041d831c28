//! Axes: a linear or logarithmic scale with chosen ticks, as plotters understands it.

use crate::quantity;
use plotters::coord::ranged1d::{KeyPointHint, NoDefaultFormatting, Ranged, ValueFormatter};
use std::ops::Range;

/// One axis.
#[derive(Clone, Debug)]
pub(crate) struct Axis {
    title: String,
    log: bool,
    from: f64,
    to: f64,
    ticks: Vec<(f64, String)>,
}

/// Beyond this span a linear axis hides the small values.
const LINEAR_SPAN_MAX: f64 = 12.0;

impl Axis {
    /// An axis with given ends and ticks. Invalid ends are replaced by 0 to 1, or 1 to 10 (log).
    pub fn new(title: &str, log: bool, ends: (f64, f64), ticks: Vec<(f64, String)>) -> Axis {
        let usable = ends.0.is_finite() && ends.1.is_finite() && ends.0 < ends.1;
        let (from, to) = match (usable && (!log || ends.0 > 0.0), log) {
            (true, _) => ends,
            (false, true) => (1.0, 10.0),
            (false, false) => (0.0, 1.0),
        };
        let inside = |tick: &(f64, String)| tick.0 >= from && tick.0 <= to;
        Axis {
            title: title.to_owned(),
            log,
            from,
            to,
            ticks: ticks.into_iter().filter(inside).collect(),
        }
    }

    /// A logarithmic axis around the values.
    pub fn log(title: &str, values: &[f64], label: impl Fn(f64) -> String) -> Axis {
        let usable = values.iter().copied().filter(|v| v.is_finite() && *v > 0.0);
        let (low, high) = ends(usable).unwrap_or((1.0, 10.0));
        let margin = (high / low).powf(0.05).max(1.12);
        let (from, to) = (low / margin, high * margin);
        let ticks = log_ticks(from, to);
        let named = ticks.into_iter().map(|tick| (tick, label(tick))).collect();
        Axis::new(title, true, (from, to), named)
    }

    /// A linear axis from zero up.
    pub fn from_zero(title: &str, values: &[f64], label: impl Fn(f64) -> String) -> Axis {
        let usable = values.iter().copied().filter(|value| value.is_finite());
        // Where all values are 0, the axis has room for one.
        let high = ends(usable).map_or(1.0, |(_, high)| high);
        let high = if high > 0.0 { high * 1.06 } else { 1.0 };
        let step = nice_step(high / 5.0);
        let count = (high / step).floor() as u32;
        let ticks = (0..=count).map(|i| f64::from(i) * step);
        let named = ticks.map(|tick| (tick, label(tick))).collect();
        Axis::new(title, false, (0.0, high), named)
    }

    /// A linear axis of ratios, with one in it.
    pub fn around_one(title: &str, ratios: &[f64]) -> Axis {
        let usable = ratios.iter().copied().filter(|ratio| ratio.is_finite());
        let (low, high) = ends(usable.chain([1.0])).unwrap_or((1.0, 1.0));
        let margin = ((high - low) * 0.06).max(0.005);
        let (low, high) = ((low - margin).max(0.0), high + margin);
        let step = nice_step((high - low) / 5.0);
        let first = (low / step).ceil() as u32;
        let count = ((high - low) / step).floor() as u32;
        let ticks = (first..=first + count).map(|i| f64::from(i) * step);
        let named = ticks.map(|tick| (tick, format!("{}x", quantity::short(tick))));
        Axis::new(title, false, (low, high), named.collect())
    }

    /// Linear from zero if that resolves every value, else logarithmic.
    pub fn fitting(title: &str, values: &[f64], label: impl Fn(f64) -> String) -> Axis {
        let usable = values.iter().copied().filter(|v| v.is_finite() && *v > 0.0);
        match ends(usable) {
            Some((low, high)) if high / low > LINEAR_SPAN_MAX => Axis::log(title, values, label),
            _ => Axis::from_zero(title, values, label),
        }
    }

    /// The axis of message sizes, with one tick per size as far as they fit.
    pub fn sizes(sizes: &[u64]) -> Axis {
        let values: Vec<f64> = sizes.iter().map(|size| (*size).max(1) as f64).collect();
        let (low, high) = ends(values.iter().copied()).unwrap_or((1.0, 1024.0));
        let margin = if low < high {
            (high / low).powf(0.07).max(1.2)
        } else {
            2.0
        };
        let (from, to) = (low / margin, high * margin);
        let mut ticks: Vec<(f64, String)> = Vec::new();
        for (size, value) in sizes.iter().zip(values) {
            let place = (value / from).ln() / (to / from).ln();
            let last = ticks
                .last()
                .map(|tick| (tick.0 / from).ln() / (to / from).ln());
            if last.is_none_or(|last| place - last > 0.13) {
                ticks.push((value, quantity::bytes(*size)));
            }
        }
        Axis::new("message size", true, (from, to), ticks)
    }

    /// Its title, unit included.
    pub fn title(&self) -> &str {
        &self.title
    }

    /// Whether the axis can show the value.
    pub fn can_show(&self, value: f64) -> bool {
        value.is_finite() && (!self.log || value > 0.0)
    }

    /// The position of a value between the ends, clamped to 0..=1.
    fn position(&self, value: f64) -> f64 {
        let place = if self.log {
            (value / self.from).ln() / (self.to / self.from).ln()
        } else {
            (value - self.from) / (self.to - self.from)
        };
        if place.is_finite() {
            place.clamp(0.0, 1.0)
        } else {
            0.0
        }
    }

    /// `value` moved by `fraction` of the axis length.
    pub fn offset(&self, value: f64, fraction: f64) -> f64 {
        if self.log {
            value * (self.to / self.from).powf(fraction)
        } else {
            value + (self.to - self.from) * fraction
        }
    }
}

impl Ranged for Axis {
    type FormatOption = NoDefaultFormatting;
    type ValueType = f64;

    fn map(&self, value: &f64, limit: (i32, i32)) -> i32 {
        let length = f64::from(limit.1 - limit.0);
        limit.0 + (self.position(*value) * length).round() as i32
    }

    fn key_points<Hint: KeyPointHint>(&self, hint: Hint) -> Vec<f64> {
        if hint.weight().allow_light_points() {
            return Vec::new();
        }
        self.ticks.iter().map(|tick| tick.0).collect()
    }

    fn range(&self) -> Range<f64> {
        self.from..self.to
    }
}

impl ValueFormatter<f64> for Axis {
    fn format_ext(&self, value: &f64) -> String {
        let tick = self.ticks.iter().find(|tick| tick.0 == *value);
        tick.map(|tick| tick.1.clone()).unwrap_or_default()
    }
}

fn ends(values: impl Iterator<Item = f64>) -> Option<(f64, f64)> {
    values.fold(None, |ends, value| match ends {
        None => Some((value, value)),
        Some((low, high)) => Some((value.min(low), value.max(high))),
    })
}

/// 1, 2 and 5 of every decade, only 1 when there are many decades, fewer still beyond.
fn log_ticks(from: f64, to: f64) -> Vec<f64> {
    let decades = (to / from).log10();
    let steps: &[f64] = match decades {
        d if d < 2.3 => &[1.0, 2.0, 5.0],
        d if d < 3.6 => &[1.0, 3.0],
        _ => &[1.0],
    };
    let stride = (decades / 7.0).ceil().max(1.0) as usize;
    let first = from.log10().floor().max(-300.0) as i32;
    let last = to.log10().ceil().min(300.0) as i32;
    let powers = (first..=last).step_by(stride);
    powers
        .flat_map(|power| steps.iter().map(move |step| step * 10f64.powi(power)))
        .filter(|tick| *tick >= from && *tick <= to)
        .collect()
}

/// The next of 1, 2, 2.5, 5 times a power of ten.
fn nice_step(step: f64) -> f64 {
    let power = 10f64.powf(step.log10().floor());
    let steps = [1.0, 2.0, 2.5, 5.0, 10.0];
    let fitting = steps.iter().find(|nice| step <= *nice * power * 1.0001);
    fitting.unwrap_or(&10.0) * power
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn axis_ticks_are_round_numbers() {
        assert_eq!(
            log_ticks(0.9, 110.0),
            [1.0, 2.0, 5.0, 10.0, 20.0, 50.0, 100.0]
        );
        assert_eq!(log_ticks(5.0, 2e5), [10.0, 100.0, 1e3, 1e4, 1e5]);
        assert!((nice_step(0.23) - 0.25).abs() < 1e-12);
    }

    #[test]
    fn axis_of_constant_or_empty_values_has_span() {
        for values in [&[][..], &[f64::NAN], &[0.0], &[7.0, 7.0]] {
            for axis in [
                Axis::log("x", values, |v| v.to_string()),
                Axis::from_zero("x", values, |v| v.to_string()),
            ] {
                assert!(axis.from < axis.to, "{axis:?}");
                assert!((0..=100).contains(&axis.map(&7.0, (0, 100))));
            }
        }
    }

    #[test]
    fn dense_size_axis_drops_ticks() {
        let sizes: Vec<u64> = (0..15).map(|power| 1 << power).collect();
        let axis = Axis::sizes(&sizes);
        assert!(axis.ticks.len() < 9 && axis.ticks.len() > 3, "{axis:?}");
    }
}
