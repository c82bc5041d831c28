//! The interposed calls that make two descriptors: libtowpath's where a rule says so.

use super::divert::diverting_pairs;
use super::next;
use crate::rules::PairCall;

/// pipe(2).
///
/// # Safety
///
/// As the system's: `ends` has room for two descriptors.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn pipe(ends: *mut libc::c_int) -> libc::c_int {
    match diverting_pairs(PairCall::Pipe) {
        // SAFETY: the caller's promise.
        Some(library) => unsafe { (library.pipe2)(ends, 0) },
        // SAFETY: the caller's promise.
        None => unsafe { next::pipe(ends) },
    }
}

/// pipe2(2).
///
/// # Safety
///
/// As the system's: `ends` has room for two descriptors.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn pipe2(ends: *mut libc::c_int, flags: libc::c_int) -> libc::c_int {
    match diverting_pairs(PairCall::Pipe) {
        // SAFETY: the caller's promise.
        Some(library) => unsafe { (library.pipe2)(ends, flags) },
        // SAFETY: the caller's promise.
        None => unsafe { next::pipe2(ends, flags) },
    }
}

/// socketpair(2).
///
/// # Safety
///
/// As the system's: `ends` has room for two descriptors.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn socketpair(
    family: libc::c_int,
    kind: libc::c_int,
    protocol: libc::c_int,
    ends: *mut libc::c_int,
) -> libc::c_int {
    match diverting_pairs(PairCall::SocketPair) {
        // SAFETY: the caller's promise.
        Some(library) => unsafe { (library.socketpair)(family, kind, protocol, ends) },
        // SAFETY: the caller's promise.
        None => unsafe { next::socketpair(family, kind, protocol, ends) },
    }
}
