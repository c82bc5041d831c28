//! Which descriptors of this process are direct connections.

use super::DirectConnection;
use crate::sys;
use std::os::fd::RawFd;
use std::sync::atomic::{AtomicBool, AtomicI32, AtomicU8, Ordering};
use std::sync::{Arc, OnceLock, PoisonError, RwLock};

/// Descriptors from here on are never direct.
const DESCRIPTORS_MAX: usize = 65_536;

/// The eventfd of the tunnel of a direct connection, plus one; 0 for all other descriptors. Read without a lock, also in
/// signal handlers and in a forked child.
static WAKEUPS: [AtomicI32; DESCRIPTORS_MAX] = [const { AtomicI32::new(0) }; DESCRIPTORS_MAX];

/// The connections by descriptor.
static CONNECTIONS: RwLock<Vec<Option<Arc<DirectConnection>>>> = RwLock::new(Vec::new());

/// Which descriptors a forked child wants carried by its parent's tunnel; shared with all children.
static RECALLS: OnceLock<&'static [AtomicU8]> = OnceLock::new();

/// This process is a forked child of the one that has the connections.
static IS_CHILD: AtomicBool = AtomicBool::new(false);

/// Makes new connections direct; false where that cannot be.
pub(crate) fn enable() -> bool {
    let Some(flags) = sys::shared_flags(DESCRIPTORS_MAX) else {
        return false;
    };
    RECALLS.set(flags).is_ok() && sys::on_fork_in_child()
}

/// Whether new connections are direct.
pub(crate) fn is_enabled() -> bool {
    RECALLS.get().is_some() && !is_child()
}

/// This process is a forked child from now on.
pub(crate) fn note_fork() {
    IS_CHILD.store(true, Ordering::Relaxed);
}

pub(super) fn is_child() -> bool {
    IS_CHILD.load(Ordering::Relaxed)
}

/// The direct connection of a descriptor. In a forked child none is: its parent is asked to carry it.
#[inline]
pub(crate) fn find(fd: RawFd) -> Option<Arc<DirectConnection>> {
    let wakeup = WAKEUPS.get(usize::try_from(fd).ok()?)?;
    if wakeup.load(Ordering::Acquire) == 0 {
        return None;
    }
    find_known(fd)
}

fn find_known(fd: RawFd) -> Option<Arc<DirectConnection>> {
    if is_child() {
        recall(fd as usize);
        return None;
    }
    let connections = CONNECTIONS.read().unwrap_or_else(PoisonError::into_inner);
    connections.get(fd as usize)?.clone()
}

/// Asks the parent to carry the connection of a descriptor.
fn recall(fd: usize) {
    let wakeup = WAKEUPS[fd].swap(0, Ordering::AcqRel);
    // The child may have closed the eventfd, and have something else of this number.
    if let (Some(flags), true) = (RECALLS.get(), wakeup > 0 && sys::is_eventfd(wakeup - 1)) {
        flags[fd].store(1, Ordering::Release);
        sys::signal_eventfd(wakeup - 1);
    }
}

/// A forked child closes the descriptors from `first` to `last`; its parent does not hear of it.
pub(crate) fn forget_in_child(first: RawFd, last: RawFd) {
    let first = usize::try_from(first).unwrap_or(0);
    let count = usize::try_from(last).map_or(0, |last| (last + 1).saturating_sub(first));
    if is_child() {
        let known = WAKEUPS.iter().skip(first).take(count);
        known.for_each(|wakeup| wakeup.store(0, Ordering::Release));
    }
}

/// In a forked child: asks the parent to carry all connections that were inherited.
pub(crate) fn recall_inherited() {
    static IS_DONE: AtomicBool = AtomicBool::new(false);
    if is_child() && !IS_DONE.swap(true, Ordering::Relaxed) {
        (0..DESCRIPTORS_MAX).for_each(recall);
    }
}

/// The direct connections from `first` to `last`.
pub(super) fn known_within(first: RawFd, last: RawFd) -> Vec<RawFd> {
    let connections = CONNECTIONS.read().unwrap_or_else(PoisonError::into_inner);
    let known = connections.iter().enumerate();
    let known = known.filter(|(_, place)| place.is_some());
    let numbers = known.filter_map(|(fd, _)| RawFd::try_from(fd).ok());
    numbers.filter(|fd| (first..=last).contains(fd)).collect()
}

/// Takes back whether a forked child asked for the descriptor's connection.
pub(super) fn take_recall(fd: RawFd) -> bool {
    let flags = RECALLS.get().zip(usize::try_from(fd).ok());
    let flag = flags.and_then(|(flags, fd)| flags.get(fd));
    flag.is_some_and(|flag| {
        flag.load(Ordering::Relaxed) != 0 && flag.swap(0, Ordering::AcqRel) != 0
    })
}

/// Enters a connection; false for a descriptor that cannot be direct.
pub(crate) fn insert(fd: RawFd, connection: Arc<DirectConnection>) -> bool {
    let Some(index) = usize::try_from(fd).ok().filter(|&fd| fd < DESCRIPTORS_MAX) else {
        return false;
    };
    let wakeup = connection.wakeup();
    let mut connections = CONNECTIONS.write().unwrap_or_else(PoisonError::into_inner);
    if connections.len() <= index {
        connections.resize(index + 1, None);
    }
    let old = connections[index].replace(connection);
    take_recall(fd);
    WAKEUPS[index].store(wakeup + 1, Ordering::Release);
    drop(connections);
    drop(old);
    true
}

/// The descriptor is `connection`'s no more.
pub(crate) fn forget(fd: RawFd, connection: &DirectConnection) {
    let Ok(index) = usize::try_from(fd) else {
        return;
    };
    let mut connections = CONNECTIONS.write().unwrap_or_else(PoisonError::into_inner);
    let gone = connections
        .get_mut(index)
        .and_then(|place| place.take_if(|known| std::ptr::eq(Arc::as_ptr(known), connection)));
    if gone.is_some() {
        WAKEUPS[index].store(0, Ordering::Release);
    }
    drop(connections);
    drop(gone);
}
