//! The calls on pipes over STREAMS, for the preloaded library; they are in no header.

use super::errno::{check_errno, return_to_c};
use crate::devices::datagrams;
use crate::pipes::{self, Moved, PipeKind};
use std::io;
use std::os::fd::{BorrowedFd, RawFd};
use std::panic::catch_unwind;
use std::sync::Once;

/// Flags of receives and sends on a socket pair that need no kernel.
const PLAIN_FLAGS: libc::c_int = libc::MSG_DONTWAIT | libc::MSG_NOSIGNAL | libc::MSG_CMSG_CLOEXEC;

/// Runs the handlers of forks from now on.
pub(super) fn watch_forks() {
    extern "C" fn before() {
        // What a panic leaves, the kernel's pipe has not.
        let _ = catch_unwind(|| {
            pipes::before_fork();
            datagrams::send_all();
        });
    }
    extern "C" fn in_parent() {
        pipes::after_fork_in_parent();
    }
    extern "C" fn in_child() {
        let _ = catch_unwind(|| {
            pipes::after_fork_in_child();
            datagrams::forget_all_in_child();
        });
    }
    static WATCHED: Once = Once::new();
    WATCHED.call_once(|| {
        // SAFETY: the functions stay: this library is never unloaded.
        unsafe { libc::pthread_atfork(Some(before), Some(in_parent), Some(in_child)) };
    });
}

/// Makes two descriptors by `make` and writes them to C.
///
/// # Safety
///
/// `ends` has room for two.
unsafe fn make(
    kind: PipeKind,
    ends: *mut libc::c_int,
    make: impl Fn(&mut [RawFd; 2]) -> libc::c_int,
) -> libc::c_int {
    watch_forks();
    let made = || {
        let mut made = [-1; 2];
        check_errno(make(&mut made))?;
        Ok(made)
    };
    return_to_c(|| {
        let made = pipes::make(kind, made)?;
        // SAFETY: the caller's promise.
        unsafe { ends.cast::<[RawFd; 2]>().write_unaligned(made) };
        Ok(0)
    })
}

/// pipe2(2), with a stream in front of the descriptors. Packets (O_DIRECT) and notifications are the kernel's.
///
/// # Safety
///
/// As the system's: `ends` has room for two descriptors.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn towpath_pipe2(ends: *mut libc::c_int, flags: libc::c_int) -> libc::c_int {
    if ends.is_null() || flags & !(libc::O_CLOEXEC | libc::O_NONBLOCK) != 0 {
        // SAFETY: the caller's promise.
        return unsafe { libc::pipe2(ends, flags) };
    }
    // SAFETY: the caller's promise; the array has room for two.
    unsafe {
        make(PipeKind::Pipe, ends, |made| {
            libc::pipe2(made.as_mut_ptr(), flags)
        })
    }
}

/// socketpair(2): byte streams have a stream in front of the descriptors, others are the kernel's.
///
/// # Safety
///
/// As the system's: `ends` has room for two descriptors.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn towpath_socketpair(
    family: libc::c_int,
    kind: libc::c_int,
    protocol: libc::c_int,
    ends: *mut libc::c_int,
) -> libc::c_int {
    let plain = kind & !(libc::SOCK_CLOEXEC | libc::SOCK_NONBLOCK);
    if ends.is_null() || family != libc::AF_UNIX || plain != libc::SOCK_STREAM {
        // SAFETY: the caller's promise.
        return unsafe { libc::socketpair(family, kind, protocol, ends) };
    }
    // SAFETY: the caller's promise; the array has room for two.
    unsafe {
        make(PipeKind::SocketPair, ends, |made| {
            libc::socketpair(family, kind, protocol, made.as_mut_ptr())
        })
    }
}

/// All descriptors of the process are about to be shared with another, or with another program: all pipes are the
/// kernel's.
// SAFETY: no other symbol has this name.
#[unsafe(no_mangle)]
pub extern "C" fn towpath_before_spawn() {
    let _ = catch_unwind(|| {
        pipes::leave_range(0, RawFd::MAX);
        datagrams::send_all();
    });
}

/// Whether the kernel's buffer behind a pipe or a socket takes as many octets at once when it is empty.
pub(crate) fn kernel_takes(fd: RawFd, octets: usize) -> bool {
    // SAFETY: no memory is passed.
    let of_pipe = unsafe { libc::fcntl(fd, libc::F_GETPIPE_SZ) };
    if of_pipe >= 0 {
        return of_pipe as usize >= octets;
    }
    // SAFETY: the descriptor is open: it was made just now.
    let fd = unsafe { BorrowedFd::borrow_raw(fd) };
    // Half of it may be the kernel's own.
    rustix::net::sockopt::socket_send_buffer_size(fd).is_ok_and(|len| len >= 2 * octets)
}

/// Writes all octets by the kernel, unless the other end has gone.
pub(crate) fn write_all(fd: RawFd, mut octets: &[u8]) {
    // SAFETY: the program's descriptor, which it is about to use by a call of its own.
    let fd = unsafe { BorrowedFd::borrow_raw(fd) };
    let flags = rustix::net::SendFlags::NOSIGNAL;
    while !octets.is_empty() {
        // A closed pipe would raise a signal that no write of the program caused; both ends are open here.
        let written = match rustix::net::send(fd, octets, flags) {
            Err(rustix::io::Errno::NOTSOCK) => rustix::io::write(fd, octets),
            other => other,
        };
        match written {
            Ok(len) => octets = &octets[len..],
            Err(rustix::io::Errno::INTR) => {}
            // The kernel's buffer was filled past this library: it is waited for.
            Err(rustix::io::Errno::AGAIN) => std::thread::yield_now(),
            Err(_) => return,
        }
    }
}

/// Which calls a program uses on a descriptor.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Calls {
    /// read and write.
    OfFiles,
    /// recv and send, with these flags.
    OfSockets(libc::c_int),
}

/// Whether the call may wait; None when it is the kernel's: the pipe is left to it.
fn may_wait(fd: RawFd, calls: Calls) -> Option<bool> {
    match calls {
        Calls::OfFiles => Some(true),
        Calls::OfSockets(flags) if flags & !PLAIN_FLAGS == 0 && pipes::is_socket_pair(fd) => {
            Some(flags & libc::MSG_DONTWAIT == 0)
        }
        Calls::OfSockets(_) => {
            pipes::leave_to_kernel(fd);
            None
        }
    }
}

/// Receives into `parts` if `fd` is an end of a pipe; None when it is the kernel's to do.
///
/// # Safety
///
/// All `parts` may be written to.
#[inline]
pub(super) unsafe fn receive(
    fd: RawFd,
    parts: &io::Result<&[libc::iovec]>,
    calls: Calls,
) -> Option<isize> {
    let parts = own_parts(fd, parts)?;
    let slice = |part: &libc::iovec| -> &mut [u8] {
        match part.iov_len {
            0 => &mut [],
            // SAFETY: the caller's promise.
            len => unsafe { std::slice::from_raw_parts_mut(part.iov_base.cast::<u8>(), len) },
        }
    };
    // SAFETY: the program says that its descriptor is open.
    let descriptor = unsafe { BorrowedFd::borrow_raw(fd) };
    let moved = || {
        let may_wait = may_wait(fd, calls)?;
        match parts {
            [part] => pipes::receive(descriptor, fd, &mut [slice(part)], may_wait),
            parts => {
                let mut all: Vec<&mut [u8]> = parts.iter().map(slice).collect();
                pipes::receive(descriptor, fd, &mut all, may_wait)
            }
        }
    };
    match catch_unwind(std::panic::AssertUnwindSafe(moved)) {
        Ok(Some(Moved::Here(result))) => Some(return_to_c(|| result.map(|len| len as isize))),
        _ => None,
    }
}

/// Sends `parts` if `fd` is an end of a pipe; None when it is the kernel's to do.
///
/// # Safety
///
/// All `parts` may be read.
#[inline]
pub(super) unsafe fn send(
    fd: RawFd,
    parts: &io::Result<&[libc::iovec]>,
    calls: Calls,
) -> Option<isize> {
    let parts = own_parts(fd, parts)?;
    let slice = |part: &libc::iovec| match part.iov_len {
        0 => &[][..],
        // SAFETY: the caller's promise.
        len => unsafe { std::slice::from_raw_parts(part.iov_base.cast::<u8>(), len) },
    };
    // SAFETY: the program says that its descriptor is open.
    let descriptor = unsafe { BorrowedFd::borrow_raw(fd) };
    let moved = || {
        let may_wait = may_wait(fd, calls)?;
        match parts {
            [part] => pipes::send(descriptor, fd, &[slice(part)], may_wait),
            parts => {
                let all: Vec<&[u8]> = parts.iter().map(slice).collect();
                pipes::send(descriptor, fd, &all, may_wait)
            }
        }
    };
    match catch_unwind(std::panic::AssertUnwindSafe(moved)) {
        Ok(Some(Moved::Here(result))) => Some(return_to_c(|| result.map(|len| len as isize))),
        // SAFETY: the caller's promise.
        Ok(Some(Moved::ThenByKernel(sent @ 1..))) => Some(unsafe { write_rest(fd, parts, sent) }),
        _ => None,
    }
}

/// The parts of a call if `fd` is an end of a pipe; None when it is the kernel's to do, which also says that a part is
/// nowhere.
fn own_parts<'a>(fd: RawFd, parts: &io::Result<&'a [libc::iovec]>) -> Option<&'a [libc::iovec]> {
    let is_nowhere = |part: &libc::iovec| part.iov_base.is_null() && part.iov_len > 0;
    match parts {
        Ok(parts) if pipes::is_known(fd) && !parts.iter().any(is_nowhere) => Some(parts),
        _ => None,
    }
}

/// Writes by the kernel what is left after the first `sent` octets of `parts`. Returns the octets of both.
///
/// # Safety
///
/// All `parts` may be read.
unsafe fn write_rest(fd: RawFd, parts: &[libc::iovec], sent: usize) -> isize {
    let rest = super::direct::parts_after(parts, sent);
    // SAFETY: the caller's promise.
    let more = unsafe { libc::writev(fd, rest.as_ptr(), rest.len() as libc::c_int) };
    sent as isize + more.max(0)
}
