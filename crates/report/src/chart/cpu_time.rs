//! CPU time per message, sender and receiver stacked, one bar per contestant.

use super::{Axis, Bar, Plot};
use crate::quantity;
use crate::view::{Column, Setting, View};

/// Metric of the sender.
pub(crate) const SENDER: &str = "sender_cpu_ns_per_message";
/// Metric of the receiver.
pub(crate) const RECEIVER: &str = "receiver_cpu_ns_per_message";
/// Metric of both, for results that do not separate them.
pub(crate) const BOTH: &str = "cpu_ns_per_message";

/// The chart of a column; None without CPU times.
pub(crate) fn chart(view: &View, setting: &Setting, column: &Column) -> Option<Plot> {
    let costs: Vec<(usize, f64, f64)> = (0..view.contestants.len())
        .filter_map(|contestant| {
            let entry = setting.entry(contestant, column)?;
            let median = |name| entry.estimate(name).map(|e| e.median.max(0.0));
            match (median(SENDER), median(RECEIVER)) {
                (None, None) => Some((contestant, median(BOTH)?, 0.0)),
                (sender, receiver) => {
                    Some((contestant, sender.unwrap_or(0.0), receiver.unwrap_or(0.0)))
                }
            }
        })
        .collect();
    if costs.is_empty() {
        return None;
    }
    let totals: Vec<f64> = costs.iter().map(|cost| cost.1 + cost.2).collect();
    let x = Axis::from_zero(
        "CPU time per message, sender and receiver",
        &totals,
        |value| super::sizes::tick("cpu_ns_per_message", value),
    );
    let ends = (0.5 - costs.len() as f64, 0.5);
    let names = costs.iter().enumerate().map(|(row, cost)| {
        let name = quantity::clean(view.label(cost.0), 15);
        (-(row as f64), name)
    });
    let y = Axis::new("", false, ends, names.rev().collect());
    let mut plot = Plot::new(format!("CPU time per message at {}", column.label), x, y);
    plot.left = 108;
    for (row, cost) in costs.iter().enumerate() {
        bars(&mut plot, view, -(row as f64), *cost);
    }
    Some(plot)
}

fn bars(plot: &mut Plot, view: &View, row: f64, (contestant, sender, receiver): (usize, f64, f64)) {
    let hint = format!(
        "{}: sender {}, receiver {}",
        view.label(contestant),
        quantity::time_ns(sender),
        quantity::time_ns(receiver)
    );
    let total = sender + receiver;
    let pieces = [(0.0, sender, false), (sender, total, true)];
    for (from, to, pale) in pieces {
        plot.bars.push(Bar {
            contestant,
            row,
            from,
            to,
            is_receiver: pale,
            label: if pale {
                quantity::time_ns(total)
            } else {
                String::new()
            },
            hint: hint.clone(),
        });
    }
}
