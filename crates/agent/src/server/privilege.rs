//! Dropping privileges: the agent can do nothing that its user could not, and its workers less.
//!
//! An agent that root starts becomes the user nobody, whose workers own no file and no other process.
//! Root stays its saved user, because key files are root's and are read again for each client
//! (`with_owner_rights`); an exec forgets the saved user, so workers have no way back.

use rustix::process::{Gid, Pid, Resource, Rlimit, Uid};
use rustix::thread::CapabilitySets;
use std::io;
use std::sync::atomic::{AtomicBool, Ordering};

/// The user and the group of root's workers: the kernel's overflow ID, nobody on every Linux.
const NOBODY: u32 = 65_534;

/// Whether root has become nobody.
static LEFT_ROOT: AtomicBool = AtomicBool::new(false);

/// Drops all capabilities but that to raw sockets (CAP_NET_RAW), permanently; root becomes nobody unless `stays_root`.
/// Must be called before threads are started.
///
/// # Errors
///
/// A system error, and `PermissionDenied`, with the remedy, where this process does not have that right.
pub fn keep_raw_sockets(stays_root: bool) -> io::Result<()> {
    let kept = rustix::thread::CapabilitySet::NET_RAW;
    if !rustix::thread::capabilities(None)?.permitted.contains(kept) {
        let text = "raw sockets need the right to them (CAP_NET_RAW); start the agent as root, or give the program \
                    the capability with setcap cap_net_raw+ep";
        return Err(io::Error::new(io::ErrorKind::PermissionDenied, text));
    }
    // Else they would go with root.
    rustix::thread::set_keep_capabilities(true)?;
    drop_all_but(kept, stays_root, Uid::from_raw(NOBODY))?;
    rustix::thread::set_keep_capabilities(false)?;
    Ok(())
}

/// Drops all capabilities permanently and sets no_new_privs; root becomes nobody unless
/// `stays_root`. Must be called before threads are started, since both are per thread.
///
/// # Errors
///
/// A system error; the agent should not run then.
pub fn drop_all(stays_root: bool) -> io::Result<()> {
    let none = rustix::thread::CapabilitySet::empty();
    drop_all_but(none, stays_root, Uid::ROOT)
}

fn drop_all_but(
    kept: rustix::thread::CapabilitySet,
    stays_root: bool,
    saved: Uid,
) -> io::Result<()> {
    rustix::thread::set_no_new_privs(true)?;
    for capability in rustix::thread::CapabilitySet::all().iter() {
        // Needs CAP_SETPCAP, and the kernel may not know all capabilities. What remains is dropped
        // below and cannot be regained.
        let _ = rustix::thread::remove_capability_from_bounding_set(capability);
    }
    if is_root() && !stays_root {
        leave_root(saved)?;
    }
    let sets = CapabilitySets {
        effective: kept,
        permitted: kept,
        inheritable: rustix::thread::CapabilitySet::empty(),
    };
    rustix::thread::set_capabilities(None, sets)?;
    // No core dump, which would contain the private key.
    set_limit(None, Resource::Core, 0);
    Ok(())
}

/// Whether this process owns what root owns. In a user namespace number 0 may be any user.
fn is_root() -> bool {
    let map = std::fs::read_to_string("/proc/self/uid_map").unwrap_or_default();
    rustix::process::geteuid().is_root() && outer_user_of_root(&map) == Some(0)
}

/// The user of the outer namespace who is number 0 here.
fn outer_user_of_root(map: &str) -> Option<u32> {
    let mut rows = map.lines().map(|line| {
        let mut numbers = line.split_whitespace();
        Some((numbers.next()?, numbers.next()?.parse().ok()?))
    });
    rows.find_map(|row| row.filter(|(inner, _)| *inner == "0"))
        .map(|(_, outer)| outer)
}

/// Makes root nobody, in no group but nobody's, with this saved user.
fn leave_root(saved: Uid) -> io::Result<()> {
    let (nobody, nogroup) = (Uid::from_raw(NOBODY), Gid::from_raw(NOBODY));
    let left = rustix::thread::set_thread_groups(&[])
        .and_then(|()| rustix::thread::set_thread_res_gid(nogroup, nogroup, nogroup))
        .and_then(|()| rustix::thread::set_thread_res_uid(nobody, nobody, saved));
    left.map_err(|error| {
        let text = format!(
            "root cannot become user {NOBODY} here ({error}); run the agent as another user, \
             or with --as-root"
        );
        io::Error::new(io::Error::from(error).kind(), text)
    })?;
    LEFT_ROOT.store(true, Ordering::Relaxed);
    Ok(())
}

/// Runs `read` in this thread as the user who started the agent, to whom its key files belong.
pub(crate) fn with_owner_rights<R>(read: impl FnOnce() -> R) -> R {
    /// Goes back however `read` ends.
    struct Nobody;
    impl Drop for Nobody {
        fn drop(&mut self) {
            let nobody = Uid::from_raw(NOBODY);
            if rustix::thread::set_thread_res_uid(nobody, nobody, Uid::ROOT).is_err() {
                // It must not go on as root.
                std::process::abort();
            }
        }
    }
    let nobody = Uid::from_raw(NOBODY);
    let is_owner = LEFT_ROOT.load(Ordering::Relaxed)
        && rustix::thread::set_thread_res_uid(nobody, Uid::ROOT, Uid::ROOT).is_ok();
    // Made only then: its drop makes the thread nobody.
    let _back = is_owner.then(|| Nobody);
    read()
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

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn root_of_a_user_namespace_is_the_user_it_is_mapped_to() {
        let outer = outer_user_of_root;
        assert_eq!(outer("         0          0 4294967295\n"), Some(0));
        assert_eq!(outer("1 100000 65536\n0 1000 1\n"), Some(1000));
        assert_eq!(outer("1000 1000 1\n"), None);
        assert_eq!(outer(""), None);
    }
}
