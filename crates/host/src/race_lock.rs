//! One measurement at a time on a machine: a lock on one fixed file.
//!
//! Two races at once take processors and caches from each other, and neither sees it. The lock is
//! flock(2) on a file that any user can open, so it holds between users, and between containers
//! that share the file. The file is empty and nothing is ever written into it: who holds the lock
//! is read from /proc/locks. A program that ends, however it ends, has given up the lock.

use rustix::fs::{FileType, FlockOperation, Mode, OFlags, fchmod, flock, fstat, open};
use rustix::io::Errno;
use std::ffi::OsStr;
use std::io;
use std::os::fd::OwnedFd;
use std::path::{Path, PathBuf};

/// The file, on every machine.
pub const RACE_LOCK: &str = "/tmp/towpath-race.lock";

/// Names another file, for containers that share another folder; `none` for no lock, as tests of
/// this program need, which run many short races side by side.
pub const RACE_LOCK_VARIABLE: &str = "TOWPATH_RACE_LOCK";

/// How often the file may vanish between two steps before that is an error.
const TRIES: u32 = 16;

/// The lock, until it is dropped.
#[derive(Debug)]
pub struct RaceLock {
    _file: OwnedFd,
}

/// What became of an attempt to take the lock.
#[derive(Debug)]
pub enum LockAttempt {
    /// It is held.
    Held(RaceLock),
    /// Another process holds it; its ID where this one can see it.
    Busy(Option<u32>),
}

/// The file of the lock for this value of [`RACE_LOCK_VARIABLE`]; None for no lock.
pub fn race_lock_file(variable: Option<&OsStr>) -> Option<PathBuf> {
    match variable {
        Some(value) if value == "none" => None,
        Some(path) if !path.is_empty() => Some(path.into()),
        _ => Some(RACE_LOCK.into()),
    }
}

impl RaceLock {
    /// Takes the lock if it is free; never waits.
    ///
    /// # Errors
    ///
    /// When the file cannot be created or opened, or is no regular file.
    pub fn attempt(path: &Path) -> io::Result<LockAttempt> {
        for _ in 0..TRIES {
            let file = open_or_create(path)?;
            match flock(&file, FlockOperation::NonBlockingLockExclusive) {
                Ok(()) if is_at(&file, path) => {
                    return Ok(LockAttempt::Held(RaceLock { _file: file }));
                }
                // The file was removed meanwhile: the next race would lock another one.
                Ok(()) | Err(Errno::INTR) => {}
                Err(Errno::WOULDBLOCK) => return Ok(LockAttempt::Busy(holder(&file))),
                Err(error) => return Err(error.into()),
            }
        }
        Err(io::Error::other("it is removed again and again"))
    }
}

/// The process that holds the lock of this file, if there is one that this process can see. Nothing is
/// taken or created, so that a race that begins meanwhile is not kept from it.
pub fn race_holder(path: &Path) -> Option<u32> {
    let flags = OFlags::RDONLY | OFlags::NOFOLLOW | OFlags::CLOEXEC | OFlags::NONBLOCK;
    holder(&open(path, flags, Mode::empty()).ok()?)
}

/// Opens the file, or creates it for all users. A link is not followed: anyone may put one there.
fn open_or_create(path: &Path) -> io::Result<OwnedFd> {
    let flags = OFlags::RDONLY | OFlags::NOFOLLOW | OFlags::CLOEXEC | OFlags::NONBLOCK;
    let readable = Mode::RUSR | Mode::WUSR | Mode::RGRP | Mode::ROTH;
    for _ in 0..TRIES {
        match open(path, flags, Mode::empty()) {
            Ok(file) => {
                let is_file = FileType::from_raw_mode(fstat(&file)?.st_mode).is_file();
                return match is_file {
                    true => Ok(file),
                    false => Err(io::Error::other("it is no regular file")),
                };
            }
            Err(Errno::NOENT) => {}
            Err(error) => return Err(error.into()),
        }
        match open(path, flags | OFlags::CREATE | OFlags::EXCL, readable) {
            // Other users must be able to open it whatever this one's umask is.
            Ok(file) => return fchmod(&file, readable).map(|()| file).map_err(Into::into),
            Err(Errno::EXIST) => {}
            Err(error) => return Err(error.into()),
        }
    }
    Err(io::Error::other(
        "it is created and removed again and again",
    ))
}

/// Whether the path still names the opened file.
fn is_at(file: &OwnedFd, path: &Path) -> bool {
    let (Ok(own), Ok(named)) = (fstat(file), rustix::fs::lstat(path)) else {
        return false;
    };
    (own.st_dev, own.st_ino) == (named.st_dev, named.st_ino)
}

/// The process that holds the lock on a file, from /proc/locks.
fn holder(file: &OwnedFd) -> Option<u32> {
    let stat = fstat(file).ok()?;
    let locks = std::fs::read_to_string("/proc/locks").ok()?;
    let (major, minor) = (
        rustix::fs::major(stat.st_dev),
        rustix::fs::minor(stat.st_dev),
    );
    holder_in(&locks, &format!("{major:02x}:{minor:02x}:{}", stat.st_ino))
}

/// The process of the line `1: FLOCK ADVISORY WRITE PID MAJOR:MINOR:INODE 0 EOF` of this file.
/// Lines of processes that wait for a lock have `->` behind their number.
fn holder_in(locks: &str, file: &str) -> Option<u32> {
    locks.lines().find_map(|line| {
        let mut words = line.split_whitespace().skip(1);
        let is_flock = words.next() == Some("FLOCK");
        let pid = words.nth(2)?;
        let is_ours = is_flock && words.next() == Some(file);
        is_ours.then(|| pid.parse().ok()).flatten()
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    fn scratch(name: &str) -> PathBuf {
        let path = std::env::temp_dir().join(format!("towpath-{name}-{}", std::process::id()));
        // Left by a process of the same number.
        let _ = std::fs::remove_file(&path);
        path
    }

    fn is_held(attempt: &io::Result<LockAttempt>) -> bool {
        matches!(attempt, Ok(LockAttempt::Held(_)))
    }

    #[test]
    fn second_attempt_finds_the_first_ones_process() {
        let path = scratch("lock-second");
        assert_eq!(race_holder(&path), None, "there is no file");
        let first = RaceLock::attempt(&path);
        assert!(is_held(&first));
        let holder = race_holder(&path);
        assert!(holder.is_none_or(|pid| pid == std::process::id()));
        match RaceLock::attempt(&path) {
            // A /proc of a container may hide it.
            Ok(LockAttempt::Busy(pid)) => {
                assert!(pid.is_none_or(|pid| pid == std::process::id()), "{pid:?}");
            }
            other => panic!("{other:?}"),
        }
        drop(first);
        assert_eq!(race_holder(&path), None, "nobody holds it");
        assert!(is_held(&RaceLock::attempt(&path)));
        let content = std::fs::read(&path).expect("the file stays");
        assert!(content.is_empty());
        std::fs::remove_file(&path).expect("it is ours");
    }

    #[test]
    fn lock_file_is_readable_for_all_users() {
        use std::os::unix::fs::PermissionsExt;
        let path = scratch("lock-mode");
        assert!(is_held(&RaceLock::attempt(&path)));
        let mode = std::fs::metadata(&path).expect("it is there").permissions();
        assert_eq!(mode.mode() & 0o777, 0o644);
        std::fs::remove_file(&path).expect("it is ours");
    }

    #[test]
    fn removed_file_is_created_anew() {
        let path = scratch("lock-removed");
        let first = RaceLock::attempt(&path);
        std::fs::remove_file(&path).expect("it is ours");
        assert!(is_held(&RaceLock::attempt(&path)));
        drop(first);
        std::fs::remove_file(&path).expect("it is ours");
    }

    #[test]
    fn link_and_folder_at_the_path_are_refused() {
        let path = scratch("lock-link");
        std::os::unix::fs::symlink("/etc/passwd", &path).expect("a link");
        RaceLock::attempt(&path).expect_err("a link");
        std::fs::remove_file(&path).expect("it is ours");
        RaceLock::attempt(&std::env::temp_dir()).expect_err("a folder");
    }

    #[test]
    fn holder_of_another_file_or_kind_of_lock_is_not_taken() {
        let locks = "1: POSIX  ADVISORY  WRITE 11 00:2f:7 0 EOF\n\
                     2: FLOCK  ADVISORY  WRITE 12 00:2f:8 0 EOF\n\
                     3: FLOCK  ADVISORY  WRITE 13 00:2f:7 0 EOF\n\
                     3: -> FLOCK  ADVISORY  WRITE 14 00:2f:7 0 EOF\nodd\n";
        assert_eq!(holder_in(locks, "00:2f:7"), Some(13));
        assert_eq!(holder_in(locks, "00:2f:9"), None);
    }

    #[test]
    fn variable_names_another_file_or_none() {
        let file = |value: &str| race_lock_file(Some(OsStr::new(value)));
        assert_eq!(file("none"), None);
        assert_eq!(file("/run/shared/lock"), Some("/run/shared/lock".into()));
        assert_eq!(file(""), Some(RACE_LOCK.into()));
        assert_eq!(race_lock_file(None), Some(RACE_LOCK.into()));
    }
}
