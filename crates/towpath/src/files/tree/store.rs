//! The tree that is received: what it has, and how entries get their names.

use super::super::holders::Claimant;
use super::super::partial_file::{FileHasher, PartialFile, PartialPlace};
use super::super::{inbox, protocol::Sha256};
use super::confined::ConfinedFolder;
use super::frames::Attributes;
use super::path::TreePath;
use super::source::LINK_REASON;
use rustix::fs::{AtFlags, FileType, Mode, OFlags, RenameFlags, Stat, Timespec, Timestamps};
use rustix::io::Errno;
use std::ffi::OsStr;
use std::fs::File;
use std::io::{self, ErrorKind, Write};
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::path::PathBuf;

/// Files of so many bytes are kept in memory until their digest was verified; longer ones have a partial file, from
/// which a later transfer resumes.
pub(super) const SMALL_MAX: u64 = 64 << 10;

/// Bytes that an entry counts besides its content: a block of most file systems.
const ENTRY_BYTES: u64 = 4 << 10;

/// Bytes between two looks at the free space.
const SPACE_CHECK_BYTES: u64 = 16 << 20;

/// A folder that is in the making has this bit (S_ISVTX), which no sender can give: so a transfer that goes on after
/// another broke off knows whose mode and time are still to be set, and leaves those of other folders alone.
const IN_THE_MAKING: u32 = 0o1000;

/// What a receiver has of a file that is offered.
pub(super) enum Found {
    /// Nothing of it.
    Nothing,
    /// The beginning, from an earlier transfer.
    Part(Box<PartialFile>),
    /// A file of this name and size.
    SameSize,
}

/// The folder that a tree is received into.
pub(super) struct TreeStore {
    /// The folder of all transfers, where partial files lie.
    pub(super) folder: PathBuf,
    /// The same, as it was when the transfer began.
    pub(super) root: ConfinedFolder,
    /// A descriptor of its own for the names of what is staged.
    pub(super) base: OwnedFd,
    /// The transfer, among those that may want the same files.
    pub(super) claimant: Claimant,
    /// The tree's top in it.
    pub(super) top: TreePath,
    /// Name of a small file while it is written: this transfer's own.
    pub(super) staging: String,
    /// Whether files and links of the same names are replaced.
    pub(super) overwrite: bool,
    /// Whether modes and times are those of the sender.
    pub(super) preserve: bool,
    /// Bytes of a file at most.
    pub(super) size_max: u64,
    /// Bytes that stay free on the file system.
    pub(super) keep_free_bytes: u64,
    /// Bytes that may come until the free space is looked at.
    pub(super) unchecked_bytes: u64,
}

impl TreeStore {
    /// The path of an entry in the folder. Fails with `InvalidInput` when it becomes too long.
    fn place(&self, path: &TreePath) -> io::Result<TreePath> {
        let place = path.below(&self.top);
        let place = place.filter(|place| !place.octets().is_empty());
        place.ok_or_else(|| invalid_input("the path is too long here"))
    }

    /// What is here of a file. Errors: why it is not taken.
    pub(super) fn look_up(&mut self, path: &TreePath, size: u64) -> io::Result<Found> {
        let place = self.place(path)?;
        if size > self.size_max {
            let most = self.size_max;
            return Err(invalid_input(&format!(
                "it has {size} bytes and this receiver takes {most} at most (--max-size)"
            )));
        }
        match self.root.stat(&place) {
            Err(error) if error.kind() == ErrorKind::NotFound => {}
            Err(error) => return Err(error),
            Ok(about) if is_file(&about) && about.st_size as u64 == size => {
                return Ok(Found::SameSize);
            }
            Ok(about) => self.check_replaceable(&about)?,
        }
        if size <= SMALL_MAX {
            return Ok(Found::Nothing);
        }
        let name = self.partial_place(&place)?;
        if rustix::fs::statat(self.root.root(), &*name.partial, AtFlags::SYMLINK_NOFOLLOW).is_err()
        {
            return Ok(Found::Nothing);
        }
        PartialFile::open(&self.folder, name, size, self.overwrite, &self.claimant)
            .map(Box::new)
            .map(Found::Part)
    }

    /// Whether the file here is the one whose digest the sender gives; if not, whether it may be replaced.
    /// Fails with `AlreadyExists` when it may not be, or the file system's.
    pub(super) fn is_same(
        &mut self,
        path: &TreePath,
        size: u64,
        sha256: &Sha256,
    ) -> io::Result<bool> {
        let place = self.place(path)?;
        let mut file = self.root.open_file(&place)?;
        let mut hasher = FileHasher::new();
        if hasher.update_from_file(&mut file, size)? && hasher.digest() == *sha256 {
            return Ok(true);
        }
        match self.overwrite {
            true => Ok(false),
            false => Err(already_exists()),
        }
    }

    /// The partial file of a file that comes. Errors are those of [`PartialFile::open`].
    pub(super) fn open_partial(&mut self, path: &TreePath, size: u64) -> io::Result<PartialFile> {
        let place = self.place(path)?;
        let name = self.partial_place(&place)?;
        PartialFile::open(&self.folder, name, size, self.overwrite, &self.claimant)
    }

    /// Where the partial file of `place` lies: in the folder itself, under a name made of its path, so that old ones
    /// are found and counted there.
    fn partial_place(&mut self, place: &TreePath) -> io::Result<PartialPlace> {
        let mut hasher = FileHasher::new();
        hasher.update(place.octets());
        let digest = hasher.digest();
        let digits: Vec<String> = digest[..16]
            .iter()
            .map(|octet| format!("{octet:02x}"))
            .collect();
        let (parent, name) = self.root.parent(place)?;
        Ok(PartialPlace {
            partial: format!(".{}.part", digits.concat()),
            folder: parent.try_clone_to_owned()?,
            name: name.to_owned(),
            shown: place.as_path().to_owned(),
        })
    }

    /// Writes a whole file whose digest was verified, and gives it its name.
    /// Fails with `AlreadyExists`, or the file system's.
    pub(super) fn store_small(
        &mut self,
        path: &TreePath,
        content: &[u8],
        attributes: &Attributes,
    ) -> io::Result<()> {
        let place = self.place(path)?;
        let flags =
            OFlags::WRONLY | OFlags::CREATE | OFlags::EXCL | OFlags::NOFOLLOW | OFlags::CLOEXEC;
        let opened = rustix::fs::openat(
            self.root.root(),
            &*self.staging,
            flags,
            Mode::from_raw_mode(0o600),
        );
        let mut file = File::from(opened?);
        let written = file
            .write_all(content)
            .and_then(|()| set_attributes(file.as_fd(), attributes, self.preserve))
            .and_then(|()| self.publish(&place));
        if written.is_err() {
            let _ = rustix::fs::unlinkat(self.root.root(), &*self.staging, AtFlags::empty());
        }
        written
    }

    /// Gives what was staged its name.
    fn publish(&mut self, place: &TreePath) -> io::Result<()> {
        let (parent, name) = self.root.parent(place)?;
        publish(
            self.base.as_fd(),
            &self.staging,
            parent,
            name,
            self.overwrite,
        )
    }

    /// Makes a folder, unless there is one.
    /// Fails with `AlreadyExists` when something else has its name, or the file system's.
    pub(super) fn make_folder(&mut self, path: &TreePath) -> io::Result<()> {
        let place = path.below(&self.top);
        let place = place.ok_or_else(|| invalid_input("the path is too long here"))?;
        if place.octets().is_empty() {
            return Ok(());
        }
        let mode = match self.preserve {
            true => 0o700 | IN_THE_MAKING,
            false => 0o700,
        };
        let (parent, name) = self.root.parent(&place)?;
        match rustix::fs::mkdirat(parent, name, Mode::from_raw_mode(mode)) {
            Err(Errno::EXIST) => {}
            made => return Ok(made?),
        }
        let about = self.root.stat(&place)?;
        match FileType::from_raw_mode(about.st_mode) {
            FileType::Directory => Ok(()),
            _ => Err(io::Error::new(
                ErrorKind::AlreadyExists,
                "something else has this name; remove it",
            )),
        }
    }

    /// Gives a folder its mode and time, if a transfer made it. Errors are those of the file system.
    pub(super) fn finish_folder(
        &mut self,
        path: &TreePath,
        attributes: &Attributes,
    ) -> io::Result<()> {
        if !self.preserve {
            return Ok(());
        }
        let place = path.below(&self.top);
        let place = place.ok_or_else(|| invalid_input("the path is too long here"))?;
        let folder = self.root.open_folder(&place)?;
        let about = rustix::fs::fstat(&folder)?;
        match about.st_mode & IN_THE_MAKING != 0 || self.overwrite {
            true => set_attributes(folder.as_fd(), attributes, true),
            false => Ok(()),
        }
    }

    /// Makes a symbolic link that stays within the tree.
    /// Fails with `InvalidInput` for one that may lead out of it, `AlreadyExists`, or the file system's.
    pub(super) fn make_link(&mut self, path: &TreePath, target: &[u8]) -> io::Result<()> {
        if !path.may_lead_to(target) {
            return Err(invalid_input(LINK_REASON));
        }
        let place = self.place(path)?;
        let about = match self.root.stat(&place) {
            Ok(about) => Some(about),
            Err(error) if error.kind() == ErrorKind::NotFound => None,
            Err(error) => return Err(error),
        };
        if let Some(about) = about {
            let (parent, name) = self.root.parent(&place)?;
            let there = rustix::fs::readlinkat(parent, name, Vec::new());
            if there.is_ok_and(|there| there.to_bytes() == target) {
                return Ok(());
            }
            self.check_replaceable(&about)?;
        }
        rustix::fs::symlinkat(target, self.root.root(), &*self.staging)?;
        let published = self.publish(&place);
        if published.is_err() {
            let _ = rustix::fs::unlinkat(self.root.root(), &*self.staging, AtFlags::empty());
        }
        published
    }

    /// Whether something that exists may be replaced by a file or link.
    fn check_replaceable(&self, about: &Stat) -> io::Result<()> {
        match FileType::from_raw_mode(about.st_mode) {
            FileType::RegularFile | FileType::Symlink if self.overwrite => Ok(()),
            FileType::RegularFile | FileType::Symlink => Err(already_exists()),
            _ => Err(io::Error::new(
                ErrorKind::AlreadyExists,
                "something else has this name; remove it",
            )),
        }
    }

    /// Counts what an entry takes; refuses to go on when the file system has too little left. Fails with `StorageFull`.
    pub(super) fn book(&mut self, bytes: u64) -> io::Result<()> {
        let needed = bytes.saturating_add(ENTRY_BYTES);
        if let Some(left) = self.unchecked_bytes.checked_sub(needed) {
            self.unchecked_bytes = left;
            return Ok(());
        }
        inbox::check_space(&self.folder, bytes, self.keep_free_bytes)?;
        self.unchecked_bytes = SPACE_CHECK_BYTES;
        Ok(())
    }

    /// Makes all that came durable, names included. Errors are those of the file system.
    pub(super) fn sync(&self) -> io::Result<()> {
        Ok(rustix::fs::syncfs(&self.base)?)
    }
}

/// Renames `staged` in `from` to `name` in `to`; an existing file stays unless `overwrite`.
fn publish(
    from: BorrowedFd<'_>,
    staged: &str,
    to: BorrowedFd<'_>,
    name: &OsStr,
    overwrite: bool,
) -> io::Result<()> {
    if overwrite {
        return Ok(rustix::fs::renameat(from, staged, to, name)?);
    }
    match rustix::fs::renameat_with(from, staged, to, name, RenameFlags::NOREPLACE) {
        // Some file systems cannot; a link never replaces a file either.
        Err(Errno::INVAL | Errno::NOSYS) => {
            rustix::fs::linkat(from, staged, to, name, AtFlags::empty()).map_err(exists_or)?;
            Ok(rustix::fs::unlinkat(from, staged, AtFlags::empty())?)
        }
        renamed => renamed.map_err(exists_or),
    }
}

/// Sets mode and time: the sender's, or the owner's part of the mode and the time of arrival.
pub(super) fn set_attributes(
    of: BorrowedFd<'_>,
    attributes: &Attributes,
    preserve: bool,
) -> io::Result<()> {
    let mode = u32::from(attributes.mode);
    if !preserve {
        // What was opened for writing has 0600.
        return match mode & 0o700 {
            0o600 => Ok(()),
            owner => Ok(rustix::fs::fchmod(of, Mode::from_raw_mode(owner))?),
        };
    }
    rustix::fs::fchmod(of, Mode::from_raw_mode(mode))?;
    let omit = Timespec {
        tv_sec: 0,
        tv_nsec: rustix::fs::UTIME_OMIT,
    };
    let times = Timestamps {
        last_access: omit,
        last_modification: Timespec {
            tv_sec: attributes.mtime_s,
            tv_nsec: attributes.mtime_ns.into(),
        },
    };
    Ok(rustix::fs::futimens(of, &times)?)
}

fn is_file(about: &Stat) -> bool {
    FileType::from_raw_mode(about.st_mode) == FileType::RegularFile
}

fn exists_or(error: Errno) -> io::Error {
    match error {
        Errno::EXIST => already_exists(),
        other => other.into(),
    }
}

fn already_exists() -> io::Error {
    let text = "it exists already with other content; remove it, or let the receiver overwrite it (--overwrite)";
    io::Error::new(ErrorKind::AlreadyExists, text)
}

fn invalid_input(text: &str) -> io::Error {
    io::Error::new(ErrorKind::InvalidInput, text)
}
