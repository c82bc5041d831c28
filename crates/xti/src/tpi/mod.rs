//! TPI, the interface between a user of a transport and its provider: primitives as messages of a
//! stream, and the states that both ends keep (revision 2.0.0).
//!
//! * `primitive` - the messages, parsed with bounds.
//! * `information` - what a provider says of itself.
//! * `in_place` - those of each message, without an allocation.
//! * `options` - options as octets.
//! * `run` - several messages at once, which TPI has not.
//! * `state` - 17 states and 30 events in one table.

mod in_place;
mod information;
mod options;
mod primitive;
mod run;
mod state;

pub use in_place::write_data_request;
pub(crate) use in_place::{
    ADDRESS_MAX, data_options, datagram_destination, datagram_options, datagram_source, write_data,
    write_datagram_indication, write_datagram_request,
};
pub use information::{Information, RELEASE_DATA, SEND_ZERO, ServiceType};
pub use options::{
    ALL_OPTIONS, OptionStatus, OptionsAction, TransportOption, level, name, parse_options,
    write_options,
};
pub use primitive::{Malformed, Parsed, Primitive, number, parse};
pub(crate) use run::{
    RUN_CONTROL, RUN_MESSAGES, RUN_OCTETS, add_to_run, begin_run, forget_sent, is_run, run_lengths,
    run_messages,
};
pub use state::{Event, State};
