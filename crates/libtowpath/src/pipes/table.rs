//! Which descriptors are ends of pipes over STREAMS. It is read without a lock, in signal handlers too.

use super::pipe::Pipe;
use crate::sys::{OwnedLock, StaticTable};
use std::os::fd::RawFd;

/// Descriptors from here on are the kernel's.
const DESCRIPTORS_MAX: usize = 65_536;

/// Free pipes that keep their blocks, some 100 KiB each once they were used.
const KEPT_MAX: usize = 64;

/// The pipe of a descriptor. A pipe is never freed, so that who looked it up may go on to its lock, and finds there
/// whether the descriptor is still one of its ends.
static PIPES: StaticTable<Pipe, DESCRIPTORS_MAX> = StaticTable::new();

/// Pipes without descriptors.
static FREE: OwnedLock<Vec<&'static Pipe>> = OwnedLock::new(Vec::new());

/// The pipe of a descriptor.
#[inline]
pub(super) fn find(fd: RawFd) -> Option<&'static Pipe> {
    PIPES.get(usize::try_from(fd).ok()?)
}

/// Whether the table has a place for a descriptor.
pub(super) fn has_place(fd: RawFd) -> bool {
    usize::try_from(fd).is_ok_and(|fd| fd < DESCRIPTORS_MAX)
}

/// Enters the ends of a pipe, for which the table has places.
pub(super) fn insert(ends: [RawFd; 2], pipe: &'static Pipe) {
    for fd in ends {
        PIPES.set(fd as usize, Some(pipe));
    }
}

/// The descriptor is the kernel's from now on.
pub(super) fn forget(fd: RawFd) {
    PIPES.set(fd as usize, None);
}

/// The pipes with an end from `first` to `last`, each with that end.
pub(super) fn within(first: RawFd, last: RawFd) -> impl Iterator<Item = (RawFd, &'static Pipe)> {
    let last = last.min(DESCRIPTORS_MAX as RawFd - 1);
    (first.max(0)..=last).filter_map(|fd| Some((fd, find(fd)?)))
}

/// A pipe to use, from those that are free or a new one.
pub(super) fn take_free() -> Option<&'static Pipe> {
    let kept = FREE.with(Vec::pop)?;
    Some(kept.unwrap_or_else(|| Box::leak(Box::new(Pipe::new()))))
}

/// A pipe that has no descriptors any more. False: many are free, and it should keep no blocks.
pub(super) fn give_back(pipe: &'static Pipe) -> bool {
    let kept = FREE.with(|free| {
        free.push(pipe);
        free.len() <= KEPT_MAX
    });
    kept.unwrap_or(false)
}

/// In a forked child: what it inherited is the kernel's.
pub(super) fn forget_all_in_child() {
    for fd in (0..DESCRIPTORS_MAX).filter(|&fd| PIPES.get(fd).is_some()) {
        PIPES.set(fd, None);
    }
    // The parent's pipes may be locked by threads that the child has not.
    FREE.renew_in_child(Vec::new());
}
