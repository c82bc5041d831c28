//! Mounts tracefs where it is not mounted.

use rustix::mount::{MountFlags, MountPropagationFlags, mount, mount_change};
use std::io;

/// Mounts tracefs at `path` for the calling thread alone, in a mount namespace that ends with it.
pub(crate) fn mount_tracing(path: &str) -> io::Result<()> {
    // SAFETY: this flag touches no memory, and no table of descriptors is taken apart.
    let result = unsafe { libc::unshare(libc::CLONE_NEWNS) };
    if result != 0 {
        return Err(io::Error::last_os_error());
    }
    let private = MountPropagationFlags::PRIVATE | MountPropagationFlags::REC;
    mount_change("/", private)?;
    mount("tracefs", path, "tracefs", MountFlags::empty(), None)?;
    Ok(())
}
