//! One file a procedure. `do_*` carry out a command of the user, `handle_*` a packet or a timer,
//! `transmit_*` build packets.

pub(crate) mod address_validation;
pub(crate) mod association_accept;
pub(crate) mod association_close;
pub(crate) mod association_setup;
pub(crate) mod close_and_requests;
pub(crate) mod control_receive;
pub(crate) mod control_send;
pub(crate) mod data_receive;
pub(crate) mod data_send;
pub(crate) mod packet_input;
pub(crate) mod path_mtu;
pub(crate) mod prediction;
pub(crate) mod route_management;
pub(crate) mod status_request;
pub(crate) mod tags;
pub(crate) mod v3_input;
