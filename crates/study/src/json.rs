//! A judged study as JSON.

use crate::form::Study;
use crate::form::formula::Formula;
use crate::form::shows;
use crate::form::spec::{FactorSpec, RunSpec};
use crate::judge::exhibit::{Cell, Column, Judged, Standing};
use crate::judge::finding::{ALPHA, Finding};
use crate::judge::{Limit, Outcomes};
use crate::outcome::{Measures, Outcome, Point};
use serde_json::{Map, Value, json};

/// Everything: points of the runs in their lists, cells, findings.
///
/// Cells of exhibits that are counted apart are in `cells_apart`. Keys of factors are those of the
/// study, so a study keeps its keys whatever runs it.
pub fn whole(study: &Study, outcomes: &Outcomes, judged: &[Judged], findings: &[Finding]) -> Value {
    let mut whole = Map::new();
    whole.insert("study".to_owned(), json!(study.key));
    for run in study.spec.run.iter().filter(|run| !run.list.is_empty()) {
        let Some(Ok(outcome)) = outcomes.get(run.id.get_ref()) else {
            continue;
        };
        let list = whole.entry(&run.list).or_insert_with(|| json!([]));
        if let Value::Array(list) = list {
            list.extend(
                outcome
                    .points
                    .iter()
                    .map(|point| row(study, run, outcome, point)),
            );
        }
    }
    let (mut cells, mut apart) = (Vec::new(), Vec::new());
    for (exhibit, judged) in study.spec.exhibit.iter().zip(judged) {
        let numbers = shows::numbers(exhibit.shows.get_ref()).unwrap_or_default();
        let table = numbers.first().map_or(0, |number| number.number);
        let list = if exhibit.apart {
            &mut apart
        } else {
            &mut cells
        };
        for column in &judged.columns {
            let printed = column.cells.iter().filter(|cell| cell.paper.is_some());
            list.extend(printed.map(|cell| cell_json(table, column, cell)));
        }
    }
    whole.insert("cells".to_owned(), Value::Array(cells));
    whole.insert("cells_apart".to_owned(), Value::Array(apart));
    let exhibits = study.spec.exhibit.iter().zip(judged).map(|(exhibit, judged)| {
        json!({ "shows": exhibit.shows.get_ref(), "title": exhibit.title, "absent": judged.absent })
    });
    whole.insert("exhibits".to_owned(), exhibits.collect());
    let findings = findings.iter().map(|finding| {
        json!({
            "says": finding.says, "word": finding.word.text(), "found": finding.found,
            "blocks": finding.blocks,
        })
    });
    whole.insert("findings".to_owned(), findings.collect());
    whole.insert("alpha".to_owned(), json!(ALPHA));
    Value::Object(whole)
}

fn factor(value: &FactorSpec) -> Value {
    match value {
        FactorSpec::Flag(value) => json!(value),
        FactorSpec::Integer(value) => json!(value),
        FactorSpec::Number(value) => json!(value),
        FactorSpec::Text(value) => json!(value),
    }
}

/// A point: the factors of its run, and every measure of the study that has a value there.
fn row(study: &Study, run: &RunSpec, outcome: &Outcome, point: &Point) -> Value {
    let measures = Measures {
        study: &study.spec,
        run,
        is_measured: outcome.is_measured,
    };
    let mut row: Map<String, Value> = Map::new();
    row.insert("run".to_owned(), json!(run.id.get_ref()));
    for (name, value) in &point.factors {
        if !name.contains('.') {
            row.insert(name.clone(), json!(value));
        }
    }
    row.extend(
        run.is
            .iter()
            .map(|(name, value)| (name.clone(), factor(value))),
    );
    for (name, text) in &study.spec.measure {
        let value = Formula::parse(text.get_ref()).ok();
        let value = value.and_then(|formula| measures.of_point(&formula, point));
        row.extend(value.map(|value| (name.clone(), number(value))));
    }
    row.insert("complete".to_owned(), json!(point.complete));
    row.insert("runs".to_owned(), json!(point.replicates.len()));
    Value::Object(row)
}

/// Whole numbers without a point.
fn number(value: f64) -> Value {
    match value.fract() == 0.0 && value.abs() < 9e15 {
        true => json!(value as i64),
        false => json!(value),
    }
}

fn cell_json(table: u32, column: &Column, cell: &Cell) -> Value {
    let mut json: Map<String, Value> = Map::new();
    json.insert("table".to_owned(), json!(table));
    json.insert("figure".to_owned(), json!(column.name));
    let factors = cell.factors.iter();
    json.extend(factors.map(|(name, value)| (name.clone(), factor(value))));
    json.insert("ours".to_owned(), json!(cell.ours));
    json.insert("paper".to_owned(), json!(cell.paper));
    json.insert("difference".to_owned(), json!(cell.difference()));
    let limit = match cell.limit {
        Limit::Part(part) => json!(part),
        Limit::Digits => json!(0.0),
        Limit::Shape => Value::Null,
    };
    json.insert("limit".to_owned(), limit);
    json.insert("standing".to_owned(), json!(cell.standing.name()));
    json.insert("note".to_owned(), json!(cell.note));
    Value::Object(json)
}

/// Counts of cells: within, beyond, misprints, shape; those counted apart, and the others.
pub fn counts(study: &Study, judged: &[Judged], apart: bool) -> [usize; 4] {
    let own = study.spec.exhibit.iter().zip(judged);
    let own = own.filter(|(exhibit, _)| exhibit.apart == apart);
    let cells: Vec<Standing> = own
        .flat_map(|(_, judged)| &judged.columns)
        .flat_map(|column| &column.cells)
        .map(|cell| cell.standing)
        .collect();
    let all = [
        Standing::Within,
        Standing::Beyond,
        Standing::Misprint,
        Standing::Shape,
    ];
    all.map(|wanted| cells.iter().filter(|standing| **standing == wanted).count())
}
