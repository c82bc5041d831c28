//! What is known of each socket of this process.

use crate::calls::Socket;
use crate::stream_service::RunningEndpoint;
use std::collections::BTreeMap;
use std::os::fd::BorrowedFd;
use std::sync::{Arc, LazyLock, Mutex, MutexGuard, PoisonError, TryLockError, Weak};

/// The kernel's numbers of a socket, which all descriptors of it share, in all processes.
type Inode = (u64, u64);

/// All sockets of the family, and all threads that carry.
#[derive(Default)]
pub(crate) struct SocketTable {
    sockets: BTreeMap<Inode, Arc<Socket>>,
    /// Threads that may still have something to bring to a peer.
    pub(crate) running: Vec<Weak<RunningEndpoint>>,
    /// Sockets at which those nobody holds any more are looked for again.
    sweep_at: usize,
    /// Set once what the end of the program needs was registered.
    pub(crate) exit_hook_registered: bool,
}

/// Fewer sockets are not looked through for ones that were closed by ways the library does not see.
const SWEEP_MIN: usize = 64;

static TABLE: LazyLock<Mutex<SocketTable>> = LazyLock::new(Mutex::default);

/// The table.
pub(crate) fn lock() -> MutexGuard<'static, SocketTable> {
    TABLE.lock().unwrap_or_else(PoisonError::into_inner)
}

/// The socket that `fd` is a descriptor of, if it is one of the family.
pub(crate) fn find(fd: BorrowedFd<'_>) -> Option<Arc<Socket>> {
    let inode = inode(fd)?;
    lock().sockets.get(&inode).cloned()
}

/// As [`find`], in a child that was forked maybe while another thread held the table.
pub(crate) fn find_in_child(fd: BorrowedFd<'_>) -> Option<Arc<Socket>> {
    let inode = inode(fd)?;
    let table = match TABLE.try_lock() {
        Ok(table) => table,
        Err(TryLockError::Poisoned(error)) => error.into_inner(),
        Err(TryLockError::WouldBlock) => return None,
    };
    table.sockets.get(&inode).cloned()
}

/// Notes a socket.
pub(crate) fn insert(fd: BorrowedFd<'_>, socket: Arc<Socket>) {
    let Some(inode) = inode(fd) else {
        return;
    };
    let mut table = lock();
    let gone = table.sweep();
    let old = table.sockets.insert(inode, socket);
    drop(table);
    drop((gone, old));
}

/// Forgets a socket if the program holds no descriptor of it any more. To be called when one was
/// closed.
pub(crate) fn remove_if_closed(inode: Inode) {
    let mut table = lock();
    let known = table.sockets.get(&inode);
    if known.is_some_and(|socket| socket.link.is_closed_by_program()) {
        let gone = table.sockets.remove(&inode);
        drop(table);
        // What it takes to end it may need the table.
        drop(gone);
    }
}

impl SocketTable {
    /// Takes out the sockets that nobody holds, now and then.
    fn sweep(&mut self) -> Vec<Arc<Socket>> {
        if self.sockets.len() < self.sweep_at.max(SWEEP_MIN) {
            return Vec::new();
        }
        let is_gone = |(_, socket): &(_, &Arc<Socket>)| socket.link.is_closed_by_program();
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

/// The kernel's numbers of the socket behind a descriptor.
pub(crate) fn inode(fd: BorrowedFd<'_>) -> Option<Inode> {
    let about = rustix::fs::fstat(fd).ok()?;
    Some((about.st_dev, about.st_ino))
}
