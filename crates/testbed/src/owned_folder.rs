//! Folders that belong to a running process.
//!
//! The process holds a lock on the folder itself, which the kernel releases when the process ends in
//! whatever way. A folder that nobody holds is abandoned. Unlike a process's number this is true
//! across PID namespaces, and numbers are reused.

use rustix::fs::{FlockOperation, flock};
use std::fs::{self, File};
use std::io;
use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicU64, Ordering};

/// Names tried for a new folder: two processes of one number, in two PID namespaces, may meet.
const TRIES: u32 = 1000;

/// A folder held by this process; it is not removed on drop.
#[derive(Debug)]
pub(crate) struct OwnedFolder {
    path: PathBuf,
    /// The open folder, locked. It is closed on exec.
    _lock: File,
}

impl OwnedFolder {
    /// Creates a folder in `parent`, named after this process between `prefix` and `suffix`. Errors: a system error.
    pub(crate) fn create(parent: &Path, prefix: &str, suffix: &str) -> io::Result<OwnedFolder> {
        static COUNT: AtomicU64 = AtomicU64::new(0);
        for _ in 0..TRIES {
            let count = COUNT.fetch_add(1, Ordering::Relaxed);
            let name = format!("{prefix}{}-{count}{suffix}", std::process::id());
            let path = parent.join(name);
            match fs::create_dir(&path) {
                Ok(()) => {}
                Err(error) if error.kind() == io::ErrorKind::AlreadyExists => continue,
                Err(error) => return Err(error),
            }
            // A sweep may lock and remove it before this lock.
            if let Ok(lock) = File::open(&path)
                && flock(&lock, FlockOperation::LockExclusive).is_ok()
                && path.exists()
            {
                return Ok(OwnedFolder { path, _lock: lock });
            }
        }
        Err(io::ErrorKind::AlreadyExists.into())
    }

    /// Its path.
    pub(crate) fn path(&self) -> &Path {
        &self.path
    }
}

/// A folder whose process has ended, held now by this process; None for any other path: another
/// name, another user's, no folder, or in use.
pub(crate) fn claim_abandoned(path: &Path, prefix: &str) -> Option<File> {
    let name = path.file_name()?.to_str()?;
    let about = fs::symlink_metadata(path).ok()?;
    let own = about.is_dir() && about.uid() == rustix::process::geteuid().as_raw();
    if !own || !name.starts_with(prefix) {
        return None;
    }
    let folder = File::open(path).ok()?;
    flock(&folder, FlockOperation::NonBlockingLockExclusive).ok()?;
    Some(folder)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn claim_abandoned_leaves_held_and_foreign_folders() {
        let parent = std::env::temp_dir().join(format!("towpath-owned-{}", std::process::id()));
        fs::create_dir_all(parent.join("other-1")).expect("a folder");
        let held = OwnedFolder::create(&parent, "mine-", "").expect("a folder");
        let path = held.path().to_owned();
        assert!(claim_abandoned(&path, "mine-").is_none(), "it is held");
        assert!(claim_abandoned(&parent.join("other-1"), "mine-").is_none());
        assert!(claim_abandoned(&parent.join("mine-2"), "mine-").is_none());
        drop(held);
        let claimed = claim_abandoned(&path, "mine-").expect("nobody holds it");
        assert!(claim_abandoned(&path, "mine-").is_none(), "it is claimed");
        drop(claimed);
        fs::remove_dir_all(&parent).expect("it is removed");
    }
}
