//! Trials as comma-separated values.

use results::{RunData, Status, Trial};
use std::collections::{BTreeMap, BTreeSet};

/// Every trial as a row, with the union of all columns: index and status, factors (`factor.*`),
/// metrics (`metric.*`), evidence (`evidence.*`), ledger (`ledger.*`) and CPU times (`cpu.*`). A
/// missing or non-finite value is empty.
///
/// Text that a spreadsheet would evaluate as a formula is prefixed with an apostrophe.
pub fn csv(run: &RunData) -> String {
    let rows: Vec<BTreeMap<String, String>> = run.trials.iter().map(row).collect();
    let rest: BTreeSet<&String> = rows.iter().flat_map(BTreeMap::keys).collect();
    let mut writer = csv::Writer::from_writer(Vec::new());
    let fixed = FIXED.iter().map(|name| (*name).to_owned());
    let names = fixed.chain(rest.iter().map(|name| text(name)));
    // Writing to memory fails only for rows of unequal length, and these are equal.
    let _ = writer.write_record(names);
    for (trial, row) in run.trials.iter().zip(&rows) {
        let others = rest
            .iter()
            .map(|name| row.get(*name).cloned().unwrap_or_default());
        let _ = writer.write_record(fixed_columns(trial).into_iter().chain(others));
    }
    let bytes = writer.into_inner().unwrap_or_default();
    String::from_utf8_lossy(&bytes).into_owned()
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

fn fixed_columns(trial: &Trial) -> [String; 9] {
    let status = match trial.status {
        Status::Ok => "ok",
        Status::Invalid => "invalid",
        Status::Failed => "failed",
        Status::Interrupted => "interrupted",
    };
    [
        trial.index.to_string(),
        trial.block.to_string(),
        trial.control.to_string(),
        status.to_owned(),
        text(&trial.reason),
        text(&trial.disturbed.join("; ")),
        number(trial.started_s),
        number(trial.span_s),
        number(trial.warm_up_s),
    ]
}

fn row(trial: &Trial) -> BTreeMap<String, String> {
    let mut row = BTreeMap::new();
    for (name, value) in &trial.cell.0 {
        row.insert(format!("factor.{name}"), text(&value.to_string()));
    }
    for (group, values) in [("metric", &trial.metrics), ("evidence", &trial.evidence)] {
        for (name, value) in values {
            row.insert(format!("{group}.{name}"), number(*value));
        }
    }
    for (side, cpu) in &trial.cpu {
        row.insert(format!("cpu.{side}.task_s"), number(cpu.task_s));
        row.insert(format!("cpu.{side}.user_s"), number(cpu.user_s));
        row.insert(format!("cpu.{side}.system_s"), number(cpu.system_s));
    }
    ledger(trial, &mut row);
    row
}

fn ledger(trial: &Trial, row: &mut BTreeMap<String, String>) {
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
    for (name, count) in counts {
        row.insert(format!("ledger.{name}"), count.to_string());
    }
    row.insert("ledger.unaccounted".into(), ledger.unaccounted.to_string());
}

fn number(value: f64) -> String {
    if value.is_finite() {
        value.to_string()
    } else {
        String::new()
    }
}

pub(crate) fn text(value: &str) -> String {
    let formula = value.starts_with(['=', '+', '-', '@', '\t', '\r']);
    // Negative numbers start with a minus and are no formulas.
    if formula && value.parse::<f64>().is_err() {
        return format!("'{value}");
    }
    value.to_owned()
}
