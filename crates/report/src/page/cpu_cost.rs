//! The cost of a message and of a byte: user mode, kernel, and the softirq work of the host.

use crate::quantity;
use crate::view::{Column, Entry, Setting, View};
use results::Trial;
use serde::Serialize;

/// Costs at one place of the axis.
#[derive(Serialize)]
pub(super) struct CostTable {
    place: String,
    rows: Vec<CostRow>,
}

#[derive(Serialize)]
struct CostRow {
    label: String,
    user: String,
    system: String,
    softirq: String,
    byte: String,
}

/// The metric that costs are divided from: CPU time of both ends by the scheduler, exact to the nanosecond.
const MESSAGE: &str = "cpu_ns_per_message";
/// The same for a byte of the messages.
const BYTE: &str = "cpu_ns_per_byte";
/// Evidence: softirq time of all processors of the host in the span, by ticks.
const SOFTIRQ: &str = "host_softirq_s";

/// Seconds of sampled time from which it is divided: the kernel samples user, system and softirq time at its
/// ticks, and of 200 of 4 ms, a share of one half has a standard error of 3.5 %.
const SAMPLED_MIN_S: f64 = 0.8;

/// One table a column; none without CPU times.
pub(super) fn tables(view: &View, setting: &Setting) -> Vec<CostTable> {
    if setting.is_swept() {
        return Vec::new();
    }
    let columns = setting.columns();
    let tables = columns.iter().map(|column| table(view, setting, column));
    tables.filter(|table| !table.rows.is_empty()).collect()
}

fn table(view: &View, setting: &Setting, column: &Column) -> CostTable {
    let entries = (0..view.contestants.len()).filter_map(|one| setting.entry(one, column));
    let row = |entry: &Entry| {
        let message_ns = entry.estimate(MESSAGE)?.median;
        let cost = Cost::of(entry.valid_trials());
        let ns = |value: Option<f64>| value.map_or(quantity::MISSING.to_owned(), quantity::time_ns);
        let user = cost.user_share();
        Some(CostRow {
            label: view.label(entry.contestant).to_owned(),
            user: ns(user.map(|share| share * message_ns)),
            system: ns(user.map(|share| (1.0 - share) * message_ns)),
            softirq: ns(cost.softirq_ns()),
            byte: entry
                .estimate(BYTE)
                .map_or(quantity::MISSING.to_owned(), |byte| {
                    quantity::measure(BYTE, byte.median)
                }),
        })
    };
    CostTable {
        place: column.label.clone(),
        rows: entries.filter_map(row).collect(),
    }
}

/// Times of the valid trials of a cell together.
#[derive(Default)]
struct Cost {
    user_s: f64,
    system_s: f64,
    softirq_s: f64,
    messages: f64,
}

impl Cost {
    fn of<'a>(trials: impl Iterator<Item = &'a Trial>) -> Cost {
        let mut cost = Cost::default();
        for trial in trials {
            let sides = ["sender", "receiver"]
                .iter()
                .filter_map(|side| trial.cpu.get(*side));
            let mut task_s = 0.0;
            for side in sides {
                cost.user_s += side.user_s;
                cost.system_s += side.system_s;
                task_s += side.task_s;
            }
            let message_ns = trial.metrics.get(MESSAGE).copied().unwrap_or(f64::NAN);
            let softirq_s = trial.evidence.get(SOFTIRQ).copied().unwrap_or(f64::NAN);
            let messages = task_s * 1e9 / message_ns;
            if messages.is_finite() && softirq_s.is_finite() {
                cost.messages += messages;
                cost.softirq_s += softirq_s;
            }
        }
        cost
    }

    /// The part of the CPU time that was in user mode.
    fn user_share(&self) -> Option<f64> {
        let sampled_s = self.user_s + self.system_s;
        (sampled_s >= SAMPLED_MIN_S).then_some(self.user_s / sampled_s)
    }

    /// Softirq time of the host for a message, that of other programs included.
    fn softirq_ns(&self) -> Option<f64> {
        let enough = self.messages > 0.0 && self.user_s + self.system_s >= SAMPLED_MIN_S;
        enough.then(|| self.softirq_s * 1e9 / self.messages)
    }
}
