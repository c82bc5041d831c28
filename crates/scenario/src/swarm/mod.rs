//! Scenarios drawn from seeds, and the invariants that must hold in each of them.
//!
//! * [`mod@draw`] - a seed becomes a scenario: each kind of medium, option, fault and disturbance
//!   is present or not, so that rare combinations occur.
//! * [`mod@check`] - runs a scenario and checks the invariants.
//! * [`mod@many`] - checks many seeds on several threads.
//! * `canary` - engines with a planted fault, one for each invariant: they show that the checks
//!   find it. Only in builds with the feature `canary`.
//!
//! Everything drawn ends at [`HEALED_S`]: faults stop, partitions heal, stations are back. From
//! then on all messages not given up must get through (the liveness phase).

#[cfg(feature = "canary")]
pub mod canary;
pub mod check;
pub mod draw;
pub mod many;

pub use check::{Invariant, InvariantFailure, Tally, Violation, check, check_scenario, check_with};
pub use draw::{
    CALLS_AND_LAYERS, CALLS_OVER_CELLS, CELLS, CLIENTS, DATAGRAMS, SCTP, SCTP_ADDRESSES, SCTP_MTU,
    SCTP_PATHS, SCTP_RESETS, SCTP_STREAMS, SHORTCUTS, VMTP, VMTP_CALLINGS, VMTP_RETRIES,
    XTP_GROUPS, draw,
};
pub use many::{Seeds, check_many};

/// Simulated time at which all faults and disturbances have ended, s.
pub const HEALED_S: u64 = 10;

/// Simulated time after that within which all must be settled, s. XTP waits 10 s at most between
/// two of 8 retries, and a closed circuit is reopened after 1 s.
pub const GRACE_S: u64 = 300;
