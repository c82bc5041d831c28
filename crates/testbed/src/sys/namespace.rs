//! Entering new namespaces (unshare(2)).

use std::io;

/// Moves the calling thread into a new network namespace.
pub(crate) fn unshare_network() -> io::Result<()> {
    unshare(libc::CLONE_NEWNET)
}

/// Moves the process, which must have one thread only, into a new user namespace.
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
