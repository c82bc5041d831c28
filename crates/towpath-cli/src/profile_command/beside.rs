//! The layers of several transports side by side.

use super::tables::time_text;
use comfy_table::{Cell, CellAlignment, ContentArrangement, LineStyle, Table, TableStyle};
use measure::profiled::Profile;
use profile::table::{ProfileRow, SideProfile};
use std::fmt::Write;

/// A table for each side and size: rows are layers, columns transports.
pub(super) fn text(all: &[Profile]) -> String {
    let mut text = String::new();
    let Some(first) = all.first() else {
        return text;
    };
    for (at, side) in first.sides.iter().enumerate() {
        for (place, column) in side.columns.iter().enumerate() {
            let sides: Vec<&SideProfile> = all.iter().filter_map(|one| one.sides.get(at)).collect();
            let transports = all.iter().map(|one| one.transport.as_str());
            let table = table(transports, &sides, place);
            // Writing to a String cannot fail.
            let _ = writeln!(
                text,
                "{}, {} B: CPU time of a message by layer, ns\n{table}\n",
                side.name, column.size
            );
        }
    }
    text
}

fn table<'a>(
    transports: impl Iterator<Item = &'a str>,
    sides: &[&SideProfile],
    place: usize,
) -> String {
    let mut table = Table::new();
    let rule = LineStyle::none().fill('\u{2500}').junction('\u{2500}');
    table.load_style(TableStyle::new().header_separator(rule));
    table.set_content_arrangement(ContentArrangement::Disabled);
    let right = |text: &str| Cell::new(text).set_alignment(CellAlignment::Right);
    let header = std::iter::once(Cell::new("")).chain(transports.map(right));
    table.set_header(header.collect::<Vec<_>>());
    for name in layer_names(sides) {
        let of_layer = |side: &&SideProfile| -> Option<f64> {
            let mut layers = side.layers.iter();
            value(&layers.find(|rows| rows.layer.name == name)?.layer, place)
        };
        table.add_row(cells(&name, sides.iter().map(of_layer)));
    }
    let totals = sides.iter().map(|side| value(&side.total, place));
    table.add_row(cells("on the processor", totals));
    let off = sides.iter().map(|side| value(&side.off, place));
    table.add_row(cells("off the processor", off));
    table.trim_fmt()
}

fn value(row: &ProfileRow, place: usize) -> Option<f64> {
    row.values.get(place).copied().flatten()
}

fn cells(name: &str, values: impl Iterator<Item = Option<f64>>) -> Vec<Cell> {
    let text = |value: Option<f64>| value.map_or("-".to_owned(), time_text);
    let right = |value| Cell::new(text(value)).set_alignment(CellAlignment::Right);
    std::iter::once(Cell::new(name))
        .chain(values.map(right))
        .collect()
}

/// The layers of any of the sides, in the order of the first that has each.
fn layer_names(sides: &[&SideProfile]) -> Vec<String> {
    let mut names: Vec<String> = Vec::new();
    for side in sides {
        let mut after = 0;
        for rows in &side.layers {
            match names.iter().position(|name| *name == rows.layer.name) {
                Some(place) => after = place + 1,
                None => {
                    names.insert(after, rows.layer.name.clone());
                    after += 1;
                }
            }
        }
    }
    names
}

#[cfg(test)]
mod tests {
    use super::*;
    use profile::table::LayerRows;

    fn side(layers: &[(&str, f64)]) -> SideProfile {
        let row = |name: &str, ns: f64| ProfileRow {
            name: name.to_owned(),
            values: vec![Some(ns * 1e-5)],
            errors: Vec::new(),
            grows: false,
        };
        let rows = |&(name, ns): &(&str, f64)| LayerRows {
            layer: row(name, ns),
            procedures: Vec::new(),
        };
        let total = layers.iter().map(|(_, ns)| ns).sum();
        SideProfile {
            name: "sender".into(),
            columns: Vec::new(),
            layers: layers.iter().map(rows).collect(),
            total: row("on the processor", total),
            off: row("off the processor", 0.0),
            counts: Vec::new(),
            calls: None,
        }
    }

    #[test]
    fn layers_of_all_transports_have_a_row_and_those_that_one_lacks_a_dash() {
        let sides = [
            side(&[("user", 10.0), ("socket", 20.0), ("copy", 30.0)]),
            side(&[("user", 11.0), ("engine", 40.0), ("copy", 31.0)]),
        ];
        let sides: Vec<&SideProfile> = sides.iter().collect();
        assert_eq!(layer_names(&sides), ["user", "engine", "socket", "copy"]);
        let text = table(["tcp", "xtp"].into_iter(), &sides, 0);
        let words = |name: &str| -> Vec<String> {
            let line = text.lines().find(|line| line.contains(name));
            let line = line.unwrap_or_else(|| panic!("{name}: {text}"));
            line.replace(name, "")
                .split_whitespace()
                .map(str::to_owned)
                .collect()
        };
        assert_eq!(words("engine"), ["-", "40"]);
        assert_eq!(words("socket"), ["20", "-"]);
        assert_eq!(words("on the processor"), ["60", "82"]);
    }
}
