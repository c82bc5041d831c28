//! Curves of a simulator's sweep or a study, as a page.

use super::charts::Figure;
use crate::chart::{Axis, Line, Mark, Number, Plot, Whisker, glyph};
use crate::quantity;
use serde::Serialize;

/// A page of curves.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Curves {
    /// The small line above the title.
    pub kind: String,
    /// The title.
    pub title: String,
    /// Paragraphs below it.
    pub lead: Vec<String>,
    /// Names of the curves; the index selects colour and shape.
    pub names: Vec<String>,
    /// Rows of two figures side by side, each row with a title.
    pub rows: Vec<CurveRow>,
}

/// Figures that belong together.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct CurveRow {
    /// Title of the row.
    pub title: String,
    /// A sentence about them; may be empty.
    pub note: String,
    /// The figures.
    pub figures: Vec<CurveFigure>,
}

/// Curves over one axis.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct CurveFigure {
    /// The caption.
    pub caption: String,
    /// Title of the x axis, unit included.
    pub x: String,
    /// Title of the y axis, unit included.
    pub y: String,
    /// Both axes are linear from zero; else linear or logarithmic by the values.
    pub linear: bool,
    /// The curves.
    pub curves: Vec<Curve>,
}

/// A curve.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Curve {
    /// Its index in the page's names.
    pub name: usize,
    /// Whether points are joined by a line.
    pub line: bool,
    /// Whether each point has a mark.
    pub marks: bool,
    /// The points, ascending in x.
    pub points: Vec<(f64, f64)>,
    /// Intervals of y at an x, such as the lowest and highest of several seeds: x, low, high.
    pub spread: Vec<(f64, f64, f64)>,
}

#[derive(Serialize)]
struct Page {
    kind: String,
    title: String,
    lead: Vec<String>,
    legend: Vec<CurveLegendItem>,
    rows: Vec<FigureRow>,
    style: &'static str,
}

#[derive(Serialize)]
struct CurveLegendItem {
    label: String,
    glyph: String,
}

#[derive(Serialize)]
struct FigureRow {
    title: String,
    note: String,
    figures: Vec<Figure>,
}

/// Maximum length of a text from a scenario.
const TEXT_MAX: usize = 300;

/// Curves as a complete HTML document without external resources and scripts.
pub fn curves_html(curves: &Curves) -> String {
    let clean = |text: &String| quantity::clean(text, TEXT_MAX);
    let legend = curves
        .names
        .iter()
        .enumerate()
        .map(|(place, name)| CurveLegendItem {
            label: clean(name),
            glyph: glyph(place),
        });
    let rows = curves.rows.iter().map(|row| FigureRow {
        title: clean(&row.title),
        note: row.note.clone(),
        figures: row
            .figures
            .iter()
            .map(|figure| {
                let label = |name: usize| curves.names.get(name).map(clean).unwrap_or_default();
                Figure::with_numbers(&clean(&figure.caption), &plot(figure, &curves.names), label)
            })
            .collect(),
    });
    let page = Page {
        kind: clean(&curves.kind),
        title: clean(&curves.title),
        lead: curves.lead.clone(),
        legend: legend.collect(),
        rows: rows.collect(),
        style: super::STYLE,
    };
    super::render("curves.html", &page)
}

fn plot(figure: &CurveFigure, names: &[String]) -> Plot {
    let all = || figure.curves.iter().flat_map(|curve| &curve.points);
    let across: Vec<f64> = all().map(|point| point.0).collect();
    let spread = figure.curves.iter().flat_map(|curve| &curve.spread);
    let ends = spread.flat_map(|&(_, low, high)| [low, high]);
    let up: Vec<f64> = all().map(|point| point.1).chain(ends).collect();
    let tick = |value: f64| quantity::si(value, "").trim().to_owned();
    let axis = |title: &str, values: &[f64]| match figure.linear {
        true => Axis::from_zero(title, values, tick),
        false => Axis::fitting(title, values, tick),
    };
    let (x, y) = (axis(&figure.x, &across), axis(&figure.y, &up));
    let mut plot = Plot::new(quantity::clean(&figure.caption, TEXT_MAX), x, y);
    for curve in &figure.curves {
        add(&mut plot, figure, curve, names);
    }
    plot
}

fn add(plot: &mut Plot, figure: &CurveFigure, curve: &Curve, names: &[String]) {
    let whiskers = curve.spread.iter().map(|&(x, low, high)| Whisker {
        contestant: curve.name,
        x,
        low,
        high,
    });
    plot.whiskers.extend(whiskers);
    let interval = |x: f64| {
        let found = curve.spread.iter().find(|spread| spread.0 == x)?;
        Some((found.1, found.2))
    };
    plot.numbers
        .extend(curve.points.iter().map(|&(x, y)| Number {
            contestant: curve.name,
            x,
            y,
            interval: interval(x),
        }));
    if curve.line {
        plot.lines.push(Line {
            contestant: curve.name,
            model: false,
            points: curve.points.clone(),
        });
    }
    if !curve.marks {
        return;
    }
    let name = names.get(curve.name).map_or("", String::as_str);
    let marks = curve.points.iter().map(|&at| Mark {
        contestant: curve.name,
        at,
        raw: false,
        hint: format!(
            "{}: {} {}, {} {}",
            quantity::clean(name, TEXT_MAX),
            figure.x,
            quantity::short(at.0),
            figure.y,
            quantity::short(at.1)
        ),
    });
    plot.marks.extend(marks);
}

#[cfg(test)]
mod tests {
    use super::*;

    fn page(name: &str) -> String {
        curves_html(&Curves {
            title: "Throughput".to_owned(),
            names: vec![name.to_owned(), "printed".to_owned()],
            rows: vec![CurveRow {
                figures: vec![CurveFigure {
                    x: "offered, B/s".to_owned(),
                    y: "carried, B/s".to_owned(),
                    curves: vec![
                        Curve {
                            line: true,
                            points: vec![(1.0, 1.0), (2.0, 1.5), (3.0, 1.5)],
                            spread: vec![(1.0, 0.5, 2.0), (3.0, f64::NAN, 2.0)],
                            ..Curve::default()
                        },
                        Curve {
                            name: 1,
                            marks: true,
                            points: vec![(1.0, 1.1), (f64::NAN, 1.0)],
                            ..Curve::default()
                        },
                    ],
                    ..CurveFigure::default()
                }],
                ..CurveRow::default()
            }],
            ..Curves::default()
        })
    }

    #[test]
    fn curves_page_has_lines_marks_and_legend() {
        let html = page("ours");
        assert_eq!(html.matches("<svg class=\"chart\"").count(), 1);
        // A line of three points, and a mark for the one point that is a number.
        assert!(html.contains("class=\"line c0 d0 n0\""), "{html}");
        // A whisker for the spread whose ends are numbers.
        assert_eq!(html.matches("class=\"whisker c0").count(), 1);
        let marks = html.matches("class=\"mark c1").count();
        assert_eq!(marks, 2, "one in the chart and one in the legend");
        assert!(html.contains("carried, B/s") && html.contains("printed"));
    }

    #[test]
    fn scenario_names_are_escaped() {
        let html = page("<script>alert(1)</script>");
        assert!(!html.contains("<script>"), "{html}");
    }
}
