//! Arguments as C passes them.

use super::errno::os_error;
use std::ffi::CStr;
use std::io;
use std::time::Duration;

/// A time-out in milliseconds: a negative one has no end.
pub(super) fn limit(timeout_ms: libc::c_int) -> Duration {
    match u64::try_from(timeout_ms) {
        Ok(ms) => Duration::from_millis(ms),
        Err(_) => Duration::MAX,
    }
}

/// A text; an empty one for null.
///
/// # Safety
///
/// `text` is null or ends with a zero.
pub(super) unsafe fn text<'a>(text: *const libc::c_char) -> io::Result<&'a str> {
    if text.is_null() {
        return Ok("");
    }
    // SAFETY: the caller's promise.
    let text = unsafe { CStr::from_ptr(text) };
    text.to_str().map_err(|_| os_error(libc::EINVAL))
}

/// The octets of a message.
///
/// # Safety
///
/// `octets` points to `len` octets, or `len` is 0.
pub(super) unsafe fn message<'a>(octets: *const libc::c_void, len: usize) -> &'a [u8] {
    if octets.is_null() || len == 0 {
        return &[];
    }
    // SAFETY: the caller's promise.
    unsafe { std::slice::from_raw_parts(octets.cast::<u8>(), len) }
}

/// The room for a message, set to zero: none of it is read before it is written.
///
/// # Safety
///
/// `buffer` points to `size` octets that nobody else uses, or `size` is 0.
pub(super) unsafe fn room<'a>(buffer: *mut libc::c_void, size: usize) -> &'a mut [u8] {
    if buffer.is_null() || size == 0 {
        return &mut [];
    }
    // SAFETY: the caller's promise; the octets are initialised first.
    unsafe {
        std::ptr::write_bytes(buffer.cast::<u8>(), 0, size);
        std::slice::from_raw_parts_mut(buffer.cast::<u8>(), size)
    }
}
