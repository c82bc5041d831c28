//! Facts about this machine, and what may disturb a measurement.
//!
//! ```
//! let test = results::TestSpec::default();
//! for finding in host::doctor(&test) {
//!     println!("{}: {}", finding.what, finding.remedy);
//! }
//!
//! let before = host::Snapshot::take();
//! let own = host::TaskCpu::of_self();
//! // A trial runs here.
//! let cost = host::TaskCpu::of_self() - own;
//! let seen = before.until(&host::Snapshot::take());
//! let expected = host::Expected { own_cpu_s: cost.task_s, ..Default::default() };
//! for phrase in host::disturbances(&seen, &expected) {
//!     println!("disturbed: {phrase}");
//! }
//! ```
//!
//! Where to start reading:
//!
//! * `survey/` - typed readings of the host; every value may be missing.
//! * `facts` - the survey as facts for a reader.
//! * `doctor/` - judges the survey: what matters for the planned measurement, and what to do.
//! * `snapshot`, `difference`, `disturbance` - counters around a trial, and what disturbed it.
//! * `race_lock` - one measurement at a time on a machine.
//! * `task` - CPU use of a process.
//!
//! Everything is read from /proc, /sys and a few system calls, without privilege. What a kernel or
//! a container does not show is omitted, never an error. No setting is changed; the lock's file is the
//! only one that is created.
#![forbid(unsafe_code)]

mod difference;
mod disturbance;
mod doctor;
mod facts;
mod kernel_files;
mod race_lock;
mod snapshot;
mod softirq_threads;
mod survey;
mod task;

pub use difference::{CpuTime, SnapshotDifference};
pub use disturbance::{BACKGROUND_CORES_MAX, Expected, STEAL_MAX, disturbances};
pub use doctor::doctor;
pub use facts::facts;
pub use race_lock::{
    LockAttempt, RACE_LOCK, RACE_LOCK_VARIABLE, RaceLock, race_holder, race_lock_file,
};
pub use snapshot::{CpuTicks, InterfaceCounters, NetworkCounters, Snapshot};
pub use task::TaskCpu;

/// The host's entry in a run's folder: its facts, and doctor's findings for `test`. Takes about an
/// eighth of a second, in which the background load is measured.
pub fn machine(test: &results::TestSpec) -> results::Machine {
    let survey = survey::Survey::take();
    results::Machine {
        version: results::SCHEMA_VERSION,
        facts: facts::of(&survey),
        findings: doctor::judge(&survey, test),
    }
}
