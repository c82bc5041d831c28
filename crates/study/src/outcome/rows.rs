//! Rows of a sweep: every number of a row is a value, named by its place:
//! `circuits.0.exchange.min_us`.

use super::{Outcome, Point, Values};
use crate::form::spec::leading_number;
use results::Factor;
use results::bounded_file::{BoundedLines, open_regular};
use serde_json::Value;
use std::cmp::Ordering;
use std::collections::BTreeMap;
use std::path::Path;

/// Most octets of a row; as `towpath sim` reads it.
const ROW_OCTETS_MAX: usize = 1 << 20;

/// Most rows of a run: 100 points of 1000 seeds.
const ROWS_MAX: usize = 100_000;

/// Most values of a row, of which 64 circuits and 65 stations have 2,800; circuits and stations beyond them
/// are left out.
const VALUES_MAX: usize = 4000;

/// Most values of all rows: of some 60 octets each, 2.4 GB.
const VALUES_IN_ALL_MAX: usize = 40_000_000;

/// Reads a file of rows; `is_measured` where a machine was measured, not simulated.
pub(super) fn read(path: &Path, is_measured: bool) -> Result<Outcome, String> {
    let refuse = |error: &dyn std::fmt::Display| format!("cannot read {}: {error}", path.display());
    let file = open_regular(path).map_err(|error| refuse(&error))?;
    let mut lines = BoundedLines::new(file, ROW_OCTETS_MAX);
    let mut points: BTreeMap<Vec<String>, Point> = BTreeMap::new();
    let (mut count, mut values) = (0, 0);
    while let Some(line) = lines.next_line().map_err(|error| refuse(&error))? {
        // The last line of a killed sweep may be cut off; its run is repeated.
        let Ok(row) = serde_json::from_slice::<Value>(line) else {
            continue;
        };
        count += 1;
        if count > ROWS_MAX {
            return Err(refuse(&format!("more than {ROWS_MAX} rows")));
        }
        values += add(&mut points, &row);
        if values > VALUES_IN_ALL_MAX {
            return Err(refuse(&format!("more than {VALUES_IN_ALL_MAX} values")));
        }
    }
    let mut points: Vec<Point> = points.into_values().collect();
    let places = |a: &Point, b: &Point| {
        let (a, b) = (numbers(a), numbers(b));
        let different = a.iter().zip(&b).map(|(a, b)| a.total_cmp(b));
        different.fold(Ordering::Equal, Ordering::then)
    };
    points.sort_by(places);
    Ok(Outcome {
        points,
        is_measured,
    })
}

/// Adds a row; how many values it has.
fn add(points: &mut BTreeMap<Vec<String>, Point>, row: &Value) -> usize {
    let changes = row.get("changes").and_then(Value::as_array);
    let changes = changes.into_iter().flatten().filter_map(Value::as_str);
    let changes: Vec<String> = changes.map(str::to_owned).collect();
    let point = points.entry(changes.clone()).or_default();
    point.factors = changes.iter().filter_map(|change| factor(change)).collect();
    let mut values = Values::new();
    flatten("", row, &mut values);
    let is_complete = row.get("ending").and_then(Value::as_str) == Some("complete");
    let is_whole = values
        .iter()
        .all(|(name, value)| !name.ends_with(".wrong_bytes") || *value == 0.0);
    let seed = row.get("seed").and_then(Value::as_u64).unwrap_or(0);
    let count = values.len();
    if point.replicates.insert(seed, values).is_none() {
        point.complete += usize::from(is_complete && is_whole);
    }
    count
}

fn factor(change: &str) -> Option<(String, Factor)> {
    let (key, value) = change.split_once('=')?;
    let value = match value.parse::<i64>() {
        Ok(value) => Factor::Integer(value),
        Err(_) => Factor::Text(value.to_owned()),
    };
    Some((key.to_owned(), value))
}

fn flatten(place: &str, value: &Value, values: &mut Values) {
    let join = |name: &str| match place {
        "" => name.to_owned(),
        _ => format!("{place}.{name}"),
    };
    match value {
        _ if values.len() >= VALUES_MAX => {}
        Value::Number(number) => values.extend(number.as_f64().map(|v| (place.to_owned(), v))),
        Value::Object(map) => map.iter().for_each(|(k, v)| flatten(&join(k), v, values)),
        Value::Array(list) => {
            let items = list.iter().enumerate();
            items.for_each(|(k, v)| flatten(&join(&k.to_string()), v, values));
        }
        _ => {}
    }
}

/// The numbers of a point, in the order of their keys: rows come in any order, and curves ascend.
fn numbers(point: &Point) -> Vec<f64> {
    let number = |factor: &Factor| match factor {
        Factor::Integer(value) => *value as f64,
        Factor::Number(value) => *value,
        Factor::Text(text) => leading_number(text).unwrap_or(0.0),
    };
    point.factors.values().map(number).collect()
}
