//! Connections whose data the program's own calls move: no thread and no socket pair lies between a read or a write and
//! the association.
//!
//! Only the preloaded library may ask for it ([`enable`]), because it stands in front of all calls that could meet such a
//! descriptor. Those that are not listed here leave the connection to the tunnel's thread first
//! ([`DirectConnection::hand_over`]), which carries it through the socket pair from then on.
//!
//! * `connection` - a connection: who moves its data, reads, writes, readiness.
//! * `descriptors` - which descriptors are direct connections; a forked child asks for its inherited ones.
//! * `epoll_set` - what the program registered in an epoll set.
//! * `epoll_wait` - the wait for its events.

mod connection;
mod descriptors;
mod epoll_set;
mod epoll_wait;

pub(crate) use connection::{DirectConnection, Moved};
pub(crate) use descriptors::{
    enable, find, forget_in_child, is_enabled, note_fork, recall_inherited,
};
pub(crate) use epoll_set::{Event, PlainWait, find_set, set_for};
pub(crate) use epoll_wait::wait;

use std::os::fd::RawFd;

/// The descriptor is about to be used by a call that only the kernel answers: a direct connection is left to the tunnel,
/// and so are those of an epoll set. True when bytes are on their way through the socket pair.
pub(crate) fn leave_to_kernel(fd: RawFd) -> bool {
    if let Some(set) = find_set(fd) {
        epoll_set::forget_set(fd);
        set.dissolve();
    }
    find(fd).is_some_and(|connection| connection.hand_over())
}

/// As [`leave_to_kernel`] for all descriptors from `first` to `last`.
pub(crate) fn leave_range(first: RawFd, last: RawFd) {
    for fd in descriptors::known_within(first, last) {
        leave_to_kernel(fd);
    }
    for fd in epoll_set::known_within(first, last) {
        leave_to_kernel(fd);
    }
}
