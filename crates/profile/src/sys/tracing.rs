//! The kernel's folder of tracepoints, where nobody has mounted it.

use rustix::mount::{MountFlags, MountPropagationFlags, mount, mount_change};
use std::io;

/// Mounts the folder at `path` for the calling thread alone: it leaves the mounts of its process
/// for a copy that is gone with it.
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
