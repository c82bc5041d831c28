//! Where the kernel's tracefs is: mounted for all, or by this process for itself.

use crate::sys::mount_tracing;
use std::fs::File;
use std::io;
use std::os::fd::AsRawFd;
use std::path::{Path, PathBuf};

/// Mount points of tracefs.
const FOLDERS: [&str; 2] = ["/sys/kernel/tracing", "/sys/kernel/debug/tracing"];

/// The root of tracefs.
#[derive(Debug)]
pub(crate) struct Tracefs {
    folder: PathBuf,
    /// Keeps a mount that only this process sees.
    _own_mount: Option<File>,
}

impl Tracefs {
    /// The tracefs that is mounted, or else one of our own.
    /// Fails when it is not mounted, and this user may not mount it.
    pub(crate) fn open() -> io::Result<Tracefs> {
        let mounted = FOLDERS.iter().map(Path::new);
        let mounted = mounted
            .into_iter()
            .find(|folder| folder.join("events").is_dir());
        if let Some(folder) = mounted {
            return Ok(Tracefs {
                folder: folder.to_owned(),
                _own_mount: None,
            });
        }
        // In a thread with its own mount namespace, which ends with the thread; the open folder stays.
        let thread = std::thread::spawn(|| {
            mount_tracing(FOLDERS[0])?;
            File::open(FOLDERS[0])
        });
        let root = thread
            .join()
            .map_err(|_| io::Error::other("a thread ended"))??;
        Ok(Tracefs {
            folder: PathBuf::from(format!("/proc/self/fd/{}", root.as_raw_fd())),
            _own_mount: Some(root),
        })
    }

    /// The path of a file in it.
    pub(crate) fn path(&self, name: impl AsRef<Path>) -> PathBuf {
        self.folder.join(name)
    }
}
