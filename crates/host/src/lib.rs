//! What this machine is, and what about it would spoil a measurement.
//!
//! ```
//! let test = host::Test::default();
//! for finding in host::doctor(&test) {
//!     println!("{}: {}", finding.what, finding.remedy);
//! }
//!
//! let before = host::Snapshot::take();
//! let own = host::TaskCpu::of_self();
//! // A trial runs here.
//! let cost = host::TaskCpu::of_self() - own;
//! let seen = before.until(&host::Snapshot::take());
//! let expected = host::Expected { own_s: cost.task_s, ..Default::default() };
//! for phrase in host::disturbances(&seen, &expected) {
//!     println!("disturbed: {phrase}");
//! }
//! ```
//!
//! Where to start reading:
//!
//! * `survey/` - one look at the host, typed; every value may be missing.
//! * `facts` - the survey as lines for a reader.
//! * `doctor/` - the survey judged: which of it matters for the test at hand, and what to do.
//! * `snapshot`, `difference`, `disturbance` - counters around a trial, and what they betray.
//! * `task` - what a process has cost.
//!
//! Everything is read from /proc, /sys and a few system calls, without privilege. What a kernel
//! or a container does not show is left out, never an error. Nothing is ever changed.
#![forbid(unsafe_code)]

mod difference;
mod disturbance;
mod doctor;
mod facts;
mod kernel_files;
mod snapshot;
mod softirq_threads;
mod survey;
mod task;

pub use difference::{CpuTime, SnapshotDifference};
pub use disturbance::{BACKGROUND_CORES_MAX, Expected, STEAL_MAX, disturbances};
pub use doctor::{TestSpec, doctor};
pub use facts::facts;
pub use snapshot::{CpuTicks, InterfaceCounters, NetworkCounters, Snapshot};
pub use task::TaskCpu;

/// The host as it stands in a run's folder: its facts, and what doctor finds for `test`. Takes
/// about an eighth of a second, in which other work's load is measured.
pub fn machine(test: &TestSpec) -> results::Machine {
    let survey = survey::Survey::take();
    results::Machine {
        version: results::SCHEMA_VERSION,
        facts: facts::of(&survey),
        findings: doctor::judge(&survey, test),
    }
}
