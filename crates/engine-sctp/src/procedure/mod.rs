//! One file a procedure. `do_*` follow a command, `handle_*` a packet or a timer.

pub(crate) mod abandon;
pub(crate) mod abort;
pub(crate) mod ack_request;
pub(crate) mod asconf;
pub(crate) mod association_setup;
pub(crate) mod authentication;
pub(crate) mod control_request;
pub(crate) mod control_send;
pub(crate) mod cookie_echo;
pub(crate) mod data_receive;
pub(crate) mod data_send;
pub(crate) mod forward_tsn;
pub(crate) mod heartbeat;
pub(crate) mod init;
pub(crate) mod out_of_the_blue;
pub(crate) mod path_change;
pub(crate) mod path_management;
pub(crate) mod path_mtu;
pub(crate) mod prediction;
pub(crate) mod reconfiguration;
pub(crate) mod retransmission;
pub(crate) mod sack_receive;
pub(crate) mod shutdown;
pub(crate) mod submission;
pub(crate) mod window_probe;

pub(crate) use ack_request::AckRequest;
