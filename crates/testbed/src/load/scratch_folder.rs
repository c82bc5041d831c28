//! Temporary folders, removed on drop or by the next run.

use std::fs;
use std::io;
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicU64, Ordering};

/// Prefix of their names.
const PREFIX: &str = "towpath-load-";

/// A folder in the system's temporary folder, named after this process.
#[derive(Debug)]
pub struct ScratchFolder {
    path: PathBuf,
}

impl ScratchFolder {
    /// Creates a folder.
    ///
    /// # Errors
    ///
    /// A system error.
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

    /// Its path.
    pub fn path(&self) -> &Path {
        &self.path
    }
}

impl Drop for ScratchFolder {
    fn drop(&mut self) {
        // On failure the next run removes it.
        let _ = fs::remove_dir_all(&self.path);
    }
}

/// Removes folders of processes that have ended; gives their number.
pub fn sweep() -> usize {
    let Ok(entries) = fs::read_dir(std::env::temp_dir()) else {
        return 0;
    };
    let left = entries.flatten().filter(|entry| {
        let name = entry.file_name();
        name.to_str().is_some_and(|name| is_abandoned(name, PREFIX))
    });
    // Other users' folders are theirs to remove.
    left.filter(|entry| fs::remove_dir_all(entry.path()).is_ok())
        .count()
}

/// Whether the name, with `prefix`, is that of a folder whose process has ended.
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

/// Start time of a process in ticks since boot, which tells it from a later one with the same PID;
/// None if there is no such process.
pub(crate) fn start_time_of(process: u32) -> Option<u64> {
    let stat = fs::read_to_string(format!("/proc/{process}/stat")).ok()?;
    // The command name, in parentheses, may contain anything.
    let (_, rest) = stat.rsplit_once(')')?;
    let mut fields = rest.split_whitespace();
    // A zombie has ended too.
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
        // Above the kernel's largest PID.
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
        // The same PID, started at another time.
        assert!(is_orphan(&format!("{PREFIX}{}-1-0", std::process::id())));
    }
}
