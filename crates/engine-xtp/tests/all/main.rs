//! The tests of the XTP engine, by topic. They run in virtual time and repeat exactly.

mod addresses;
mod choices;
mod close_states;
mod faults;
mod fuzz;
mod group;
mod hostile;
mod pair;
mod pdu;
mod services;
mod stream;
mod three;
mod three_pdu;
mod unicast;
mod user;
mod water;
