//! The table of the library's sockets in this process.

use crate::calls::Socket;
use crate::sctp::SctpSocket;
use crate::socket_pair::SocketPairEnd;
use crate::stream_service::RunningEndpoint;
use std::collections::BTreeMap;
use std::os::fd::BorrowedFd;
use std::sync::{Arc, LazyLock, Mutex, MutexGuard, PoisonError, TryLockError, Weak};

/// Device and inode of a socket, shared by all its descriptors in all processes.
type Inode = (u64, u64);

/// A socket of the library.
#[derive(Clone)]
pub(crate) enum Entry {
    /// PF_XTP.
    Xtp(Arc<Socket>),
    /// IPPROTO_SCTP.
    Sctp(Arc<SctpSocket>),
}

impl Entry {
    /// The library's end of its socket pair.
    pub(crate) fn link(&self) -> &SocketPairEnd {
        match self {
            Entry::Xtp(socket) => &socket.link,
            Entry::Sctp(socket) => &socket.link,
        }
    }
}

/// All sockets of the library and all endpoints of PF_XTP.
#[derive(Default)]
pub(crate) struct SocketTable {
    sockets: BTreeMap<Inode, Entry>,
    /// Endpoints that may hold unacknowledged data.
    pub(crate) running: Vec<Weak<RunningEndpoint>>,
    /// Table size that triggers the next sweep for closed sockets.
    sweep_at: usize,
    /// The exit hook is registered.
    pub(crate) exit_hook_registered: bool,
}

/// Below this size no sweep is made for sockets closed without towpath_close (fclose, exec).
const SWEEP_MIN: usize = 64;

static TABLE: LazyLock<Mutex<SocketTable>> = LazyLock::new(Mutex::default);

/// Locks the table.
pub(crate) fn lock() -> MutexGuard<'static, SocketTable> {
    TABLE.lock().unwrap_or_else(PoisonError::into_inner)
}

/// The PF_XTP socket of descriptor `fd`, if it is one.
pub(crate) fn find(fd: BorrowedFd<'_>) -> Option<Arc<Socket>> {
    match find_any(fd)? {
        Entry::Xtp(socket) => Some(socket),
        Entry::Sctp(_) => None,
    }
}

/// The SCTP socket of descriptor `fd`, if it is one.
pub(crate) fn find_sctp(fd: BorrowedFd<'_>) -> Option<Arc<SctpSocket>> {
    match find_any(fd)? {
        Entry::Sctp(socket) => Some(socket),
        Entry::Xtp(_) => None,
    }
}

/// The library's socket of descriptor `fd`, if it is one.
pub(crate) fn find_any(fd: BorrowedFd<'_>) -> Option<Entry> {
    let inode = inode(fd)?;
    lock().sockets.get(&inode).cloned()
}

/// As [`find_any`], in a forked child: fork may have happened while another thread had the lock.
pub(crate) fn find_in_child(fd: BorrowedFd<'_>) -> Option<Entry> {
    let inode = inode(fd)?;
    let table = match TABLE.try_lock() {
        Ok(table) => table,
        Err(TryLockError::Poisoned(error)) => error.into_inner(),
        Err(TryLockError::WouldBlock) => return None,
    };
    table.sockets.get(&inode).cloned()
}

/// Adds a socket.
pub(crate) fn insert(fd: BorrowedFd<'_>, socket: Entry) {
    let Some(inode) = inode(fd) else {
        return;
    };
    let mut table = lock();
    let gone = table.sweep();
    let old = table.sockets.insert(inode, socket);
    drop(table);
    drop((gone, old));
}

/// Removes a socket whose last descriptor was closed. Called after close(2).
pub(crate) fn remove_if_closed(inode: Inode) {
    let mut table = lock();
    let known = table.sockets.get(&inode);
    if known.is_some_and(|socket| socket.link().is_closed_by_program()) {
        let gone = table.sockets.remove(&inode);
        drop(table);
        // Dropped without the lock, which the destructor may take.
        drop(gone);
    }
}

impl SocketTable {
    /// Removes closed sockets when the table has doubled.
    fn sweep(&mut self) -> Vec<Entry> {
        if self.sockets.len() < self.sweep_at.max(SWEEP_MIN) {
            return Vec::new();
        }
        let is_gone = |(_, socket): &(_, &Entry)| socket.link().is_closed_by_program();
        let gone: Vec<Inode> = self
            .sockets
            .iter()
            .filter(is_gone)
            .map(|(at, _)| *at)
            .collect();
        let gone = gone
            .iter()
            .filter_map(|at| self.sockets.remove(at))
            .collect();
        self.running.retain(|running| running.strong_count() > 0);
        self.sweep_at = self.sockets.len() * 2;
        gone
    }
}

/// Device and inode behind a descriptor.
pub(crate) fn inode(fd: BorrowedFd<'_>) -> Option<Inode> {
    let about = rustix::fs::fstat(fd).ok()?;
    Some((about.st_dev, about.st_ino))
}
