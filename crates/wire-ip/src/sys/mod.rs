//! The system calls, behind safe functions.
#![allow(unsafe_code)]

mod incoming;
mod outgoing;

pub(crate) use incoming::Incoming;
pub(crate) use outgoing::Outgoing;
