//! A result's folder.

use crate::histogram::Histogram;
use pyo3::exceptions::PyValueError;
use pyo3::prelude::*;
use pyo3::types::{PyDict, PyString};
use report::{CellHistogram, ChartFile, Row, Value};
use results::RunData;
use serde::Serialize;
use std::collections::BTreeMap;
use std::path::PathBuf;

/// What is in the folder of a run, read whole. Reading runs nothing, and is bounded.
#[pyclass(frozen, module = "towpath._towpath")]
pub struct RunFolder(RunData);

#[pymethods]
impl RunFolder {
    /// Reads a folder.
    #[new]
    fn new(py: Python<'_>, folder: PathBuf) -> PyResult<RunFolder> {
        let read = py.detach(|| report::read(&folder).map_err(|error| error.to_string()));
        read.map(RunFolder).map_err(PyValueError::new_err)
    }

    /// The plan as JSON.
    fn plan(&self) -> PyResult<String> {
        json(&self.0.plan)
    }

    /// Facts and findings about the hosts as JSON.
    fn machine(&self) -> PyResult<String> {
        json(&self.0.machine)
    }

    /// Estimates and verdicts as JSON.
    fn summary(&self) -> PyResult<String> {
        json(&self.0.summary)
    }

    /// All trials as JSON.
    fn trials(&self, py: Python<'_>) -> PyResult<String> {
        py.detach(|| json(&self.0.trials))
    }

    /// What is missing, when the trials were cut off.
    fn missing_trials(&self) -> Option<String> {
        self.0.missing_trials()
    }

    /// Every trial as a dict of what it has.
    fn rows<'py>(&self, py: Python<'py>) -> PyResult<Vec<Bound<'py, PyDict>>> {
        let rows = py.detach(|| report::rows(&self.0));
        let mut names = BTreeMap::new();
        let rows = rows.into_iter().map(|row| dict(py, row, &mut names));
        rows.collect()
    }

    /// The histogram `name` of the one cell that has these factors, merged over its trials.
    fn histogram(
        &self,
        py: Python<'_>,
        factors: BTreeMap<String, String>,
        name: &str,
    ) -> PyResult<Histogram> {
        let merged = py.detach(|| report::merged(&self.0));
        let merged = merged.map_err(PyValueError::new_err)?;
        let fits = |one: &&CellHistogram| {
            one.name == name
                && factors
                    .iter()
                    .all(|(key, value)| one.cell.text(key) == *value)
        };
        let found: Vec<&CellHistogram> = merged.iter().filter(fits).collect();
        match found[..] {
            [one] => Ok(Histogram::new(&one.unit, &one.samples)),
            [] => Err(PyValueError::new_err(format!(
                "no cell has these factors and a histogram {name:?}; there are: {}",
                list(merged.iter())
            ))),
            _ => Err(PyValueError::new_err(format!(
                "{} cells have these factors; add some of: {}",
                found.len(),
                list(found.iter().copied())
            ))),
        }
    }

    /// Every chart of the report: name, SVG and CSV.
    fn charts(&self, py: Python<'_>) -> Vec<(String, String, String)> {
        let charts = py.detach(|| report::charts(&self.0));
        let each = charts.into_iter();
        each.map(|ChartFile { name, svg, csv }| (name, svg, csv))
            .collect()
    }

    /// The report as one HTML page.
    fn report(&self, py: Python<'_>) -> String {
        py.detach(|| report::html(&self.0))
    }

    /// Medians and verdicts as text, of this width.
    fn table(&self, width: usize) -> String {
        report::table(&self.0, false, width, &[])
    }
}

/// Most cells that an error names.
const NAMED_MAX: usize = 8;

/// Cells with their histograms as words.
fn list<'a>(all: impl Iterator<Item = &'a CellHistogram>) -> String {
    let one = |one: &CellHistogram| {
        let factors = one
            .cell
            .0
            .iter()
            .map(|(key, value)| format!("{key}={value}"));
        format!("{} ({})", one.name, factors.collect::<Vec<_>>().join(" "))
    };
    let mut named: Vec<String> = all.map(one).collect();
    let more = named.len().saturating_sub(NAMED_MAX);
    named.truncate(NAMED_MAX);
    if more > 0 {
        named.push(format!("and {more} more"));
    }
    match named.is_empty() {
        true => "none; race with workload delay or offered".to_owned(),
        false => named.join(", "),
    }
}

/// A row; `names` holds each column's name once.
fn dict<'py>(
    py: Python<'py>,
    row: Row,
    names: &mut BTreeMap<String, Bound<'py, PyString>>,
) -> PyResult<Bound<'py, PyDict>> {
    let dict = PyDict::new(py);
    for (name, value) in row {
        let name = names
            .entry(name)
            .or_insert_with_key(|name| PyString::new(py, name));
        match value {
            Value::Text(text) => dict.set_item(&*name, text)?,
            Value::Flag(flag) => dict.set_item(&*name, flag)?,
            Value::Integer(count) => dict.set_item(&*name, count)?,
            Value::Number(number) => dict.set_item(&*name, number)?,
        }
    }
    Ok(dict)
}

fn json(value: &impl Serialize) -> PyResult<String> {
    serde_json::to_string(value).map_err(|error| PyValueError::new_err(error.to_string()))
}
