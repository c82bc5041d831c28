//! A metric against one load, a line for each value of another.

use super::{Axis, Line, Mark, Plot, sizes};
use crate::quantity;
use crate::view::grids::LoadGrid;
use results::metric;

/// The chart of a grid; None without values.
pub(crate) fn chart(grid: &LoadGrid, contestant: &str) -> Option<Plot> {
    let name = match grid.workload.as_str() {
        "throughput" => metric::MBIT_PER_S,
        other => metric::primary(other),
    };
    let line = |row: usize| -> Vec<(f64, f64)> {
        let columns = grid.across.values.iter().enumerate();
        let points = columns.filter_map(|(column, &load)| {
            let median = grid.entry(row, column)?.estimate(name)?.median;
            Some((load, median))
        });
        points.collect()
    };
    let lines: Vec<Vec<(f64, f64)>> = (0..grid.down.values.len()).map(line).collect();
    let values: Vec<f64> = lines.iter().flatten().map(|point| point.1).collect();
    if values.is_empty() {
        return None;
    }
    let title = sizes::axis_title(name);
    let x = Axis::from_zero(grid.across.name, &grid.across.values, quantity::short);
    let y = Axis::fitting(&title, &values, |value| sizes::tick(name, value));
    let description = format!(
        "{title} of {contestant} against {}, a line for each {}, {}",
        grid.across.name, grid.down.name, grid.title
    );
    let mut plot = Plot::new(description, x, y);
    for (row, points) in lines.into_iter().enumerate() {
        add(&mut plot, grid, row, points, name);
    }
    Some(plot)
}

/// A line, which has the colour and the marks of its place.
fn add(plot: &mut Plot, grid: &LoadGrid, row: usize, points: Vec<(f64, f64)>, name: &str) {
    let label = grid.row_label(row);
    for &(load, value) in &points {
        plot.marks.push(Mark {
            contestant: row,
            at: (load, value),
            raw: false,
            hint: format!(
                "{} {}, {label}: {}",
                grid.across.name,
                quantity::short(load),
                quantity::measure(name, value)
            ),
        });
    }
    if let Some(last) = points.last() {
        plot.names
            .push((row, quantity::short(grid.down.values[row]), last.1));
    }
    plot.lines.push(Line::measured(row, points));
}
