//! Testbeds, made and torn down.

mod common;
mod emulated;
mod hosts;
