//! Transactions between two endpoints: in virtual time over a path with faults, and under threads
//! over UDP.

#[path = "../../../../fuzz/src/drawn.rs"]
mod drawn;
mod fuzz;
mod pair;
mod threads;
