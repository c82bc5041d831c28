//! Trials as rows: typed for programs, and as comma-separated values.

use results::{Factor, RunData, Status, Trial};
use std::collections::{BTreeMap, BTreeSet};

/// A value of a row.
#[derive(Clone, Debug, PartialEq)]
pub enum Value {
    /// A word or a sentence.
    Text(String),
    /// Whether it is so.
    Flag(bool),
    /// A count.
    Integer(i64),
    /// A measure, finite.
    Number(f64),
}

/// A trial as columns in the order of their names, after those that every trial has.
pub type Row = Vec<(String, Value)>;

/// Every trial as a row of what it has: index and status, factors (`factor.*`), metrics (`metric.*`),
/// evidence (`evidence.*`), ledger (`ledger.*`), CPU times (`cpu.*`), and seconds a message. A missing or non-finite value
/// has no column in its row.
pub fn rows(run: &RunData) -> Vec<Row> {
    let rows = run.trials.iter().map(|trial| {
        let mut row = fixed_columns(trial);
        row.extend(own_columns(trial));
        row
    });
    rows.collect()
}

/// Every trial as a row with the union of all columns of [`rows`]. A missing value is empty.
///
/// Text that a spreadsheet would evaluate as a formula is prefixed with an apostrophe.
pub fn csv(run: &RunData) -> String {
    let rows: Vec<BTreeMap<String, Value>> = rows(run)
        .into_iter()
        .map(|row| row.into_iter().collect())
        .collect();
    let names = columns(&rows);
    let mut writer = csv::Writer::from_writer(Vec::new());
    // Writing to memory fails only for rows of unequal length, and these are equal.
    let _ = writer.write_record(names.iter().map(|name| text(name)));
    for row in &rows {
        let fields = names
            .iter()
            .map(|name| row.get(name).map_or_else(String::new, field));
        let _ = writer.write_record(fields);
    }
    let bytes = writer.into_inner().unwrap_or_default();
    String::from_utf8_lossy(&bytes).into_owned()
}

/// The names of all columns: those that every trial has, then the others in the order of their names.
fn columns(rows: &[BTreeMap<String, Value>]) -> Vec<String> {
    let fixed = FIXED.iter().map(|name| (*name).to_owned());
    let all = rows.iter().flat_map(BTreeMap::keys);
    columns_of(all.cloned().chain(fixed).collect())
}

/// These names in the order of columns.
pub(crate) fn columns_of(mut names: BTreeSet<String>) -> Vec<String> {
    let fixed = FIXED.iter().filter_map(|name| names.take(*name));
    let mut ordered: Vec<String> = fixed.collect();
    ordered.extend(names);
    ordered
}

fn field(value: &Value) -> String {
    match value {
        Value::Text(value) => text(value),
        Value::Flag(value) => value.to_string(),
        Value::Integer(value) => value.to_string(),
        Value::Number(value) => value.to_string(),
    }
}

const FIXED: [&str; 9] = [
    "index",
    "block",
    "control",
    "status",
    "reason",
    "disturbed",
    "started_s",
    "span_s",
    "warm_up_s",
];

fn fixed_columns(trial: &Trial) -> Row {
    let values = [
        Some(count(trial.index)),
        Some(count(u64::from(trial.block))),
        Some(Value::Flag(trial.control)),
        Some(Value::Text(status(trial.status).to_owned())),
        Some(Value::Text(trial.reason.clone())),
        Some(Value::Text(trial.disturbed.join("; "))),
        number(trial.started_s),
        number(trial.span_s),
        number(trial.warm_up_s),
    ];
    let named = FIXED.iter().zip(values);
    named
        .filter_map(|(name, value)| Some(((*name).to_owned(), value?)))
        .collect()
}

fn status(status: Status) -> &'static str {
    match status {
        Status::Ok => "ok",
        Status::Invalid => "invalid",
        Status::Failed => "failed",
        Status::Interrupted => "interrupted",
    }
}

fn own_columns(trial: &Trial) -> BTreeMap<String, Value> {
    let mut row = BTreeMap::new();
    for (name, factor) in &trial.cell.0 {
        if let Some(value) = factor_value(factor) {
            row.insert(format!("factor.{name}"), value);
        }
    }
    let mut add = |name: String, value: f64| {
        if let Some(value) = number(value) {
            row.insert(name, value);
        }
    };
    for (group, values) in [("metric", &trial.metrics), ("evidence", &trial.evidence)] {
        for (name, value) in values {
            add(format!("{group}.{name}"), *value);
        }
    }
    let rate = trial.metrics.get("messages_per_s").copied();
    if let Some(rate) = rate.filter(|rate| *rate > 0.0) {
        add("s_per_message".into(), 1.0 / rate);
    }
    for (side, cpu) in &trial.cpu {
        add(format!("cpu.{side}.task_s"), cpu.task_s);
        add(format!("cpu.{side}.user_s"), cpu.user_s);
        add(format!("cpu.{side}.system_s"), cpu.system_s);
    }
    ledger(trial, &mut row);
    row
}

/// The value of a factor, if it is finite.
pub(crate) fn factor_value(factor: &Factor) -> Option<Value> {
    match factor {
        Factor::Integer(value) => Some(Value::Integer(*value)),
        Factor::Number(value) => number(*value),
        Factor::Text(value) => Some(Value::Text(value.clone())),
    }
}

fn ledger(trial: &Trial, row: &mut BTreeMap<String, Value>) {
    let Some(ledger) = &trial.ledger else {
        return;
    };
    let counts = [
        ("sent", ledger.sent),
        ("delivered", ledger.delivered),
        ("lost_host", ledger.lost_host),
        ("lost_link", ledger.lost_link),
        ("corrupt", ledger.corrupt),
        ("in_flight", ledger.in_flight),
        ("duplicates", ledger.duplicates),
    ];
    for (name, value) in counts {
        row.insert(format!("ledger.{name}"), count(value));
    }
    let unaccounted = Value::Integer(ledger.unaccounted);
    row.insert("ledger.unaccounted".into(), unaccounted);
}

/// A count; those beyond 2^63 are 2^63 - 1.
fn count(value: u64) -> Value {
    Value::Integer(i64::try_from(value).unwrap_or(i64::MAX))
}

/// A measure, if it is finite.
pub(crate) fn number(value: f64) -> Option<Value> {
    value.is_finite().then_some(Value::Number(value))
}

pub(crate) fn text(value: &str) -> String {
    let formula = value.starts_with(['=', '+', '-', '@', '\t', '\r']);
    // Negative numbers start with a minus and are no formulas.
    if formula && value.parse::<f64>().is_err() {
        return format!("'{value}");
    }
    value.to_owned()
}
