//! Measures of the single circuits of a trial that ran several together: the leg of a transport with one circuit has the
//! transport's name, legs of one with several are numbered, `tcp#1` and `tcp#2`.

use super::delays::delay_metrics;
use super::view::TrialView;
use crate::environment::LinkRate;
use crate::spec::Direction;
use control::CircuitReport;
use results::metric::{LEG_NUMBER, LINK_SHARE_FRACTION};
use results::{Histogram, Trial};

/// Most circuits of a transport that have measures of their own; of more, the transport has them alone.
const LEGS_MAX: usize = 16;

/// What one circuit moved a second.
pub(super) struct LegRate {
    /// Its name; None beyond [`LEGS_MAX`].
    pub(super) leg: Option<String>,
    /// Its transport.
    pub(super) transport: String,
    /// Messages that arrived.
    pub(super) messages_per_s: f64,
    /// Octets that arrived.
    pub(super) bytes_per_s: f64,
}

/// The names of one side's circuits, in their order; None for one of too many, and where several pairs of hosts have each
/// their own.
pub(super) fn names(view: &TrialView<'_>, circuits: &[CircuitReport]) -> Vec<Option<String>> {
    let of_pairs = view.collected.pairs.len() > 1;
    let name = |(place, report): (usize, &CircuitReport)| {
        let same = |other: &&CircuitReport| other.transport == report.transport;
        let before = circuits[..place].iter().filter(same).count();
        match circuits.iter().filter(same).count() {
            _ if of_pairs => None,
            1 => Some(report.transport.clone()),
            2..=LEGS_MAX => Some(format!("{}{LEG_NUMBER}{}", report.transport, before + 1)),
            _ => None,
        }
    };
    circuits.iter().enumerate().map(name).collect()
}

/// Rates of each transport and of each leg, their shares of what all moved, and of the link where it has a rate. Both
/// directions of a leg count together.
pub(super) fn rates(made: &mut Trial, view: &TrialView<'_>, rates: &[LegRate]) {
    let total: f64 = rates.iter().map(|rate| rate.messages_per_s).sum();
    let link_bits_per_s = link_bits_per_s(view);
    for rate in rates {
        let numbered = rate.leg.iter().filter(|leg| **leg != rate.transport);
        for name in std::iter::once(&rate.transport).chain(numbered) {
            let mut add = |measure: &str, value: f64| {
                *made.metrics.entry(format!("{measure}.{name}")).or_default() += value;
            };
            add("share", rate.messages_per_s / total);
            add("messages_per_s", rate.messages_per_s);
            if let Some(bits_per_s) = link_bits_per_s {
                add(LINK_SHARE_FRACTION, rate.bytes_per_s * 8.0 / bits_per_s);
            }
        }
    }
}

/// What the link carries a second in the directions that carry user data, bit/s.
fn link_bits_per_s(view: &TrialView<'_>) -> Option<f64> {
    match (view.collected.environment.link_rate?, view.spec.direction) {
        (LinkRate::Shared(bits_per_s), _) => Some(bits_per_s),
        (LinkRate::EachWay([there, _]), Direction::Forward) => Some(there),
        (LinkRate::EachWay([_, back]), Direction::Reverse) => Some(back),
        (LinkRate::EachWay([there, back]), Direction::Both) => Some(there + back),
    }
}

/// Delays of each transport and of each leg, with the distribution of each leg, and shares of the round trips.
pub(super) fn delays(made: &mut Trial, view: &TrialView<'_>, span_s: f64) {
    let circuits = &view.collected.sender.circuits;
    let total: u64 = circuits.iter().map(|report| report.received).sum();
    if circuits.len() < 2 || total == 0 {
        return;
    }
    let names = names(view, circuits);
    for (place, report) in circuits.iter().enumerate() {
        let same = |other: &&CircuitReport| other.transport == report.transport;
        if !circuits[..place].iter().any(|other| same(&other)) {
            let all: Vec<&CircuitReport> = circuits.iter().filter(same).collect();
            leg_delays(made, &report.transport, &all, total, span_s);
        }
        let numbered = names[place]
            .as_ref()
            .filter(|name| **name != report.transport);
        if let Some(name) = numbered {
            leg_delays(made, name, &[report], total, span_s);
        }
    }
}

fn leg_delays(made: &mut Trial, name: &str, circuits: &[&CircuitReport], total: u64, span_s: f64) {
    let (values, merged) = delay_metrics(circuits, "delay");
    for (metric, value) in values {
        made.metrics.insert(format!("{metric}.{name}"), value);
    }
    if let (false, Ok(histogram)) = (merged.is_empty(), Histogram::encode(&merged, "ns")) {
        made.histograms.insert(format!("delay.{name}"), histogram);
    }
    let done = circuits.iter().map(|report| report.received).sum::<u64>() as f64;
    made.metrics
        .insert(format!("messages_per_s.{name}"), done / span_s);
    made.metrics
        .insert(format!("share.{name}"), done / total as f64);
}
