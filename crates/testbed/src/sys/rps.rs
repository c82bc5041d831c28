//! Receive packet steering.

use rustix::mount::{MountFlags, MountPropagationFlags, mount, mount_change};
use std::fs;
use std::io;

/// Has the CPUs of `mask` receive for `interface` of the calling thread's network namespace.
///
/// The sysfs file is per network namespace and visible only in a sysfs mounted there: a thread with
/// a mount namespace of its own mounts it.
pub(crate) fn set_rps_cpus(interface: &str, mask: &str) -> io::Result<()> {
    let file = format!("/sys/class/net/{interface}/queues/rx-0/rps_cpus");
    let mask = mask.to_owned();
    let thread = std::thread::spawn(move || {
        // SAFETY: this flag touches no memory, and no table of descriptors is taken apart.
        let result = unsafe { libc::unshare(libc::CLONE_NEWNS) };
        if result != 0 {
            return Err(io::Error::last_os_error());
        }
        let private = MountPropagationFlags::PRIVATE | MountPropagationFlags::REC;
        mount_change("/", private)?;
        mount("sysfs", "/sys", "sysfs", MountFlags::empty(), None)?;
        fs::write(file, mask)
    });
    let gone = |_| io::Error::other("the thread that steers has ended");
    thread.join().map_err(gone)?
}
