//! The result of a run: one immutable folder, and the types to read and write it.
//!
//! | file | what it holds | type |
//! | --- | --- | --- |
//! | `plan.toml` | parameters, with seed and command line | [`Plan`] |
//! | `machine.json` | facts and findings about the hosts | [`Machine`] |
//! | `trials.jsonl` | one line a trial, in the order they ran | [`Trial`] |
//! | `summary.json` | estimates and verdicts, written last | [`Summary`] |
//!
//! `summary.json` is written in one step at the end, so a folder without it is a run that was
//! killed; its trials are still whole lines. The JSON schema of version 1 is in
//! `docs/schema/`; new factors, metrics and evidence are new keys of maps and do not change it.
#![forbid(unsafe_code)]

pub mod bounded_file;
mod cell;
pub mod evidence;
mod folder;
mod histogram;
mod machine;
pub mod metric;
pub mod phrasing;
mod plan;
mod summary;
mod test_spec;
mod trial;

pub use cell::{Cell, Factor};
pub use folder::{ReadError, RunData, RunFolder, TrialTail, WriteError};
pub use histogram::{Histogram, HistogramError, new_histogram};
pub use machine::{Fact, FactChange, Finding, Machine, Severity};
pub use plan::{
    BlockPlan, LABEL_PREFIX, OTHER_RACE, Plan, RESUMED_LEVEL, RESUMES, STEPS, TURNS_PREFIX,
};
pub use summary::{
    CellSummary, Crossover, Estimate, Fit, FitPiece, RunStatus, Summary, Verdict, VerdictKind,
};
pub use test_spec::{DEFAULT_CONTESTANTS, TestSpec};
pub use trial::{Cpu, GENERATOR_LATE, Ledger, Series, Status, TURNS_SERIES, Trial};

/// Version of the result schema these types read and write.
pub const SCHEMA_VERSION: u32 = 1;
