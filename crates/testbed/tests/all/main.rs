//! Integration tests of testbeds.

mod calibrated;
mod common;
mod emulated;
mod hosts;
mod side_by_side;
