//! Plans: what was asked for.

use crate::SCHEMA_VERSION;
use serde::{Deserialize, Serialize};
use std::collections::BTreeMap;

/// Everything that decides a run, enough to run it again.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Plan {
    /// Version of the result schema.
    pub version: u32,
    /// The command line as typed.
    pub command: Vec<String>,
    /// Decides the order of trials and every random choice.
    pub seed: u64,
    /// Values of the factor `transport`, in the order asked for: `NAME[,KEY=VALUE...]` with the keys
    /// in order, and `+` between transports that ran together.
    pub transports: Vec<String>,
    /// The one the others are compared with.
    pub baseline: String,
    /// Whether the baseline runs twice a block, as a control.
    pub control: bool,
    /// Workloads, in order.
    pub workloads: Vec<String>,
    /// Message sizes in bytes, in order.
    pub sizes: Vec<u64>,
    /// How many blocks, and when to look.
    pub blocks: BlockPlan,
    /// Probability of any false verdict in the whole run.
    pub alpha: f64,
    /// Ratios within 1 +- this count as equal.
    pub equal_within: f64,
    /// Seconds the whole run may take.
    pub time_s: f64,
    /// Seconds one trial measures, warm-up included.
    pub trial_s: f64,
    /// Everything else that was set, by the name of the option.
    #[serde(default)]
    pub options: BTreeMap<String, String>,
}

/// How many blocks a run has and at which of them it may stop.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct BlockPlan {
    /// Blocks run in any case.
    pub min: u32,
    /// Blocks run at most.
    pub max: u32,
    /// Numbers of blocks after which verdicts are looked at, ascending, fixed in advance.
    pub looks: Vec<u32>,
}

impl Plan {
    /// Checks what a file may have wrong.
    ///
    /// # Errors
    ///
    /// One sentence naming the field.
    pub fn check(&self) -> Result<(), String> {
        if self.version != SCHEMA_VERSION {
            return Err(format!(
                "plan version {} is not {SCHEMA_VERSION}; use the towpath that wrote it",
                self.version
            ));
        }
        if self.blocks.looks.is_empty() || !self.blocks.looks.is_sorted() {
            return Err("blocks.looks must be ascending and not empty".into());
        }
        if !(self.alpha > 0.0 && self.alpha < 1.0) {
            return Err(format!(
                "alpha is {}, it must lie between 0 and 1",
                self.alpha
            ));
        }
        Ok(())
    }
}
