//! Contestants without a series of their connection, and why.

use results::{Cell, RunData};
use std::collections::BTreeSet;

/// What the sending side says where it recorded nothing.
const NO_SERIES: &str = "sender.no_series";

/// The same of the queue of the link.
const NO_QUEUE: &str = "link.no_series";

/// One line for each contestant and reason.
pub(super) fn lines(run: &RunData) -> Vec<String> {
    let reasons = run.trials.iter().filter_map(|trial| {
        let why = trial.effective.get(NO_SERIES)?;
        let name = trial.cell.text(Cell::TRANSPORT);
        Some(format!("no series of {name}'s connection: it {why}"))
    });
    let queues = run.trials.iter().filter_map(|trial| {
        let why = trial.effective.get(NO_QUEUE)?;
        Some(format!("no series of the link's queue: it {why}"))
    });
    let each: BTreeSet<String> = reasons.chain(queues).collect();
    each.into_iter().collect()
}
