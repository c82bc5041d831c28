//! The C entry points, by what they are for.
//!
//! * [`structures`] - structures of `xti.h`.
//! * `errors` - `t_errno`, t_error, t_strerror.
//! * `fork` - forked children.
//! * `local` - t_open, t_bind, t_unbind, t_close, t_look and questions about an endpoint.
//! * `memory` - t_alloc, t_free.
//! * `connections` - t_connect, t_rcvconnect, t_listen, t_accept.
//! * `transfer` - t_snd, t_rcv, t_sndv, t_rcvv.
//! * `release` - orderly release and disconnection.
//! * `datagrams` - t_sndudata and its kin.
//! * `options` - t_optmgmt.
#![allow(unsafe_code)]

mod connections;
mod datagrams;
mod errors;
mod fork;
mod local;
mod memory;
mod options;
mod release;
mod structures;
mod transfer;
mod vectors;

use libc::c_int;
use xti::{Error, TliError};

fn set_errno(number: c_int) {
    // SAFETY: errno is this thread's own.
    unsafe { *libc::__errno_location() = number };
}

/// What a pointer of C is to, which may be null.
///
/// # Safety
///
/// `pointer` is null or to a structure that lives, and that nobody else uses, during the call.
unsafe fn optional<'a, T>(pointer: *mut T) -> Option<&'a mut T> {
    // SAFETY: the caller's promise.
    unsafe { pointer.as_mut() }
}

/// The same for a structure that must be there: EFAULT without one.
///
/// # Safety
///
/// That of [`optional`].
unsafe fn required<'a, T>(pointer: *mut T) -> Result<&'a mut T, Error> {
    // SAFETY: the caller's promise.
    unsafe { optional(pointer) }.ok_or(Error {
        tli: TliError::System,
        errno: libc::EFAULT,
    })
}

/// TBUFOVFLW unless everything fitted.
fn all_fitted(fitted: &[bool]) -> Result<c_int, Error> {
    match fitted.iter().all(|fitted| *fitted) {
        true => Ok(0),
        false => Err(TliError::BufferOverflow.into()),
    }
}
