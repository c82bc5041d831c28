//! Packets by reference, of one wire and of an engine over it whose path is disturbed; and those that are dropped.

mod by_reference;
#[path = "../../../../fuzz/src/drawn.rs"]
mod drawn;
mod drops;
mod swarm;
