//! Classic experiments, repeated.
//!
//! * [`dcruz`] - D'Cruz (1992), multicasting in an XTP simulator.
//! * [`protocol`] - the XTP of that study, as an engine.
#![forbid(unsafe_code)]

pub mod dcruz;
pub mod protocol;
