//! Unsafe code: the interposed calls, the system's behind them, and libtowpath's.

#![allow(unsafe_code)]

mod address;
mod calls;
mod divert;
mod library;
mod next;
mod registrations;
mod start;
