//! The directory of the report sockets: owned by the user and closed to others.

use rustix::process::geteuid;
use std::fs::{DirBuilder, Metadata, symlink_metadata};
use std::io;
use std::os::unix::fs::{DirBuilderExt, MetadataExt};
use std::path::{Path, PathBuf};

/// A Unix socket path has at most 107 octets (sun_path), of which the file name takes up to 30.
const DIRECTORY_LEN_MAX: usize = 77;

/// The directory, created if it does not exist.
/// Fails with `PermissionDenied` if it exists and is not private to the user.
pub(super) fn create() -> io::Result<PathBuf> {
    let folder = directory_path();
    match DirBuilder::new().mode(0o700).create(&folder) {
        Err(error) if error.kind() != io::ErrorKind::AlreadyExists => {
            let text = format!("cannot create the directory {}: {error}", folder.display());
            Err(io::Error::new(error.kind(), text))
        }
        _ => check_private(&folder).map(|()| folder),
    }
}

/// The directory, if it exists. Fails with `PermissionDenied` if it exists and is not private to the user.
pub(super) fn open_existing() -> io::Result<Option<PathBuf>> {
    let folder = directory_path();
    match check_private(&folder) {
        Ok(()) => Ok(Some(folder)),
        Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(None),
        Err(error) => Err(error),
    }
}

fn directory_path() -> PathBuf {
    let runtime = std::env::var_os("XDG_RUNTIME_DIR").map(PathBuf::from);
    let fits = |path: &PathBuf| path.as_os_str().len() <= DIRECTORY_LEN_MAX;
    let runtime = runtime.filter(|path| path.is_absolute() && check_owner(path).is_ok());
    let runtime = runtime.map(|path| path.join("towpath")).filter(fits);
    let own = || PathBuf::from(format!("/tmp/towpath-{}", geteuid().as_raw()));
    runtime.unwrap_or_else(own)
}

/// Checks that `folder` is a directory of this user that others cannot write to.
fn check_owner(folder: &Path) -> io::Result<Metadata> {
    // Does not follow a symbolic link: another user could have created it.
    let found = symlink_metadata(folder)?;
    let own = found.is_dir() && found.uid() == geteuid().as_raw() && found.mode() & 0o022 == 0;
    own.then_some(found).ok_or_else(|| not_private(folder))
}

/// Checks that others cannot access it at all.
fn check_private(folder: &Path) -> io::Result<()> {
    let found = check_owner(folder)?;
    match found.mode() & 0o077 {
        0 => Ok(()),
        _ => Err(not_private(folder)),
    }
}

fn not_private(folder: &Path) -> io::Error {
    let text = format!(
        "{} is not a private directory of this user; remove it, or restrict it (chmod 700)",
        folder.display()
    );
    io::Error::new(io::ErrorKind::PermissionDenied, text)
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::fs::{Permissions, create_dir, remove_dir, set_permissions};
    use std::os::unix::fs::{PermissionsExt, symlink};

    #[test]
    fn directory_accessible_to_others_is_refused() {
        let base = std::env::temp_dir().join(format!("towpath-folder-{}", std::process::id()));
        // Left by an earlier process with this PID.
        let _ = std::fs::remove_dir_all(&base);
        create_dir(&base).expect("a folder");
        for (mode, good) in [
            (0o700, true),
            (0o750, false),
            (0o701, false),
            (0o770, false),
        ] {
            set_permissions(&base, Permissions::from_mode(mode)).expect("it is ours");
            assert_eq!(check_private(&base).is_ok(), good, "{mode:o}");
        }
        set_permissions(&base, Permissions::from_mode(0o700)).expect("it is ours");
        let link = base.join("link");
        symlink(&base, &link).expect("a link");
        assert!(check_private(&link).is_err(), "a link is no folder");
        std::fs::remove_file(&link).expect("it is there");
        remove_dir(&base).expect("it is empty");
        let gone = check_private(&base).map_err(|error| error.kind());
        assert_eq!(gone, Err(io::ErrorKind::NotFound));
    }
}
