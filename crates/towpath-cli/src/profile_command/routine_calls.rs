//! Calls of kernel routines for a message: by size, and of several transports side by side.

use super::tables::{cells, count_text, each_size, new_table, side_by_side};
use measure::profiled::Profile;
use profile::call_table::CallTable;
use profile::table::{ProfileRow, SideProfile};
use std::fmt::Write;

/// Most routines of a table; the file has all.
const ROWS_MAX: usize = 40;

/// The routines of a side, sizes side by side; with `all` none is left out.
pub(super) fn table(side: &SideProfile, all: bool) -> String {
    let Some(calls) = &side.calls else {
        return String::new();
    };
    let mut table = new_table(side, "calls per message");
    let rows_max = if all { usize::MAX } else { ROWS_MAX };
    for row in calls.rows.iter().take(rows_max) {
        table.add_row(cells(row, "", |_, value| {
            (count_text(value), String::new())
        }));
    }
    let more = calls.rows.len().saturating_sub(rows_max);
    let messages: Vec<String> = calls
        .columns
        .iter()
        .map(|column| column.messages.to_string())
        .collect();
    let mut text = format!("{}\n", table.trim_fmt());
    // Writing to a String cannot fail.
    let _ = write!(text, "counted over {} messages", messages.join(", "));
    if more > 0 {
        let _ = write!(
            text,
            "; {more} more routines in profile.json, or with --all"
        );
    }
    text.push('\n');
    text
}

/// A table for each side and size: rows are routines, columns transports.
pub(super) fn beside(found: &[Profile], all: bool) -> String {
    let rows_max = if all { usize::MAX } else { ROWS_MAX };
    each_size(
        found,
        "calls of each kernel routine for a message",
        |at, place| {
            let tables = found.iter().map(|one| one.sides.get(at)?.calls.as_ref());
            let tables: Vec<&CallTable> = tables.collect::<Option<_>>()?;
            let names = found.iter().map(|one| one.transport.as_str());
            let rows = rows(&tables, place).into_iter().take(rows_max);
            Some(side_by_side(names, rows, count_text))
        },
    )
}

/// Routines that any of the tables has at a size, most calls first; a table that counted, but not this one, has 0.
fn rows<'a>(tables: &[&'a CallTable], place: usize) -> Vec<(&'a str, Vec<Option<f64>>)> {
    let mut names: Vec<&str> = Vec::new();
    for row in tables.iter().flat_map(|table| &table.rows) {
        if !names.contains(&row.name.as_str()) {
            names.push(&row.name);
        }
    }
    let value = |table: &CallTable, name: &str| -> Option<f64> {
        let is_counted = table.columns.get(place)?.lost == 0;
        let row: Option<&ProfileRow> = table.rows.iter().find(|row| row.name == name);
        match row {
            Some(row) => row.values.get(place).copied().flatten(),
            None => is_counted.then_some(0.0),
        }
    };
    let mut rows: Vec<(&str, Vec<Option<f64>>)> = names
        .into_iter()
        .map(|name| {
            (
                name,
                tables.iter().map(|table| value(table, name)).collect(),
            )
        })
        .collect();
    let most = |values: &[Option<f64>]| values.iter().flatten().copied().fold(0.0, f64::max);
    rows.retain(|(_, values)| most(values) > 0.0);
    rows.sort_by(|one, other| most(&other.1).total_cmp(&most(&one.1)));
    rows
}

#[cfg(test)]
mod tests {
    use super::*;
    use profile::call_table::CallColumn;

    fn calls(lost: u64, rows: &[(&str, f64)]) -> CallTable {
        let row = |&(name, value): &(&str, f64)| ProfileRow {
            name: name.to_owned(),
            values: vec![(lost == 0).then_some(value)],
            errors: Vec::new(),
            grows: false,
        };
        CallTable {
            columns: vec![CallColumn {
                messages: 1000,
                lost,
            }],
            rows: rows.iter().map(row).collect(),
        }
    }

    #[test]
    fn routines_of_all_transports_have_a_row_and_what_was_lost_a_dash() {
        let tables = [
            calls(0, &[("tcp_sendmsg", 1.0), ("skb_clone", 2.0)]),
            calls(0, &[("udp_sendmsg", 1.0), ("idle", 0.0)]),
            calls(7, &[("udp_sendmsg", 1.0)]),
        ];
        let tables: Vec<&CallTable> = tables.iter().collect();
        let found = rows(&tables, 0);
        assert_eq!(
            found,
            [
                ("skb_clone", vec![Some(2.0), Some(0.0), None]),
                ("tcp_sendmsg", vec![Some(1.0), Some(0.0), None]),
                ("udp_sendmsg", vec![Some(0.0), Some(1.0), None]),
            ]
        );
        let found = found.into_iter().take(2);
        let text = side_by_side(["tcp", "udp", "xtp"].into_iter(), found, count_text);
        assert!(
            text.contains("tcp_sendmsg") && !text.contains("udp_sendmsg"),
            "{text}"
        );
    }
}
