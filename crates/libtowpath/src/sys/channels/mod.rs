//! Channels' calls, as in `towpath_channel.h`.
//!
//! Ends, arenas and slots are pointers to boxes of this library. A pointer that C passes is one that it was given
//! and did not close, or null, which is EFAULT; one thread at a time uses it.

mod arena;
mod receiver;
mod sender;

use super::errno::return_to_c;
use crate::channels;
use std::io;
use std::os::fd::{FromRawFd, OwnedFd};
use std::os::unix::net::UnixStream;

/// Why the last call of this thread failed.
// SAFETY: no other symbol has this name.
#[unsafe(no_mangle)]
pub extern "C" fn towpath_channel_error() -> *const libc::c_char {
    channels::last_error()
}

/// The socket that C passed, which is this library's from now on.
fn take_socket(socket: libc::c_int) -> io::Result<UnixStream> {
    if socket < 0 {
        return Err(channels::refuse(
            libc::EBADF,
            "no socket has a negative number: pass one of a connected pair",
        ));
    }
    // SAFETY: the program gives the descriptor away, as the header says.
    let owned = unsafe { OwnedFd::from_raw_fd(socket) };
    Ok(UnixStream::from(owned))
}

/// EFAULT, for a pointer that is null.
fn null_pointer() -> io::Error {
    channels::refuse(
        libc::EFAULT,
        "a pointer is null: pass what a call of this library gave, or where octets are",
    )
}

/// What a pointer of C points to, or EFAULT.
///
/// # Safety
///
/// `pointer` is null, or was given out by this library and not closed; nothing else uses it now.
unsafe fn own<'a, T>(pointer: *mut T) -> io::Result<&'a mut T> {
    // SAFETY: the caller's promise.
    unsafe { pointer.as_mut() }.ok_or_else(null_pointer)
}

/// Drops what a pointer of C points to; nothing for null.
///
/// # Safety
///
/// As of [`own`], and the pointer is used no more.
unsafe fn close<T>(pointer: *mut T) {
    if pointer.is_null() {
        return;
    }
    return_to_c(|| {
        // SAFETY: the caller's promise; `give` made the box.
        drop(unsafe { Box::from_raw(pointer) });
        Ok(0)
    });
}

/// What a call made, as a pointer for C; null and errno for an error.
fn give<T>(make: impl FnOnce() -> io::Result<T>) -> *mut T {
    let mut made = std::ptr::null_mut();
    return_to_c(|| {
        made = Box::into_raw(Box::new(make()?));
        Ok(0)
    });
    made
}

/// The octets that C passed.
///
/// # Safety
///
/// `octets` points to `len` octets, or `len` is 0.
unsafe fn octets_of<'a>(octets: *const libc::c_void, len: usize) -> io::Result<&'a [u8]> {
    match (octets.is_null(), len) {
        (_, 0) => Ok(&[]),
        (true, _) => Err(null_pointer()),
        // SAFETY: the caller's promise.
        _ => Ok(unsafe { std::slice::from_raw_parts(octets.cast::<u8>(), len) }),
    }
}

/// The buffer that C passed.
///
/// # Safety
///
/// `octets` points to `size` octets that nothing else uses now, or `size` is 0. They are initialized or not:
/// they are only written.
unsafe fn buffer_of<'a>(octets: *mut libc::c_void, size: usize) -> io::Result<&'a mut [u8]> {
    match (octets.is_null(), size) {
        (_, 0) => Ok(&mut []),
        (true, _) => Err(null_pointer()),
        _ => {
            // SAFETY: the caller's promise; zeros make what C left uninitialized a valid slice.
            unsafe { octets.cast::<u8>().write_bytes(0, size) };
            // SAFETY: the caller's promise, and all octets are initialized now.
            Ok(unsafe { std::slice::from_raw_parts_mut(octets.cast::<u8>(), size) })
        }
    }
}
