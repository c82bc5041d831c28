//! An incomplete received file.

use super::CHUNK;
use super::protocol::Sha256;
use ring::digest::{Context, SHA256};
use std::fs::{self, File, OpenOptions, TryLockError};
use std::io::{self, ErrorKind, Read, Seek, SeekFrom, Write};
use std::path::{Path, PathBuf};

/// Longest name, octets: with the leading dot and `.part` it fits the 255 of most file systems.
const NAME_MAX: usize = 200;

/// The plain file name in the name a peer sent; None when nothing is left.
pub(super) fn plain_name(text: &str) -> Option<String> {
    let last = text.rsplit(['/', '\\']).next()?;
    let kept: String = last.chars().filter(|c| !c.is_control()).collect();
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

/// The received part of a file, locked against other transfers of the same name.
pub(super) struct PartialFile {
    file: File,
    path: PathBuf,
    final_path: PathBuf,
    overwrite: bool,
    hasher: FileHasher,
    len: u64,
}

impl PartialFile {
    /// Opens what an earlier transfer left of `name` in `folder`; starts empty if that is longer
    /// than `size`.
    ///
    /// # Errors
    ///
    /// `AlreadyExists` when the file exists and may not be overwritten, `ResourceBusy` when another
    /// transfer holds the lock, or the file system's.
    pub(super) fn open(
        folder: &Path,
        name: &str,
        size: u64,
        overwrite: bool,
    ) -> io::Result<PartialFile> {
        let final_path = folder.join(name);
        let path = folder.join(format!(".{name}.part"));
        if !overwrite && fs::symlink_metadata(&final_path).is_ok() {
            return Err(already_exists(name));
        }
        let mut options = OpenOptions::new();
        let options = options.read(true).write(true).create(true).truncate(false);
        // Do not follow a symbolic link that another user may have put there.
        std::os::unix::fs::OpenOptionsExt::custom_flags(options, libc::O_NOFOLLOW);
        let mut file = options.open(&path)?;
        match file.try_lock() {
            Ok(()) => {}
            Err(TryLockError::WouldBlock) => {
                let text = format!("another transfer of '{name}' is in progress");
                return Err(io::Error::new(ErrorKind::ResourceBusy, text));
            }
            Err(TryLockError::Error(error)) => return Err(error),
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
            path,
            final_path,
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
        self.file.write_all(bytes)?;
        self.hasher.update(bytes);
        self.len += bytes.len() as u64;
        Ok(())
    }

    /// Gives the file its name if its digest is `sha256`.
    ///
    /// # Errors
    ///
    /// `InvalidData` when the digest differs; the partial file is then deleted.
    pub(super) fn finish(self, sha256: &Sha256) -> io::Result<PathBuf> {
        if self.digest() != *sha256 {
            fs::remove_file(&self.path)?;
            let text = "the file arrived corrupted and was deleted; send it again";
            return Err(io::Error::new(ErrorKind::InvalidData, text));
        }
        self.file.sync_all()?;
        if self.overwrite {
            fs::rename(&self.path, &self.final_path)?;
        } else {
            // Unlike rename, link never replaces an existing file.
            fs::hard_link(&self.path, &self.final_path).map_err(|error| match error.kind() {
                ErrorKind::AlreadyExists => already_exists(&self.final_path.to_string_lossy()),
                _ => error,
            })?;
            fs::remove_file(&self.path)?;
        }
        Ok(self.final_path)
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
    use super::plain_name;

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
