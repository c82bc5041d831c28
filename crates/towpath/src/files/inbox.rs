//! The directory that files are received into.

use super::partial_file::{PARTIAL_SUFFIX, is_locked_elsewhere};
use std::fs::{self, DirEntry};
use std::io::{self, ErrorKind};
use std::path::Path;
use std::time::{Duration, SystemTime};

/// Age at which a partial file is removed: a sender that resumes does so within days.
const PARTIAL_AGE_MAX: Duration = Duration::from_secs(7 * 24 * 3600);

/// Partial files at most. Each takes a name, whatever its length.
const PARTIAL_FILES_MAX: usize = 256;

/// Removes partial files that were last written a week before `now` and belong to no transfer. What
/// cannot be removed stays; the next sweep meets it again.
pub(super) fn remove_old_partial_files(folder: &Path, now: SystemTime) {
    for entry in partial_files(folder) {
        let written_at = entry.metadata().and_then(|about| about.modified());
        let age = written_at.map(|at| now.duration_since(at).unwrap_or_default());
        if age.is_ok_and(|age| age >= PARTIAL_AGE_MAX) && !is_locked_elsewhere(&entry.path()) {
            let _ = fs::remove_file(entry.path());
        }
    }
}

/// Partial files, by their names; links and folders of such names are none.
fn partial_files(folder: &Path) -> Vec<DirEntry> {
    let entries = fs::read_dir(folder).into_iter().flatten().flatten();
    let is_partial = |entry: &DirEntry| {
        let name = entry.file_name();
        let octets = name.as_encoded_bytes();
        octets.starts_with(b".")
            && octets.ends_with(PARTIAL_SUFFIX.as_bytes())
            && entry.file_type().is_ok_and(|kind| kind.is_file())
    };
    entries.filter(is_partial).collect()
}

/// Refuses a transfer that would leave less than `keep_free_bytes` once `more_bytes` are written.
/// Fails with `StorageFull` with the remedy, or the file system's.
pub(super) fn check_space(folder: &Path, more_bytes: u64, keep_free_bytes: u64) -> io::Result<()> {
    let about = rustix::fs::statvfs(folder)?;
    let free_bytes = about.f_bavail.saturating_mul(about.f_frsize);
    if free_bytes >= more_bytes.saturating_add(keep_free_bytes) {
        return Ok(());
    }
    let text = format!(
        "the receiver has {free_bytes} bytes left and keeps {keep_free_bytes} of them free \
         (--keep-free)"
    );
    Err(io::Error::new(ErrorKind::StorageFull, text))
}

/// Refuses a new partial file in a folder that has too many. Fails with `QuotaExceeded` with the remedy.
pub(super) fn check_partial_files(folder: &Path) -> io::Result<()> {
    if partial_files(folder).len() < PARTIAL_FILES_MAX {
        return Ok(());
    }
    let text = format!(
        "the receiver has {PARTIAL_FILES_MAX} unfinished files; finish them, or remove .*.part there"
    );
    Err(io::Error::new(ErrorKind::QuotaExceeded, text))
}

#[cfg(test)]
mod tests {
    use super::super::partial_file::open_locked;
    use super::*;
    use std::path::PathBuf;

    fn scratch(name: &str) -> PathBuf {
        let name = format!("towpath-inbox-{}-{name}", std::process::id());
        let path = std::env::temp_dir().join(name);
        let _ = fs::remove_dir_all(&path);
        fs::create_dir_all(&path).expect("a folder");
        path
    }

    fn names(folder: &Path) -> Vec<String> {
        let entries = fs::read_dir(folder).expect("a folder").flatten();
        let mut names: Vec<String> = entries
            .map(|entry| entry.file_name().to_string_lossy().into_owned())
            .collect();
        names.sort();
        names
    }

    #[test]
    fn old_partial_file_is_removed_unless_in_transfer() {
        let folder = scratch("sweep");
        for name in [".old.part", ".busy.part", "own.part", ".profile"] {
            fs::write(folder.join(name), "x").expect("a file");
        }
        let busy = open_locked(&folder.join(".busy.part")).expect("it opens");
        let now = SystemTime::now();
        remove_old_partial_files(&folder, now + PARTIAL_AGE_MAX / 2);
        assert_eq!(names(&folder).len(), 4);
        remove_old_partial_files(&folder, now + 2 * PARTIAL_AGE_MAX);
        assert_eq!(names(&folder), [".busy.part", ".profile", "own.part"]);
        drop(busy);
        fs::remove_dir_all(&folder).expect("it is removed");
    }

    #[test]
    fn check_space_keeps_bytes_free() {
        let folder = scratch("space");
        check_space(&folder, 0, 0).expect("nothing is asked for");
        let why = check_space(&folder, u64::MAX, 1).expect_err("no disk is so large");
        assert_eq!(why.kind(), ErrorKind::StorageFull);
        assert!(check_space(&folder, 0, u64::MAX).is_err());
        fs::remove_dir_all(&folder).expect("it is removed");
    }

    #[test]
    fn check_partial_files_refuses_too_many() {
        let folder = scratch("many");
        for number in 0..PARTIAL_FILES_MAX {
            check_partial_files(&folder).expect("there is room");
            fs::write(folder.join(format!(".{number}.part")), "x").expect("a file");
        }
        assert!(check_partial_files(&folder).is_err());
        fs::remove_dir_all(&folder).expect("it is removed");
    }
}
