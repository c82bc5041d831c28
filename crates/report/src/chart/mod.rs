//! Charts as static SVG. Colours are roles that the style sheet fills in, so that one picture
//! serves light, dark and paper.
//!
//! [`Plot`] says what to show; [`draw()`] lets plotters lay out axes, grid and lines on
//! [`backend::Backend`], and puts marks and names on top. One file beside this one knows one chart.

mod axis;
mod backend;
pub(crate) mod cpu_time;
pub(crate) mod distribution;
mod draw;
pub(crate) mod improvement;
mod labels;
mod marks;
pub(crate) mod offered;
pub(crate) mod percentiles;
pub(crate) mod sizes;
pub(crate) mod timeline;

pub(crate) use axis::Axis;
pub(crate) use draw::draw;
pub(crate) use marks::{glyph, style_of};

/// A point in the units of the axes.
pub(crate) type Point = (f64, f64);

/// A chart of points and lines over two axes.
pub(crate) struct Plot {
    /// What it shows, for those who cannot see it.
    pub description: String,
    /// Across.
    pub x: Axis,
    /// Up.
    pub y: Axis,
    /// Ranges of y that are shaded.
    pub bands: Vec<(f64, f64)>,
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
    /// Width of the room for tick labels on the left.
    pub left: u32,
}

/// A line through points.
pub(crate) struct Line {
    /// Whose it is; decides colour and dashes.
    pub contestant: usize,
    /// Drawn thin and dotted: a model rather than a measurement.
    pub model: bool,
    /// The points, ascending in x.
    pub points: Vec<Point>,
}

/// A vertical interval.
pub(crate) struct Whisker {
    /// Whose it is.
    pub contestant: usize,
    /// Where.
    pub x: f64,
    /// Lower end.
    pub low: f64,
    /// Upper end.
    pub high: f64,
}

/// A horizontal bar piece in a row.
pub(crate) struct Bar {
    /// Whose it is.
    pub contestant: usize,
    /// The row's place on the y axis.
    pub row: f64,
    /// Where it starts.
    pub from: f64,
    /// Where it ends.
    pub to: f64,
    /// Drawn paler: the second of two pieces.
    pub is_receiver: bool,
    /// Text at its end, empty for none.
    pub label: String,
    /// What a pointer resting on it reads.
    pub hint: String,
}

/// A mark at a point.
pub(crate) struct Mark {
    /// Whose it is; decides colour and shape.
    pub contestant: usize,
    /// Where.
    pub at: Point,
    /// Drawn small and pale: one trial rather than the median of all.
    pub raw: bool,
    /// What a pointer resting on it reads, empty for none.
    pub hint: String,
}

impl Plot {
    /// A chart without anything in it yet.
    pub fn new(description: String, x: Axis, y: Axis) -> Plot {
        Plot {
            description,
            x,
            y,
            bands: Vec::new(),
            lines: Vec::new(),
            whiskers: Vec::new(),
            bars: Vec::new(),
            marks: Vec::new(),
            names: Vec::new(),
            left: 52,
        }
    }
}
