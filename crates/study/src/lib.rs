//! The classic experiments, run again.
//!
//! * [`dcruz`] - D'Cruz (1992), multicasting in an XTP simulator.
//! * [`protocol`] - the XTP of the study: an engine like any other.
#![forbid(unsafe_code)]

pub mod dcruz;
pub mod protocol;
