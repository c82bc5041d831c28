//! Statistics of a run: estimates, verdicts and their uncertainty.
//!
//! Trials in, a summary out; in between is only arithmetic. No file or clock is read, nothing is
//! printed, and the same trials give the same summary on every machine. `docs/method.md` explains
//! every method here in plain words.
//!
//! Where to start reading:
//!
//! * [`summary`] - from the trials of a run to its [`results::Summary`]; calls all the others.
//! * [`verdict`] - faster, slower, equal or not enough data, at one family-wise level for a run.
//! * [`mean`] and [`holm`] - trimmed means and Holm's correction, the parts of a verdict.
//! * [`beside`] - a circuit that ran beside others against one of its transport alone.
//! * [`explanation`] - evidence for a verdict; its sentence is in `results::phrasing`.
//! * [`mod@pilot`] - the length that a trial needs; its warm-up and noise are in crate `samples`.
//! * [`fit`] and [`crossover`] - what a message costs as a function of its size.
//! * [`knee`] and [`peak`] - the largest offered load a transport still carries, and the largest
//!   rate it delivers.
//! * [`mod@compare`] - comparison of two runs; [`mod@history`] - of many.
//! * [`mod@resolution`] - how small a difference a race could see.
//! * [`mod@spread`] - scatter between starts and within them, in races with turns.
//! * [`rounds`] - the ratio of a block with turns: that of its typical rounds.
//! * [`missing`] and [`order`] - cells without a result, and the order of cells.
//! * [`distribution`], [`estimate`], [`bootstrap`] - building blocks.
#![forbid(unsafe_code)]

pub mod beside;
pub mod bootstrap;
pub mod calibration;
pub mod compare;
pub mod contests;
pub mod crossover;
pub mod distribution;
pub mod estimate;
pub mod explanation;
pub mod fit;
pub mod history;
pub mod holm;
pub mod knee;
pub mod mean;
pub mod missing;
pub mod moderation;
pub mod order;
pub mod peak;
pub mod pilot;
pub mod polygamma;
pub mod race;
pub mod resolution;
pub mod rounds;
pub mod spread;
pub mod summary;
pub mod verdict;
pub mod warnings;

pub use compare::{compare, only_in, worse_than};
pub use history::{CellHistory, RunCells, Step, history};
pub use knee::{Knee, knees};
pub use missing::{MissingResult, missing_results};
pub use order::CellOrder;
pub use pilot::{Bound, Pilot, PrecisionTarget, pilot};
pub use race::{Judgement, UnspentLevel, is_look, judge_race, levels_of_looks, unspent_level};
pub use resolution::{Resolution, resolution};
pub use spread::{Spread, spreads};
pub use summary::summarise;
