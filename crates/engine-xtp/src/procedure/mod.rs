//! One file a procedure. `do_*` follow a command, `handle_*` a packet or a timer, `transmit_*`
//! build packets.

pub(crate) mod arrive;
pub(crate) mod close;
pub(crate) mod receive;
pub(crate) mod reply;
pub(crate) mod report;
pub(crate) mod request;
pub(crate) mod route;
pub(crate) mod send;
pub(crate) mod setup;
pub(crate) mod three;
