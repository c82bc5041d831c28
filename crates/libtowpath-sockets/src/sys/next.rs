//! The calls that this library stands in front of.

use std::ffi::{CStr, c_void};
use std::ptr::null_mut;
use std::sync::atomic::{AtomicPtr, Ordering};

/// The next definition of `name` behind this library, found once.
pub(super) fn next_symbol(found: &AtomicPtr<c_void>, name: &CStr) -> *mut c_void {
    let known = found.load(Ordering::Relaxed);
    if !known.is_null() {
        return known;
    }
    // SAFETY: the name ends with a null.
    let symbol = unsafe { libc::dlsym(libc::RTLD_NEXT, name.as_ptr()) };
    if symbol.is_null() {
        // There is no libc without these calls, and none of them can be made without it.
        std::process::abort();
    }
    found.store(symbol, Ordering::Relaxed);
    symbol
}

/// Where a symbol is remembered.
pub(super) const fn unknown() -> AtomicPtr<c_void> {
    AtomicPtr::new(null_mut())
}

/// Defines functions that make the system's call of a name.
macro_rules! next_calls {
    ($($name:ident: $text:literal ($($arg:ident: $kind:ty),*);)*) => {$(
        /// The system's call.
        ///
        /// # Safety
        ///
        /// As the call's own.
        pub(super) unsafe fn $name($($arg: $kind),*) -> libc::c_int {
            static FOUND: AtomicPtr<c_void> = unknown();
            let symbol = next_symbol(&FOUND, $text);
            // SAFETY: libc's function of this name has this type.
            let call: unsafe extern "C" fn($($kind),*) -> libc::c_int = unsafe { std::mem::transmute(symbol) };
            // SAFETY: the caller's promise.
            unsafe { call($($arg),*) }
        }
    )*};
}

type In = *const libc::sockaddr;
type Out = *mut libc::sockaddr;
type Len = *mut libc::socklen_t;

next_calls! {
    connect: c"connect" (fd: libc::c_int, address: In, len: libc::socklen_t);
    listen: c"listen" (fd: libc::c_int, backlog: libc::c_int);
    accept: c"accept" (fd: libc::c_int, address: Out, len: Len);
    accept4: c"accept4" (fd: libc::c_int, address: Out, len: Len, flags: libc::c_int);
    getsockname: c"getsockname" (fd: libc::c_int, address: Out, len: Len);
    getpeername: c"getpeername" (fd: libc::c_int, address: Out, len: Len);
    getsockopt: c"getsockopt" (fd: libc::c_int, level: libc::c_int, name: libc::c_int, value: *mut c_void, len: Len);
    setsockopt: c"setsockopt" (fd: libc::c_int, level: libc::c_int, name: libc::c_int, value: *const c_void, len: libc::socklen_t);
    shutdown: c"shutdown" (fd: libc::c_int, how: libc::c_int);
    close: c"close" (fd: libc::c_int);
}
