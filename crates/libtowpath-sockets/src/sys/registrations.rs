//! What a program registered a socket for with epoll before the socket was replaced.
//!
//! The kernel keeps a registration with the socket, not with the descriptor, and lists it in the set's
//! `/proc/self/fdinfo` (proc(5)): `tfd: DESCRIPTOR events: HEX data: HEX`.

use super::library::Library;
use super::next;
use std::path::Path;

/// Where the descriptor of an epoll set leads.
const EPOLL: &str = "anon_inode:[eventpoll]";

/// A registration that was taken out of its set.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Registration {
    set: libc::c_int,
    events: u32,
    data: u64,
}

/// Takes `fd` out of all epoll sets of this process. Without /proc it stays in them, and goes with its socket.
pub(super) fn take(fd: libc::c_int) -> Vec<Registration> {
    let mut taken = Vec::new();
    for set in sets() {
        let path = format!("/proc/self/fdinfo/{set}");
        let text = std::fs::read_to_string(path).unwrap_or_default();
        let found = text.lines().filter_map(parse).find(|(one, ..)| *one == fd);
        let Some((_, events, data)) = found else {
            continue;
        };
        // SAFETY: to delete takes no event.
        if unsafe { next::epoll_ctl(set, libc::EPOLL_CTL_DEL, fd, std::ptr::null_mut()) } == 0 {
            taken.push(Registration { set, events, data });
        }
    }
    taken
}

/// Registers what is behind `fd` now for the same, by `library` or else by the system.
pub(super) fn put(library: Option<&Library>, fd: libc::c_int, taken: &[Registration]) {
    for one in taken {
        let mut event = libc::epoll_event {
            events: one.events,
            u64: one.data,
        };
        let (set, add) = (one.set, libc::EPOLL_CTL_ADD);
        // What the set does not take, the program misses, as without this.
        match library {
            // SAFETY: the event is there.
            Some(library) => unsafe { (library.epoll_ctl)(set, add, fd, &raw mut event) },
            // SAFETY: as above.
            None => unsafe { next::epoll_ctl(set, add, fd, &raw mut event) },
        };
    }
}

/// The epoll sets among the descriptors of this process.
fn sets() -> Vec<libc::c_int> {
    let entries = std::fs::read_dir("/proc/self/fd").into_iter().flatten();
    let paths = entries.flatten().map(|entry| entry.path());
    let is_set = |path: &Path| std::fs::read_link(path).is_ok_and(|to| to == Path::new(EPOLL));
    let number = |path: &Path| path.file_name()?.to_str()?.parse().ok();
    paths
        .filter(|path| is_set(path))
        .filter_map(|path| number(&path))
        .collect()
}

/// Descriptor, events and data of a line, if it is one of a registration.
fn parse(line: &str) -> Option<(libc::c_int, u32, u64)> {
    let mut words = line.split_whitespace();
    let mut value = |key: &str| words.by_ref().skip_while(|word| *word != key).nth(1);
    let fd = value("tfd:")?.parse().ok()?;
    let events = u32::from_str_radix(value("events:")?, 16).ok()?;
    let data = u64::from_str_radix(value("data:")?, 16).ok()?;
    Some((fd, events, data))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn registration_is_read_from_a_line_of_fdinfo_and_other_lines_are_none() {
        let line = "tfd:        5 events:       1d data: ffffffffffffffff  pos:0 ino:61af sdev:7";
        assert_eq!(parse(line), Some((5, 0x1d, u64::MAX)));
        assert_eq!(parse("flags:	02"), None);
        assert_eq!(parse("tfd: 5 events:"), None);
    }
}
