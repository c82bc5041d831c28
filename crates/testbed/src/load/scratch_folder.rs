//! Folders that are removed after use, if need be by the next run.

use std::fs;
use std::io;
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicU64, Ordering};

/// How the names of all these folders begin.
const PREFIX: &str = "towpath-load-";

/// A folder in the system's temporary place, named after this process.
#[derive(Debug)]
pub struct ScratchFolder {
    path: PathBuf,
}

impl ScratchFolder {
    /// Makes a new one.
    ///
    /// # Errors
    ///
    /// When it cannot be made.
    pub fn create() -> io::Result<ScratchFolder> {
        static COUNT: AtomicU64 = AtomicU64::new(0);
        let count = COUNT.fetch_add(1, Ordering::Relaxed);
        let process = std::process::id();
        let started = start_time_of(process).unwrap_or(0);
        let name = format!("{PREFIX}{process}-{started}-{count}");
        let path = std::env::temp_dir().join(name);
        fs::create_dir(&path)?;
        Ok(ScratchFolder { path })
    }

    /// Where it is.
    pub fn path(&self) -> &Path {
        &self.path
    }
}

impl Drop for ScratchFolder {
    fn drop(&mut self) {
        // What cannot be removed now is swept by the next run.
        let _ = fs::remove_dir_all(&self.path);
    }
}

/// Removes the folders of processes that are gone; gives how many.
pub fn sweep() -> usize {
    let Ok(entries) = fs::read_dir(std::env::temp_dir()) else {
        return 0;
    };
    let left = entries.flatten().filter(|entry| {
        let name = entry.file_name();
        name.to_str().is_some_and(|name| is_abandoned(name, PREFIX))
    });
    // Those of other users are theirs to remove.
    left.filter(|entry| fs::remove_dir_all(entry.path()).is_ok())
        .count()
}

/// Whether this is the name of a folder, `prefix` in front, whose process is gone.
pub(crate) fn is_abandoned(name: &str, prefix: &str) -> bool {
    let Some(rest) = name.strip_prefix(prefix) else {
        return false;
    };
    let mut numbers = rest.split('-').map(|text| text.parse::<u64>().ok());
    match (numbers.next().flatten(), numbers.next().flatten()) {
        (Some(process), Some(start)) => {
            u32::try_from(process).map_or(true, |process| start_time_of(process) != Some(start))
        }
        _ => false,
    }
}

/// When a process started, in ticks since the system did, which tells it from a later one of the
/// same number; None when there is no such process.
pub(crate) fn start_time_of(process: u32) -> Option<u64> {
    let stat = fs::read_to_string(format!("/proc/{process}/stat")).ok()?;
    // The name, in parentheses, may hold anything.
    let (_, rest) = stat.rsplit_once(')')?;
    let mut fields = rest.split_whitespace();
    // One that has ended and that nobody has asked about is gone too.
    let ended = matches!(fields.next()?, "Z" | "X");
    let started = fields.nth(18)?.parse().ok();
    started.filter(|_| !ended)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn sweep_removes_only_abandoned_folders() {
        let folder = ScratchFolder::create().expect("a folder");
        // No process has this number: it is larger than the kernel gives.
        let dead = std::env::temp_dir().join(format!("{PREFIX}4194400-17-{}", std::process::id()));
        fs::create_dir_all(dead.join("inside")).expect("a folder");
        assert!(sweep() >= 1);
        assert!(!dead.exists());
        assert!(folder.path().exists());
        let path = folder.path().to_owned();
        drop(folder);
        assert!(!path.exists());
    }

    #[test]
    fn sweep_ignores_foreign_names() {
        let is_orphan = |name: &str| super::is_abandoned(name, PREFIX);
        assert!(!is_orphan("towpath-load-"));
        assert!(!is_orphan("towpath-load-x-1-2"));
        assert!(!is_orphan("something"));
        // The same process number, started at another time.
        assert!(is_orphan(&format!("{PREFIX}{}-1-0", std::process::id())));
    }
}
