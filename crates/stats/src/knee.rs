//! The knee of an open loop: the largest offered load a transport still carries.
//!
//! A load is carried when at least [`DELIVERED_MIN`] of the offered messages is delivered, less
//! than [`LOSS_MAX`] is lost, the generator kept its schedule in most trials, and the 99 % delay
//! stays below [`DELAY_FACTOR`] times that of the lowest load. Beyond the knee a queue grows; the
//! first of these conditions that fails shows where.

use crate::estimate::median;
use crate::order::CellOrder;
use results::phrasing;
use results::{Cell, Plan, Status, Trial, metric};
use std::collections::BTreeMap;

/// Share of the offered messages that must be delivered.
pub const DELIVERED_MIN: f64 = 0.99;
/// Share of messages at which loss limits the load.
pub const LOSS_MAX: f64 = 0.001;
/// Growth over the delay of the lowest load at which delay limits the load.
pub const DELAY_FACTOR: f64 = 10.0;

/// The factors that distinguish loads.
const LOADS: [&str; 2] = [Cell::LOAD_PERCENT, Cell::RATE];

/// Where a transport stops carrying the offered load.
#[derive(Clone, Debug, PartialEq)]
pub struct Knee {
    /// The cell without its load; it names the transport.
    pub cell: Cell,
    /// The largest load carried, messages a second; None when not even the lowest was.
    pub carried: Option<Load>,
    /// The next load above it, and which condition failed there; None when the sweep ended before
    /// the knee.
    pub beyond: Option<(Load, KneeLimit)>,
}

/// One load of a sweep, medians over its trials.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Load {
    /// Messages offered a second.
    pub offered_per_s: f64,
    /// Messages delivered a second.
    pub delivered_per_s: f64,
    /// Share of messages lost.
    pub loss_fraction: f64,
    /// 99 % delay from the intended send time, in us; None without enough samples for it.
    pub delay_p99_us: Option<f64>,
    /// Whether the generator kept its schedule in more than half of the trials.
    pub on_schedule: bool,
}

/// The condition that failed beyond the knee.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum KneeLimit {
    /// The generator could not offer this much.
    Generator,
    /// Messages were lost.
    Loss,
    /// Fewer were delivered than offered.
    Undelivered,
    /// The delay grew.
    Delay,
}

/// The knee of each size, transport and other factors that `trials` sweep with at least two loads,
/// in the order of the plan.
pub fn knees(plan: &Plan, trials: &[Trial]) -> Vec<Knee> {
    let mut sweeps: Vec<(Cell, BTreeMap<String, Vec<&Trial>>)> = Vec::new();
    let counted = trials
        .iter()
        .filter(|trial| trial.block > 0 && !trial.control)
        .filter(|trial| trial.cell.workload() == "offered")
        .filter(|trial| matches!(trial.status, Status::Ok | Status::Invalid));
    for trial in counted {
        let cell = LOADS
            .iter()
            .fold(trial.cell.clone(), |cell, load| cell.without(load));
        let load = LOADS.map(|name| trial.cell.text(name)).join("/");
        let at = sweeps.iter().position(|(other, _)| *other == cell);
        let at = at.unwrap_or_else(|| {
            sweeps.push((cell, BTreeMap::new()));
            sweeps.len() - 1
        });
        sweeps[at].1.entry(load).or_default().push(trial);
    }
    let order = CellOrder::of(plan, trials);
    sweeps.sort_by(|(a, _), (b, _)| order.compare(a, b));
    sweeps.into_iter().filter_map(knee).collect()
}

/// A knee as one sentence without a full stop.
pub fn sentence(knee: &Knee) -> String {
    let transport = knee.cell.transport();
    let contest = phrasing::contest_text(&knee.cell.without(Cell::TRANSPORT));
    let beyond = knee.beyond.map(|(load, limit)| match limit {
        KneeLimit::Generator => "beyond, the generator cannot keep its schedule".to_owned(),
        KneeLimit::Loss => format!(
            "at {} {} % is lost",
            rate(load.offered_per_s),
            digits(load.loss_fraction * 100.0)
        ),
        KneeLimit::Undelivered => format!(
            "at {} only {} arrive",
            rate(load.offered_per_s),
            rate(load.delivered_per_s)
        ),
        KneeLimit::Delay => format!(
            "at {} the 99 % delay is {}",
            rate(load.offered_per_s),
            delay(load.delay_p99_us)
        ),
    });
    match (knee.carried, beyond) {
        (Some(load), Some(beyond)) => format!(
            "{contest} {transport} carries {} (99 % delay {}); {beyond}",
            rate(load.offered_per_s),
            delay(load.delay_p99_us)
        ),
        (Some(load), None) => format!(
            "{contest} {transport} carries {} and perhaps more; offer more to find the knee",
            rate(load.offered_per_s)
        ),
        (None, Some(beyond)) => {
            format!("{contest} {transport} carries none of the loads; {beyond}; offer less")
        }
        (None, None) => format!("{contest} {transport}: nothing is known of its knee"),
    }
}

fn knee((cell, sweep): (Cell, BTreeMap<String, Vec<&Trial>>)) -> Option<Knee> {
    let mut loads: Vec<Load> = sweep.values().filter_map(|trials| load(trials)).collect();
    loads.sort_by(|a, b| a.offered_per_s.total_cmp(&b.offered_per_s));
    let lowest = *loads.first()?;
    let limits: Vec<Option<KneeLimit>> = loads.iter().map(|load| limit(load, &lowest)).collect();
    let last = limits.iter().rposition(Option::is_none);
    let above = last.map_or(0, |last| last + 1);
    let beyond = loads
        .get(above)
        .and_then(|load| Some((*load, limits[above]?)));
    (loads.len() > 1).then(|| Knee {
        cell,
        carried: last.map(|last| loads[last]),
        beyond,
    })
}

/// The condition that a load fails, if any.
fn limit(load: &Load, lowest: &Load) -> Option<KneeLimit> {
    let delays = lowest.delay_p99_us.zip(load.delay_p99_us);
    let grown = delays.is_some_and(|(lowest, here)| here >= DELAY_FACTOR * lowest);
    if !load.on_schedule {
        Some(KneeLimit::Generator)
    } else if load.loss_fraction >= LOSS_MAX {
        Some(KneeLimit::Loss)
    } else if load.delivered_per_s < DELIVERED_MIN * load.offered_per_s {
        Some(KneeLimit::Undelivered)
    } else {
        grown.then_some(KneeLimit::Delay)
    }
}

/// Medians of one load over valid trials, or over all when none is valid.
fn load(trials: &[&Trial]) -> Option<Load> {
    let ok: Vec<&Trial> = trials
        .iter()
        .filter(|trial| trial.status == Status::Ok)
        .copied()
        .collect();
    let kept = ok.len() * 2 > trials.len();
    let shown = if ok.is_empty() { trials } else { &ok };
    let of = |name: &str| -> Option<f64> {
        let values = shown.iter().filter_map(|trial| trial.metrics.get(name));
        let values: Vec<f64> = values.copied().filter(|value| value.is_finite()).collect();
        (!values.is_empty()).then(|| median(&values))
    };
    Some(Load {
        offered_per_s: of("offered_per_s")?,
        delivered_per_s: of(metric::DELIVERED_PER_S)?,
        loss_fraction: of("loss_fraction").unwrap_or(0.0),
        // No message takes no time: a zero is a percentile that had no samples.
        delay_p99_us: of("delay_p99_us").filter(|delay| *delay > 0.0),
        on_schedule: kept,
    })
}

/// `12.3 us`.
fn delay(p99_us: Option<f64>) -> String {
    p99_us.map_or("unknown: too few samples".into(), |delay| {
        format!("{} us", digits(delay))
    })
}

/// `306 k/s`.
fn rate(per_s: f64) -> String {
    match per_s {
        big if big >= 1e6 => format!("{} M/s", digits(big / 1e6)),
        mid if mid >= 1e3 => format!("{} k/s", digits(mid / 1e3)),
        small => format!("{}/s", digits(small)),
    }
}

/// Three significant digits.
fn digits(value: f64) -> String {
    match value.abs() {
        big if big >= 100.0 => format!("{value:.0}"),
        mid if mid >= 10.0 => format!("{value:.1}"),
        _ => format!("{value:.2}"),
    }
}
