//! Giving up what is not needed: the agent can do nothing its user could not, and its workers less.

use rustix::process::{Pid, Resource, Rlimit};
use rustix::thread::CapabilitySets;
use std::io;

/// Gives up all capabilities, for good, and the means to get any by starting a program. To be called
/// before any thread is started, since each has its own.
///
/// # Errors
///
/// What the system says; the agent should not run then.
pub fn drop_all() -> io::Result<()> {
    rustix::thread::set_no_new_privs(true)?;
    for capability in rustix::thread::CapabilitySet::all().iter() {
        // Taking one away needs one, and a kernel may not know them all; what remains is given up
        // below, and cannot come back without new privileges.
        let _ = rustix::thread::remove_capability_from_bounding_set(capability);
    }
    let none = rustix::thread::CapabilitySet::empty();
    let sets = CapabilitySets {
        effective: none,
        permitted: none,
        inheritable: none,
    };
    rustix::thread::set_capabilities(None, sets)?;
    // No image of the process, which holds the private key, is written when it crashes.
    set_limit(None, Resource::Core, 0);
    Ok(())
}

/// Limits a worker that has just started: its memory, and no files at all.
pub(crate) fn confine(process: u32, memory: u64) {
    let Some(process) = i32::try_from(process).ok().and_then(Pid::from_raw) else {
        return;
    };
    // A limit that cannot be set leaves what the caps on the job leave.
    set_limit(Some(process), Resource::As, memory);
    set_limit(Some(process), Resource::Fsize, 0);
    set_limit(Some(process), Resource::Core, 0);
}

/// Threads a process has now; None when it is gone.
pub(crate) fn threads(process: u32) -> Option<u32> {
    let status = std::fs::read_to_string(format!("/proc/{process}/status")).ok()?;
    let mut lines = status.lines();
    let count = lines.find_map(|line| line.strip_prefix("Threads:"))?;
    count.trim().parse().ok()
}

fn set_limit(process: Option<Pid>, resource: Resource, most: u64) {
    let limit = Rlimit {
        current: Some(most),
        maximum: Some(most),
    };
    let _ = rustix::process::prlimit(process, resource, limit);
}
