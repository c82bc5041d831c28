//! VMTP: octets against the vectors of its description, two endpoints in virtual time over a path
//! with faults, drawn scripts, and threads over UDP.

mod fuzz;
mod network;
mod pair;
mod pdu;
mod repair;
