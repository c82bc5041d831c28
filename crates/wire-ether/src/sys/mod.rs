//! The system calls, behind safe functions.
#![allow(unsafe_code)]

mod interface;
mod packet;

pub(crate) use interface::interface;
pub(crate) use packet::open;
