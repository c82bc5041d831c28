//! What C calls.
#![allow(unsafe_code)]

mod address;
mod calls;
mod exit;

pub(crate) use exit::at_exit;
