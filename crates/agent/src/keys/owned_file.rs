//! Files that belong to the user alone.

use super::KeyError;
use super::folder::FILE_MAX;
use std::fs::{self, OpenOptions};
use std::io::{self, Read};
use std::os::unix::fs::{MetadataExt, OpenOptionsExt, PermissionsExt};
use std::path::Path;

/// Reads a file that only its owner may access; None if missing.
pub(super) fn read(path: &Path) -> Result<Option<String>, KeyError> {
    // Opening a FIFO would block otherwise.
    let opened = OpenOptions::new()
        .read(true)
        .custom_flags(rustix::fs::OFlags::NONBLOCK.bits() as i32)
        .open(path);
    let file = match opened {
        Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(None),
        opened => opened.map_err(io_at(path))?,
    };
    // fstat on the open file, so that it cannot be exchanged in between.
    let about = file.metadata().map_err(io_at(path))?;
    if !about.is_file() {
        let what = format!("{} is no file; remove it", path.display());
        return Err(KeyError::Malformed(what));
    }
    check_owner(path, &about)?;
    let mode = about.permissions().mode() & 0o777;
    if mode & 0o077 != 0 {
        return Err(KeyError::InsecureFile {
            path: path.to_owned(),
            mode,
        });
    }
    let mut octets = Vec::new();
    file.take(FILE_MAX + 1)
        .read_to_end(&mut octets)
        .map_err(io_at(path))?;
    if octets.len() as u64 > FILE_MAX {
        return Err(KeyError::TooLong(path.to_owned()));
    }
    String::from_utf8(octets).map(Some).map_err(|_| {
        let what = format!("{} is not UTF-8 text", path.display());
        KeyError::Malformed(what)
    })
}

/// Refuses what belongs to another user, who may have put it there: for root as well.
pub(super) fn check_owner(path: &Path, about: &fs::Metadata) -> Result<(), KeyError> {
    let (owner, user) = (about.uid(), rustix::process::geteuid().as_raw());
    if owner == user {
        return Ok(());
    }
    Err(KeyError::OtherOwner {
        path: path.to_owned(),
        owner,
        user,
    })
}

pub(super) fn io_at(path: &Path) -> impl Fn(io::Error) -> KeyError {
    let path = path.to_owned();
    move |error| KeyError::Io {
        path: path.clone(),
        error,
    }
}
