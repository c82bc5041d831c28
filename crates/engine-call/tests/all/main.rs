//! Transactions between two endpoints: in virtual time over a path with faults, and under threads
//! over UDP.

mod fuzz;
mod pair;
mod threads;
