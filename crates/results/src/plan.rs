//! Plans: the parameters of a run.

use crate::SCHEMA_VERSION;
use serde::{Deserialize, Serialize};
use std::collections::BTreeMap;

/// Everything that determines a run, enough to repeat it.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Plan {
    /// Version of the result schema.
    pub version: u32,
    /// The command line as typed.
    pub command: Vec<String>,
    /// Seed of the order of trials and of every random choice.
    pub seed: u64,
    /// Values of the factor `transport`, in the order given: `NAME[,KEY=VALUE...]` with sorted
    /// keys, and `+` between transports that ran together.
    pub transports: Vec<String>,
    /// The one the others are compared with.
    pub baseline: String,
    /// Whether the baseline runs twice a block, as A/A control.
    pub control: bool,
    /// Workloads, in order.
    pub workloads: Vec<String>,
    /// Message sizes in bytes, in order.
    pub sizes: Vec<u64>,
    /// Number of blocks, and interim looks.
    pub blocks: BlockPlan,
    /// Probability of any false verdict in the whole run.
    pub alpha: f64,
    /// Ratios within 1 +- this count as equal (equivalence margin).
    pub equal_within: f64,
    /// Seconds the whole run may take.
    pub time_s: f64,
    /// Seconds one trial measures, warm-up included.
    pub trial_s: f64,
    /// Everything else that was set, by the name of the option.
    #[serde(default)]
    pub options: BTreeMap<String, String>,
}

/// Number of blocks, and after which of them a run may stop.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct BlockPlan {
    /// Blocks run in any case.
    pub min: u32,
    /// Blocks run at most.
    pub max: u32,
    /// Interim looks: numbers of blocks after which verdicts are judged, ascending, fixed in
    /// advance.
    pub looks: Vec<u32>,
}

/// How the name of an option starts that is a label of the run: `label.commit`.
pub const LABEL_PREFIX: &str = "label.";

/// The name of the option that names another race on the machine, beside which this one ran.
pub const OTHER_RACE: &str = "other_race";

/// The name of the option that names the folder of an older race whose open questions this one asks
/// again.
pub const RESUMES: &str = "resumes";

/// The name of the option that says at which sizes the cost of a message jumps, where pilots found the sizes.
pub const STEPS: &str = "steps";

/// The name of the option that says at which level, and what it makes together with the older race's.
pub const RESUMED_LEVEL: &str = "resumes.level";

/// How the name of an option starts that says how a workload's trials run: `turns.throughput`, with
/// `in turns of about 20 ms`, or `back to back` and why.
pub const TURNS_PREFIX: &str = "turns.";

impl Plan {
    /// The labels of the run, `race --label`: key and text, sorted by key.
    pub fn labels(&self) -> Vec<(&str, &str)> {
        let options = self.options.iter();
        let labels = options
            .filter_map(|(name, text)| Some((name.strip_prefix(LABEL_PREFIX)?, text.as_str())));
        labels.collect()
    }

    /// Checks values that may be wrong in a file.
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
