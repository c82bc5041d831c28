//! Calls of kernel routines for a message, with message sizes side by side.

use crate::table::{ProfileRow, row_of_counts};
use serde::Serialize;
use std::collections::{BTreeMap, BTreeSet};

/// Calls of kernel routines for a message.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct CallTable {
    /// What they were counted over at each size, which is a trial of its own.
    pub columns: Vec<CallColumn>,
    /// A row for each routine, most calls first. A size of which calls were lost has no values.
    pub rows: Vec<ProfileRow>,
}

/// What calls were counted over at one size.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize)]
pub struct CallColumn {
    /// Messages this side sent or received.
    pub messages: u64,
    /// Calls that were lost.
    pub lost: u64,
}

/// Calls of one side at one size.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct MeasuredCalls {
    /// What they were counted over.
    pub column: CallColumn,
    /// Calls of each routine.
    pub calls: BTreeMap<String, u64>,
}

impl CallTable {
    /// The table of a side, from its sizes in ascending order; None if no size has any.
    pub fn of<'a>(sizes: impl Iterator<Item = Option<&'a MeasuredCalls>>) -> Option<CallTable> {
        let sizes: Vec<&MeasuredCalls> = sizes.collect::<Option<_>>()?;
        let names: BTreeSet<&String> = sizes.iter().flat_map(|size| size.calls.keys()).collect();
        let rows = names.into_iter().map(|name| {
            let values = sizes.iter().map(|size| size.per_message(name));
            ProfileRow {
                grows: grows(&sizes, name),
                ..row_of_counts(name, values.collect())
            }
        });
        let most = |row: &ProfileRow| row.values.iter().flatten().copied().fold(0.0, f64::max);
        let mut rows: Vec<ProfileRow> = rows.filter(|row| most(row) > 0.0).collect();
        rows.sort_by(|one, other| most(other).total_cmp(&most(one)));
        let columns = sizes.iter().map(|size| size.column.clone());
        (!sizes.is_empty()).then(|| CallTable {
            columns: columns.collect(),
            rows,
        })
    }
}

/// Standard errors by which a row grows with size, at least.
const STANDARD_ERRORS_MIN: f64 = 3.0;

/// Whether a message of the largest size makes more calls than one of the smallest, beyond what chance does to two
/// counts.
fn grows(sizes: &[&MeasuredCalls], name: &str) -> bool {
    let count = |size: &MeasuredCalls| size.calls.get(name).copied().unwrap_or(0) as f64;
    let error =
        |size: &MeasuredCalls| count(size).max(1.0).sqrt() / size.column.messages.max(1) as f64;
    let (Some(first), Some(last)) = (sizes.first(), sizes.last()) else {
        return false;
    };
    match (first.per_message(name), last.per_message(name)) {
        (Some(before), Some(after)) => {
            after - before > STANDARD_ERRORS_MIN * error(first).hypot(error(last))
        }
        _ => false,
    }
}

impl MeasuredCalls {
    /// Calls of a routine for a message; None where calls were lost, whose number would be too small.
    fn per_message(&self, name: &str) -> Option<f64> {
        match (self.column.lost, self.column.messages) {
            (0, messages @ 1..) => {
                Some(self.calls.get(name).copied().unwrap_or(0) as f64 / messages as f64)
            }
            _ => None,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn size(lost: u64, calls: &[(&str, u64)]) -> MeasuredCalls {
        let calls = calls
            .iter()
            .map(|(name, count)| ((*name).to_owned(), *count));
        MeasuredCalls {
            column: CallColumn {
                messages: 1000,
                lost,
            },
            calls: calls.collect(),
        }
    }

    #[test]
    fn calls_are_those_of_a_message_and_most_come_first() {
        let sizes = [
            size(0, &[("tcp_sendmsg", 1000), ("rare", 12), ("kfree", 0)]),
            size(
                0,
                &[("tcp_sendmsg", 1000), ("rare", 17), ("skb_clone", 2500)],
            ),
        ];
        let table = CallTable::of(sizes.iter().map(Some)).expect("a table");
        let rows: Vec<(&str, &[Option<f64>], bool)> = table
            .rows
            .iter()
            .map(|row| (row.name.as_str(), row.values.as_slice(), row.grows))
            .collect();
        let none_yet = [Some(0.0), Some(2.5)];
        let equal = [Some(1.0), Some(1.0)];
        // 12 and 17 calls are no growth.
        let chance = [Some(0.012), Some(0.017)];
        assert_eq!(
            rows,
            [
                ("skb_clone", &none_yet[..], true),
                ("tcp_sendmsg", &equal[..], false),
                ("rare", &chance[..], false)
            ]
        );
    }

    #[test]
    fn size_with_lost_calls_has_no_values() {
        let sizes = [
            size(1, &[("tcp_sendmsg", 999)]),
            size(0, &[("tcp_sendmsg", 1000)]),
        ];
        let table = CallTable::of(sizes.iter().map(Some)).expect("a table");
        assert_eq!(table.rows[0].values, [None, Some(1.0)]);
        assert_eq!(table.columns[0].lost, 1);
        assert_eq!(CallTable::of([None, Some(&sizes[0])].into_iter()), None);
        assert_eq!(CallTable::of(std::iter::empty()), None);
    }
}
