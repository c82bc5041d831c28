//! The C entry points.
#![allow(unsafe_code)]

mod address;
mod calls;
mod channels;
mod errno;
mod exit;
mod iovec;
mod sctp;
mod send_recv;
mod sockopt;
mod transactions;

pub(crate) use errno::errno_of;
pub(crate) use exit::register_exit_hook;
pub(crate) use send_recv::note_datagram_socket;
