//! What a message costs: a fixed time and a time for each byte, from a column of any unit over sizes.

use super::exhibit::Column;

/// A line of time a message over its size.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Cost {
    /// Of every message, us.
    pub fixed_us: f64,
    /// Of every byte, ns.
    pub byte_ns: f64,
}

/// Base and slope of the line of least squares of relative distances; of plain distances if
/// `plain`. None where it has none.
pub(super) fn line(points: &[(f64, f64)], plain: bool) -> Option<(f64, f64)> {
    let weight = |y: f64| {
        if plain {
            1.0
        } else {
            1.0 / (y * y).max(1e-300)
        }
    };
    let sum = |of: &dyn Fn(f64, f64) -> f64| {
        points
            .iter()
            .map(|(x, y)| weight(*y) * of(*x, *y))
            .sum::<f64>()
    };
    let (n, x, y) = (sum(&|_, _| 1.0), sum(&|x, _| x), sum(&|_, y| y));
    let (xx, xy) = (sum(&|x, _| x * x), sum(&|x, y| x * y));
    let slope = (n * xy - x * y) / (n * xx - x * x);
    let base = (y - slope * x) / n;
    (base.is_finite() && slope.is_finite()).then_some((base, slope))
}

/// The paper's cost and ours of a column whose rows are sizes; None where its unit says no time of a
/// message, or there are fewer than three points.
pub fn of_column(column: &Column) -> [Option<Cost>; 2] {
    let cost = |value: fn(&super::exhibit::Cell) -> Option<f64>| {
        let cells = column.cells.iter();
        let points = cells.filter_map(|cell| {
            let time_us = time_us(&column.unit, cell.row, value(cell)?)?;
            time_us.is_finite().then_some((cell.row, time_us))
        });
        let points: Vec<(f64, f64)> = points.collect();
        let (base, slope) = line(&points, false).filter(|_| points.len() >= 3)?;
        Some(Cost {
            fixed_us: base,
            byte_ns: slope * 1e3,
        })
    };
    [cost(|cell| cell.paper), cost(|cell| cell.ours)]
}

/// The time of a message, us, that a value in `unit` says at a size.
fn time_us(unit: &str, size: f64, value: f64) -> Option<f64> {
    let bits = size * 8.0;
    Some(match unit {
        "/s" => 1e6 / value,
        "/10 s" => 1e7 / value,
        "bit/s" => bits * 1e6 / value,
        "Mbit/s" => bits / value,
        "Mibit/s" => bits / (value * 1.048_576),
        _ => return None,
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn cost_of_rates_on_a_line_is_its_base_and_slope() {
        let points = [64.0, 1024.0, 16_384.0].map(|size: f64| (size, 5.0 + 0.002 * size));
        let (base, slope) = line(&points, false).expect("a line");
        assert!((base - 5.0).abs() < 1e-9 && (slope - 0.002).abs() < 1e-12);
        assert_eq!(line(&points[..1], false), None);
        assert_eq!(time_us("Mbit/s", 1000.0, 8.0), Some(1000.0));
        assert_eq!(time_us("/s", 1000.0, 1e6), Some(1.0));
        assert_eq!(time_us("TU", 1000.0, 1.0), None);
    }
}
