//! Marks, and the colour, shape and dashes of contestants.

use super::Mark;
use super::backend::{SCALE, escape, unit};

/// Colours of the palette (Okabe and Ito); after these the dashes change.
const COLOURS: usize = 8;

/// Dash patterns of the style sheet.
const DASHES: usize = 4;

/// Shapes of marks.
const SHAPES: usize = 6;

/// The classes that select a contestant's colour and dashes, and by which the legend toggles it.
pub(crate) fn style_of(contestant: usize) -> String {
    let (colour, dash) = (contestant % COLOURS, contestant / COLOURS % DASHES);
    format!("c{colour} d{dash} n{contestant}")
}

/// A contestant's mark as a small SVG for legends and tables.
pub(crate) fn glyph(contestant: usize) -> String {
    let (line, mark) = (style_of(contestant), shape(contestant, 130, 60, 4.2));
    format!(
        "<svg class=\"glyph\" viewBox=\"0 0 26 12\" aria-hidden=\"true\"><path class=\"line {line}\" \
         d=\"M0 6L26 6\"/><path class=\"mark {line}\" d=\"{mark}\"/></svg>"
    )
}

/// A mark at coordinates in backend pixels.
pub(super) fn mark(mark: &Mark, x: i32, y: i32) -> String {
    let classes = style_of(mark.contestant);
    let hint = match mark.hint.is_empty() {
        true => String::new(),
        false => format!("<title>{}</title>", escape(&mark.hint)),
    };
    if mark.raw {
        let (x, y) = (unit(x), unit(y));
        return format!(
            "<circle class=\"raw {classes}\" cx=\"{x}\" cy=\"{y}\" r=\"1.9\">{hint}</circle>"
        );
    }
    let path = shape(mark.contestant, x, y, 3.8);
    format!("<path class=\"mark {classes}\" d=\"{path}\">{hint}</path>")
}

/// The path of a contestant's shape around coordinates in backend pixels.
fn shape(contestant: usize, x: i32, y: i32, radius: f64) -> String {
    let corners: &[(f64, f64)] = match contestant % SHAPES {
        0 => return circle(x, y, radius),
        1 => &[(-0.9, -0.9), (0.9, -0.9), (0.9, 0.9), (-0.9, 0.9)],
        2 => &[(0.0, -1.3), (1.3, 0.0), (0.0, 1.3), (-1.3, 0.0)],
        3 => &[(0.0, -1.2), (1.15, 0.85), (-1.15, 0.85)],
        4 => &[(0.0, 1.2), (1.15, -0.85), (-1.15, -0.85)],
        _ => &[(-1.3, -0.7), (1.3, -0.7), (1.3, 0.7), (-1.3, 0.7)],
    };
    let place = |value: i32, offset: f64| unit(value + (offset * radius * f64::from(SCALE)) as i32);
    let corners = corners
        .iter()
        .map(|(dx, dy)| format!("{} {}", place(x, *dx), place(y, *dy)));
    format!("M{}Z", corners.collect::<Vec<_>>().join("L"))
}

fn circle(x: i32, y: i32, radius: f64) -> String {
    let pixels = (radius * f64::from(SCALE)) as i32;
    let (r, wide) = (unit(pixels), unit(2 * pixels));
    format!(
        "M{} {}a{r} {r} 0 1 0 {wide} 0a{r} {r} 0 1 0 -{wide} 0Z",
        unit(x - pixels),
        unit(y)
    )
}
