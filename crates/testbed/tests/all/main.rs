//! Testbeds, made and torn down.

mod calibrated;
mod common;
mod emulated;
mod hosts;
