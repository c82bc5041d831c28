//! Leaving namespaces for new ones.

use std::io;

/// Puts the calling thread into a new network namespace.
pub(crate) fn unshare_network() -> io::Result<()> {
    unshare(libc::CLONE_NEWNET)
}

/// Puts the process, which must have one thread only, into a new user namespace.
pub(crate) fn unshare_user() -> io::Result<()> {
    unshare(libc::CLONE_NEWUSER)
}

fn unshare(flags: i32) -> io::Result<()> {
    // SAFETY: these flags touch no memory, and no table of descriptors is taken apart.
    let result = unsafe { libc::unshare(flags) };
    if result == 0 {
        Ok(())
    } else {
        Err(io::Error::last_os_error())
    }
}
