//! Temporary folders, removed on drop or by the next command.

use crate::owned_folder::{OwnedFolder, claim_abandoned};
use std::fs;
use std::io;
use std::path::Path;

/// Prefix of their names.
const PREFIX: &str = "towpath-load-";

/// A folder in the system's temporary folder, held by this process.
#[derive(Debug)]
pub struct ScratchFolder(OwnedFolder);

impl ScratchFolder {
    /// Creates a folder.
    ///
    /// # Errors
    ///
    /// A system error.
    pub fn create() -> io::Result<ScratchFolder> {
        OwnedFolder::create(&std::env::temp_dir(), PREFIX, "").map(ScratchFolder)
    }

    /// Its path.
    pub fn path(&self) -> &Path {
        self.0.path()
    }
}

impl Drop for ScratchFolder {
    fn drop(&mut self) {
        // On failure the next command removes it.
        let _ = fs::remove_dir_all(self.path());
    }
}

/// Removes folders of processes that have ended; gives their number.
pub fn sweep() -> usize {
    let entries = fs::read_dir(std::env::temp_dir());
    let entries = entries.into_iter().flatten().flatten();
    let paths = entries.map(|entry| entry.path());
    let removed = paths.filter(|path| {
        let claimed = claim_abandoned(path, PREFIX);
        claimed.is_some_and(|_held| fs::remove_dir_all(path).is_ok())
    });
    removed.count()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn sweep_removes_only_abandoned_folders() {
        let folder = ScratchFolder::create().expect("a folder");
        let name = format!("{PREFIX}abandoned-{}", std::process::id());
        let dead = std::env::temp_dir().join(name);
        fs::create_dir_all(dead.join("inside")).expect("a folder");
        // Another test's sweep may have met it first.
        sweep();
        assert!(!dead.exists());
        assert!(folder.path().exists());
        let path = folder.path().to_owned();
        drop(folder);
        assert!(!path.exists());
    }
}
