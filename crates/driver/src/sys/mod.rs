//! Shared memory between the user's thread and whichever thread runs the pump.
#![allow(unsafe_code)]

mod ring;

pub use ring::{Consumer, Producer, ring};
