//! Summaries: estimates and verdicts from the trials.

use crate::Cell;
use serde::{Deserialize, Serialize};
use std::collections::BTreeMap;

/// Estimates and verdicts of a run.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Summary {
    /// Version of the result schema.
    pub version: u32,
    /// How the run ended.
    pub status: RunStatus,
    /// Why it did not complete; empty when it did.
    #[serde(default)]
    pub reason: String,
    /// Blocks that are complete.
    pub blocks: u32,
    /// Seconds the run took.
    pub elapsed_s: f64,
    /// One entry a cell, in the order of the plan.
    pub cells: Vec<CellSummary>,
    /// One entry a contest and contestant other than the baseline.
    pub verdicts: Vec<Verdict>,
    /// The verdict over all cells, one a contestant and metric.
    pub overall: Vec<Verdict>,
    /// Verdicts of the A/A control: the baseline against itself.
    pub control: Vec<Verdict>,
    /// Verdicts on single circuits that ran beside others, against one circuit of their transport alone in the same contest.
    /// The metric names the circuit, as a trial's does: `messages_per_s.tcp#1`. A family of its own.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub beside: Vec<Verdict>,
    /// Cost models, one a contestant and workload with enough sizes.
    #[serde(default)]
    pub fits: Vec<Fit>,
    /// Sizes at which two contestants cross over.
    #[serde(default)]
    pub crossovers: Vec<Crossover>,
    /// Warnings, one sentence each.
    #[serde(default)]
    pub warnings: Vec<String>,
}

/// How a run ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum RunStatus {
    /// All blocks ran.
    Complete,
    /// The user or the time limit stopped it; finished trials count.
    Interrupted,
    /// It was aborted.
    Failed,
}

/// The estimates of one cell.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct CellSummary {
    /// Which cell.
    pub cell: Cell,
    /// Valid trials.
    pub trials_ok: u32,
    /// Other trials.
    pub trials_bad: u32,
    /// Measures by name.
    pub metrics: BTreeMap<String, Estimate>,
    /// Median evidence by name.
    #[serde(default)]
    pub evidence: BTreeMap<String, f64>,
    /// Percentiles of merged histograms: name -> (quantile as text -> value in its unit). Only
    /// those with at least 10 / (1 - q) samples.
    #[serde(default)]
    pub quantiles: BTreeMap<String, BTreeMap<String, f64>>,
    /// Samples behind the quantiles.
    #[serde(default)]
    pub samples: BTreeMap<String, u64>,
}

/// A median over trials with its interval.
#[derive(Clone, Copy, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct Estimate {
    /// Median over trials.
    pub median: f64,
    /// Lower end of the 95 % interval; the smallest value below 6 trials.
    pub low: f64,
    /// Upper end.
    pub high: f64,
    /// Trials.
    pub n: u32,
}

/// The verdict on a contestant against the baseline.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Verdict {
    /// The contest: the cell without the transport; empty for an overall verdict.
    pub contest: Cell,
    /// The measure compared.
    pub metric: String,
    /// The contestant.
    pub contestant: String,
    /// The baseline.
    pub baseline: String,
    /// The kind of a verdict.
    pub kind: VerdictKind,
    /// Geometric mean of contestant / baseline over paired blocks.
    pub ratio: f64,
    /// Lower end of the interval at `alpha`.
    pub low: f64,
    /// Upper end.
    pub high: f64,
    /// Level of this verdict's interval, after all corrections.
    pub alpha: f64,
    /// Paired blocks behind it.
    pub pairs: u32,
    /// Total number of blocks needed, when there is not enough data.
    #[serde(default)]
    pub blocks_needed: Option<u32>,
    /// Explanation from evidence; empty when nothing stands out.
    #[serde(default)]
    pub because: String,
}

impl Verdict {
    /// Fewest pairs of a decision.
    pub const PAIRS_MIN: u32 = 3;

    /// Most blocks that are advised.
    pub const BLOCKS_MAX: u32 = 1000;
}

/// The kind of a verdict.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum VerdictKind {
    /// The contestant is better: more messages, or less delay.
    Faster,
    /// The contestant is worse.
    Slower,
    /// The whole interval lies within the plan's `equal_within` (equivalence test, TOST).
    Equal,
    /// The interval includes 1 and exceeds `equal_within`.
    NotEnoughData,
}

/// Time per message as a function of size, piecewise linear.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Fit {
    /// The cell without the size.
    pub cell: Cell,
    /// Which measure was fitted: `time_per_message_ns` or `delay_p50_us`.
    pub metric: String,
    /// Pieces, ascending, without gaps.
    pub pieces: Vec<FitPiece>,
    /// Largest relative deviation of a point from the line.
    pub deviation_max: f64,
}

/// One straight piece: fixed + per_byte * size, for sizes in [from, to].
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize)]
pub struct FitPiece {
    /// First size.
    pub from: f64,
    /// Last size.
    pub to: f64,
    /// Cost of a message of no bytes, in the unit of the metric.
    pub fixed: f64,
    /// Cost of a byte.
    pub per_byte: f64,
}

/// A size at which two contestants cross over.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Crossover {
    /// The cell without size and transport.
    pub contest: Cell,
    /// Which measure.
    pub metric: String,
    /// Better below the size.
    pub below: String,
    /// Better above it.
    pub above: String,
    /// The size, bytes.
    pub size: f64,
}
