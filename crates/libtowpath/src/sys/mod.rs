//! The C entry points.
#![allow(unsafe_code)]

mod address;
mod arguments;
mod calls;
mod channels;
mod datagrams;
mod direct;
mod errno;
mod exit;
mod iovec;
mod owned_lock;
mod paired_datagrams;
mod pipes;
mod sctp;
mod send_recv;
mod sockopt;
mod static_table;
mod transactions;
mod xtp_objects;

pub(crate) use datagrams::of_program;
pub(crate) use direct::{
    EpollOperation, epoll_ctl, is_eventfd, on_fork_in_child, shared_flags, signal_eventfd,
};
pub(crate) use errno::errno_of;
pub(crate) use exit::register_exit_hook;
pub(crate) use owned_lock::OwnedLock;
pub(crate) use pipes::{kernel_takes, write_all};
pub(crate) use send_recv::note_datagram_socket;
pub(crate) use static_table::StaticTable;
