//! Who holds which partial file, and when a newcomer takes the place of one that is dead.
//!
//! A sender that was killed says nothing: its transfer would hold the file until it times out. So a second transfer of
//! the same file from the same address waits for the first to be silent for [`DEAD_AFTER`] and takes its place; a
//! transfer whose data come keeps it.

use super::partial_file::open_locked;
use std::collections::HashMap;
use std::fs::File;
use std::io;
use std::net::IpAddr;
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};

/// Silence after which a transfer gives way to another of the same file and sender: several retransmissions.
const DEAD_AFTER: Duration = Duration::from_secs(1);

/// How long a newcomer waits for that, and for the other to let go.
const DISPLACE_TIMEOUT: Duration = Duration::from_secs(3);

/// How often it looks.
const POLL_INTERVAL: Duration = Duration::from_millis(20);

/// The partial files that transfers of this process hold.
#[derive(Debug, Default)]
pub(super) struct Holders(Mutex<HashMap<PathBuf, Arc<Holder>>>);

#[derive(Debug)]
struct Holder {
    peer: IpAddr,
    began_at: Instant,
    /// When data last came, since it began.
    heard_ms: AtomicU64,
    is_displaced: AtomicBool,
}

/// Who wants partial files: a transfer.
#[derive(Clone, Debug)]
pub(super) struct Claimant {
    pub(super) holders: Arc<Holders>,
    /// Its sender.
    pub(super) peer: IpAddr,
}

/// A partial file that is held. Dropped after the file.
#[derive(Debug)]
pub(super) struct Hold {
    claimant: Claimant,
    path: PathBuf,
    holder: Arc<Holder>,
}

impl Claimant {
    /// Opens and locks the file at `path`; None when another transfer holds it that is not dead.
    /// Errors are those of the file system.
    pub(super) fn lock(&self, path: &Path) -> io::Result<Option<(File, Hold)>> {
        let end = Instant::now() + DISPLACE_TIMEOUT;
        loop {
            if let Some(file) = open_locked(path)? {
                return Ok(Some((file, self.hold(path))));
            }
            let other = lock(&self.holders).get(path).cloned();
            match other {
                Some(other) if other.peer == self.peer && Instant::now() < end => {
                    other.displace_if_silent();
                }
                _ => return Ok(None),
            }
            std::thread::sleep(POLL_INTERVAL);
        }
    }

    fn hold(&self, path: &Path) -> Hold {
        let holder = Arc::new(Holder {
            peer: self.peer,
            began_at: Instant::now(),
            heard_ms: AtomicU64::new(0),
            is_displaced: AtomicBool::new(false),
        });
        lock(&self.holders).insert(path.to_owned(), Arc::clone(&holder));
        Hold {
            claimant: self.clone(),
            path: path.to_owned(),
            holder,
        }
    }
}

impl Holder {
    fn displace_if_silent(&self) {
        let heard = Duration::from_millis(self.heard_ms.load(Ordering::Relaxed));
        if self.began_at.elapsed().saturating_sub(heard) >= DEAD_AFTER {
            self.is_displaced.store(true, Ordering::Relaxed);
        }
    }
}

impl Hold {
    /// Notes that data came.
    pub(super) fn note_heard(&self) {
        let now_ms = self.holder.began_at.elapsed().as_millis() as u64;
        self.holder.heard_ms.store(now_ms, Ordering::Relaxed);
    }

    /// Whether another transfer takes its place.
    pub(super) fn is_displaced(&self) -> bool {
        self.holder.is_displaced.load(Ordering::Relaxed)
    }
}

impl Drop for Hold {
    fn drop(&mut self) {
        let mut holders = lock(&self.claimant.holders);
        // The next one may hold it by now.
        if holders
            .get(&self.path)
            .is_some_and(|other| Arc::ptr_eq(other, &self.holder))
        {
            holders.remove(&self.path);
        }
    }
}

fn lock(holders: &Holders) -> MutexGuard<'_, HashMap<PathBuf, Arc<Holder>>> {
    holders.0.lock().unwrap_or_else(PoisonError::into_inner)
}
