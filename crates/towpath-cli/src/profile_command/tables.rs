//! Tables of a profile: time, counts and shares of a message, a column each size.

use super::routine_calls;
use anstyle::Style;
use comfy_table::{Cell, CellAlignment, ContentArrangement, LineStyle, Table, TableStyle};
use measure::profiled::Profile;
use profile::table::{PER_MESSAGES, ProfileRow, SideProfile};

/// The tables of both sides.
pub(super) fn tables_text(found: &Profile, colour: bool, width: usize, all: bool) -> String {
    let bold = if colour {
        Style::new().bold()
    } else {
        Style::new()
    };
    let mut text = String::new();
    for side in &found.sides {
        let heading = format!(
            "{} {}: CPU time of a message, ns ({})",
            found.transport, side.name, found.clock
        );
        text.push_str(&format!(
            "{bold}{heading}{bold:#}\n{}\n",
            time_table(side, width)
        ));
        if !side.counts.is_empty() {
            text.push_str(&format!("{}\n", count_table(side)));
        }
        if let Some(calls) = &found.calls {
            let heading = format!(
                "{} {}: calls of each kernel routine for a message ({})",
                found.transport,
                side.name,
                calls.name()
            );
            text.push_str(&format!(
                "{bold}{heading}{bold:#}\n{}\n",
                routine_calls::table(side, all)
            ));
        }
    }
    let growing = found.sides.iter().map(|side| {
        let layers = side.layers.iter().map(|rows| &rows.layer);
        let names: Vec<&str> = layers
            .filter(|row| row.grows)
            .map(|row| row.name.as_str())
            .collect();
        let names = if names.is_empty() {
            "nothing significant".to_owned()
        } else {
            names.join(", ")
        };
        format!("{}: {names}", side.name)
    });
    if found.sides.iter().all(|side| side.columns.len() > 1) {
        let growing: Vec<String> = growing.collect();
        text.push_str(&format!("+ grows with size: {}\n", growing.join("; ")));
    }
    text
}

fn time_table(side: &SideProfile, width: usize) -> String {
    let drawn = times(side, true);
    let fits = drawn.lines().all(|line| line.chars().count() <= width);
    // A narrow terminal has the layers alone.
    let drawn = if fits { drawn } else { times(side, false) };
    format!("{drawn}\n")
}

/// Layers, with their procedures if wanted, each with its share of the time on the processor.
fn times(side: &SideProfile, procedures: bool) -> String {
    let mut table = new_table(side, "");
    for rows in &side.layers {
        table.add_row(time_cells(&rows.layer, "", Some(&side.total)));
        for row in rows.procedures.iter().filter(|_| procedures) {
            table.add_row(time_cells(row, "  ", Some(&side.total)));
        }
    }
    table.add_row(time_cells(&side.total, "", Some(&side.total)));
    table.add_row(time_cells(&side.off, "", None));
    table.trim_fmt()
}

fn count_table(side: &SideProfile) -> String {
    let mut table = new_table(side, "count per message");
    for row in &side.counts {
        table.add_row(cells(row, "", |_, value| {
            (count_text(value), String::new())
        }));
    }
    format!("{}\n", table.trim_fmt())
}

/// A table with a rule below its header, as wide as its texts.
fn ruled_table() -> Table {
    let mut table = Table::new();
    let rule = LineStyle::none().fill('\u{2500}').junction('\u{2500}');
    table.load_style(TableStyle::new().header_separator(rule));
    table.set_content_arrangement(ContentArrangement::Disabled);
    table
}

/// A table for each side and size of the first profile, under what it `shows`, where `table` has one.
pub(super) fn each_size(
    all: &[Profile],
    shows: &str,
    table: impl Fn(usize, usize) -> Option<String>,
) -> String {
    let mut text = String::new();
    for (at, side) in all
        .iter()
        .take(1)
        .flat_map(|first| first.sides.iter().enumerate())
    {
        for (place, column) in side.columns.iter().enumerate() {
            if let Some(table) = table(at, place) {
                text.push_str(&format!(
                    "{}, {} B: {shows}\n{table}\n\n",
                    side.name, column.size
                ));
            }
        }
    }
    text
}

/// Transports side by side: rows are a name and a value of each, where there is one.
pub(super) fn side_by_side<'a>(
    transports: impl Iterator<Item = &'a str>,
    rows: impl IntoIterator<Item = (&'a str, Vec<Option<f64>>)>,
    text: fn(f64) -> String,
) -> String {
    let mut table = ruled_table();
    let right = |text: String| Cell::new(text).set_alignment(CellAlignment::Right);
    let header = transports.map(|name| right(name.to_owned()));
    table.set_header(
        [Cell::new("")]
            .into_iter()
            .chain(header)
            .collect::<Vec<_>>(),
    );
    for (name, values) in rows {
        let texts = values
            .into_iter()
            .map(|value| value.map_or("-".to_owned(), text));
        let cells = [Cell::new(name)].into_iter().chain(texts.map(right));
        table.add_row(cells.collect::<Vec<_>>());
    }
    table.trim_fmt()
}

pub(super) fn new_table(side: &SideProfile, corner: &str) -> Table {
    let mut table = ruled_table();
    let mut header = vec![Cell::new(corner)];
    for column in &side.columns {
        let label = format!("{} B", column.size);
        header.push(Cell::new(label).set_alignment(CellAlignment::Right));
        header.push(Cell::new(""));
    }
    header.push(Cell::new(""));
    table.set_header(header);
    table
}

/// A row of times, with their shares of `total`.
fn time_cells(row: &ProfileRow, indent: &str, total: Option<&ProfileRow>) -> Vec<Cell> {
    cells(row, indent, |place, value| {
        let total = total.and_then(|total| total.values.get(place).copied().flatten());
        (
            time_text(value),
            total.map_or(String::new(), |total| share_text(value, total)),
        )
    })
}

/// A row with two cells a size: the value and what stands beside it.
pub(super) fn cells(
    row: &ProfileRow,
    indent: &str,
    text: impl Fn(usize, f64) -> (String, String),
) -> Vec<Cell> {
    let right = |text: String| Cell::new(text).set_alignment(CellAlignment::Right);
    let mut cells = vec![Cell::new(format!("{indent}{}", row.name))];
    for (place, value) in row.values.iter().enumerate() {
        let unknown = ("-".to_owned(), String::new());
        let (value, share) = value.map_or(unknown, |value| text(place, value));
        cells.extend([right(value), right(share)]);
    }
    cells.push(Cell::new(if row.grows { "+" } else { "" }));
    cells
}

/// Seconds per 10,000 messages as ns of one message.
pub(super) fn time_text(seconds: f64) -> String {
    match seconds * 1e9 / PER_MESSAGES {
        ns if ns >= 10.0 => format!("{ns:.0}"),
        ns => format!("{ns:.1}"),
    }
}

fn share_text(part: f64, total: f64) -> String {
    if total <= 0.0 {
        return String::new();
    }
    format!("{:.1} %", part / total * 100.0)
}

/// A count per message; what happened a few times in all is not shown as nothing.
pub(super) fn count_text(value: f64) -> String {
    match value {
        value if value > 0.0 && value < 0.001 => "under 0.001".into(),
        value => format!("{value:.3}"),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn times_are_ns_of_a_message_with_shares() {
        // 0.009 s for 10,000 messages are 900 ns for one.
        assert_eq!(time_text(0.009), "900");
        assert_eq!(time_text(0.000_02), "2.0");
        assert_eq!(share_text(0.0045, 0.009), "50.0 %");
        assert_eq!(share_text(0.0, 0.0), "");
        assert_eq!(count_text(0.000_2), "under 0.001");
        assert_eq!(count_text(2.0), "2.000");
    }
}
