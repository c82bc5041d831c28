//! Trials: what was measured.

use crate::{Cell, Factor, Histogram};
use serde::{Deserialize, Serialize};
use std::collections::BTreeMap;

/// One trial: fresh processes, one cell, one measurement.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Trial {
    /// Version of the result schema.
    pub version: u32,
    /// Its place in the order trials ran in, from 0.
    pub index: u64,
    /// Its block; 0 for pilots, which take no part in verdicts.
    pub block: u32,
    /// Its cell.
    pub cell: Cell,
    /// The second run of the baseline in a block, as A/A control.
    pub control: bool,
    /// Whether it is valid.
    pub status: Status,
    /// Why it is not valid; empty for ok.
    #[serde(default)]
    pub reason: String,
    /// What disturbed it although it is valid: steal, drops, retransmissions, a load, ...
    #[serde(default)]
    pub disturbed: Vec<String>,
    /// Start, seconds since 1970.
    pub started_s: f64,
    /// Seconds the measured span lasted.
    pub span_s: f64,
    /// Seconds at the front of the span that were cut off as warm-up.
    pub warm_up_s: f64,
    /// Measures by name; see [`crate::metric`].
    pub metrics: BTreeMap<String, f64>,
    /// Evidence for explanations, by name, e.g. `wakeups_per_message`.
    #[serde(default)]
    pub evidence: BTreeMap<String, f64>,
    /// Distributions by name, e.g. `delay`.
    #[serde(default)]
    pub histograms: BTreeMap<String, Histogram>,
    /// Time series by name, e.g. `messages_per_s`.
    #[serde(default)]
    pub series: BTreeMap<String, Series>,
    /// Where the messages went.
    #[serde(default)]
    pub ledger: Option<Ledger>,
    /// CPU time by consumer: `sender`, `receiver`, `link`, `load`.
    #[serde(default)]
    pub cpu: BTreeMap<String, Cpu>,
    /// Options as they took effect, read back, by `side.name`, e.g. `sender.congestion`.
    #[serde(default)]
    pub effective: BTreeMap<String, String>,
}

/// Start of the reason of an open loop that could not be offered in time, because a call takes too
/// long. What was delivered is the most that this sender could.
pub const GENERATOR_LATE: &str = "the generator reached";

/// Name of the time series that has a value for each turn of a trial: the measure of its workload's
/// verdicts. The i-th turns of two contestants in a block belong to one round.
pub const TURNS_SERIES: &str = "turns";

/// What an entry of a map takes beside its text: a slot in a node at least half full, and two
/// allocations.
const ENTRY_OCTETS: usize = 128;

impl Trial {
    /// A valid trial of which nothing has been measured yet.
    pub fn empty(index: u64, block: u32, cell: Cell) -> Trial {
        Trial {
            version: crate::SCHEMA_VERSION,
            index,
            block,
            cell,
            control: false,
            status: Status::Ok,
            reason: String::new(),
            disturbed: Vec::new(),
            started_s: 0.0,
            span_s: 0.0,
            warm_up_s: 0.0,
            metrics: BTreeMap::new(),
            evidence: BTreeMap::new(),
            histograms: BTreeMap::new(),
            series: BTreeMap::new(),
            ledger: None,
            cpu: BTreeMap::new(),
            effective: BTreeMap::new(),
        }
    }

    /// About how many octets it takes in memory.
    pub(crate) fn held_octets(&self) -> usize {
        let numbers = self.metrics.keys().chain(self.evidence.keys());
        let cell = self.cell.0.iter().map(|(name, value)| match value {
            Factor::Text(text) => name.len() + text.len(),
            Factor::Integer(_) | Factor::Number(_) => name.len(),
        });
        let series = self.series.iter().map(|(name, series)| {
            8 * (series.at_s.capacity() + series.values.capacity()) + name.len() + series.unit.len()
        });
        let histograms = self.histograms.iter().map(|(name, histogram)| {
            name.len() + histogram.unit.len() + histogram.hdr_v2.capacity()
        });
        let each = (numbers.map(String::len))
            .chain(
                self.effective
                    .iter()
                    .map(|(name, text)| name.len() + text.len()),
            )
            .chain(cell)
            .chain(self.disturbed.iter().map(String::len))
            .chain(self.cpu.keys().map(|name| name.len() + size_of::<Cpu>()))
            .chain(series)
            .chain(histograms);
        let entries: usize = each.map(|octets| octets + ENTRY_OCTETS).sum();
        size_of::<Trial>() + self.reason.len() + entries
    }

    /// Whether it is invalid only because the load was more than the sender could offer.
    pub fn is_generator_late(&self) -> bool {
        self.status == Status::Invalid && self.reason.starts_with(GENERATOR_LATE)
    }
}

/// Whether a trial is valid.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Status {
    /// It is valid.
    Ok,
    /// It ran, but its numbers are not meaningful.
    Invalid,
    /// It was aborted.
    Failed,
    /// The user stopped it.
    Interrupted,
}

/// Values over time.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct Series {
    /// Unit of the values.
    pub unit: String,
    /// Ends of the slices, seconds since the span began, ascending.
    pub at_s: Vec<f64>,
    /// One value a slice.
    pub values: Vec<f64>,
}

/// Where the messages of a trial went: sent = delivered + lost_host + lost_link + corrupt +
/// in_flight, and received = delivered + duplicates.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Ledger {
    /// Messages submitted by the sender.
    pub sent: u64,
    /// Messages delivered to the receiver, without duplicates.
    pub delivered: u64,
    /// Messages lost in a host, by a full receive buffer.
    pub lost_host: u64,
    /// Messages lost on the link.
    pub lost_link: u64,
    /// Messages discarded because they were damaged.
    pub corrupt: u64,
    /// Messages in flight when the trial ended.
    pub in_flight: u64,
    /// Duplicates received.
    pub duplicates: u64,
    /// Messages unaccounted for; 0 when the ledger closes.
    pub unaccounted: i64,
}

/// CPU time of one side.
#[derive(Clone, Copy, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct Cpu {
    /// Seconds the worker's threads ran, user and system, to the nanosecond (schedstat).
    pub task_s: f64,
    /// Seconds in user mode, by ticks.
    pub user_s: f64,
    /// Seconds in the kernel, by ticks.
    pub system_s: f64,
    /// Times the worker slept and was woken.
    pub voluntary_switches: u64,
    /// Times it was preempted.
    pub involuntary_switches: u64,
}
