//! The sockets of testbed holders.
//!
//! Each holder listens on a socket in a folder of its user. A socket that refuses connections is
//! left over from a killed holder, whose hosts went away with it; the next command removes it.

use super::channel;
use super::holder::{HolderReply, HolderRequest};
use crate::CliError;
use std::fs;
use std::io;
use std::os::fd::OwnedFd;
use std::os::unix::fs::{DirBuilderExt, MetadataExt};
use std::os::unix::net::{UnixListener, UnixStream};
use std::path::PathBuf;
use std::time::Duration;

/// Longest name of a testbed: the path of a socket has 108 octets.
const NAME_MAX: usize = 40;

/// A name of a testbed.
///
/// # Errors
///
/// A sentence when it is no valid file name.
pub fn name(text: &str) -> Result<String, String> {
    let fine = |c: char| c.is_ascii_alphanumeric() || c == '-' || c == '_';
    if text.is_empty() || text.len() > NAME_MAX || !text.chars().all(fine) {
        return Err(format!(
            "'{text}' is no name for a testbed; use up to {NAME_MAX} letters, digits, - and _"
        ));
    }
    Ok(text.to_owned())
}

/// Where this user's sockets are.
fn folder_path() -> PathBuf {
    let user = rustix::process::getuid().as_raw();
    let own = std::env::var_os("XDG_RUNTIME_DIR").map(PathBuf::from);
    let base = own.filter(|path| path.is_dir());
    let base = base.unwrap_or_else(std::env::temp_dir);
    base.join(format!("towpath-testbeds-{user}"))
}

/// The folder of this user's sockets, created if missing.
fn folder() -> Result<PathBuf, CliError> {
    let user = rustix::process::getuid().as_raw();
    let path = folder_path();
    let made = fs::DirBuilder::new().mode(0o700).create(&path);
    match made {
        Ok(()) => {}
        Err(error) if error.kind() == io::ErrorKind::AlreadyExists => {}
        Err(error) => {
            return Err(CliError::failed(format!(
                "cannot create {}: {error}; set XDG_RUNTIME_DIR to a folder of yours",
                path.display()
            )));
        }
    }
    // In a world-writable folder another user may have created it.
    let found = fs::symlink_metadata(&path).map_err(CliError::failed)?;
    if !found.is_dir() || found.uid() != user || found.mode() & 0o077 != 0 {
        return Err(CliError::failed(format!(
            "{} is not a private folder of this user; remove it, or set XDG_RUNTIME_DIR",
            path.display()
        )));
    }
    Ok(path)
}

fn socket(name: &str) -> Result<PathBuf, CliError> {
    Ok(folder()?.join(format!("{name}.sock")))
}

/// Listens for requests to the testbed called `name`.
pub(super) fn listen(name: &str) -> Result<(UnixListener, PathBuf), CliError> {
    let path = socket(name)?;
    if connect(name).is_err() {
        // Stale, or missing.
        let _ = fs::remove_file(&path);
    }
    let listener = UnixListener::bind(&path).map_err(|error| match error.kind() {
        io::ErrorKind::AddrInUse => CliError::failed(format!("testbed '{name}' is already up")),
        _ => CliError::failed(format!("cannot listen on {}: {error}", path.display())),
    })?;
    Ok((listener, path))
}

/// A connection to the holder of the testbed called `name`.
pub(super) fn connect(name: &str) -> Result<UnixStream, CliError> {
    let path = socket(name)?;
    UnixStream::connect(&path).map_err(|_| {
        CliError::failed(format!(
            "no testbed '{name}' is up; make one with `towpath testbed up --name {name}`"
        ))
    })
}

/// The names of testbeds that are up; stale sockets are removed.
pub(super) fn names() -> Result<Vec<String>, CliError> {
    let mut names = Vec::new();
    for entry in fs::read_dir(folder()?).map_err(CliError::failed)?.flatten() {
        let file = entry.file_name().into_string().unwrap_or_default();
        let Some(name) = file.strip_suffix(".sock") else {
            continue;
        };
        if connect(name).is_ok() {
            names.push(name.to_owned());
        } else {
            // Another command may have removed it meanwhile.
            let _ = fs::remove_file(entry.path());
        }
    }
    names.sort();
    Ok(names)
}

/// Removes the sockets of killed holders, if there are any.
pub(crate) fn remove_stale_sockets() {
    if folder_path().is_dir() {
        // An error of the folder is one for the commands that need it.
        let _ = names();
    }
}

/// Sends a request to the holder of the testbed called `name` and gives its reply.
pub(super) fn request(
    name: &str,
    request: &HolderRequest,
    limit: Duration,
) -> Result<(HolderReply, Vec<OwnedFd>), CliError> {
    let mut channel = channel(connect(name)?.into());
    let fault = |error| CliError::failed(format!("testbed '{name}': {error}"));
    channel.send(request, &[]).map_err(fault)?;
    channel.receive(limit).map_err(fault)
}

#[cfg(test)]
mod tests {
    use super::name;

    #[test]
    fn testbed_name_must_be_valid_file_name() {
        assert_eq!(name("lab-1"), Ok("lab-1".into()));
        for bad in ["", "../x", "a b", &"x".repeat(41)] {
            assert!(name(bad).expect_err("no name").contains("letters"));
        }
    }
}
