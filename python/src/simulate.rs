//! Scenarios in this process. The interpreter is released; a signal, Ctrl-C above all, ends the run.

use pyo3::exceptions::PyValueError;
use pyo3::prelude::*;
use scenario::{RunOutcome, Scenario, sweep};
use std::panic::{AssertUnwindSafe, catch_unwind, resume_unwind};
use std::time::{Duration, Instant};

/// Runs a scenario of this text once, and gives what `towpath sim run --json` prints. `name` is that of
/// the file, for errors.
#[pyfunction]
pub fn simulate(
    py: Python<'_>,
    text: &str,
    name: &str,
    seed: Option<u64>,
    changes: Vec<String>,
) -> PyResult<String> {
    let scenario = parse(text, name, &changes)?;
    let seed = seed.unwrap_or(scenario.seed);
    let outcome = run(py, &scenario, &changes, seed)?;
    let mut json = serde_json::to_string_pretty(&outcome)
        .map_err(|error| PyValueError::new_err(error.to_string()))?;
    json.push('\n');
    Ok(json)
}

/// Runs a job of a sweep, and gives its row as the sweep writes it, without the end of the line.
#[pyfunction]
pub fn run_job(
    py: Python<'_>,
    key: &str,
    text: &str,
    changes: Vec<String>,
    seed: u64,
) -> PyResult<String> {
    let scenario = parse(text, "scenario", &changes)?;
    let outcome = run(py, &scenario, &changes, seed)?;
    let row = sweep::Row {
        key: key.to_owned(),
        build: sweep::BUILD,
        outcome,
    };
    serde_json::to_string(&row).map_err(|error| PyValueError::new_err(error.to_string()))
}

fn parse(text: &str, name: &str, changes: &[String]) -> PyResult<Scenario> {
    let whole = scenario::parse(text);
    let whole = whole.map_err(|error| PyValueError::new_err(format!("{name}:{error}")))?;
    if changes.is_empty() {
        return Ok(whole);
    }
    sweep::apply_changes(text, changes).map_err(PyValueError::new_err)
}

/// How often signals are looked at: seldom, because another thread may hold the interpreter.
const SIGNALS_EVERY: Duration = Duration::from_millis(100);

/// What unwinds a run that a signal ended.
struct Interrupted(PyErr);

fn run(py: Python<'_>, scenario: &Scenario, changes: &[String], seed: u64) -> PyResult<RunOutcome> {
    let ran = py.detach(|| {
        catch_unwind(AssertUnwindSafe(|| {
            scenario::run(scenario, changes, seed, |network| {
                let mut looked_at = Instant::now();
                network.on_progress(move |_, _| {
                    if looked_at.elapsed() >= SIGNALS_EVERY {
                        looked_at = Instant::now();
                        end_on_signal();
                    }
                });
            })
        }))
    });
    match ran {
        Ok(outcome) => outcome.map_err(PyValueError::new_err),
        Err(payload) => match payload.downcast::<Interrupted>() {
            Ok(interrupted) => Err(interrupted.0),
            Err(panic) => resume_unwind(panic),
        },
    }
}

/// Unwinds the run, whose network nobody else holds, when a handler of a signal raised.
fn end_on_signal() {
    if let Err(error) = Python::attach(|py| py.check_signals()) {
        resume_unwind(Box::new(Interrupted(error)));
    }
}
