//! The profile of a message: a point for each size, its values named by side and row:
//! `sender.total`, `sender.copy` (a layer), `receiver.count.context_switches`, and of a profile with `--calls`
//! `sender.calls.tcp_sendmsg`, calls for a message.

use super::{Outcome, Point, Values, plain};
use results::Factor;
use results::bounded_file::read_text;
use serde_json::Value;
use std::path::Path;

/// Most octets of a profile: 16 sizes of some 100 rows take 100 KiB.
const PROFILE_OCTETS_MAX: u64 = 4 << 20;

/// Most sizes of a profile, as `towpath profile` takes.
const SIZES_MAX: usize = 16;

pub(super) fn read(path: &Path) -> Result<Outcome, String> {
    let refuse = |error: &dyn std::fmt::Display| format!("cannot read {}: {error}", path.display());
    let text = read_text(path, PROFILE_OCTETS_MAX).map_err(|error| refuse(&error))?;
    let profile: Value = serde_json::from_str(&text).map_err(|error| refuse(&error))?;
    let mut points: Vec<Point> = Vec::new();
    for side in list(&profile, "sides") {
        for (place, column) in list(side, "columns").take(SIZES_MAX).enumerate() {
            let size = column.get("size").and_then(Value::as_i64).unwrap_or(0);
            if points.len() == place {
                let mut point = Point {
                    complete: 1,
                    ..Point::default()
                };
                point
                    .factors
                    .insert(results::Cell::SIZE.to_owned(), Factor::Integer(size));
                point.replicates.insert(1, Values::new());
                points.push(point);
            }
            if let Some(values) = points[place].replicates.get_mut(&1) {
                add(values, side, place);
            }
        }
    }
    Ok(Outcome {
        points,
        is_measured: true,
    })
}

/// The values of a side at the size at `place`.
fn add(values: &mut Values, side: &Value, place: usize) {
    let name = side.get("name").and_then(Value::as_str).unwrap_or("side");
    let mut put = |row: &Value, prefix: &str, label: Option<&str>| {
        let label = label.or_else(|| row.get("name").and_then(Value::as_str));
        let value = list(row, "values").nth(place).and_then(Value::as_f64);
        if let (Some(label), Some(value)) = (label, value) {
            values.insert(format!("{name}.{prefix}{}", plain(label)), value);
        }
    };
    for total in ["total", "off"] {
        side.get(total)
            .into_iter()
            .for_each(|row| put(row, "", Some(total)));
    }
    for layer in list(side, "layers") {
        layer
            .get("layer")
            .into_iter()
            .for_each(|row| put(row, "", None));
    }
    for count in list(side, "counts") {
        put(count, "count.", None);
    }
    for calls in side
        .get("calls")
        .into_iter()
        .flat_map(|calls| list(calls, "rows"))
    {
        put(calls, "calls.", None);
    }
}

fn list<'a>(value: &'a Value, name: &str) -> impl Iterator<Item = &'a Value> {
    value
        .get(name)
        .and_then(Value::as_array)
        .into_iter()
        .flatten()
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    #[test]
    fn calls_are_values_of_their_size_and_those_that_were_lost_are_none() {
        let row = |name: &str, values: Value| json!({ "name": name, "values": values });
        let side = json!({
            "name": "sender",
            "columns": [{ "size": 1 }, { "size": 64 }],
            "counts": [row("system calls", json!([1.5, 2.5]))],
            "calls": { "rows": [row("__dev_queue_xmit", json!([1.0, null]))] },
        });
        let mut values = [Values::new(), Values::new()];
        for (place, values) in values.iter_mut().enumerate() {
            add(values, &side, place);
        }
        let found = values.map(|values| values.into_iter().collect::<Vec<_>>());
        let count = |value| ("sender.count.system_calls".to_owned(), value);
        let calls = ("sender.calls.__dev_queue_xmit".to_owned(), 1.0);
        assert_eq!(found, [vec![calls, count(1.5)], vec![count(2.5)]]);
    }
}
