//! The interposed calls that move data and wait for it: libtowpath's once a socket was diverted, the system's before.

use super::divert::{adopt_datagrams, diverting};
use super::library::loaded;
use super::{address, next};
use std::ffi::c_void;

type Int = libc::c_int;
type Size = libc::size_t;
type Done = libc::ssize_t;
type Octets = *const c_void;
type Buffer = *mut c_void;
type Parts = *const libc::iovec;
type Events = *mut libc::epoll_event;

/// Defines calls that differ in nothing but their arguments.
macro_rules! interposed {
    ($($(#[$doc:meta])* $name:ident($($arg:ident: $kind:ty),*) $(-> $result:ty)?;)*) => {$(
        $(#[$doc])*
        ///
        /// # Safety
        ///
        /// As the system's.
        #[unsafe(no_mangle)]
        pub unsafe extern "C" fn $name($($arg: $kind),*) -> next::next_result!($($result)?) {
            match diverting() {
                // SAFETY: the caller's promise.
                Some(library) => unsafe { (library.$name)($($arg),*) },
                // SAFETY: the caller's promise.
                None => unsafe { next::$name($($arg),*) },
            }
        }
    )*};
}

interposed! {
    /// read(2).
    read(fd: Int, buffer: Buffer, len: Size) -> Done;
    /// readv(2).
    readv(fd: Int, parts: Parts, count: Int) -> Done;
    /// recv(2).
    recv(fd: Int, buffer: Buffer, len: Size, flags: Int) -> Done;
    /// recvfrom(2).
    recvfrom(fd: Int, buffer: Buffer, len: Size, flags: Int, address: *mut libc::sockaddr, address_len: *mut libc::socklen_t) -> Done;
    /// recvmsg(2).
    recvmsg(fd: Int, message: *mut libc::msghdr, flags: Int) -> Done;
    /// write(2).
    write(fd: Int, octets: Octets, len: Size) -> Done;
    /// writev(2).
    writev(fd: Int, parts: Parts, count: Int) -> Done;
    /// send(2).
    send(fd: Int, octets: Octets, len: Size, flags: Int) -> Done;
    /// epoll_ctl(2).
    epoll_ctl(set: Int, operation: Int, fd: Int, event: Events);
}

/// sendto(2): a UDP socket whose peer a rule names gets a stream.
///
/// # Safety
///
/// As the system's.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn sendto(
    fd: Int,
    octets: Octets,
    len: Size,
    flags: Int,
    address: *const libc::sockaddr,
    address_len: libc::socklen_t,
) -> Done {
    // SAFETY: the caller's promise.
    adopt_datagrams(fd, unsafe { address::read(address, address_len) });
    match diverting() {
        // SAFETY: the caller's promise.
        Some(library) => unsafe { (library.sendto)(fd, octets, len, flags, address, address_len) },
        // SAFETY: the caller's promise.
        None => unsafe { next::sendto(fd, octets, len, flags, address, address_len) },
    }
}

/// epoll_pwait(2). Waits are libtowpath's as soon as there are rules: a socket may be diverted while a thread waits.
///
/// # Safety
///
/// As the system's.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn epoll_pwait(
    set: Int,
    events: Events,
    count: Int,
    timeout_ms: Int,
    mask: *const libc::sigset_t,
) -> Int {
    match loaded() {
        // SAFETY: the caller's promise.
        Some(library) => unsafe { (library.epoll_pwait)(set, events, count, timeout_ms, mask) },
        // SAFETY: the caller's promise.
        None => unsafe { next::epoll_pwait(set, events, count, timeout_ms, mask) },
    }
}

/// epoll_wait(2), as [`epoll_pwait`].
///
/// # Safety
///
/// As the system's.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn epoll_wait(set: Int, events: Events, count: Int, timeout_ms: Int) -> Int {
    match loaded() {
        // SAFETY: the caller's promise.
        Some(library) => unsafe {
            (library.epoll_pwait)(set, events, count, timeout_ms, std::ptr::null())
        },
        // SAFETY: the caller's promise.
        None => unsafe { next::epoll_wait(set, events, count, timeout_ms) },
    }
}

/// sendmsg(2). Descriptors that it passes on are the kernel's from now on.
///
/// # Safety
///
/// As the system's.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn sendmsg(fd: Int, message: *const libc::msghdr, flags: Int) -> Done {
    let Some(library) = diverting() else {
        // SAFETY: the caller's promise.
        return unsafe { next::sendmsg(fd, message, flags) };
    };
    // SAFETY: the caller's promise.
    for passed in unsafe { passed_descriptors(message) } {
        // SAFETY: no memory is passed.
        unsafe { (library.leave_to_kernel)(passed) };
    }
    // SAFETY: the caller's promise.
    unsafe { (library.sendmsg)(fd, message, flags) }
}

/// The descriptors that a message carries (SCM_RIGHTS of unix(7)).
///
/// # Safety
///
/// `message` is null, or as sendmsg(2) takes it.
unsafe fn passed_descriptors(message: *const libc::msghdr) -> Vec<Int> {
    let mut all = Vec::new();
    // SAFETY: the caller's promise.
    if message.is_null() || unsafe { (*message).msg_controllen } == 0 {
        return all;
    }
    // SAFETY: the macros stay within the control data, which the caller vouches for.
    unsafe {
        let mut header = libc::CMSG_FIRSTHDR(message);
        while !header.is_null() {
            let about = header.read_unaligned();
            if about.cmsg_level == libc::SOL_SOCKET && about.cmsg_type == libc::SCM_RIGHTS {
                let data = libc::CMSG_DATA(header).cast::<Int>();
                let len = (about.cmsg_len as usize).saturating_sub(libc::CMSG_LEN(0) as usize);
                all.extend((0..len / size_of::<Int>()).map(|at| data.add(at).read_unaligned()));
            }
            header = libc::CMSG_NXTHDR(message, header);
        }
    }
    all
}

/// Defines the names that calls have in programs built with `_FORTIFY_SOURCE`: with the room in the buffer, which the
/// system checks where it is too short.
macro_rules! fortified {
    ($($name:ident: $plain:ident, $checked:ident ($($arg:ident: $kind:ty),*);)*) => {$(
        /// The call of this name with the room in the buffer.
        ///
        /// # Safety
        ///
        /// As the system's.
        #[unsafe(no_mangle)]
        pub unsafe extern "C" fn $name(fd: Int, buffer: Buffer, len: Size, room: Size $(, $arg: $kind)*) -> Done {
            match len <= room {
                // SAFETY: the caller's promise.
                true => unsafe { $plain(fd, buffer, len $(, $arg)*) },
                // SAFETY: the system ends the program.
                false => unsafe { next::$checked(fd, buffer, len, room $(, $arg)*) },
            }
        }
    )*};
}

fortified! {
    __read_chk: read, read_chk ();
    __recv_chk: recv, recv_chk (flags: Int);
    __recvfrom_chk: recvfrom, recvfrom_chk
        (flags: Int, address: *mut libc::sockaddr, address_len: *mut libc::socklen_t);
}
