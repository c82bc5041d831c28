//! The interposed calls: libtowpath's for diverted sockets, the system's for others.
//!
//! Once a socket was diverted, all calls go by libtowpath, which knows its own and makes the system's for others.

use super::divert::{
    adopt_datagrams, diverting, is_parents_listener, is_tcp, may_divert, options_for, replace,
};
use super::library::Library;
use super::registrations::{self, Registration};
use super::{address, next};
use std::ffi::c_void;
use std::net::SocketAddr;

type In = *const libc::sockaddr;
type Out = *mut libc::sockaddr;
type Len = *mut libc::socklen_t;

/// connect(2): a TCP socket whose peer a rule diverts becomes one of libtowpath.
///
/// # Safety
///
/// As the system's: `address` points to `len` octets.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn connect(
    fd: libc::c_int,
    address: In,
    len: libc::socklen_t,
) -> libc::c_int {
    // SAFETY: the caller's promise.
    let peer = unsafe { address::read(address, len) };
    let Ok(registered) = replaced(fd, peer) else {
        return -1;
    };
    let done = match diverting() {
        Some(library) => {
            // SAFETY: the caller's promise.
            let done = unsafe { (library.connect)(fd, address, len) };
            register_again(library, fd, &registered);
            done
        }
        // SAFETY: the caller's promise.
        None => unsafe { next::connect(fd, address, len) },
    };
    if done == 0 {
        adopt_datagrams(fd, peer);
    }
    done
}

/// bind(2): a UDP socket at an address that a rule names gets a stream.
///
/// # Safety
///
/// As the system's: `address` points to `len` octets.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn bind(fd: libc::c_int, address: In, len: libc::socklen_t) -> libc::c_int {
    let done = match diverting() {
        // SAFETY: the caller's promise.
        Some(library) => unsafe { (library.bind)(fd, address, len) },
        // SAFETY: the caller's promise.
        None => unsafe { next::bind(fd, address, len) },
    };
    // SAFETY: the caller's promise.
    if let Some(wanted) = unsafe { address::read(address, len) }
        && done == 0
    {
        // Its port may be one that the kernel chose.
        let bound = address::bound(fd).map(|(_, _, local)| local);
        adopt_datagrams(fd, bound.or(Some(wanted)));
    }
    done
}

/// listen(2): a TCP socket at an address that a rule diverts becomes one of libtowpath.
// SAFETY: the system's symbol of this name is reached through `next`.
#[unsafe(no_mangle)]
pub extern "C" fn listen(fd: libc::c_int, backlog: libc::c_int) -> libc::c_int {
    let local = address::bound(fd).map(|(_, _, local)| local);
    let Ok(registered) = replaced(fd, local) else {
        return -1;
    };
    match diverting() {
        Some(library) => {
            // SAFETY: no memory is passed.
            let done = unsafe { (library.listen)(fd, backlog) };
            register_again(library, fd, &registered);
            done
        }
        // SAFETY: no memory is passed.
        None => unsafe { next::listen(fd, backlog) },
    }
}

/// Replaces a TCP socket whose `address` a rule diverts; what it was registered for.
fn replaced(fd: libc::c_int, address: Option<SocketAddr>) -> Result<Vec<Registration>, ()> {
    match address.and_then(options_for) {
        Some(options) if is_tcp(fd) && may_divert() => replace(fd, options),
        _ => Ok(Vec::new()),
    }
}

/// Registers for the same again, and keeps errno.
fn register_again(library: &Library, fd: libc::c_int, registered: &[Registration]) {
    // SAFETY: errno is this thread's own.
    unsafe {
        let errno = *libc::__errno_location();
        registrations::put(Some(library), fd, registered);
        *libc::__errno_location() = errno;
    }
}

/// accept(2).
///
/// # Safety
///
/// As the system's: both pointers are null, or `len` says how many octets `address` points to.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn accept(fd: libc::c_int, address: Out, len: Len) -> libc::c_int {
    match diverting() {
        Some(_) if is_parents_listener(fd) => not_supported(),
        // SAFETY: the caller's promise.
        Some(library) => unsafe { (library.accept4)(fd, address, len, 0) },
        // SAFETY: the caller's promise.
        None => unsafe { next::accept(fd, address, len) },
    }
}

/// accept4(2).
///
/// # Safety
///
/// As the system's: both pointers are null, or `len` says how many octets `address` points to.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn accept4(
    fd: libc::c_int,
    address: Out,
    len: Len,
    flags: libc::c_int,
) -> libc::c_int {
    match diverting() {
        Some(_) if is_parents_listener(fd) => not_supported(),
        // SAFETY: the caller's promise.
        Some(library) => unsafe { (library.accept4)(fd, address, len, flags) },
        // SAFETY: the caller's promise.
        None => unsafe { next::accept4(fd, address, len, flags) },
    }
}

/// -1, with errno EOPNOTSUPP.
fn not_supported() -> libc::c_int {
    // SAFETY: errno is this thread's own.
    unsafe { *libc::__errno_location() = libc::EOPNOTSUPP };
    -1
}

/// Defines calls that differ in nothing but their arguments.
macro_rules! interposed {
    ($($(#[$doc:meta])* $name:ident($($arg:ident: $kind:ty),*);)*) => {$(
        $(#[$doc])*
        ///
        /// # Safety
        ///
        /// As the system's.
        #[unsafe(no_mangle)]
        pub unsafe extern "C" fn $name($($arg: $kind),*) -> libc::c_int {
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
    /// getsockname(2).
    getsockname(fd: libc::c_int, address: Out, len: Len);
    /// getpeername(2).
    getpeername(fd: libc::c_int, address: Out, len: Len);
    /// getsockopt(2): of a diverted socket TCP's options are those that were set.
    getsockopt(fd: libc::c_int, level: libc::c_int, name: libc::c_int, value: *mut c_void, len: Len);
    /// setsockopt(2): TCP's options have no effect on a diverted socket.
    setsockopt(fd: libc::c_int, level: libc::c_int, name: libc::c_int, value: *const c_void, len: libc::socklen_t);
    /// shutdown(2).
    shutdown(fd: libc::c_int, how: libc::c_int);
    /// close(2).
    close(fd: libc::c_int);
}
