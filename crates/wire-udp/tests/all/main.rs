//! Packets by reference: one wire, and an engine over it whose path is disturbed.

mod by_reference;
#[path = "../../../../fuzz/src/drawn.rs"]
mod drawn;
mod swarm;
