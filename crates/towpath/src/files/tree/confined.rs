//! Folders below a root, reached without following a symbolic link.

use super::path::TreePath;
use rustix::fs::{AtFlags, Mode, OFlags, Stat};
use std::ffi::OsStr;
use std::fs::File;
use std::io;
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};

/// A folder of the user's, below which a peer names paths. Each component is opened in the folder before it, as a
/// folder and not as a link (O_NOFOLLOW), so that whatever others put there leads nowhere else.
#[derive(Debug)]
pub(super) struct ConfinedFolder {
    root: OwnedFd,
    /// The folder that was used last: entries come folder by folder.
    recent: Option<(Vec<u8>, OwnedFd)>,
}

impl ConfinedFolder {
    pub(super) fn new(root: OwnedFd) -> ConfinedFolder {
        ConfinedFolder { root, recent: None }
    }

    /// Another one of the same root. Errors: out of descriptors.
    pub(super) fn again(&self) -> io::Result<ConfinedFolder> {
        self.root.try_clone().map(ConfinedFolder::new)
    }

    pub(super) fn root(&self) -> BorrowedFd<'_> {
        self.root.as_fd()
    }

    /// The folder at `path` below the root. Errors: the system's; `NotADirectory` where a component is a link.
    pub(super) fn at(&mut self, path: &[u8]) -> io::Result<BorrowedFd<'_>> {
        if path.is_empty() {
            return Ok(self.root.as_fd());
        }
        let is_recent = self.recent.as_ref().is_some_and(|(of, _)| of == path);
        if !is_recent {
            let mut folder = None::<OwnedFd>;
            for part in TreePath::components(path) {
                let parent = folder.as_ref().map_or(self.root.as_fd(), AsFd::as_fd);
                folder = Some(open_folder_at(parent, part, OFlags::PATH)?);
            }
            self.recent = folder.map(|folder| (path.to_vec(), folder));
        }
        let (_, folder) = self.recent.as_ref().ok_or(io::ErrorKind::NotFound)?;
        Ok(folder.as_fd())
    }

    /// The folder that `path` lies in, and its name there.
    /// Errors are those of [`at`](ConfinedFolder::at); `InvalidInput` for the root itself.
    pub(super) fn parent<'a>(
        &mut self,
        path: &'a TreePath,
    ) -> io::Result<(BorrowedFd<'_>, &'a OsStr)> {
        let (folder, name) = path.split().ok_or(io::ErrorKind::InvalidInput)?;
        Ok((self.at(folder)?, name))
    }

    /// Opens the file at `path` for reading; a pipe is not waited for.
    /// Errors: the system's; `InvalidInput` for what is no regular file.
    pub(super) fn open_file(&mut self, path: &TreePath) -> io::Result<File> {
        let (parent, name) = self.parent(path)?;
        let flags = OFlags::RDONLY | OFlags::NOFOLLOW | OFlags::NONBLOCK | OFlags::CLOEXEC;
        Ok(rustix::fs::openat(parent, name, flags, Mode::empty())?.into())
    }

    /// Opens the folder at `path` for reading. Errors: the system's.
    pub(super) fn open_folder(&mut self, path: &TreePath) -> io::Result<OwnedFd> {
        match path.split() {
            Some((folder, name)) => open_folder_at(self.at(folder)?, name, OFlags::RDONLY),
            None => open_folder_at(self.root.as_fd(), OsStr::new("."), OFlags::RDONLY),
        }
    }

    /// What is at `path`, links not followed. Errors: the system's; `NotFound` when there is nothing.
    pub(super) fn stat(&mut self, path: &TreePath) -> io::Result<Stat> {
        match path.split() {
            Some((folder, name)) => Ok(rustix::fs::statat(
                self.at(folder)?,
                name,
                AtFlags::SYMLINK_NOFOLLOW,
            )?),
            None => Ok(rustix::fs::fstat(&self.root)?),
        }
    }
}

fn open_folder_at(parent: BorrowedFd<'_>, name: &OsStr, how: OFlags) -> io::Result<OwnedFd> {
    let flags = how | OFlags::DIRECTORY | OFlags::NOFOLLOW | OFlags::CLOEXEC;
    Ok(rustix::fs::openat(parent, name, flags, Mode::empty())?)
}
