//! `t_errno`, and results as C expects them.

use super::set_errno;
use libc::{c_char, c_int};
use std::cell::UnsafeCell;
use std::ffi::{CStr, CString};
use std::io::Write;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::LazyLock;
use xti::{Error, TliError};

thread_local! {
    static T_ERRNO: UnsafeCell<c_int> = const { UnsafeCell::new(0) };
}

/// Where the number of this thread's last error is: the macro `t_errno`.
// SAFETY: no other symbol has this name.
#[unsafe(no_mangle)]
pub extern "C" fn _t_errno() -> *mut c_int {
    T_ERRNO.with(UnsafeCell::get)
}

/// A result as C expects it: a value, or -1 with `t_errno`, and `errno` for TSYSERR. Panics become TPROTO.
pub(super) fn return_to_c(call: impl FnOnce() -> Result<c_int, Error>) -> c_int {
    let error = match catch_unwind(AssertUnwindSafe(call)) {
        Ok(Ok(value)) => return value,
        Ok(Err(error)) => error,
        Err(_) => TliError::Protocol.into(),
    };
    fail(error);
    -1
}

/// Notes an error for the program.
pub(super) fn fail(error: Error) {
    if error.tli == TliError::System {
        set_errno(error.errno);
    }
    // SAFETY: the pointer is to this thread's own number.
    unsafe { *_t_errno() = error.tli as c_int };
}

/// Texts as C has them, which are there for ever.
struct Texts(Vec<*const c_char>);

// SAFETY: nobody changes the texts.
unsafe impl Send for Texts {}
// SAFETY: as above.
unsafe impl Sync for Texts {}

/// The texts of all errors by their numbers, 0 for none; the last one is for numbers that none has.
static TEXTS: LazyLock<Texts> = LazyLock::new(|| {
    let all = TliError::ALL.iter().map(|error| error.text());
    let texts = ["no error"].into_iter().chain(all);
    let texts = texts.chain(["no error of XTI has this number"]);
    let texts = texts.map(|text| CString::new(text).unwrap_or_default());
    Texts(texts.map(|text| text.into_raw().cast_const()).collect())
});

/// t_strerror: what a number means, a text that stays.
// SAFETY: no other symbol has this name.
#[unsafe(no_mangle)]
pub extern "C" fn t_strerror(number: c_int) -> *const c_char {
    let unknown = TEXTS.0.len() - 1;
    let at = usize::try_from(number).map_or(unknown, |at| at.min(unknown));
    TEXTS.0[at]
}

/// TLI's array of the texts by their numbers.
// SAFETY: no other symbol has this name.
#[unsafe(no_mangle)]
pub extern "C" fn _t_errlist() -> *const *const c_char {
    TEXTS.0.as_ptr()
}

/// t_error: writes `words` and this thread's last error to the standard error.
///
/// # Safety
///
/// `words` is null or a C string.
// SAFETY: no other symbol has this name.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn t_error(words: *const c_char) -> c_int {
    let errno = std::io::Error::last_os_error().raw_os_error().unwrap_or(0);
    return_to_c(|| {
        let words = match words.is_null() {
            true => String::new(),
            // SAFETY: the caller's promise.
            false => unsafe { CStr::from_ptr(words) }
                .to_string_lossy()
                .into_owned(),
        };
        // SAFETY: the pointer is to this thread's own number.
        let number = unsafe { *_t_errno() };
        let line = match number {
            0 if words.is_empty() => "no error\n".to_owned(),
            0 => format!("{words}: no error\n"),
            number => {
                let tli = TliError::from_number(number as u32);
                let errno = if tli == TliError::System { errno } else { 0 };
                Error { tli, errno }.line(&words)
            }
        };
        // A program without a standard error is told nothing.
        let _ = std::io::stderr().write_all(line.as_bytes());
        Ok(0)
    })
}
