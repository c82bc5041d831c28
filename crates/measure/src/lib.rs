//! Trials: what is run, how it is timed, and what becomes a result.
//!
//! The crate never prints. It reports progress to an [`Observer`] and writes results through
//! crate `results`; the command line and a library user read the same things.
//!
//! From the top:
//!
//! * [`race`] - a whole race: pilots, randomized blocks, interim looks, the summary.
//! * `schedule` - how its time is divided, and how long the rest will take.
//! * [`spec`] - the parameters of a race, and the cells they span.
//! * [`trial`] - one trial: spawns fresh workers, sets them up, starts them, collects reports.
//! * [`turn_plan`] - where contestants take turns, and in which order.
//! * [`assemble`] - the trial record from the reports of its workers.
//! * [`TestbedHost`] - hosts of a testbed that run workers.
//! * [`exec`] - contestants that are programs of other projects.
//! * [`environment`] - the hosts of trials, the link between them, background loads.
//! * [`profiled`] - trials with sampled workers: CPU time of a message by layer and function.
//! * [`size_steps`] - sizes at which the cost of a message jumps, found by pilots.
//! * [`segmentation`] - what it takes to cut packets into cells, rung by rung.
//! * [`passing_on`] - what it takes to hand a message on: copies, and pages remapped.
//! * [`packet_sizes`] - packet sizes, sampled in pilots.
//!
//! The workers themselves are in crate `loadgen`.
#![forbid(unsafe_code)]

pub mod assemble;
pub mod environment;
pub mod exec;
pub mod packet_sizes;
pub mod passing_on;
pub mod profiled;
pub mod race;
mod schedule;
pub mod segmentation;
pub mod size_steps;
pub mod spec;
mod testbed_host;
pub mod trial;
pub mod turn_plan;

pub use environment::Environment;
pub use race::{Observer, Progress, RaceError, run};
pub use spec::{Contest, RaceSpec};
pub use testbed_host::TestbedHost;
