//! What direct connections need of the system, and the calls that the preloaded library makes for them.
//!
//! These calls are in no header: they are for libtowpath_sockets, which is built with this library.

use super::errno::{check_errno, return_to_c};
use super::exit::owns_threads;
use crate::devices::datagrams;
use crate::direct::{self, Event, Moved, PlainWait};
use crate::pipes;
use std::io::{self, Write};
use std::os::fd::{BorrowedFd, RawFd};
use std::panic::catch_unwind;
use std::ptr::null_mut;
use std::sync::atomic::AtomicU8;
use std::time::Instant;

/// What epoll_ctl(2) does.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum EpollOperation {
    Add,
    Modify,
    Delete,
}

impl EpollOperation {
    fn parse(number: libc::c_int) -> Option<EpollOperation> {
        match number {
            libc::EPOLL_CTL_ADD => Some(EpollOperation::Add),
            libc::EPOLL_CTL_MOD => Some(EpollOperation::Modify),
            libc::EPOLL_CTL_DEL => Some(EpollOperation::Delete),
            _ => None,
        }
    }

    fn number(self) -> libc::c_int {
        match self {
            EpollOperation::Add => libc::EPOLL_CTL_ADD,
            EpollOperation::Modify => libc::EPOLL_CTL_MOD,
            EpollOperation::Delete => libc::EPOLL_CTL_DEL,
        }
    }
}

/// epoll_ctl(2) of the kernel.
pub(crate) fn epoll_ctl(
    operation: EpollOperation,
    set: RawFd,
    fd: RawFd,
    mut event: Event,
) -> io::Result<()> {
    // SAFETY: the event is there. A descriptor that is not open is an error.
    let done = unsafe { libc::epoll_ctl(set, operation.number(), fd, &raw mut event) };
    check_errno(done).map(drop)
}

/// Adds one to an eventfd.
pub(crate) fn signal_eventfd(fd: RawFd) {
    let one = 1u64.to_ne_bytes();
    // SAFETY: as many octets are there. Fails only if the counter is full.
    unsafe { libc::write(fd, one.as_ptr().cast(), one.len()) };
}

/// Whether a descriptor is an eventfd. Takes no memory: it is for a forked child.
pub(crate) fn is_eventfd(fd: RawFd) -> bool {
    let mut path = [0u8; 32];
    let mut target = [0u8; EVENTFD.len()];
    if write!(&mut path[..], "/proc/self/fd/{fd}\0").is_err() {
        return false;
    }
    // SAFETY: the path ends with a null; no more octets are written than are there.
    let len = unsafe {
        let place = target.as_mut_ptr().cast();
        libc::readlink(path.as_ptr().cast(), place, target.len())
    };
    len >= 0 && target == *EVENTFD
}

/// Where the descriptor of an eventfd leads.
const EVENTFD: &[u8; 20] = b"anon_inode:[eventfd]";

/// Flags that this process shares with those it forks from now on; None without memory.
pub(crate) fn shared_flags(count: usize) -> Option<&'static [AtomicU8]> {
    let (access, kind) = (
        libc::PROT_READ | libc::PROT_WRITE,
        libc::MAP_SHARED | libc::MAP_ANONYMOUS,
    );
    // SAFETY: new memory, which is never unmapped.
    let place = unsafe { libc::mmap(null_mut(), count, access, kind, -1, 0) };
    if place == libc::MAP_FAILED {
        return None;
    }
    // SAFETY: as many octets, which are 0; other processes change them by atomic operations only.
    Some(unsafe { std::slice::from_raw_parts(place.cast::<AtomicU8>(), count) })
}

/// Has each forked child noted as one; false where that cannot be.
pub(crate) fn on_fork_in_child() -> bool {
    extern "C" fn note() {
        direct::note_fork();
    }
    // SAFETY: the function stays: this library is never unloaded.
    unsafe { libc::pthread_atfork(None, None, Some(note)) == 0 }
}

/// Receives into `parts` if `fd` is a direct connection; None when it is the kernel's to do.
///
/// # Safety
///
/// All `parts` may be written to.
pub(super) unsafe fn receive(
    fd: libc::c_int,
    parts: &io::Result<&[libc::iovec]>,
    flags: libc::c_int,
) -> Option<isize> {
    let (connection, Ok(parts)) = (direct::find(fd)?, parts) else {
        return None;
    };
    if flags & !(libc::MSG_DONTWAIT | libc::MSG_NOSIGNAL | libc::MSG_CMSG_CLOEXEC) != 0 {
        connection.hand_over();
        return None;
    }
    // SAFETY: the connection has the descriptor, which the program says is open.
    let fd = unsafe { BorrowedFd::borrow_raw(fd) };
    let may_wait = flags & libc::MSG_DONTWAIT == 0;
    let mut received = 0;
    for part in parts.iter().filter(|part| part.iov_len > 0) {
        if part.iov_base.is_null() {
            return Some(return_to_c(|| Err(super::errno::os_error(libc::EFAULT))));
        }
        // SAFETY: the caller's promise.
        let buffer =
            unsafe { std::slice::from_raw_parts_mut(part.iov_base.cast::<u8>(), part.iov_len) };
        let moved = connection.receive(fd, buffer, may_wait && received == 0);
        match moved {
            Moved::Here(Ok(len)) => {
                received += len;
                if len < buffer.len() {
                    break;
                }
            }
            _ if received > 0 => break,
            Moved::Here(Err(error)) => return Some(return_to_c(|| Err(error))),
            Moved::ThenByKernel(_) => return None,
        }
    }
    Some(received as isize)
}

/// What a direct connection sent.
pub(super) enum Sent {
    /// The call's result.
    Result(isize),
    /// As many octets; the kernel sends the rest.
    ThenByKernel(usize),
}

/// Sends `parts` if `fd` is a direct connection.
///
/// # Safety
///
/// All `parts` may be read.
pub(super) unsafe fn send(
    fd: libc::c_int,
    parts: &io::Result<&[libc::iovec]>,
    flags: libc::c_int,
) -> Sent {
    let (Some(connection), Ok(parts)) = (direct::find(fd), parts) else {
        return Sent::ThenByKernel(0);
    };
    let known = libc::MSG_DONTWAIT | libc::MSG_NOSIGNAL | libc::MSG_MORE;
    let is_nowhere = |part: &libc::iovec| part.iov_base.is_null() && part.iov_len > 0;
    if flags & !known != 0 || parts.iter().any(is_nowhere) {
        connection.hand_over();
        return Sent::ThenByKernel(0);
    }
    // SAFETY: the connection has the descriptor, which the program says is open.
    let fd = unsafe { BorrowedFd::borrow_raw(fd) };
    let may_wait = flags & libc::MSG_DONTWAIT == 0;
    let slice = |part: &libc::iovec| match part.iov_len {
        0 => &[][..],
        // SAFETY: the caller's promise.
        len => unsafe { std::slice::from_raw_parts(part.iov_base.cast::<u8>(), len) },
    };
    let moved = match parts {
        [part] => connection.send(fd, &[slice(part)], may_wait),
        parts => {
            let all: Vec<&[u8]> = parts.iter().map(slice).collect();
            connection.send(fd, &all, may_wait)
        }
    };
    match moved {
        Moved::Here(result) => Sent::Result(return_to_c(|| result.map(|len| len as isize))),
        Moved::ThenByKernel(len) => Sent::ThenByKernel(len),
    }
}

/// Sends by the kernel what is left after the first `sent` octets of `parts`. Returns the octets of both.
///
/// # Safety
///
/// All `parts` may be read.
pub(super) unsafe fn send_rest(
    fd: libc::c_int,
    parts: &io::Result<&[libc::iovec]>,
    flags: libc::c_int,
    sent: usize,
) -> isize {
    let parts = parts.as_ref().map_or(&[][..], |parts| *parts);
    let mut rest = parts_after(parts, sent);
    // SAFETY: a structure of numbers and pointers, all of which may be zero.
    let mut message: libc::msghdr = unsafe { std::mem::zeroed() };
    message.msg_iov = rest.as_mut_ptr();
    message.msg_iovlen = rest.len() as _;
    // SAFETY: the caller vouches for the parts.
    let more = unsafe { libc::sendmsg(fd, &raw const message, flags) };
    sent as isize + more.max(0)
}

/// `parts` without their first `sent` octets.
pub(super) fn parts_after(parts: &[libc::iovec], sent: usize) -> Vec<libc::iovec> {
    let mut rest = parts.to_vec();
    let mut skip = sent;
    for part in &mut rest {
        let here = skip.min(part.iov_len);
        part.iov_base = part.iov_base.wrapping_byte_add(here);
        part.iov_len -= here;
        skip -= here;
    }
    rest
}

/// Makes connections direct from now on: 0, or -1 where that cannot be.
// SAFETY: no other symbol has this name.
#[unsafe(no_mangle)]
pub extern "C" fn towpath_direct_enable() -> libc::c_int {
    match catch_unwind(direct::enable) {
        Ok(true) => 0,
        _ => -1,
    }
}

/// The descriptor is about to be used by a call that only the kernel answers. 1 when bytes are on their way to it.
// SAFETY: no other symbol has this name.
#[unsafe(no_mangle)]
pub extern "C" fn towpath_leave_to_kernel(fd: libc::c_int) -> libc::c_int {
    pipes::leave_to_kernel(fd);
    super::datagrams::send_now(fd);
    // What a panic leaves, the tunnel carries.
    catch_unwind(|| direct::leave_to_kernel(fd)).map_or(0, libc::c_int::from)
}

/// The descriptors from `first` to `last` are about to be closed, by another call than close(2).
// SAFETY: no other symbol has this name.
#[unsafe(no_mangle)]
pub extern "C" fn towpath_before_close(first: libc::c_int, last: libc::c_int) {
    let _ = catch_unwind(|| {
        pipes::leave_range(first, last);
        datagrams::forget_range(first, last);
    });
    if owns_threads() {
        // As in `towpath_leave_to_kernel`.
        let _ = catch_unwind(|| direct::leave_range(first, last));
    } else {
        direct::forget_in_child(first, last);
    }
}

/// epoll_ctl(2).
///
/// # Safety
///
/// As the system's.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn towpath_epoll_ctl(
    set: libc::c_int,
    operation: libc::c_int,
    fd: libc::c_int,
    event: *mut Event,
) -> libc::c_int {
    pipes::leave_to_kernel(fd);
    let parsed = EpollOperation::parse(operation);
    let given = match (parsed, event.is_null()) {
        (Some(EpollOperation::Delete), _) => Some(Event { events: 0, u64: 0 }),
        (_, true) => None,
        // SAFETY: the caller's promise.
        (_, false) => Some(unsafe { event.read_unaligned() }),
    };
    let ours = || {
        let (operation, given) = (parsed?, given?);
        if operation == EpollOperation::Add {
            // A set within a set is the kernel's to answer.
            leave_inner_set(fd);
        }
        let connection = direct::find(fd)?;
        let known = direct::set_for(set).ok()?;
        known.control(&connection, fd, operation, given)
    };
    match catch_unwind(ours) {
        Ok(Some(result)) => return_to_c(|| result.map(|()| 0)),
        // SAFETY: the caller's promise.
        _ => unsafe { libc::epoll_ctl(set, operation, fd, event) },
    }
}

fn leave_inner_set(fd: RawFd) {
    if direct::find_set(fd).is_some() {
        direct::leave_to_kernel(fd);
    }
}

/// epoll_pwait(2), and with a null `mask` epoll_wait(2).
///
/// # Safety
///
/// As the system's.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn towpath_epoll_pwait(
    set: libc::c_int,
    events: *mut Event,
    count: libc::c_int,
    timeout_ms: libc::c_int,
    mask: *const libc::sigset_t,
) -> libc::c_int {
    datagrams::send_all();
    direct::recall_inherited();
    let (Ok(events_max @ 1..), false) = (usize::try_from(count), events.is_null()) else {
        // SAFETY: the caller's promise.
        return unsafe { libc::epoll_pwait(set, events, count, timeout_ms, mask) };
    };
    return_to_c(|| {
        let kernel = |count: usize, limit_ms: i32| {
            // SAFETY: the caller's promise.
            unsafe { kernel_wait(set, count, limit_ms, mask) }
        };
        let found = match direct::find_set(set) {
            Some(known) => direct::wait(&known, events_max, timeout_ms, kernel)?,
            None => plain_wait(set, events_max, timeout_ms, kernel)?,
        };
        for (index, event) in found.iter().enumerate().take(events_max) {
            // SAFETY: the caller has room for as many.
            unsafe { events.add(index).write_unaligned(*event) };
        }
        Ok(found.len().min(events_max) as libc::c_int)
    })
}

/// Waits for a set that has no direct connections; it may get some meanwhile.
fn plain_wait(
    set: RawFd,
    events_max: usize,
    timeout_ms: i32,
    kernel: impl Fn(usize, i32) -> io::Result<Vec<Event>>,
) -> io::Result<Vec<Event>> {
    let begun = Instant::now();
    let plain = PlainWait::begin(set);
    let mut found = match direct::find_set(set) {
        Some(_) => Vec::new(),
        None => kernel(events_max, timeout_ms)?,
    };
    drop(plain);
    let Some(known) = direct::find_set(set) else {
        return Ok(found);
    };
    found = known.without_own(found);
    if !found.is_empty() {
        return Ok(found);
    }
    let waited_ms = i32::try_from(begun.elapsed().as_millis()).unwrap_or(i32::MAX);
    let left_ms = match timeout_ms < 0 {
        true => timeout_ms,
        false => timeout_ms.saturating_sub(waited_ms).max(0),
    };
    direct::wait(&known, events_max, left_ms, kernel)
}

/// At most `count` events of the kernel, which waits up to `limit_ms`, below 0 without limit.
///
/// # Safety
///
/// `mask` is null or points to a set of signals.
unsafe fn kernel_wait(
    set: RawFd,
    count: usize,
    limit_ms: i32,
    mask: *const libc::sigset_t,
) -> io::Result<Vec<Event>> {
    let mut events = Vec::with_capacity(count.min(EVENTS_MAX));
    let room = events.capacity().min(EVENTS_MAX) as libc::c_int;
    let place = events.as_mut_ptr();
    // SAFETY: there is room for as many events; the mask is the caller's promise.
    let found = unsafe { libc::epoll_pwait(set, place, room, limit_ms, mask) };
    let found = check_errno(found)?;
    // SAFETY: the kernel has written as many.
    unsafe { events.set_len(found as usize) };
    Ok(events)
}

/// Events that are asked of the kernel at once at most.
const EVENTS_MAX: usize = 1024;

/// Before a descriptor is closed: what is left of a direct connection the tunnel carries.
pub(super) fn before_close(fd: RawFd) {
    pipes::leave_to_kernel(fd);
    datagrams::forget_range(fd, fd);
    match owns_threads() {
        true => drop(direct::leave_to_kernel(fd)),
        false => direct::forget_in_child(fd, fd),
    }
}
