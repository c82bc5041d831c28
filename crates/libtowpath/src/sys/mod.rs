//! What C calls.
#![allow(unsafe_code)]

mod address;
mod calls;
mod exit;
mod outcome;
mod setting;
mod transfer;

pub(crate) use exit::at_exit;
pub(crate) use outcome::number_of;
pub(crate) use transfer::expect_datagrams;
