//! Tests of the engine: octets, pairs in virtual time, the table of states and chunks, hostile peers.

mod addresses;
mod auth;
#[path = "../../../../fuzz/src/drawn.rs"]
mod drawn;
mod early_data;
#[path = "../../../../fuzz/src/sctp.rs"]
mod fuzz;
mod hostile;
mod octets;
mod packetdrill;
mod pair;
mod partial;
mod path_mtu;
mod path_parameters;
mod paths;
mod runs;
mod states;
mod support;
mod tshark;
