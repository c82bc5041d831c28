//! Scenarios drawn from seeds, and what must hold in each of them.
//!
//! * [`mod@draw`] - a seed becomes a scenario: each kind of medium, option, fault and disturbance is
//!   there or not, so that rare company meets.
//! * [`mod@check`] - a scenario is run and held against the invariants.
//! * `canary` - engines with a fault planted in them, one for each invariant; a check that lets one
//!   pass is no check. Only in builds with the feature `canary`.
//!
//! Everything drawn ends at [`HEALED_S`]: faults stop, cuts join, stations are back. From then on
//! all that was not given up must get through (the liveness phase).

#[cfg(feature = "canary")]
pub mod canary;
pub mod check;
pub mod draw;

pub use check::{Invariant, Tally, Violation, check, check_with};
pub use draw::draw;

/// Simulated time by which all that was drawn has healed, s.
pub const HEALED_S: u64 = 10;

/// Simulated time after that within which all must be settled, s. XTP waits 10 s at most between
/// two of 8 retries, and a circuit that was given up is opened again after 1 s.
pub const GRACE_S: u64 = 300;
