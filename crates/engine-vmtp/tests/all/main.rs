//! VMTP: octets against the vectors of its description, two endpoints in virtual time over a path
//! with faults, drawn scripts, and threads over UDP.

mod cluster;
#[path = "../../../../fuzz/src/drawn.rs"]
mod drawn;
mod forwarding;
mod fuzz;
mod groups;
mod network;
mod pair;
mod pdu;
mod repair;
mod streams;
mod wishes;
