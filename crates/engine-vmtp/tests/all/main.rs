//! VMTP: octets against the vectors of its description, two endpoints in virtual time over a path
//! with faults, drawn scripts, and threads over UDP.

mod cluster;
mod forwarding;
mod fuzz;
mod groups;
mod network;
mod pair;
mod pdu;
mod repair;
mod streams;
mod wishes;
