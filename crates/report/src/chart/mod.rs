//! Charts as static SVG. Colours are classes of the style sheet, so that one chart works in light
//! mode, dark mode and print.
//!
//! [`Plot`] describes a chart; [`draw()`] lets plotters lay out axes, grid and lines on
//! [`backend::Backend`], and adds marks and names. Each kind of chart has its own file.

mod axis;
mod backend;
pub(crate) mod cost;
pub(crate) mod cpu_time;
pub(crate) mod distribution;
mod draw;
pub(crate) mod grids;
pub(crate) mod history;
pub(crate) mod improvement;
mod labels;
pub(crate) mod loads;
mod marks;
mod numbers;
pub(crate) mod offered;
pub(crate) mod order;
pub(crate) mod percentiles;
pub(crate) mod sizes;
pub(crate) mod timeline;

pub(crate) use axis::Axis;
pub(crate) use draw::draw;
pub(crate) use marks::{glyph, style_of};
pub(crate) use numbers::{Number, numbers, plain as number_text};

/// A point in the units of the axes.
pub(crate) type Point = (f64, f64);

/// A chart of points and lines over two axes.
pub(crate) struct Plot {
    /// Description for screen readers.
    pub description: String,
    /// The x axis.
    pub x: Axis,
    /// The y axis.
    pub y: Axis,
    /// Ranges of y that are shaded.
    pub bands: Vec<(f64, f64)>,
    /// Whether the line y = x is drawn, as far as both axes show it.
    pub diagonal: bool,
    /// Lines, drawn first.
    pub lines: Vec<Line>,
    /// Intervals, drawn above the lines.
    pub whiskers: Vec<Whisker>,
    /// Rectangles that start at x = 0.
    pub bars: Vec<Bar>,
    /// Marks, drawn last.
    pub marks: Vec<Mark>,
    /// Names at the right edge: contestant, name, height.
    pub names: Vec<(usize, String, f64)>,
    /// The numbers shown, where marks and lines do not say them exactly.
    pub numbers: Vec<Number>,
    /// Width of the room for tick labels on the left.
    pub left: u32,
}

/// A line through points.
pub(crate) struct Line {
    /// Its contestant, which selects colour and dashes.
    pub contestant: usize,
    /// Drawn thin and dotted: a model rather than a measurement.
    pub model: bool,
    /// The points, ascending in x.
    pub points: Vec<Point>,
}

impl Line {
    /// A line through what was measured.
    pub(crate) fn measured(contestant: usize, points: Vec<Point>) -> Line {
        Line {
            contestant,
            model: false,
            points,
        }
    }
}

/// A vertical interval.
pub(crate) struct Whisker {
    /// Its contestant.
    pub contestant: usize,
    /// Its x.
    pub x: f64,
    /// Lower end.
    pub low: f64,
    /// Upper end.
    pub high: f64,
}

/// A segment of a horizontal bar.
pub(crate) struct Bar {
    /// Its contestant.
    pub contestant: usize,
    /// The row's place on the y axis.
    pub row: f64,
    /// Its start.
    pub from: f64,
    /// Its end.
    pub to: f64,
    /// The receiver's segment, drawn pale.
    pub is_receiver: bool,
    /// Text at its end, empty for none.
    pub label: String,
    /// Its tooltip.
    pub hint: String,
}

/// A mark at a point.
pub(crate) struct Mark {
    /// Its contestant, which selects colour and shape.
    pub contestant: usize,
    /// Its coordinates.
    pub at: Point,
    /// Drawn small and pale: one trial rather than the median of all.
    pub raw: bool,
    /// Its tooltip, empty for none.
    pub hint: String,
}

impl Plot {
    /// An empty chart.
    pub fn new(description: String, x: Axis, y: Axis) -> Plot {
        Plot {
            description,
            x,
            y,
            bands: Vec::new(),
            diagonal: false,
            lines: Vec::new(),
            whiskers: Vec::new(),
            bars: Vec::new(),
            marks: Vec::new(),
            names: Vec::new(),
            numbers: Vec::new(),
            left: 52,
        }
    }
}
