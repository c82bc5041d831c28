//! Results as Apache Parquet: typed columns for data frames.
//!
//! A table is a list of rows; a column has the narrowest type that holds all of its values, and a missing
//! value is null.

use crate::export::{Value, columns_of, factor_value, number, rows};
use parquet::basic::{LogicalType, Repetition, Type as Physical};
use parquet::column::writer::ColumnWriter;
use parquet::data_type::ByteArray;
use parquet::errors::ParquetError;
use parquet::file::metadata::KeyValue;
use parquet::file::properties::WriterProperties;
use parquet::file::writer::{SerializedColumnWriter, SerializedFileWriter};
use parquet::schema::types::Type;
use results::{Histogram, RunData, VerdictKind};
use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

/// A file of one table.
#[derive(Clone, Debug)]
pub struct ParquetFile {
    /// What its rows are, as a file name without extension: `trials`.
    pub name: &'static str,
    /// Its rows.
    pub rows: usize,
    /// Its octets; none without rows, which would have no columns.
    pub octets: Vec<u8>,
}

type Row = BTreeMap<String, Value>;

/// The tables of runs, each with the name for its column `run`: `trials` as [`rows`] has them, `series` a
/// row a point, `histograms` a row a histogram of a trial, `verdicts`. Plan and machine of each run are in
/// the metadata, as `towpath.plan.RUN` and `towpath.machine.RUN` in JSON.
///
/// # Errors
///
/// A sentence when a histogram is damaged, or a table cannot be written.
pub fn parquet(runs: &[(String, RunData)]) -> Result<Vec<ParquetFile>, String> {
    let mut tables: [(&'static str, Vec<Row>); 4] = [
        ("trials", Vec::new()),
        ("series", Vec::new()),
        ("histograms", Vec::new()),
        ("verdicts", Vec::new()),
    ];
    let mut metadata = Vec::new();
    for (name, run) in runs {
        let [trials, series, histograms, verdicts] = &mut tables;
        let named = |row: Row| with(row, "run", text(name));
        let all = rows(run).into_iter();
        trials
            .1
            .extend(all.map(|row| named(row.into_iter().collect())));
        series.1.extend(series_rows(run).into_iter().map(named));
        histograms
            .1
            .extend(histogram_rows(run)?.into_iter().map(named));
        verdicts.1.extend(verdict_rows(run).into_iter().map(named));
        let json = |error: serde_json::Error| error.to_string();
        let plan = serde_json::to_string(&run.plan).map_err(json)?;
        let machine = serde_json::to_string(&run.machine).map_err(json)?;
        metadata.push(KeyValue::new(format!("towpath.plan.{name}"), plan));
        metadata.push(KeyValue::new(format!("towpath.machine.{name}"), machine));
    }
    let files = tables
        .iter()
        .map(|(name, rows)| file(name, rows, &metadata));
    files.collect()
}

/// The tables of a sweep's rows, lines of JSON: `rows` with the values of a run, names of nested ones joined
/// by dots, and a table for each list in them, such as `stations`, whose rows have the `key` of their run.
///
/// # Errors
///
/// A sentence when a line is no row.
pub fn sweep_parquet(lines: &str) -> Result<Vec<ParquetFile>, String> {
    let (mut runs, mut stations, mut circuits) = (Vec::new(), Vec::new(), Vec::new());
    for (number, line) in lines
        .lines()
        .enumerate()
        .filter(|(_, line)| !line.is_empty())
    {
        let value: serde_json::Value = serde_json::from_str(line)
            .map_err(|error| format!("line {}: {error}; is it cut off?", number + 1))?;
        let Some(key) = value.get("key").and_then(serde_json::Value::as_str) else {
            return Err(format!("line {} is no row of a sweep", number + 1));
        };
        let mut row = Row::new();
        flatten("", &value, &mut row);
        runs.push(row);
        for (list, rows) in [("stations", &mut stations), ("circuits", &mut circuits)] {
            let each = value.get(list).and_then(serde_json::Value::as_array);
            for (place, one) in each.into_iter().flatten().enumerate() {
                let mut row = Row::from([
                    ("key".to_owned(), text(key)),
                    ("place".to_owned(), count(place as u64)),
                ]);
                flatten("", one, &mut row);
                rows.push(row);
            }
        }
    }
    let tables = [
        ("rows", runs),
        ("stations", stations),
        ("circuits", circuits),
    ];
    let files = tables.iter().map(|(name, rows)| file(name, rows, &[]));
    files.collect()
}

/// Values of an object by their names; lists of objects are tables of their own.
fn flatten(name: &str, value: &serde_json::Value, row: &mut Row) {
    use serde_json::Value as Json;
    let value = match value {
        Json::Object(map) => {
            for (key, value) in map {
                let dot = if name.is_empty() { "" } else { "." };
                flatten(&format!("{name}{dot}{key}"), value, row);
            }
            return;
        }
        Json::Null => return,
        Json::Array(list) if list.iter().any(|one| one.is_object() || one.is_array()) => return,
        Json::Array(list) => {
            let words = list.iter().map(|one| match one {
                Json::String(word) => word.clone(),
                other => other.to_string(),
            });
            text(&words.collect::<Vec<_>>().join("; "))
        }
        Json::Bool(flag) => Value::Flag(*flag),
        Json::String(word) => text(word),
        Json::Number(n) => match n.as_i64() {
            Some(count) => Value::Integer(count),
            None => Value::Number(n.as_f64().unwrap_or(f64::NAN)),
        },
    };
    row.insert(name.to_owned(), value);
}

fn series_rows(run: &RunData) -> Vec<Row> {
    let mut rows = Vec::new();
    for trial in &run.trials {
        for (name, series) in &trial.series {
            for (at_s, value) in series.at_s.iter().zip(&series.values) {
                let mut row = Row::from([
                    ("trial".to_owned(), count(trial.index)),
                    ("name".to_owned(), text(name)),
                    ("unit".to_owned(), text(&series.unit)),
                ]);
                add_number(&mut row, "at_s", *at_s);
                add_number(&mut row, "value", *value);
                rows.push(row);
            }
        }
    }
    rows
}

fn histogram_rows(run: &RunData) -> Result<Vec<Row>, String> {
    let mut rows = Vec::new();
    for trial in &run.trials {
        for (name, histogram) in &trial.histograms {
            let row = histogram_row(histogram)
                .map_err(|error| format!("trial {}: histogram {name}: {error}", trial.index))?;
            let row = with(row, "trial", count(trial.index));
            rows.push(with(row, "name", text(name)));
        }
    }
    Ok(rows)
}

/// Percentiles stand where there are the samples for them.
fn histogram_row(histogram: &Histogram) -> Result<Row, results::HistogramError> {
    let samples = histogram.decode()?;
    let mut row = Row::from([
        ("unit".to_owned(), text(&histogram.unit)),
        ("count".to_owned(), count(samples.len())),
        ("hdr_v2".to_owned(), text(&histogram.hdr_v2)),
    ]);
    for (key, quantile) in stats::summary::QUANTILES {
        if samples.len() >= samples::samples_needed(quantile) {
            let value = count(samples.value_at_quantile(quantile));
            row.insert(format!("quantile.{key}"), value);
        }
    }
    Ok(row)
}

fn verdict_rows(run: &RunData) -> Vec<Row> {
    let Some(summary) = &run.summary else {
        return Vec::new();
    };
    let kinds = [
        ("contest", &summary.verdicts),
        ("overall", &summary.overall),
        ("control", &summary.control),
        ("beside", &summary.beside),
    ];
    let all = kinds
        .into_iter()
        .flat_map(|(of, verdicts)| verdicts.iter().map(move |one| (of, one)));
    let rows = all.map(|(of, verdict)| {
        let mut row = Row::from([
            ("of".to_owned(), text(of)),
            ("metric".to_owned(), text(&verdict.metric)),
            ("contestant".to_owned(), text(&verdict.contestant)),
            ("baseline".to_owned(), text(&verdict.baseline)),
            ("kind".to_owned(), text(kind(verdict.kind))),
            ("pairs".to_owned(), count(u64::from(verdict.pairs))),
            ("because".to_owned(), text(&verdict.because)),
        ]);
        for (name, value) in [
            ("ratio", verdict.ratio),
            ("low", verdict.low),
            ("high", verdict.high),
            ("alpha", verdict.alpha),
        ] {
            add_number(&mut row, name, value);
        }
        for (name, factor) in &verdict.contest.0 {
            if let Some(value) = factor_value(factor) {
                row.insert(format!("factor.{name}"), value);
            }
        }
        row
    });
    rows.collect()
}

/// As `summary.json` writes it.
fn kind(kind: VerdictKind) -> &'static str {
    match kind {
        VerdictKind::Faster => "faster",
        VerdictKind::Slower => "slower",
        VerdictKind::Equal => "equal",
        VerdictKind::NotEnoughData => "not-enough-data",
    }
}

fn text(word: &str) -> Value {
    Value::Text(word.to_owned())
}

fn count(value: u64) -> Value {
    Value::Integer(i64::try_from(value).unwrap_or(i64::MAX))
}

fn add_number(row: &mut Row, name: &str, value: f64) {
    if let Some(value) = number(value) {
        row.insert(name.to_owned(), value);
    }
}

fn with(mut row: Row, name: &str, value: Value) -> Row {
    row.insert(name.to_owned(), value);
    row
}

/// The type of a column, from the narrowest.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Kind {
    Flag,
    Integer,
    Number,
    Text,
}

impl Kind {
    fn of(value: &Value) -> Kind {
        match value {
            Value::Flag(_) => Kind::Flag,
            Value::Integer(_) => Kind::Integer,
            Value::Number(_) => Kind::Number,
            Value::Text(_) => Kind::Text,
        }
    }

    /// The type that holds the values of both.
    fn join(self, other: Kind) -> Kind {
        match (self, other) {
            (one, other) if one == other => one,
            (Kind::Integer, Kind::Number) | (Kind::Number, Kind::Integer) => Kind::Number,
            _ => Kind::Text,
        }
    }

    fn physical(self) -> Physical {
        match self {
            Kind::Flag => Physical::BOOLEAN,
            Kind::Integer => Physical::INT64,
            Kind::Number => Physical::DOUBLE,
            Kind::Text => Physical::BYTE_ARRAY,
        }
    }
}

fn file(name: &'static str, rows: &[Row], metadata: &[KeyValue]) -> Result<ParquetFile, String> {
    let octets = match rows {
        [] => Vec::new(),
        rows => write(name, rows, metadata).map_err(|error| format!("{name}: {error}"))?,
    };
    Ok(ParquetFile {
        name,
        rows: rows.len(),
        octets,
    })
}

fn write(name: &str, rows: &[Row], metadata: &[KeyValue]) -> Result<Vec<u8>, ParquetError> {
    let columns = in_order(columns(rows));
    let fields = columns.iter().map(|column| field(column.name, column.kind));
    let fields = fields.collect::<Result<Vec<_>, _>>()?;
    let schema = Type::group_type_builder(name).with_fields(fields).build()?;
    let properties = WriterProperties::builder()
        .set_created_by(format!("towpath {}", env!("CARGO_PKG_VERSION")))
        .set_key_value_metadata(Some(metadata.to_vec()))
        .build();
    let mut writer = SerializedFileWriter::new(Vec::new(), Arc::new(schema), Arc::new(properties))?;
    let mut group = writer.next_row_group()?;
    for Column { values, .. } in &columns {
        let Some(mut column) = group.next_column()? else {
            break;
        };
        write_column(&mut column, values.iter().copied())?;
        column.close()?;
    }
    group.close()?;
    writer.into_inner()
}

/// A column, with a value or none for each row.
struct Column<'a> {
    name: &'a str,
    kind: Kind,
    values: Vec<Option<&'a Value>>,
}

/// The columns of all rows by name. A row has its values by name too, so one walk along both finds the column
/// of each, mostly at the first comparison.
fn columns(rows: &[Row]) -> Vec<Column<'_>> {
    let mut columns: Vec<Column<'_>> = Vec::new();
    for (number, row) in rows.iter().enumerate() {
        let mut at = 0;
        for (name, value) in row {
            while columns
                .get(at)
                .is_some_and(|column| column.name < name.as_str())
            {
                at += 1;
            }
            let kind = Kind::of(value);
            if columns.get(at).is_none_or(|column| column.name != name) {
                let values = Vec::with_capacity(rows.len());
                columns.insert(at, Column { name, kind, values });
            }
            let column = &mut columns[at];
            column.kind = column.kind.join(kind);
            column.values.resize(number, None);
            column.values.push(Some(value));
        }
    }
    for column in &mut columns {
        column.values.resize(rows.len(), None);
    }
    columns
}

/// The columns of trials in their order, `run` first.
fn in_order(columns: Vec<Column<'_>>) -> Vec<Column<'_>> {
    let names: BTreeSet<String> = columns
        .iter()
        .map(|column| column.name.to_owned())
        .collect();
    let order = columns_of(names);
    let is_first = |name: &str| name == "run" || name == "key";
    let place = |column: &Column<'_>| {
        let place = order.iter().position(|name| name == column.name);
        (!is_first(column.name), place)
    };
    let mut columns = columns;
    columns.sort_by_key(place);
    columns
}

fn field(name: &str, kind: Kind) -> Result<Arc<Type>, ParquetError> {
    let logical = (kind == Kind::Text).then_some(LogicalType::String);
    let built = Type::primitive_type_builder(name, kind.physical())
        .with_repetition(Repetition::OPTIONAL)
        .with_logical_type(logical)
        .build();
    built.map(Arc::new)
}

/// Writes the values that are there, and for each row whether one is.
fn write_column<'a>(
    column: &mut SerializedColumnWriter<'_>,
    values: impl Iterator<Item = Option<&'a Value>> + Clone,
) -> Result<(), ParquetError> {
    let present: Vec<i16> = values
        .clone()
        .map(|value| i16::from(value.is_some()))
        .collect();
    let levels = Some(&present[..]);
    let there = values.flatten();
    match column.untyped() {
        ColumnWriter::BoolColumnWriter(writer) => {
            let flags: Vec<bool> = there.map(|value| *value == Value::Flag(true)).collect();
            writer.write_batch(&flags, levels, None)?;
        }
        ColumnWriter::Int64ColumnWriter(writer) => {
            let counts: Vec<i64> = there.map(integer).collect();
            writer.write_batch(&counts, levels, None)?;
        }
        ColumnWriter::DoubleColumnWriter(writer) => {
            let numbers: Vec<f64> = there.map(double).collect();
            writer.write_batch(&numbers, levels, None)?;
        }
        ColumnWriter::ByteArrayColumnWriter(writer) => {
            let words: Vec<ByteArray> = there
                .map(|value| ByteArray::from(word(value).into_bytes()))
                .collect();
            writer.write_batch(&words, levels, None)?;
        }
        _ => {
            return Err(ParquetError::General(
                "a column of a type that is never made".to_owned(),
            ));
        }
    }
    Ok(())
}

fn integer(value: &Value) -> i64 {
    match value {
        Value::Integer(count) => *count,
        _ => 0,
    }
}

fn double(value: &Value) -> f64 {
    match value {
        Value::Number(number) => *number,
        value => integer(value) as f64,
    }
}

fn word(value: &Value) -> String {
    match value {
        Value::Text(word) => word.clone(),
        Value::Flag(flag) => flag.to_string(),
        Value::Integer(count) => count.to_string(),
        Value::Number(number) => number.to_string(),
    }
}
