//! Builds a trial record from the reports of its workers.
//!
//! * `view` - the reports with their context.
//! * `rates` - throughput: warm-up, rates, shares.
//! * `legs` - rates, delays and shares of single circuits that ran together.
//! * `delays` - round trips, connections, open-loop delays.
//! * `transactions` - those of several clients: rates, delays, user bytes, share of the link.
//! * `responsive` - round trips of short messages without and beside bulk, and the bulk.
//! * `send` - sends into a wire that discards: copies of packets, and the rest.
//! * `host_pairs` - the same for each host pair, when several ran at once.
//! * `turns` - the turns of a trial that shared its time, and their values.
//! * `connection` - what connections said of themselves, and the goodput beside it.
//! * `costs` - CPU cost per message, and the evidence that explains verdicts.
//! * `program` - the record of a trial of another project's program.
//! * `ledger` - where the messages went, and whether the trial is valid.

mod connection;
mod costs;
mod delays;
mod host_pairs;
mod ledger;
mod legs;
mod program;
mod rates;
mod responsive;
mod send;
mod transactions;
mod turns;
mod view;

use crate::spec::RaceSpec;
use crate::trial::{Collected, TrialError, TrialSpec};
use control::{NO_SERIES, WorkerReport, Workload};
pub(crate) use program::program_trial;
use results::{Cell, Status, Trial};
use std::collections::BTreeMap;
use view::TrialView;

/// Position of a trial within its race.
#[derive(Clone, Copy, Debug)]
pub struct TrialPosition {
    /// Its number in the order of all trials.
    pub index: u64,
    /// Its block, 0 for a pilot.
    pub block: u32,
    /// Whether it is the baseline's second run, the A/A control.
    pub control: bool,
    /// When it started, seconds since 1970.
    pub started_s: f64,
}

/// The trial record of `outcome`.
pub fn trial(
    spec: &RaceSpec,
    trial: &TrialSpec,
    position: TrialPosition,
    outcome: &Result<Collected, TrialError>,
) -> Trial {
    let mut made = empty(trial, position);
    match outcome {
        Ok(collected) => fill(&mut made, spec, trial, collected),
        Err(error) => note_error(&mut made, error),
    }
    made
}

/// Why a trial has no result.
fn note_error(made: &mut Trial, error: &TrialError) {
    (made.status, made.reason) = match error {
        TrialError::Interrupted => (Status::Interrupted, "stopped by the user".into()),
        TrialError::Failed(what) => (Status::Failed, what.clone()),
    };
}

fn empty(trial: &TrialSpec, position: TrialPosition) -> Trial {
    let cell = trial.contest.cell.clone();
    let cell = cell.with(Cell::TRANSPORT, trial.contestant.as_str());
    Trial {
        control: position.control,
        started_s: position.started_s,
        ..Trial::empty(position.index, position.block, cell)
    }
}

fn fill(made: &mut Trial, spec: &RaceSpec, trial: &TrialSpec, collected: &Collected) {
    let view = TrialView {
        spec,
        trial,
        collected,
    };
    made.span_s = view.span_s();
    match trial.contest.workload {
        Workload::Throughput => rates::throughput(made, &view),
        Workload::Delay => delays::delays(made, &view, "delay"),
        Workload::Offered => delays::offered(made, &view),
        Workload::Connect => delays::delays(made, &view, "connection"),
        Workload::Transactions => transactions::transactions(made, &view),
        Workload::Responsive => responsive::responsive(made, &view),
        Workload::Send => send::send(made, &view),
    }
    if let Some(messages) = trial.contest.messages {
        rates::total_time(made, &view, messages);
    }
    turns::turns(made, &view);
    connection::connection(made, &view);
    host_pairs::pair_metrics(made, &view);
    costs::costs(made, &view);
    made.ledger = ledger::ledger(&view);
    made.effective = effective(collected);
    ledger::judge(made, &view);
    made.metrics.retain(|_, value| value.is_finite());
    made.evidence.retain(|_, value| value.is_finite());
}

fn effective(collected: &Collected) -> BTreeMap<String, String> {
    let side = |name: &'static str, report: &WorkerReport| {
        let named = report.effective.clone().into_iter();
        named
            .map(move |(key, value)| (format!("{name}.{key}"), value))
            .collect::<Vec<_>>()
    };
    let sender = side("sender", &collected.sender);
    let receiver = side("receiver", &collected.receiver);
    let no_queue = collected.environment.no_queue.clone();
    let no_queue = no_queue.map(|why| (format!("link.{NO_SERIES}"), why));
    sender.into_iter().chain(receiver).chain(no_queue).collect()
}
