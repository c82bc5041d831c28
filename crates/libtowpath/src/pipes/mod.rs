//! pipe(2), and socketpair(2) of byte streams, over STREAMS, for the preloaded library.
//!
//! The descriptors are those of a pipe of the kernel, in front of which the program's own calls read and write two stream
//! heads that are joined crosswise (`streams::Runtime::pipe`). What only the kernel does - poll, dup, fork, passing a
//! descriptor, a close - is left to it: what lies in the stream is written into the kernel's pipe, which is empty and
//! takes all of it, and the descriptors are the kernel's from then on. So octets are in one place at any time.
//!
//! * `table` - which descriptors are ends of pipes.
//! * `pipe` - reads, writes and waits.
//! * `state` - the two heads and their marks.

mod pipe;
mod state;
mod table;

pub(crate) use pipe::Moved;
pub(crate) use state::PipeKind;

use std::io;
use std::os::fd::{BorrowedFd, RawFd};
use std::sync::atomic::{AtomicUsize, Ordering};

/// Forks that have begun, and that are over: while one is under way, new pipes are the kernel's.
static FORKS: [AtomicUsize; 2] = [const { AtomicUsize::new(0) }; 2];

/// Puts a stream in front of the two descriptors that `make` makes; what cannot have one is the kernel's alone.
/// Errors: those of `make`.
pub(crate) fn make(
    kind: PipeKind,
    make: impl FnOnce() -> io::Result<[RawFd; 2]>,
) -> io::Result<[RawFd; 2]> {
    let forks = [1, 0].map(|at: usize| FORKS[at].load(Ordering::SeqCst));
    let ends = make()?;
    let takes_all = crate::sys::kernel_takes(ends[1], state::HIGH);
    if forks[0] != forks[1] || !takes_all || !ends.iter().all(|&fd| table::has_place(fd)) {
        return Ok(ends);
    }
    let Some(pipe) = table::take_free() else {
        return Ok(ends);
    };
    pipe.begin(kind, ends);
    if FORKS[0].load(Ordering::SeqCst) != forks[1] {
        // A fork that began meanwhile may not have seen it.
        pipe.leave_to_kernel(ends[0]);
    }
    Ok(ends)
}

/// Whether a descriptor is an end of a pipe here.
#[inline]
pub(crate) fn is_known(fd: RawFd) -> bool {
    table::find(fd).is_some()
}

/// Whether it is one end of a socket pair.
pub(crate) fn is_socket_pair(fd: RawFd) -> bool {
    table::find(fd).is_some_and(|pipe| pipe.is_socket_pair())
}

/// Reads as readv(2) does; None when the descriptor is the kernel's.
#[inline]
pub(crate) fn receive(
    fd: BorrowedFd<'_>,
    number: RawFd,
    parts: &mut [&mut [u8]],
    may_wait: bool,
) -> Option<Moved> {
    Some(table::find(number)?.receive(fd, number, parts, may_wait))
}

/// Writes as writev(2) does; None when the descriptor is the kernel's.
#[inline]
pub(crate) fn send(
    fd: BorrowedFd<'_>,
    number: RawFd,
    parts: &[&[u8]],
    may_wait: bool,
) -> Option<Moved> {
    Some(table::find(number)?.send(fd, number, parts, may_wait))
}

/// The pipe of a descriptor is the kernel's from now on.
#[inline]
pub(crate) fn leave_to_kernel(fd: RawFd) {
    if let Some(pipe) = table::find(fd) {
        pipe.leave_to_kernel(fd);
    }
}

/// As [`leave_to_kernel`] for all descriptors from `first` to `last`.
pub(crate) fn leave_range(first: RawFd, last: RawFd) {
    for (fd, pipe) in table::within(first, last) {
        pipe.leave_to_kernel(fd);
    }
}

/// A fork, or the start of a program, is about to share all descriptors.
pub(crate) fn before_fork() {
    FORKS[0].fetch_add(1, Ordering::SeqCst);
    leave_range(0, RawFd::MAX);
}

/// The parent goes on.
pub(crate) fn after_fork_in_parent() {
    FORKS[1].fetch_add(1, Ordering::SeqCst);
}

/// The child begins, which may have pipes of its own.
pub(crate) fn after_fork_in_child() {
    table::forget_all_in_child();
    FORKS[1].store(FORKS[0].load(Ordering::SeqCst), Ordering::SeqCst);
}
