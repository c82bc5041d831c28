//! One file a procedure. `do_*` follow a command, `handle_*` a packet or a timer.

pub(crate) mod abort;
pub(crate) mod association_setup;
pub(crate) mod cookie_echo;
pub(crate) mod data_receive;
pub(crate) mod data_send;
pub(crate) mod heartbeat;
pub(crate) mod init;
pub(crate) mod out_of_the_blue;
pub(crate) mod path_management;
pub(crate) mod retransmission;
pub(crate) mod sack_receive;
pub(crate) mod shutdown;
pub(crate) mod window_probe;
