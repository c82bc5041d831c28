//! Unsafe code: the interposed calls, the system's behind them, and libtowpath's.

#![allow(unsafe_code)]

mod address;
mod calls;
mod data_calls;
mod divert;
mod kernel_calls;
mod library;
mod next;
mod pipes;
mod registrations;
mod spawn;
mod start;
