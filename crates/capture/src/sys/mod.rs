//! The system calls, behind safe functions.
#![allow(unsafe_code)]

mod batch;

pub(crate) use batch::{CapturedFrame, FrameBatch};
