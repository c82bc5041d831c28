//! What is known of each descriptor.

use crate::service::{End, Queue, Service};
use library::xtp::Settings;
use std::collections::{BTreeMap, HashMap};
use std::net::SocketAddr;
use std::os::fd::{BorrowedFd, RawFd};
use std::sync::atomic::AtomicBool;
use std::sync::{Arc, LazyLock, Mutex, MutexGuard, PoisonError};

/// A socket of the family.
pub(crate) struct Held {
    /// The kernel's number of the socket behind the descriptor: another one means that the program
    /// closed it by other ways and the descriptor is something else now.
    pub(crate) inode: u64,
    pub(crate) state: State,
    /// Options as words, until the endpoint is made.
    pub(crate) words: BTreeMap<String, String>,
    /// Where it is bound, or to be bound.
    pub(crate) local: Option<SocketAddr>,
}

/// What a socket is.
pub(crate) enum State {
    /// Neither listening nor connected. The library's end waits.
    New(End),
    /// It listens.
    Listening(Queue),
    /// It has a peer.
    Connected {
        peer: SocketAddr,
        broken: Arc<AtomicBool>,
    },
    /// It could not be connected.
    Failed,
}

impl Held {
    /// The settings its words say.
    pub(crate) fn settings(&self) -> Result<Settings, String> {
        Settings::parse(&self.words)
    }
}

/// All sockets of this process, and all endpoints.
#[derive(Default)]
pub(crate) struct Table {
    sockets: HashMap<RawFd, Held>,
    /// They last until the program ends: what is written must arrive after its socket is closed.
    pub(crate) services: Vec<Arc<Service>>,
    /// Set once what the end of the program needs was registered.
    pub(crate) ends: bool,
}

static TABLE: LazyLock<Mutex<Table>> = LazyLock::new(Mutex::default);

/// The table.
pub(crate) fn lock() -> MutexGuard<'static, Table> {
    TABLE.lock().unwrap_or_else(PoisonError::into_inner)
}

impl Table {
    /// What `fd` is, if it is a socket of the family.
    pub(crate) fn get(&mut self, fd: BorrowedFd<'_>) -> Option<&mut Held> {
        let raw = std::os::fd::AsRawFd::as_raw_fd(&fd);
        if self.sockets.get(&raw)?.inode != inode(fd)? {
            self.sockets.remove(&raw);
            return None;
        }
        self.sockets.get_mut(&raw)
    }

    /// Notes a socket.
    pub(crate) fn put(&mut self, fd: BorrowedFd<'_>, mut held: Held) {
        held.inode = inode(fd).unwrap_or_default();
        let raw = std::os::fd::AsRawFd::as_raw_fd(&fd);
        self.sockets.insert(raw, held);
    }

    /// Forgets a socket.
    pub(crate) fn remove(&mut self, fd: RawFd) {
        self.sockets.remove(&fd);
    }
}

fn inode(fd: BorrowedFd<'_>) -> Option<u64> {
    rustix::fs::fstat(fd).ok().map(|about| about.st_ino)
}
