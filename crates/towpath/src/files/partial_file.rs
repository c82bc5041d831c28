//! An incomplete received file.

use super::holders::{Claimant, Hold};
use super::protocol::{Sha256, is_unprintable};
use super::{CHUNK, inbox};
use ring::digest::{Context, SHA256};
use rustix::fs::{AtFlags, CWD, Mode, OFlags, linkat, openat, renameat, statat};
use rustix::io::Errno;
use std::ffi::OsString;
use std::fs::{self, File, OpenOptions, TryLockError};
use std::io::{self, ErrorKind, Read, Seek, SeekFrom, Write};
use std::os::fd::OwnedFd;
use std::os::unix::fs::{MetadataExt, OpenOptionsExt};
use std::path::{Path, PathBuf};

/// Longest name, octets: with the leading dot and `.part` it fits the 255 of most file systems.
const NAME_MAX: usize = 200;

/// End of the name of a partial file; a dot is in front.
pub(super) const PARTIAL_SUFFIX: &str = ".part";

/// The plain file name in the name a peer sent; None when nothing is left.
pub(super) fn plain_name(text: &str) -> Option<String> {
    let last = text.rsplit(['/', '\\']).next()?;
    let kept: String = last.chars().filter(|&c| !is_unprintable(c)).collect();
    let name = kept.trim().trim_start_matches('.').trim();
    let name = &name[..name.floor_char_boundary(NAME_MAX)];
    (!name.is_empty()).then(|| name.to_owned())
}

/// A running SHA-256.
#[derive(Clone)]
pub(super) struct FileHasher(Context);

impl FileHasher {
    pub(super) fn new() -> FileHasher {
        FileHasher(Context::new(&SHA256))
    }

    pub(super) fn update(&mut self, bytes: &[u8]) {
        self.0.update(bytes);
    }

    pub(super) fn digest(&self) -> Sha256 {
        let digest = self.0.clone().finish();
        let mut sha256 = Sha256::default();
        sha256.copy_from_slice(digest.as_ref());
        sha256
    }

    /// Adds the next `len` bytes of `file`; false if the file is shorter.
    pub(super) fn update_from_file(&mut self, file: &mut File, len: u64) -> io::Result<bool> {
        let mut buffer = vec![0; CHUNK];
        let mut left = len;
        while left > 0 {
            let most = buffer
                .len()
                .min(usize::try_from(left).unwrap_or(usize::MAX));
            let got = file.read(&mut buffer[..most])?;
            if got == 0 {
                return Ok(false);
            }
            self.update(&buffer[..got]);
            left -= got as u64;
        }
        Ok(true)
    }
}

/// Where a file is while it is incomplete, and where it goes.
pub(super) struct PartialPlace {
    /// The name of the partial file, in the folder of all transfers.
    pub(super) partial: String,
    /// The folder that the file goes into.
    pub(super) folder: OwnedFd,
    /// Its name there.
    pub(super) name: OsString,
    /// Its path, to be shown.
    pub(super) shown: PathBuf,
}

impl PartialPlace {
    /// Of a file that goes into `folder` itself. Fails when the folder cannot be opened.
    pub(super) fn in_folder(folder: &Path, name: &str) -> io::Result<PartialPlace> {
        Ok(PartialPlace {
            partial: format!(".{name}{PARTIAL_SUFFIX}"),
            folder: File::open(folder)?.into(),
            name: name.into(),
            shown: folder.join(name),
        })
    }

    fn exists(&self) -> bool {
        statat(&self.folder, &*self.name, AtFlags::SYMLINK_NOFOLLOW).is_ok()
    }
}

/// The received part of a file, locked against other transfers of the same name.
pub(super) struct PartialFile {
    file: File,
    /// Dropped after the file, with which the lock goes.
    hold: Hold,
    path: PathBuf,
    place: PartialPlace,
    overwrite: bool,
    hasher: FileHasher,
    len: u64,
}

impl PartialFile {
    /// Opens what an earlier transfer into `folder` left of a file; starts empty if that is longer
    /// than `size`.
    /// Fails with `AlreadyExists` when the file exists and may not be overwritten, `ResourceBusy` when another
    /// transfer holds the lock, or the file system's.
    pub(super) fn open(
        folder: &Path,
        place: PartialPlace,
        size: u64,
        overwrite: bool,
        claimant: &Claimant,
    ) -> io::Result<PartialFile> {
        let path = folder.join(&place.partial);
        if fs::symlink_metadata(&path).is_err() {
            inbox::check_partial_files(folder)?;
        }
        let (mut file, hold) = claimant.lock(&path)?.ok_or_else(|| {
            let name = place.name.to_string_lossy();
            let text = format!("another transfer of '{name}' is in progress");
            io::Error::new(ErrorKind::ResourceBusy, text)
        })?;
        // With the lock, no other transfer of this name can publish the file any more.
        if !overwrite && place.exists() {
            if file.metadata()?.len() == 0 {
                fs::remove_file(&path)?;
            }
            return Err(already_exists(&place.name.to_string_lossy()));
        }
        let found = file.metadata()?.len();
        let mut hasher = FileHasher::new();
        let len = if found <= size && hasher.update_from_file(&mut file, found)? {
            found
        } else {
            hasher = FileHasher::new();
            0
        };
        Ok(PartialFile {
            file,
            hold,
            path,
            place,
            overwrite,
            hasher,
            len,
        })
    }

    /// Bytes received.
    pub(super) fn len(&self) -> u64 {
        self.len
    }

    /// Their SHA-256.
    pub(super) fn digest(&self) -> Sha256 {
        self.hasher.digest()
    }

    /// Refuses to go on once another transfer of the file takes its place. Fails with `Interrupted`.
    pub(super) fn check_held(&self) -> io::Result<()> {
        match self.hold.is_displaced() {
            false => Ok(()),
            true => {
                let text = "another transfer of the file from the same host took its place";
                Err(io::Error::new(ErrorKind::Interrupted, text))
            }
        }
    }

    /// Truncates it to the first `len` bytes.
    pub(super) fn truncate_to(&mut self, len: u64) -> io::Result<()> {
        if len != self.len {
            self.file.rewind()?;
            self.hasher = FileHasher::new();
            if !self.hasher.update_from_file(&mut self.file, len)? {
                return Err(ErrorKind::UnexpectedEof.into());
            }
        }
        self.len = len;
        self.file.set_len(len)?;
        self.file.seek(SeekFrom::Start(len))?;
        Ok(())
    }

    /// Appends bytes.
    pub(super) fn write(&mut self, bytes: &[u8]) -> io::Result<()> {
        self.hold.note_heard();
        self.file.write_all(bytes)?;
        self.hasher.update(bytes);
        self.len += bytes.len() as u64;
        Ok(())
    }

    /// Gives the file its name if its digest is `sha256`, once `prepare` has done what comes before.
    /// Fails with `InvalidData` when the digest differs; the partial file is then deleted.
    pub(super) fn finish(
        self,
        sha256: &Sha256,
        prepare: impl FnOnce(&File) -> io::Result<()>,
    ) -> io::Result<PathBuf> {
        if self.digest() != *sha256 {
            fs::remove_file(&self.path)?;
            let text = "the file arrived corrupted and was deleted; send it again";
            return Err(io::Error::new(ErrorKind::InvalidData, text));
        }
        prepare(&self.file)?;
        self.file.sync_all()?;
        let PartialPlace { folder, name, .. } = &self.place;
        if self.overwrite {
            renameat(CWD, &self.path, folder, &**name)?;
        } else {
            // Unlike rename, link never replaces an existing file.
            linkat(CWD, &self.path, folder, &**name, AtFlags::empty()).map_err(
                |error| match error {
                    Errno::EXIST => already_exists(&self.place.shown.to_string_lossy()),
                    _ => error.into(),
                },
            )?;
            fs::remove_file(&self.path)?;
        }
        sync_folder(folder)?;
        Ok(self.place.shown.clone())
    }
}

impl Drop for PartialFile {
    fn drop(&mut self) {
        // Nothing came that a later transfer could resume from. The lock is still held, and if the
        // name leads elsewhere since `finish`, this is not its file.
        let is_empty = self.file.metadata().is_ok_and(|about| about.len() == 0);
        if is_empty && leads_to(&self.path, &self.file).unwrap_or(false) {
            let _ = fs::remove_file(&self.path);
        }
    }
}

/// Opens the file at `path`, or creates it, and locks it; None when another transfer holds the lock.
pub(super) fn open_locked(path: &Path) -> io::Result<Option<File>> {
    loop {
        let mut options = OpenOptions::new();
        let options = options.read(true).write(true).create(true).truncate(false);
        // Do not follow a symbolic link that another user may have put there, nor wait for a pipe.
        let file = options
            .mode(0o600)
            .custom_flags(libc::O_NOFOLLOW | libc::O_NONBLOCK)
            .open(path)?;
        if !file.metadata()?.is_file() {
            let text = format!("{} is no file; remove it", path.display());
            return Err(io::Error::new(ErrorKind::InvalidInput, text));
        }
        match file.try_lock() {
            Ok(()) => {}
            Err(TryLockError::WouldBlock) => return Ok(None),
            Err(TryLockError::Error(error)) => return Err(error),
        }
        // Between opening and locking, another transfer may have published or removed this file.
        if leads_to(path, &file)? {
            return Ok(Some(file));
        }
    }
}

/// Whether a transfer, here or in another process, holds the file at `path`; a file that cannot be
/// opened counts as held.
pub(super) fn is_locked_elsewhere(path: &Path) -> bool {
    let mut options = OpenOptions::new();
    let opened = options
        .read(true)
        .custom_flags(libc::O_NOFOLLOW | libc::O_NONBLOCK);
    opened
        .open(path)
        .map_or(true, |file| file.try_lock().is_err())
}

/// Whether `path` still names the open file.
fn leads_to(path: &Path, file: &File) -> io::Result<bool> {
    let opened = file.metadata()?;
    match fs::symlink_metadata(path) {
        Ok(named) => Ok((named.dev(), named.ino()) == (opened.dev(), opened.ino())),
        Err(error) if error.kind() == ErrorKind::NotFound => Ok(false),
        Err(error) => Err(error),
    }
}

/// Makes the name of a file durable.
fn sync_folder(folder: &OwnedFd) -> io::Result<()> {
    // A descriptor by which it can only be named does not serve.
    let flags = OFlags::RDONLY | OFlags::DIRECTORY | OFlags::CLOEXEC;
    let folder = File::from(openat(folder, ".", flags, Mode::empty())?);
    match folder.sync_all() {
        // Some file systems cannot.
        Err(error) if error.kind() == ErrorKind::InvalidInput => Ok(()),
        result => result,
    }
}

fn already_exists(name: &str) -> io::Error {
    let text = format!(
        "'{name}' exists already; remove it, or let the receiver overwrite it (--overwrite)"
    );
    io::Error::new(ErrorKind::AlreadyExists, text)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn open_locked_name_that_moved_on_is_opened_anew() {
        let folder = std::env::temp_dir().join(format!("towpath-part-{}", std::process::id()));
        fs::create_dir_all(&folder).expect("a folder");
        let (path, published) = (folder.join(".a.part"), folder.join("a"));
        let first = open_locked(&path).expect("it opens").expect("it is free");
        (&first).write_all(b"whole").expect("room");
        assert!(open_locked(&path).expect("it opens").is_none());
        // What a second transfer holds that opened the name before the first one published it.
        let late = File::open(&path).expect("it is there");
        fs::rename(&path, &published).expect("it is published");
        drop(first);
        assert!(!leads_to(&path, &late).expect("it is looked up"));
        let second = open_locked(&path).expect("it opens").expect("it is free");
        second.set_len(0).expect("an own file");
        assert_eq!(fs::read(&published).expect("it is there"), b"whole");
        assert!(leads_to(&path, &second).expect("it is looked up"));
        fs::remove_dir_all(&folder).expect("it is removed");
    }

    fn claimant() -> Claimant {
        Claimant {
            holders: Default::default(),
            peer: [127, 0, 0, 1].into(),
        }
    }

    fn place(folder: &Path) -> PartialPlace {
        PartialPlace::in_folder(folder, "a").expect("a folder")
    }

    #[test]
    fn partial_file_without_bytes_is_removed() {
        let folder = std::env::temp_dir().join(format!("towpath-none-{}", std::process::id()));
        fs::create_dir_all(&folder).expect("a folder");
        drop(PartialFile::open(&folder, place(&folder), 9, false, &claimant()).expect("it opens"));
        assert_eq!(fs::read_dir(&folder).expect("a folder").count(), 0);
        let mut partial =
            PartialFile::open(&folder, place(&folder), 9, false, &claimant()).expect("it opens");
        partial.write(b"some").expect("room");
        drop(partial);
        assert_eq!(fs::read(folder.join(".a.part")).expect("it stays"), b"some");
        fs::remove_dir_all(&folder).expect("it is removed");
    }

    #[test]
    fn plain_name_drops_path_and_control_characters() {
        let cases = [
            ("a.txt", "a.txt"),
            ("/etc/passwd", "passwd"),
            ("../../x", "x"),
            ("..\\..\\y", "y"),
            ("a\nb\0c", "abc"),
            (".bashrc", "bashrc"),
            ("...hidden..", "hidden.."),
            ("Übung 1.pdf", "Übung 1.pdf"),
            ("invoice\u{202e}fdp.exe", "invoicefdp.exe"),
            ("a\u{2067}b\u{200f}c\u{61c}d\u{feff}", "abcd"),
        ];
        for (text, name) in cases {
            assert_eq!(plain_name(text).as_deref(), Some(name), "{text:?}");
        }
        for nothing in ["", "/", "..", "a/", "dir/..", "\n", " . "] {
            assert_eq!(plain_name(nothing), None, "{nothing:?}");
        }
        let long = plain_name(&"ü".repeat(300)).expect("a part of it");
        assert_eq!(long, "ü".repeat(100));
    }
}
