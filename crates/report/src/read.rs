//! Runs with a summary in any case.

use results::{ReadError, RunData, RunStatus, Summary};
use std::path::Path;

/// Reads the result in a folder; computes the summary of a race that was killed before it wrote one.
/// Errors are those of [`RunData::read`].
pub fn read(folder: &Path) -> Result<RunData, ReadError> {
    let mut run = RunData::read(folder)?;
    if run.summary.is_none() {
        run.summary = Some(summarise(&run));
    }
    Ok(run)
}

fn summarise(run: &RunData) -> Summary {
    let reason = "the run was killed before it could write its summary";
    let first = run.trials.first().map_or(0.0, |trial| trial.started_s);
    let last = run
        .trials
        .last()
        .map_or(0.0, |trial| trial.started_s + trial.span_s);
    stats::summarise(
        &run.plan,
        &run.trials,
        RunStatus::Interrupted,
        reason,
        last - first,
    )
}
