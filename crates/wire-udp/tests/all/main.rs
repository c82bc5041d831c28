//! Packets by reference: one wire, and an engine over it whose path is disturbed.

mod by_reference;
mod swarm;
