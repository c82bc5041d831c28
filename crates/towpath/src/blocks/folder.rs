//! The folder of a server. Every path is opened beneath it by the kernel (openat2, RESOLVE_BENEATH):
//! neither `..` nor a symbolic link leads out.

use super::BLOCK_LEN;
use super::messages::{ENTRIES_MAX, Entry, FileKind, FileStatus};
use rustix::fs::{
    AtFlags, FileType, Mode, OFlags, RawDir, ResolveFlags, Stat, fstat, fsync, ftruncate, openat2,
    renameat, statat,
};
use std::fs::File;
use std::io;
use std::mem::MaybeUninit;
use std::os::fd::OwnedFd;
use std::os::unix::fs::FileExt;
use std::path::{Component, Path};

/// Octets of the longest file: 16 TiB, as of ext4.
const FILE_MAX: u64 = 16 << 40;

/// The folder of a server.
#[derive(Debug)]
pub(super) struct Folder(OwnedFd);

impl Folder {
    /// # Errors
    ///
    /// Those of opening it.
    pub(super) fn open(path: &Path) -> io::Result<Folder> {
        let flags = OFlags::RDONLY | OFlags::DIRECTORY | OFlags::CLOEXEC;
        let opened = rustix::fs::open(path, flags, Mode::empty());
        let text = |error| {
            io::Error::new(
                io::Error::from(error).kind(),
                format!(
                    "cannot serve the folder {}: {error}; name one that exists",
                    path.display()
                ),
            )
        };
        Ok(Folder(opened.map_err(text)?))
    }

    /// Up to a block of a file.
    pub(super) fn read(&self, path: &str, offset: u64, count: u32) -> io::Result<Vec<u8>> {
        let file = self.open_file(path, OFlags::RDONLY)?;
        let mut block = vec![0; (count as usize).min(BLOCK_LEN)];
        let mut len = 0;
        while len < block.len() {
            match file.read_at(&mut block[len..], offset + len as u64) {
                Ok(0) => break,
                Ok(read) => len += read,
                Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
                Err(error) => return Err(error),
            }
        }
        block.truncate(len);
        Ok(block)
    }

    /// Writes a part of the file that is to become `path`.
    pub(super) fn write(&self, path: &str, token: u64, offset: u64, data: &[u8]) -> io::Result<()> {
        if offset.saturating_add(data.len() as u64) > FILE_MAX {
            let text = "the file is longer than 16 TiB";
            return Err(io::Error::new(io::ErrorKind::InvalidInput, text));
        }
        let (folder, name) = self.parent(path)?;
        let flags = OFlags::WRONLY | OFlags::CREATE;
        let file = beneath(&folder, &part_name(&name, token), flags)?;
        File::from(file).write_all_at(data, offset)
    }

    /// Octets that are written of the file that is to become `path`.
    pub(super) fn stat_part(&self, path: &str, token: u64) -> io::Result<FileStatus> {
        let (folder, name) = self.parent(path)?;
        let file = beneath(&folder, &part_name(&name, token), OFlags::RDONLY)?;
        status(&fstat(file)?)
    }

    /// The file that was written becomes `path`, with this length. A second time it is there already.
    pub(super) fn commit(&self, path: &str, token: u64, len: u64) -> io::Result<()> {
        let (folder, name) = self.parent(path)?;
        let part = part_name(&name, token);
        let file = match beneath(&folder, &part, OFlags::WRONLY) {
            Err(error) if error.kind() == io::ErrorKind::NotFound => {
                let there = self.stat(path)?;
                return match there.len == len {
                    true => Ok(()),
                    false => Err(error),
                };
            }
            opened => opened?,
        };
        let written = status(&fstat(&file)?)?.len;
        if written < len {
            let text = format!("{written} of {len} octets were written; write the rest");
            return Err(io::Error::new(io::ErrorKind::InvalidInput, text));
        }
        ftruncate(&file, len)?;
        fsync(&file)?;
        Ok(renameat(&folder, &part, &folder, &name)?)
    }

    /// What is known of a file.
    pub(super) fn stat(&self, path: &str) -> io::Result<FileStatus> {
        let checked = checked(path)?;
        let file = self.beneath(checked, OFlags::PATH)?;
        status(&fstat(file)?)
    }

    /// Entries of a folder in the order of the file system, but the first `skip`. Hidden ones are not
    /// listed.
    pub(super) fn list(&self, path: &str, skip: u32) -> io::Result<Vec<Entry>> {
        let folder = self.beneath(checked(path)?, OFlags::RDONLY | OFlags::DIRECTORY)?;
        let mut buffer = vec![MaybeUninit::uninit(); BLOCK_LEN];
        let mut listed = RawDir::new(&folder, &mut buffer);
        let (mut entries, mut seen) = (Vec::new(), 0);
        while let Some(entry) = listed.next().filter(|_| entries.len() < ENTRIES_MAX) {
            let entry = entry?;
            let Ok(name) = entry.file_name().to_str() else {
                continue;
            };
            if name.starts_with('.') {
                continue;
            }
            seen += 1;
            if seen > skip
                && let Ok(stat) = statat(&folder, name, AtFlags::SYMLINK_NOFOLLOW)
            {
                let status = status(&stat)?;
                let name = name.to_owned();
                entries.push(Entry { name, status });
            }
        }
        Ok(entries)
    }

    fn open_file(&self, path: &str, flags: OFlags) -> io::Result<File> {
        let file = self.beneath(checked(path)?, flags)?;
        match status(&fstat(&file)?)?.kind {
            FileKind::File => Ok(File::from(file)),
            _ => {
                let text = format!("{path} is no file");
                Err(io::Error::new(io::ErrorKind::InvalidInput, text))
            }
        }
    }

    /// The folder that a path is in, and its name there.
    fn parent(&self, path: &str) -> io::Result<(OwnedFd, String)> {
        let path = checked(path)?;
        let name = path.file_name().and_then(|name| name.to_str());
        let name = name.ok_or_else(|| outside(path))?;
        let folder = path.parent().filter(|parent| *parent != Path::new(""));
        let folder = folder.unwrap_or(Path::new("."));
        let folder = self.beneath(folder, OFlags::RDONLY | OFlags::DIRECTORY)?;
        Ok((folder, name.to_owned()))
    }

    fn beneath(&self, path: &Path, flags: OFlags) -> io::Result<OwnedFd> {
        let path = match path == Path::new("") {
            true => Path::new("."),
            false => path,
        };
        open_beneath(&self.0, path, flags).map_err(|error| match error {
            rustix::io::Errno::XDEV | rustix::io::Errno::LOOP => outside(path),
            error => error.into(),
        })
    }
}

fn beneath(folder: &OwnedFd, name: &str, flags: OFlags) -> io::Result<OwnedFd> {
    open_beneath(folder, Path::new(name), flags).map_err(Into::into)
}

fn open_beneath(folder: &OwnedFd, path: &Path, flags: OFlags) -> rustix::io::Result<OwnedFd> {
    let mode = match flags.contains(OFlags::CREATE) {
        true => Mode::from_raw_mode(0o644),
        false => Mode::empty(),
    };
    // A FIFO must not keep the server waiting.
    let flags = flags | OFlags::CLOEXEC | OFlags::NONBLOCK;
    let flags = match flags.contains(OFlags::PATH) {
        true => OFlags::PATH | OFlags::CLOEXEC,
        false => flags,
    };
    let resolve = ResolveFlags::BENEATH | ResolveFlags::NO_MAGICLINKS;
    openat2(folder, path, flags, mode, resolve)
}

/// A path within the folder, whose names are not hidden.
fn checked(path: &str) -> io::Result<&Path> {
    let path = Path::new(path);
    let is_plain = |component: Component<'_>| match component {
        Component::Normal(name) => !name.as_encoded_bytes().starts_with(b"."),
        _ => false,
    };
    match path.components().all(is_plain) {
        true => Ok(path),
        false => Err(outside(path)),
    }
}

fn outside(path: &Path) -> io::Error {
    let text = format!(
        "{} leads out of the folder, or is hidden; name a file in it",
        path.display()
    );
    io::Error::new(io::ErrorKind::PermissionDenied, text)
}

/// The hidden name of a file that is not whole.
fn part_name(name: &str, token: u64) -> String {
    format!(".{name}.{token:016x}.part")
}

fn status(stat: &Stat) -> io::Result<FileStatus> {
    let kind = match FileType::from_raw_mode(stat.st_mode) {
        FileType::RegularFile => FileKind::File,
        FileType::Directory => FileKind::Folder,
        _ => FileKind::Other,
    };
    let seconds = u64::try_from(stat.st_mtime).unwrap_or(0);
    Ok(FileStatus {
        kind,
        len: u64::try_from(stat.st_size).unwrap_or(0),
        modified_ns: seconds.saturating_mul(1_000_000_000) + stat.st_mtime_nsec,
    })
}
