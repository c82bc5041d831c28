//! The tests of the XTP engine, by topic. They run in virtual time and repeat exactly.

mod addresses;
mod association_options;
mod choices;
mod close_states;
mod coalescing;
#[path = "../../../../fuzz/src/drawn.rs"]
mod drawn;
mod engine_pair;
mod faults;
mod fuzz;
mod group;
mod hostile;
mod openings;
mod pair;
mod path_mtu;
mod paths;
mod pdu;
mod repair;
mod restarts;
mod router_messages;
mod secrets;
mod services;
mod star;
mod status_requests;
mod stream;
mod user;
mod v3;
mod v3_pdu;
mod zero_copy;
