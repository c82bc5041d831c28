//! The layers of several transports side by side.

use super::tables::{each_size, side_by_side, time_text};
use measure::profiled::Profile;
use profile::table::{ProfileRow, SideProfile};

/// A table for each side and size: rows are layers, columns transports.
pub(super) fn text(all: &[Profile]) -> String {
    each_size(all, "CPU time of a message by layer, ns", |at, place| {
        let sides: Vec<&SideProfile> = all.iter().filter_map(|one| one.sides.get(at)).collect();
        let transports = all.iter().map(|one| one.transport.as_str());
        Some(table(transports, &sides, place))
    })
}

fn table<'a>(
    transports: impl Iterator<Item = &'a str>,
    sides: &[&'a SideProfile],
    place: usize,
) -> String {
    let value = |row: &ProfileRow| row.values.get(place).copied().flatten();
    let of_layer = |name: &'a str| {
        let layer = |side: &&SideProfile| {
            let mut layers = side.layers.iter();
            value(&layers.find(|rows| rows.layer.name == name)?.layer)
        };
        (name, sides.iter().map(layer).collect())
    };
    let mut rows: Vec<(&str, Vec<Option<f64>>)> =
        layer_names(sides).into_iter().map(of_layer).collect();
    let totals = sides.iter().map(|side| value(&side.total));
    rows.push(("on the processor", totals.collect()));
    let off = sides.iter().map(|side| value(&side.off));
    rows.push(("off the processor", off.collect()));
    side_by_side(transports, rows, time_text)
}

/// The layers of any of the sides, in the order of the first that has each.
fn layer_names<'a>(sides: &[&'a SideProfile]) -> Vec<&'a str> {
    let mut names: Vec<&str> = Vec::new();
    for side in sides {
        let mut after = 0;
        for rows in &side.layers {
            match names.iter().position(|name| *name == rows.layer.name) {
                Some(place) => after = place + 1,
                None => {
                    names.insert(after, &rows.layer.name);
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
