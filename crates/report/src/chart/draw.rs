//! Renders a [`Plot`] as SVG.

use super::backend::{Backend, Role, SCALE, escape, unit};
use super::{Axis, Plot, labels, marks, style_of};
use plotters::prelude::*;
use std::convert::Infallible;

/// Units across, names at the right included.
const WIDTH: i32 = 480;
/// Units down.
const HEIGHT: i32 = 300;
/// Units above the frame, for the name of the y axis.
const ABOVE: i32 = 26;
/// Units below the frame, for ticks and the name of the x axis.
const BELOW: i32 = 40;
/// Maximum width of a character of a name, in units.
const CHAR_WIDTH: i32 = 7;
/// Maximum characters of a name.
const NAME_CHARS_MAX: usize = 18;

type Chart<'a, 'b> = ChartContext<'a, Backend<'b>, Cartesian2d<Axis, Axis>>;
type Drawn = Result<(), DrawingAreaErrorKind<Infallible>>;

/// Draws a chart; the result is a complete `<svg>` element.
pub(crate) fn draw(plot: &Plot) -> String {
    let height = match plot.bars.is_empty() {
        true => HEIGHT,
        false => above_frame(plot) + BELOW + rows(plot) * 24,
    };
    let mut body = String::new();
    let mut above = String::new();
    let drawn = draw_into(&mut body, &mut above, plot, height);
    if drawn.is_err() {
        return "<p class=\"note\">This chart could not be drawn.</p>".into();
    }
    let description = escape(&plot.description);
    format!(
        "<svg class=\"chart\" viewBox=\"0 0 {WIDTH} {height}\" role=\"img\" \
         aria-label=\"{description}\">{body}{above}</svg>"
    )
}

/// Room above the frame; without a title only for half a tick label.
fn above_frame(plot: &Plot) -> i32 {
    if plot.y.title().is_empty() { 8 } else { ABOVE }
}

fn rows(plot: &Plot) -> i32 {
    let mut rows: Vec<f64> = plot.bars.iter().map(|bar| bar.row).collect();
    rows.sort_by(f64::total_cmp);
    rows.dedup();
    rows.len() as i32
}

fn draw_into(body: &mut String, above: &mut String, plot: &Plot, height: i32) -> Drawn {
    let size = ((WIDTH * SCALE) as u32, (height * SCALE) as u32);
    let root = Backend { body, size }.into_drawing_area();
    let mut chart = ChartBuilder::on(&root)
        .margin_top(above_frame(plot) * SCALE)
        .margin_right(right_room(plot) * SCALE)
        .x_label_area_size(BELOW * SCALE)
        .y_label_area_size(plot.left as i32 * SCALE)
        .build_cartesian_2d(plot.x.clone(), plot.y.clone())?;
    bands(&mut chart, plot)?;
    mesh(&mut chart, plot)?;
    diagonal(&mut chart, plot)?;
    lines(&mut chart, plot)?;
    whiskers(&mut chart, plot)?;
    overlay(&chart, plot, above);
    Ok(())
}

/// Room for the names at the right; without names only for half a tick label.
fn right_room(plot: &Plot) -> i32 {
    let longest = plot.names.iter().map(|name| name.1.chars().count()).max();
    match longest {
        Some(chars) => 18 + CHAR_WIDTH * chars.min(NAME_CHARS_MAX + 1) as i32,
        None if plot.bars.is_empty() => 22,
        None => 62,
    }
}

fn bands(chart: &mut Chart, plot: &Plot) -> Drawn {
    let range = plot.x.range();
    chart.draw_series(plot.bands.iter().map(|(low, high)| {
        let corners = [(range.start, *low), (range.end, *high)];
        Rectangle::new(corners, Role::Band.colour().filled())
    }))?;
    Ok(())
}

fn mesh(chart: &mut Chart, plot: &Plot) -> Drawn {
    let text = |role: Role| ("sans-serif", 12).into_font().color(&role.colour());
    let mut mesh = chart.configure_mesh();
    if !plot.bars.is_empty() {
        mesh.disable_y_mesh();
    }
    mesh.max_light_lines(0)
        .bold_line_style(Role::Grid.colour())
        .axis_style(Role::AxisLine.colour())
        .label_style(text(Role::Tick))
        .axis_desc_style(text(Role::Title))
        .x_desc(plot.x.title())
        .x_labels(64)
        .y_labels(64)
        .set_all_tick_mark_size(3 * SCALE)
        .draw()
}

/// The line y = x, in steps fine enough for a logarithmic axis.
fn diagonal(chart: &mut Chart, plot: &Plot) -> Drawn {
    let (x, y) = (plot.x.range(), plot.y.range());
    let (from, to) = (x.start.max(y.start), x.end.min(y.end));
    if !plot.diagonal || from >= to {
        return Ok(());
    }
    let points = (0..=64).map(|step| from + (to - from) * f64::from(step) / 64.0);
    let points = points.filter(|at| plot.x.can_show(*at) && plot.y.can_show(*at));
    let points = points.map(|at| (at, at));
    chart.draw_series(LineSeries::new(points, Role::AxisLine.colour()))?;
    Ok(())
}

fn lines(chart: &mut Chart, plot: &Plot) -> Drawn {
    for line in &plot.lines {
        let role = match line.model {
            true => Role::Model(line.contestant),
            false => Role::Line(line.contestant),
        };
        let shown = |point: &&(f64, f64)| plot.x.can_show(point.0) && plot.y.can_show(point.1);
        let points = line.points.iter().filter(shown).copied();
        chart.draw_series(LineSeries::new(points, role.colour()))?;
    }
    Ok(())
}

fn whiskers(chart: &mut Chart, plot: &Plot) -> Drawn {
    for whisker in &plot.whiskers {
        if plot.x.can_show(whisker.x)
            && plot.y.can_show(whisker.low)
            && plot.y.can_show(whisker.high)
        {
            let ends = [(whisker.x, whisker.low), (whisker.x, whisker.high)];
            let role = Role::Whisker(whisker.contestant);
            chart.draw_series(LineSeries::new(ends, role.colour()))?;
        }
    }
    Ok(())
}

/// Elements above the lines that plotters cannot draw: tooltips, shapes and names.
fn overlay(chart: &Chart, plot: &Plot, text: &mut String) {
    let frame = chart.plotting_area().get_pixel_range();
    text.push_str(&format!(
        "<text class=\"title\" x=\"4\" y=\"14\">{}</text>",
        escape(plot.y.title())
    ));
    bars(chart, plot, text);
    // Raw marks first, so that they do not cover medians.
    for raw in [true, false] {
        for mark in plot.marks.iter().filter(|mark| mark.raw == raw) {
            if plot.x.can_show(mark.at.0) && plot.y.can_show(mark.at.1) {
                let (x, y) = chart.backend_coord(&mark.at);
                text.push_str(&marks::mark(mark, x, y));
            }
        }
    }
    let wanted = plot.names.iter().filter(|name| plot.y.can_show(name.2));
    let wanted = wanted.map(|(contestant, name, height)| {
        let (_, y) = chart.backend_coord(&(plot.x.range().end, *height));
        (*contestant, crate::quantity::clean(name, NAME_CHARS_MAX), y)
    });
    let room = (frame.1.start, frame.1.end);
    text.push_str(&labels::names(wanted.collect(), frame.0.end, room));
}

fn bars(chart: &Chart, plot: &Plot, text: &mut String) {
    for bar in &plot.bars {
        let (left, y) = chart.backend_coord(&(bar.from, bar.row));
        let (right, _) = chart.backend_coord(&(bar.to, bar.row));
        let kind = if bar.is_receiver { "bar pale" } else { "bar" };
        text.push_str(&format!(
            "<rect class=\"{kind} {}\" x=\"{}\" y=\"{}\" width=\"{}\" height=\"14\">\
             <title>{}</title></rect>",
            style_of(bar.contestant),
            unit(left),
            unit(y - 7 * SCALE),
            unit((right - left).max(0)),
            escape(&bar.hint),
        ));
        if !bar.label.is_empty() {
            text.push_str(&format!(
                "<text class=\"tick\" x=\"{}\" y=\"{}\">{}</text>",
                unit(right + 4 * SCALE),
                unit(y + 4 * SCALE),
                escape(&bar.label),
            ));
        }
    }
}
