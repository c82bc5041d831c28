//! One file a procedure. `do_*` follow a command, `handle_*` a packet or a timer.

pub(crate) mod acknowledge;
pub(crate) mod data;
pub(crate) mod finish;
pub(crate) mod open;
