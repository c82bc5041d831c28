//! The figures of an exhibit: printed, ours, and whether they agree.

use super::{Limit, Outcomes, unit};
use crate::form::Study;
use crate::form::csv::Printed;
use crate::form::formula::Formula;
use crate::form::spec::{ColumnSpec, ExhibitSpec, FactorSpec};
use crate::outcome::{Measures, Outcome, Point};
use std::collections::BTreeMap;

/// Agreement of our figure with the paper's.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Standing {
    /// Within the limit.
    Within,
    /// Beyond the limit.
    Beyond,
    /// The printed figure disagrees with its own row.
    Misprint,
    /// Not judged one by one.
    Shape,
    /// One of the two is missing.
    Alone,
}

impl Standing {
    /// As in JSON.
    pub fn name(self) -> &'static str {
        match self {
            Standing::Within => "within",
            Standing::Beyond => "beyond",
            Standing::Misprint => "misprint",
            Standing::Shape => "shape",
            Standing::Alone => "alone",
        }
    }
}

/// A figure of the paper and ours.
#[derive(Clone, Debug, PartialEq)]
pub struct Cell {
    /// The value of its row, corrected.
    pub row: f64,
    /// Our value on the x axis.
    pub x: Option<f64>,
    /// The printed figure.
    pub paper: Option<f64>,
    /// Digits printed behind its point.
    pub digits: u32,
    /// Ours.
    pub ours: Option<f64>,
    /// How it is judged.
    pub limit: Limit,
    /// Agreement of the two.
    pub standing: Standing,
    /// Explanation of a misprint.
    pub note: Option<String>,
    /// Factors of our point.
    pub factors: BTreeMap<String, FactorSpec>,
}

/// A column with its cells, in the order of rows.
#[derive(Clone, Debug, PartialEq)]
pub struct Column {
    /// Its name.
    pub name: String,
    /// The name of its curve.
    pub curve: String,
    /// Its unit.
    pub unit: String,
    /// The cells.
    pub cells: Vec<Cell>,
    /// What the chart multiplies values with.
    pub chart_scale: f64,
    /// Why it alone was not run, if the study says so.
    pub absent: Option<String>,
}

/// An exhibit, judged.
#[derive(Clone, Debug, PartialEq)]
pub struct Judged {
    /// Its columns.
    pub columns: Vec<Column>,
    /// Why it was not run, if it was not.
    pub absent: Option<String>,
}

/// A printed value of a row, and the row's corrected value.
type PrintedRow = (f64, f64, Vec<Option<Printed>>);

/// Judges an exhibit.
pub fn judge(study: &Study, exhibit: &ExhibitSpec, outcomes: &Outcomes) -> Judged {
    let printed = printed_rows(study, exhibit);
    let mut columns: Vec<Column> = Vec::new();
    let mut missing = Vec::new();
    for spec in &exhibit.column {
        let ours = match our_values(study, exhibit, spec, outcomes) {
            Ok(ours) => ours,
            Err(why) => {
                missing.push(why);
                Vec::new()
            }
        };
        columns.push(column(study, exhibit, spec, &printed, &ours));
    }
    derive(exhibit, &mut columns);
    if exhibit.column.is_empty() {
        columns = printed_columns(study, exhibit, &printed);
    }
    // Some columns without figures are said beside the others; an exhibit of none was not run.
    let has_ours = |column: &Column| column.cells.iter().any(|cell| cell.ours.is_some());
    let nothing = !columns.iter().any(has_ours);
    let why = missing.into_iter().next().filter(|_| nothing);
    Judged {
        columns,
        absent: exhibit.absent.clone().or(why),
    }
}

/// The columns of an exhibit that has only those of its file, because it is not run.
fn printed_columns(study: &Study, exhibit: &ExhibitSpec, printed: &[PrintedRow]) -> Vec<Column> {
    let name = exhibit.csv.as_ref();
    let csv = name.and_then(|name| study.printed.get(name.get_ref()));
    let heads = csv.into_iter().flat_map(|csv| csv.head.iter().enumerate());
    // The first names the rows.
    let columns = heads.skip(1).map(|(place, name)| {
        let cells = printed.iter().map(|row| {
            let figure = row.2.get(place).copied().flatten();
            Cell::new(row.1, figure, None, Limit::Shape, None)
        });
        Column {
            name: name.clone(),
            curve: name.clone(),
            unit: String::new(),
            cells: cells.collect(),
            chart_scale: 0.0,
            absent: exhibit.absent.clone(),
        }
    });
    columns.collect()
}

/// The printed rows: as printed, corrected, and all cells of the file.
fn printed_rows(study: &Study, exhibit: &ExhibitSpec) -> Vec<PrintedRow> {
    let row = exhibit.row.as_ref();
    let corrected = |value: f64| {
        let corrections = row.into_iter().flat_map(|row| &row.corrected);
        let found = corrections.into_iter().find(|fix| fix.row == value);
        found.map_or(value, |fix| fix.to)
    };
    let csv = exhibit
        .csv
        .as_ref()
        .and_then(|name| study.printed.get(name.get_ref()));
    if let Some(csv) = csv {
        let head = row.and_then(|row| row.csv.as_ref());
        let place = head
            .and_then(|name| csv.column(name.get_ref()))
            .unwrap_or(0);
        let rows = csv.rows.iter().filter_map(|cells| {
            let value = cells.get(place).copied().flatten()?.value;
            Some((value, corrected(value), cells.clone()))
        });
        return rows.collect();
    }
    let mut rows: Vec<f64> = exhibit.marks.iter().map(|mark| mark.row).collect();
    rows.sort_by(f64::total_cmp);
    rows.dedup();
    rows.into_iter()
        .map(|row| (row, corrected(row), Vec::new()))
        .collect()
}

fn printed_figure(
    study: &Study,
    exhibit: &ExhibitSpec,
    spec: &ColumnSpec,
    row: &PrintedRow,
) -> Option<Printed> {
    let name = spec.csv.as_ref()?.get_ref();
    let csv = exhibit
        .csv
        .as_ref()
        .and_then(|name| study.printed.get(name.get_ref()));
    if let Some(csv) = csv {
        return row.2.get(csv.column(name)?).copied().flatten();
    }
    let mark = exhibit
        .marks
        .iter()
        .find(|mark| mark.row == row.0 && mark.column.get_ref() == name)?;
    Some(Printed {
        value: mark.value,
        digits: 0,
    })
}

/// One of our points: its row, its x, its value and its factors.
struct Ours {
    row: f64,
    x: Option<f64>,
    value: f64,
    factors: BTreeMap<String, FactorSpec>,
}

/// Our figures of a column, in the order of points; the reason when its run is left out.
fn our_values(
    study: &Study,
    exhibit: &ExhibitSpec,
    spec: &ColumnSpec,
    outcomes: &Outcomes,
) -> Result<Vec<Ours>, String> {
    let (Some(run), Some(measure), Some(row)) = (&spec.run, &spec.measure, &exhibit.row) else {
        return Ok(Vec::new());
    };
    let outcome: &Outcome = match outcomes.get(run.get_ref()) {
        Some(Ok(outcome)) => outcome,
        Some(Err(why)) => return Err(why.clone()),
        None => return Err(format!("run {} was not asked for", run.get_ref())),
    };
    let Some(run) = study.run(run.get_ref()) else {
        return Ok(Vec::new());
    };
    let measures = Measures {
        study: &study.spec,
        run,
        is_measured: outcome.is_measured,
    };
    let scale = results::metric::find(measure.get_ref())
        .map_or(1.0, |metric| unit::factor(metric.unit, &spec.unit));
    let parse = |text: &str| Formula::parse(text);
    let (measure, row_measure) = (parse(measure.get_ref())?, parse(row.measure.get_ref())?);
    let x = exhibit
        .x
        .as_ref()
        .map_or(Ok(row_measure.clone()), |x| parse(x.get_ref()))?;
    let points = outcome.select(spec.contestant.as_deref(), &spec.at);
    let ours = points.filter_map(|point| {
        let row_value = measures.of_point(&row_measure, point)?;
        let mut factors = run.is.clone();
        factors.insert(row.measure.get_ref().clone(), as_factor(row_value));
        Some(Ours {
            row: row_value,
            x: measures.of_point(&x, point),
            value: measures.of_point(&measure, point)? * scale,
            factors,
        })
    });
    let mut ours: Vec<Ours> = ours.collect();
    // A race runs its cells in random order.
    if !row.by_order {
        ours.sort_by(|one, other| one.row.total_cmp(&other.row));
    }
    match ours.is_empty() {
        true => Err(nothing(spec, outcome)),
        false => Ok(ours),
    }
}

fn nothing(spec: &ColumnSpec, outcome: &Outcome) -> String {
    let of = spec
        .contestant
        .as_ref()
        .map_or(String::new(), |name| format!(" of {name}"));
    match outcome
        .points
        .iter()
        .all(|point: &Point| point.replicates.is_empty())
    {
        true => "its run has no valid trial".to_owned(),
        false => format!("its run gave no figure{of} for {}", spec.name),
    }
}

fn as_factor(value: f64) -> FactorSpec {
    match value.fract() == 0.0 && value.abs() < 9e15 {
        true => FactorSpec::Integer(value as i64),
        false => FactorSpec::Number(value),
    }
}

fn column(
    study: &Study,
    exhibit: &ExhibitSpec,
    spec: &ColumnSpec,
    printed: &[PrintedRow],
    ours: &[Ours],
) -> Column {
    let by_order = exhibit.row.as_ref().is_some_and(|row| row.by_order);
    let same = |a: f64, b: f64| (a - b).abs() <= 1e-9 * a.abs().max(b.abs());
    let mut used = vec![false; ours.len()];
    let mut cells = Vec::new();
    for (place, row) in printed.iter().enumerate() {
        let own = match by_order {
            true => (place < ours.len()).then_some(place),
            false => ours.iter().position(|point| same(point.row, row.1)),
        };
        own.into_iter().for_each(|own| used[own] = true);
        let figure = printed_figure(study, exhibit, spec, row);
        let limit = limit_of(exhibit, spec, printed, place);
        let note = exhibit.misprint.iter().find(|misprint| {
            let here = spec
                .csv
                .as_ref()
                .is_some_and(|csv| csv.get_ref() == misprint.column.get_ref());
            here && misprint.row == row.0
        });
        let own = own.map(|own| &ours[own]);
        let note = note.map(|misprint| misprint.because.clone());
        cells.push(Cell::new(row.1, figure, own, limit, note));
    }
    // Points that the paper has no row for are figures of ours alone.
    let alone = ours.iter().zip(&used).filter(|(_, used)| !**used);
    cells.extend(alone.map(|(own, _)| Cell::new(own.row, None, Some(own), Limit::Shape, None)));
    Column {
        name: spec.name.clone(),
        curve: spec.curve.clone().unwrap_or_else(|| spec.name.clone()),
        unit: spec.unit.clone(),
        cells,
        chart_scale: spec.chart_scale.unwrap_or(1.0),
        absent: spec.absent.as_ref().map(|why| why.get_ref().clone()),
    }
}

/// The limit of a cell; the form was checked when it was read.
fn limit_of(exhibit: &ExhibitSpec, spec: &ColumnSpec, rows: &[PrintedRow], place: usize) -> Limit {
    let closer = spec.closer.as_ref().filter(|closer| {
        let from = rows.iter().position(|row| row.0 == closer.from);
        from.is_some_and(|from| place >= from)
    });
    let judged = closer
        .map(|closer| &closer.judged)
        .or(spec.judged.as_ref())
        .or(exhibit.judged.as_ref());
    judged
        .and_then(|text| Limit::parse(text.get_ref()).ok())
        .unwrap_or(Limit::Shape)
}

impl Cell {
    fn new(
        row: f64,
        printed: Option<Printed>,
        own: Option<&Ours>,
        limit: Limit,
        note: Option<String>,
    ) -> Cell {
        let mut cell = Cell {
            row,
            x: own.and_then(|own| own.x),
            paper: printed.map(|printed| printed.value),
            digits: printed.map_or(0, |printed| printed.digits),
            ours: own.map(|own| own.value),
            limit,
            standing: Standing::Alone,
            note,
            factors: own.map(|own| own.factors.clone()).unwrap_or_default(),
        };
        cell.judge();
        cell
    }

    /// Ours over the paper's, less 1.
    pub fn difference(&self) -> Option<f64> {
        match (self.ours, self.paper) {
            (Some(ours), Some(paper)) if paper != 0.0 => Some(ours / paper - 1.0),
            (Some(ours), Some(paper)) if ours == paper => Some(0.0),
            _ => None,
        }
    }

    fn judge(&mut self) {
        if self.limit == Limit::Digits {
            let scale = 10f64.powi(self.digits as i32);
            self.ours = self.ours.map(|ours| (ours * scale).round() / scale);
        }
        let (Some(ours), Some(paper)) = (self.ours, self.paper) else {
            return;
        };
        let is_within = match self.limit {
            Limit::Part(part) => (ours - paper).abs() <= part * paper.abs(),
            Limit::Digits => (ours - paper).abs() < 1e-9 * paper.abs().max(1.0),
            Limit::Shape => true,
        };
        self.standing = match (&self.note, self.limit, is_within) {
            (Some(_), ..) => Standing::Misprint,
            (None, Limit::Shape, _) => Standing::Shape,
            (None, _, true) => Standing::Within,
            (None, _, false) => Standing::Beyond,
        };
    }
}

/// Fills columns that are formulas of others.
fn derive(exhibit: &ExhibitSpec, columns: &mut [Column]) {
    for (place, spec) in exhibit.column.iter().enumerate() {
        let Some(formula) = &spec.columns else {
            continue;
        };
        let Ok(formula) = Formula::parse(formula.get_ref()) else {
            continue;
        };
        for row in 0..columns[place].cells.len() {
            let other = |name: &str| {
                let same = |other: &ColumnSpec| {
                    other.csv.as_ref().is_some_and(|csv| csv.get_ref() == name)
                };
                let other = exhibit.column.iter().position(same)?;
                columns[other].cells.get(row)
            };
            let value = formula.value(&|name| other(name)?.ours);
            let first = formula.names().first().copied().unwrap_or("");
            let factors = other(first).map(|cell| cell.factors.clone());
            let x = other(first).and_then(|cell| cell.x);
            let cell = &mut columns[place].cells[row];
            (cell.ours, cell.x) = (value, x);
            cell.factors = factors.unwrap_or_default();
            cell.judge();
        }
    }
}

/// Correlation of the ranks of ours and the paper's figures of a column (Spearman's rho), and ours
/// over the paper's, the median; None with fewer than three pairs.
pub fn shape(column: &Column) -> Option<(f64, f64)> {
    let pairs = column
        .cells
        .iter()
        .filter_map(|cell| Some((cell.ours?, cell.paper?)));
    let pairs: Vec<(f64, f64)> = pairs.collect();
    if pairs.len() < 3 {
        return None;
    }
    let ours = ranks(pairs.iter().map(|pair| pair.0));
    let papers = ranks(pairs.iter().map(|pair| pair.1));
    let ratios: Vec<f64> = pairs.iter().map(|(ours, paper)| ours / paper).collect();
    let rho = correlation(&ours, &papers)?;
    Some((rho, stats::estimate::median(&ratios)))
}

/// Ranks from 1; equal values share the mean of theirs.
fn ranks(values: impl Iterator<Item = f64>) -> Vec<f64> {
    let values: Vec<f64> = values.collect();
    let rank = |value: &f64| {
        let below = values.iter().filter(|other| *other < value).count();
        let equal = values.iter().filter(|other| *other == value).count();
        below as f64 + (equal as f64 + 1.0) / 2.0
    };
    values.iter().map(rank).collect()
}

fn correlation(a: &[f64], b: &[f64]) -> Option<f64> {
    let mean = |values: &[f64]| values.iter().sum::<f64>() / values.len() as f64;
    let (mean_a, mean_b) = (mean(a), mean(b));
    let products = a.iter().zip(b).map(|(a, b)| (a - mean_a) * (b - mean_b));
    let squares =
        |values: &[f64], mean: f64| values.iter().map(|v| (v - mean).powi(2)).sum::<f64>();
    let both = (squares(a, mean_a) * squares(b, mean_b)).sqrt();
    (both > 0.0).then(|| products.sum::<f64>() / both)
}
