//! The system calls, behind safe functions.
#![allow(unsafe_code)]

mod batch;
mod packet;

pub(crate) use batch::{Batch, Seen};
pub(crate) use packet::{Hardware, drops, open};
