//! Privileges for network namespaces.

use crate::error::TestbedError;
use crate::sys;
use std::fs;
use std::io;

/// Number of CAP_SYS_ADMIN in `<linux/capability.h>`.
const CAP_SYS_ADMIN: u64 = 21;

/// Whether this process may create network namespaces.
pub fn is_privileged() -> bool {
    let status = fs::read_to_string("/proc/thread-self/status").unwrap_or_default();
    let line = status.lines().find_map(|line| line.strip_prefix("CapEff:"));
    let granted = line.and_then(|text| u64::from_str_radix(text.trim(), 16).ok());
    granted.is_some_and(|granted| granted >> CAP_SYS_ADMIN & 1 == 1)
}

/// Makes the process root of a new user namespace, in which it may create hosts; no effect if it is
/// privileged. Its files stay those of its user.
///
/// # Errors
///
/// [`TestbedError::Threads`] if the process has more than one thread, and
/// [`TestbedError::Privilege`] if the system allows no user namespaces.
pub fn enter_user_namespace() -> Result<(), TestbedError> {
    if is_privileged() {
        return Ok(());
    }
    let (user, group) = (rustix::process::geteuid(), rustix::process::getegid());
    sys::unshare_user().map_err(|error| match error.kind() {
        io::ErrorKind::InvalidInput => TestbedError::Threads,
        _ => TestbedError::Privilege(error),
    })?;
    // An unprivileged user may map only their own IDs, and groups only with setgroups denied.
    let maps = [
        ("setgroups", "deny".to_owned()),
        ("uid_map", format!("0 {} 1", user.as_raw())),
        ("gid_map", format!("0 {} 1", group.as_raw())),
    ];
    for (name, text) in maps {
        fs::write(format!("/proc/self/{name}"), text).map_err(TestbedError::Privilege)?;
    }
    Ok(())
}
