//! Dropping privileges: the agent can do nothing that its user could not, and its workers less.

use rustix::process::{Pid, Resource, Rlimit};
use rustix::thread::CapabilitySets;
use std::io;

/// Drops all capabilities permanently and sets no_new_privs. Must be called before threads are
/// started, since capabilities are per thread.
///
/// # Errors
///
/// A system error; the agent should not run then.
pub fn drop_all() -> io::Result<()> {
    rustix::thread::set_no_new_privs(true)?;
    for capability in rustix::thread::CapabilitySet::all().iter() {
        // Needs CAP_SETPCAP, and the kernel may not know all capabilities. What remains is dropped
        // below and cannot be regained.
        let _ = rustix::thread::remove_capability_from_bounding_set(capability);
    }
    let none = rustix::thread::CapabilitySet::empty();
    let sets = CapabilitySets {
        effective: none,
        permitted: none,
        inheritable: none,
    };
    rustix::thread::set_capabilities(None, sets)?;
    // No core dump, which would contain the private key.
    set_limit(None, Resource::Core, 0);
    Ok(())
}

/// Limits a new worker's memory, and forbids it to write files.
pub(crate) fn confine(process: u32, memory: u64) {
    let Some(process) = i32::try_from(process).ok().and_then(Pid::from_raw) else {
        return;
    };
    // Without a limit the caps on the job still hold.
    set_limit(Some(process), Resource::As, memory);
    set_limit(Some(process), Resource::Fsize, 0);
    set_limit(Some(process), Resource::Core, 0);
}

/// Number of threads of a process; None if it has ended.
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
