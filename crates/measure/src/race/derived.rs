//! What a race derives before its trials: their limits, the pilots' estimates, the plan to be stored.

use super::{PRECISION_TARGET, RaceError, SLICES};
use crate::environment::Environment;
use crate::spec::{Contest, RaceSpec};
use crate::trial::{self, TrialSpec};
use crate::turn_plan;
use control::{Limits, Workload};
use loadgen::contestant::components;
use results::metric::{CONNECTIONS_PER_S, MESSAGES_PER_S, SENT_PER_S, TRANSACTIONS_PER_S};
use results::{Plan, SCHEMA_VERSION, Trial};

/// Estimates from a pilot.
#[derive(Clone, Copy, Debug)]
pub(super) struct PilotEstimate {
    /// Messages (round trips, connections) a second of one circuit.
    pub(super) per_s: f64,
    /// Seconds a trial should measure.
    pub(super) trial_s: f64,
    /// Messages a second of the whole contestant, for loads in per cent.
    pub(super) capacity_per_s: f64,
}

pub(super) fn limits(messages: u64, time_s: f64) -> Limits {
    Limits {
        messages,
        time_ns: (time_s * 1e9) as u64,
        slice_ns: (time_s * 1e9 / SLICES).max(200_000.0) as u64,
    }
}

/// How much longer than its pilot lets expect a trial of a fixed number of messages may take.
const COUNT_TIME_FACTOR: f64 = 10.0;

/// Least limit of such a trial, seconds.
const COUNT_TIME_MIN_S: f64 = 5.0;

/// Limits of a trial that ends after its messages, at the rate of its pilot.
pub(super) fn limits_of_count(shape: &Contest, need: PilotEstimate) -> Limits {
    let messages = shape.messages.unwrap_or(u64::MAX);
    let expected_s = messages as f64 / need.per_s.max(1e-9);
    Limits {
        time_ns: ((expected_s * COUNT_TIME_FACTOR).max(COUNT_TIME_MIN_S) * 1e9) as u64,
        ..limits(messages, expected_s)
    }
}

pub(super) fn describe(trial: &TrialSpec) -> String {
    let factors = trial
        .contest
        .cell
        .0
        .iter()
        .filter(|(name, _)| *name != "workload");
    let factors: Vec<String> = factors
        .map(|(name, value)| format!("{name} {value}"))
        .collect();
    format!(
        "{} {} {}",
        trial.contest.cell.workload(),
        trial.contestant,
        factors.join(", ")
    )
}

/// Rates and trial length of a cell with this many host pairs, from its pilot.
pub(super) fn estimate_from_pilot(pilot: &Trial, trial: &TrialSpec, pairs: usize) -> PilotEstimate {
    let circuits =
        f64::from(trial::circuits_of(trial)) * (components(&trial.contestant).len() * pairs) as f64;
    let total = [MESSAGES_PER_S, CONNECTIONS_PER_S, TRANSACTIONS_PER_S]
        .iter()
        .find_map(|name| pilot.metrics.get(*name));
    // Lost messages count as well, because trials are limited by messages sent.
    let total = total
        .copied()
        .unwrap_or(1.0)
        .max(pilot.metrics.get("sent_per_s").copied().unwrap_or(0.0));
    let rates = pilot
        .series
        .get(MESSAGES_PER_S)
        .or(pilot.series.get(TRANSACTIONS_PER_S))
        .or(pilot.series.get(SENT_PER_S))
        .map(|series| series.values.clone())
        .unwrap_or_default();
    let slice_s = pilot.span_s / rates.len().max(1) as f64;
    let precise_s = stats::pilot(&rates, slice_s, &PRECISION_TARGET).span_s;
    PilotEstimate {
        per_s: total / circuits.max(1.0),
        trial_s: match trial.contest.workload {
            // One round trip in a thousand is among few: as long as the race has time for.
            Workload::Responsive => PRECISION_TARGET.max_s,
            _ => precise_s,
        },
        capacity_per_s: pilot.metrics.get(MESSAGES_PER_S).copied().unwrap_or(total),
    }
}

/// The plan to be stored.
pub(super) fn plan_of(spec: &RaceSpec, environment: &dyn Environment) -> Result<Plan, RaceError> {
    let mut options = spec.options();
    options.extend(turn_plan::notes(spec, environment).map_err(RaceError::Empty)?);
    Ok(Plan {
        version: SCHEMA_VERSION,
        command: spec.command.clone(),
        seed: spec.seed,
        transports: spec.contestants.clone(),
        baseline: spec.baseline.clone(),
        control: spec.control,
        workloads: spec.workloads.clone(),
        sizes: spec.sizes.clone(),
        blocks: spec.blocks.clone(),
        alpha: spec.alpha,
        equal_within: spec.equal_within,
        time_s: spec.time_s,
        trial_s: spec.trial_s.unwrap_or(0.0),
        options,
    })
}
