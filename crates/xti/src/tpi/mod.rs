//! TPI, the interface between a user of a transport and its provider: primitives as messages of a
//! stream, and the states that both ends keep (revision 2.0.0).
//!
//! * `primitive` - the messages, parsed with bounds.
//! * `state` - 17 states and 30 events in one table.

mod primitive;
mod state;

pub(crate) use primitive::{ADDRESS_MAX, datagram_destination, write_datagram_request};
pub use primitive::{
    Information, Malformed, Parsed, Primitive, ServiceType, number, parse, write_data_request,
};
pub use state::{Event, State};
