//! The interposed calls that only the kernel answers: a direct connection is carried through its socket pair before.

use super::divert::diverting;
use super::next;
use std::ffi::c_void;

type Int = libc::c_int;
type Size = libc::size_t;
type Done = libc::ssize_t;
type Buffer = *mut c_void;
type Polls = *mut libc::pollfd;
type Time = *const libc::timespec;
type Mask = *const libc::sigset_t;
type Set = *mut libc::fd_set;
type Place = *mut libc::off_t;

/// Leaves descriptors to the kernel if there are diverted sockets; true when bytes of one are on their way.
fn leave(descriptors: impl IntoIterator<Item = Int>) -> bool {
    let Some(library) = diverting() else {
        return false;
    };
    let mut has_bytes = false;
    for fd in descriptors {
        // SAFETY: no memory is passed.
        has_bytes |= unsafe { (library.leave_to_kernel)(fd) } != 0;
    }
    has_bytes
}

/// Defines calls that leave some of their descriptors to the kernel first.
macro_rules! left_to_kernel {
    ($($(#[$doc:meta])* $name:ident: $next:ident ($($arg:ident: $kind:ty),*) leaves $left:expr $(; $result:ty)?,)*) => {$(
        $(#[$doc])*
        ///
        /// # Safety
        ///
        /// As the system's.
        #[unsafe(no_mangle)]
        pub unsafe extern "C" fn $name($($arg: $kind),*) -> next::next_result!($($result)?) {
            leave($left);
            // SAFETY: the caller's promise.
            unsafe { next::$next($($arg),*) }
        }
    )*};
}

left_to_kernel! {
    /// epoll_pwait2(2).
    epoll_pwait2: epoll_pwait2 (set: Int, events: *mut libc::epoll_event, count: Int, timeout: Time, mask: Mask)
        leaves [set],
    /// poll(2).
    poll: poll (polls: Polls, count: libc::nfds_t, timeout_ms: Int) leaves polled(polls, count),
    /// ppoll(2).
    ppoll: ppoll (polls: Polls, count: libc::nfds_t, timeout: Time, mask: Mask) leaves polled(polls, count),
    /// poll(2) with the room in the array.
    __poll_chk: poll_chk (polls: Polls, count: libc::nfds_t, timeout_ms: Int, room: Size) leaves polled(polls, count),
    /// ppoll(2) with the room in the array.
    __ppoll_chk: ppoll_chk (polls: Polls, count: libc::nfds_t, timeout: Time, mask: Mask, room: Size)
        leaves polled(polls, count),
    /// select(2).
    select: select (count: Int, reads: Set, writes: Set, excepts: Set, timeout: *mut libc::timeval)
        leaves selected(count, [reads, writes, excepts]),
    /// pselect(2).
    pselect: pselect (count: Int, reads: Set, writes: Set, excepts: Set, timeout: Time, mask: Mask)
        leaves selected(count, [reads, writes, excepts]),
    /// dup(2).
    dup: dup (fd: Int) leaves [fd],
    /// fdopen(3), whose reads and writes do not come by here.
    fdopen: fdopen (fd: Int, mode: *const libc::c_char) leaves [fd]; *mut libc::FILE,
    /// recvmmsg(2).
    recvmmsg: recvmmsg (fd: Int, messages: *mut libc::mmsghdr, count: libc::c_uint, flags: Int, timeout: *mut libc::timespec)
        leaves [fd],
    /// sendmmsg(2).
    sendmmsg: sendmmsg (fd: Int, messages: *mut libc::mmsghdr, count: libc::c_uint, flags: Int) leaves [fd],
    /// sendfile(2).
    sendfile: sendfile (to: Int, from: Int, place: Place, len: Size) leaves [to, from]; Done,
    /// sendfile(2) with long offsets.
    sendfile64: sendfile64 (to: Int, from: Int, place: Place, len: Size) leaves [to, from]; Done,
    /// splice(2).
    splice: splice (from: Int, from_place: Place, to: Int, to_place: Place, len: Size, flags: libc::c_uint)
        leaves [from, to]; Done,
    /// tee(2).
    tee: tee (from: Int, to: Int, len: Size, flags: libc::c_uint) leaves [from, to]; Done,
    /// vmsplice(2).
    vmsplice: vmsplice (fd: Int, parts: *const libc::iovec, count: Size, flags: libc::c_uint) leaves [fd]; Done,
    /// posix_spawn_file_actions_adddup2(3).
    posix_spawn_file_actions_adddup2: spawn_dup2 (actions: Buffer, fd: Int, target: Int) leaves [fd],
}

/// The descriptors of a poll.
fn polled(polls: Polls, count: libc::nfds_t) -> Vec<Int> {
    if diverting().is_none() || polls.is_null() {
        return Vec::new();
    }
    // SAFETY: the program says that as many are there.
    let polls = unsafe { std::slice::from_raw_parts(polls, count as usize) };
    polls.iter().map(|poll| poll.fd).collect()
}

/// The descriptors below `count` that are in one of `sets`.
fn selected(count: Int, sets: [Set; 3]) -> Vec<Int> {
    if diverting().is_none() {
        return Vec::new();
    }
    let count = count.min(libc::FD_SETSIZE as Int);
    let has = |fd: &Int| {
        let mut given = sets.iter().filter(|set| !set.is_null());
        // SAFETY: the program says that the sets are there; the number is one that they hold.
        given.any(|&set| unsafe { libc::FD_ISSET(*fd, set) })
    };
    (0..count).filter(has).collect()
}

/// Descriptors from `first` to `last` are about to be closed.
fn before_close(first: Int, last: Int) {
    if let Some(library) = diverting() {
        // SAFETY: no memory is passed.
        unsafe { (library.before_close)(first, last) };
    }
}

/// dup2(2).
// SAFETY: the system's symbol of this name is reached through `next`.
#[unsafe(no_mangle)]
pub extern "C" fn dup2(fd: Int, target: Int) -> Int {
    if fd != target {
        leave([fd]);
        before_close(target, target);
    }
    // SAFETY: no memory is passed.
    unsafe { next::dup2(fd, target) }
}

/// dup3(2).
// SAFETY: the system's symbol of this name is reached through `next`.
#[unsafe(no_mangle)]
pub extern "C" fn dup3(fd: Int, target: Int, flags: Int) -> Int {
    if fd != target {
        leave([fd]);
        before_close(target, target);
    }
    // SAFETY: no memory is passed.
    unsafe { next::dup3(fd, target, flags) }
}

/// close_range(2).
// SAFETY: the system's symbol of this name is reached through `next`.
#[unsafe(no_mangle)]
pub extern "C" fn close_range(first: libc::c_uint, last: libc::c_uint, flags: Int) -> Int {
    let number = |fd: libc::c_uint| Int::try_from(fd).unwrap_or(Int::MAX);
    if flags & libc::CLOSE_RANGE_CLOEXEC.cast_signed() == 0 {
        before_close(number(first), number(last));
    }
    // SAFETY: no memory is passed.
    unsafe { next::close_range(first, last, flags) }
}

/// closefrom(3).
// SAFETY: the system's close_range is what it is made of.
#[unsafe(no_mangle)]
pub extern "C" fn closefrom(first: Int) {
    close_range(first.max(0).cast_unsigned(), libc::c_uint::MAX, 0);
}

/// fcntl(2). The C function takes a third argument or none; in the calling conventions of all processors that this is built
/// for, one that was not given is read from a register and passed on, where nobody looks at it.
///
/// # Safety
///
/// As the system's.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn fcntl(fd: Int, command: Int, value: usize) -> Int {
    leave(duplicated(fd, command));
    // SAFETY: the caller's promise.
    unsafe { next::fcntl(fd, command, value) }
}

/// fcntl(2) with long offsets; as [`fcntl`].
///
/// # Safety
///
/// As the system's.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn fcntl64(fd: Int, command: Int, value: usize) -> Int {
    leave(duplicated(fd, command));
    // SAFETY: the caller's promise.
    unsafe { next::fcntl64(fd, command, value) }
}

/// The descriptor that a command of fcntl(2) gives a second number, or whose pipe it changes.
fn duplicated(fd: Int, command: Int) -> Option<Int> {
    const LEFT: [Int; 4] = [
        libc::F_DUPFD,
        libc::F_DUPFD_CLOEXEC,
        libc::F_SETPIPE_SZ,
        libc::F_SETOWN,
    ];
    LEFT.contains(&command).then_some(fd)
}

/// ioctl(2), as [`fcntl`]. What it says of octets to be read it says of the socket pair.
///
/// # Safety
///
/// As the system's.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn ioctl(fd: Int, request: libc::c_ulong, value: usize) -> Int {
    if request == libc::FIONREAD && leave([fd]) {
        let mut poll = libc::pollfd {
            fd,
            events: libc::POLLIN,
            revents: 0,
        };
        // SAFETY: the structure is there.
        unsafe { next::poll(&raw mut poll, 1, ARRIVAL_MS) };
    }
    // SAFETY: the caller's promise.
    unsafe { next::ioctl(fd, request, value) }
}

/// How long octets that are there may take to get into the socket pair, in milliseconds.
const ARRIVAL_MS: Int = 100;
