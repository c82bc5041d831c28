//! A plotters backend that writes SVG whose colours are classes.
//!
//! A colour is (role, variant, 0): see [`Role`]. Coordinates are tenths of the picture's units,
//! because plotters counts in whole pixels.

use plotters::style::RGBColor;
use plotters::style::text_anchor::{HPos, VPos};
use plotters_backend::{
    BackendColor, BackendCoord, BackendStyle, BackendTextStyle, DrawingBackend, DrawingErrorKind,
};
use std::convert::Infallible;
use std::fmt::Write;

/// Backend pixels in a unit of the picture.
pub(super) const SCALE: i32 = 10;

/// The role of a stroke or text, styled by the style sheet.
#[derive(Clone, Copy)]
pub(super) enum Role {
    /// Lines behind the data.
    Grid,
    /// The axes themselves.
    AxisLine,
    /// Numbers at the axes.
    Tick,
    /// Names of the axes.
    Title,
    /// A shaded range.
    Band,
    /// A contestant's line.
    Line(usize),
    /// A contestant's model.
    Model(usize),
    /// A contestant's interval.
    Whisker(usize),
}

impl Role {
    /// The colour that encodes the role.
    pub fn colour(self) -> RGBColor {
        let (role, contestant) = match self {
            Role::Grid => (0, 0),
            Role::AxisLine => (1, 0),
            Role::Tick => (2, 0),
            Role::Title => (3, 0),
            Role::Band => (4, 0),
            Role::Line(contestant) => (5, contestant),
            Role::Model(contestant) => (6, contestant),
            Role::Whisker(contestant) => (7, contestant),
        };
        RGBColor(role, (contestant & 0xff) as u8, 0)
    }
}

fn classes(colour: BackendColor) -> String {
    let (role, contestant, _) = colour.rgb;
    let name = [
        "grid", "axis", "tick", "title", "band", "line", "model", "whisker",
    ];
    let name = name.get(usize::from(role)).unwrap_or(&"tick");
    if role < 5 {
        return (*name).to_owned();
    }
    format!("{name} {}", super::style_of(usize::from(contestant)))
}

/// Collects the elements of a picture.
pub(super) struct Backend<'a> {
    /// The elements so far.
    pub body: &'a mut String,
    /// Width and height in backend pixels.
    pub size: (u32, u32),
}

type Drawn = Result<(), DrawingErrorKind<Infallible>>;

/// A coordinate in the picture's units.
pub(super) fn unit(pixels: i32) -> String {
    let (whole, tenth) = (pixels.abs() / SCALE, pixels.abs() % SCALE);
    let sign = if pixels < 0 { "-" } else { "" };
    match tenth {
        0 => format!("{sign}{whole}"),
        _ => format!("{sign}{whole}.{tenth}"),
    }
}

/// Text with HTML's reserved characters escaped.
pub(super) fn escape(text: &str) -> String {
    let mut escaped = String::with_capacity(text.len());
    for character in text.chars() {
        match character {
            '&' => escaped.push_str("&amp;"),
            '<' => escaped.push_str("&lt;"),
            '>' => escaped.push_str("&gt;"),
            '"' => escaped.push_str("&quot;"),
            '\'' => escaped.push_str("&#39;"),
            other => escaped.push(other),
        }
    }
    escaped
}

impl Backend<'_> {
    fn element(&mut self, text: std::fmt::Arguments) -> Drawn {
        // Writing to a string cannot fail.
        let _ = self.body.write_fmt(text);
        Ok(())
    }
}

impl DrawingBackend for Backend<'_> {
    type ErrorType = Infallible;

    fn get_size(&self) -> (u32, u32) {
        self.size
    }

    fn ensure_prepared(&mut self) -> Drawn {
        Ok(())
    }

    fn present(&mut self) -> Drawn {
        Ok(())
    }

    fn draw_pixel(&mut self, _: BackendCoord, _: BackendColor) -> Drawn {
        Ok(())
    }

    fn draw_line<S: BackendStyle>(&mut self, a: BackendCoord, b: BackendCoord, s: &S) -> Drawn {
        self.draw_path([a, b], s)
    }

    fn draw_rect<S: BackendStyle>(
        &mut self,
        corner: BackendCoord,
        opposite: BackendCoord,
        style: &S,
        _fill: bool,
    ) -> Drawn {
        self.element(format_args!(
            "<rect class=\"{}\" x=\"{}\" y=\"{}\" width=\"{}\" height=\"{}\"/>",
            classes(style.color()),
            unit(corner.0.min(opposite.0)),
            unit(corner.1.min(opposite.1)),
            unit((corner.0 - opposite.0).abs()),
            unit((corner.1 - opposite.1).abs()),
        ))
    }

    fn draw_path<S: BackendStyle, I: IntoIterator<Item = BackendCoord>>(
        &mut self,
        path: I,
        style: &S,
    ) -> Drawn {
        let mut d = String::new();
        for (x, y) in path {
            let command = if d.is_empty() { 'M' } else { 'L' };
            let _ = write!(d, "{command}{} {}", unit(x), unit(y));
        }
        self.element(format_args!(
            "<path class=\"{}\" d=\"{d}\"/>",
            classes(style.color())
        ))
    }

    fn draw_text<S: BackendTextStyle>(&mut self, text: &str, style: &S, at: BackendCoord) -> Drawn {
        let anchor = match style.anchor().h_pos {
            HPos::Left => "start",
            HPos::Center => "middle",
            HPos::Right => "end",
        };
        // Baselines by the height of capitals at the style sheet's font size.
        let down = match style.anchor().v_pos {
            VPos::Top => 10 * SCALE,
            VPos::Center => 4 * SCALE,
            VPos::Bottom => 0,
        };
        self.element(format_args!(
            "<text class=\"{}\" x=\"{}\" y=\"{}\" text-anchor=\"{anchor}\">{}</text>",
            classes(style.color()),
            unit(at.0),
            unit(at.1 + down),
            escape(text),
        ))
    }

    fn estimate_text_size<S: BackendTextStyle>(
        &self,
        text: &str,
        _: &S,
    ) -> Result<(u32, u32), DrawingErrorKind<Infallible>> {
        let width = text.chars().count() as u32 * 6 * SCALE as u32;
        Ok((width, 12 * SCALE as u32))
    }
}
