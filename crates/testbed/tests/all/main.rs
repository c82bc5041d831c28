//! Testbeds, made and torn down.

mod common;
mod hosts;
