//! The tests of the XTP engine, by topic. They run in virtual time and repeat exactly.

mod addresses;
mod asking;
mod choices;
mod close_states;
mod faults;
mod fuzz;
mod group;
mod hostile;
mod lent;
mod neighbours;
mod pair;
mod paths;
mod pdu;
mod services;
mod star;
mod stream;
mod three;
mod three_pdu;
mod unicast;
mod user;
mod water;
