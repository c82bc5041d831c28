//! Packets of the versions, in the words of 4.0.

pub(crate) mod arrival;
pub(crate) mod v3;
