//! Buffers that C passes.

use super::structures::TIoVec;
use libc::c_uint;
use xti::endpoint::BUFFERS_MAX;
use xti::{Error, TliError};

/// Octets of a call at most: what it returns is an int.
const OCTETS_MAX: usize = i32::MAX as usize;

const BAD_POINTER: Error = Error {
    tli: TliError::System,
    errno: libc::EFAULT,
};

/// Octets to send.
///
/// # Safety
///
/// `octets` is null or has `len` octets, which nobody changes during the call.
pub(super) unsafe fn octets<'a>(octets: *const u8, len: usize) -> Result<&'a [u8], Error> {
    match len {
        0 => Ok(&[]),
        _ if octets.is_null() => Err(BAD_POINTER),
        // SAFETY: the caller's promise.
        1..=OCTETS_MAX => Ok(unsafe { std::slice::from_raw_parts(octets, len) }),
        _ => Err(TliError::BadData.into()),
    }
}

/// Room to receive into; more than an int can say is not used.
///
/// # Safety
///
/// `octets` is null or has room for `len` octets, which nobody else uses during the call.
pub(super) unsafe fn room<'a>(octets: *mut u8, len: usize) -> Result<&'a mut [u8], Error> {
    match len {
        0 => Ok(&mut []),
        _ if octets.is_null() => Err(BAD_POINTER),
        // SAFETY: the caller's promise.
        _ => Ok(unsafe { std::slice::from_raw_parts_mut(octets, len.min(OCTETS_MAX)) }),
    }
}

/// The buffers of a call, T_IOV_MAX at most (TBADDATA), and their octets together.
///
/// # Safety
///
/// `parts` is null or has `count` entries.
unsafe fn parts_of<'a>(
    parts: *const TIoVec,
    count: c_uint,
) -> Result<(&'a [TIoVec], usize), Error> {
    let count = count as usize;
    if parts.is_null() || count == 0 || count > BUFFERS_MAX {
        return Err(TliError::BadData.into());
    }
    // SAFETY: the caller's promise.
    let parts = unsafe { std::slice::from_raw_parts(parts, count) };
    let mut lens = parts.iter().map(|part| part.iov_len);
    let total = lens.try_fold(0, |total: usize, len| total.checked_add(len));
    let total = total.filter(|total| *total <= OCTETS_MAX);
    Ok((parts, total.ok_or(TliError::BadData)?))
}

/// The octets of several buffers, one behind the other.
///
/// # Safety
///
/// `parts` is null or has `count` entries with their buffers.
pub(super) unsafe fn gather(parts: *const TIoVec, count: c_uint) -> Result<Vec<u8>, Error> {
    // SAFETY: the caller's promise.
    let (parts, total) = unsafe { parts_of(parts, count) }?;
    let mut all = Vec::with_capacity(total);
    for part in parts {
        // SAFETY: the caller's promise.
        all.extend_from_slice(unsafe { octets(part.iov_base.cast(), part.iov_len) }?);
    }
    Ok(all)
}

/// Receives by `receive`, which says how many octets it put into its room, into several buffers.
///
/// # Safety
///
/// `parts` is null or has `count` entries with their buffers.
pub(super) unsafe fn scatter(
    parts: *const TIoVec,
    count: c_uint,
    receive: impl FnOnce(&mut [u8]) -> Result<usize, Error>,
) -> Result<(), Error> {
    // SAFETY: the caller's promise.
    let (parts, total) = unsafe { parts_of(parts, count) }?;
    // Longer ones than a message of any provider are filled by further calls.
    let mut all = vec![0; total.min(ROOM_MAX)];
    let len = receive(&mut all)?;
    let mut rest = &all[..len];
    for part in parts {
        // SAFETY: the caller's promise.
        let room = unsafe { room(part.iov_base.cast(), part.iov_len) }?;
        let (now, later) = rest.split_at(rest.len().min(room.len()));
        room[..now.len()].copy_from_slice(now);
        rest = later;
    }
    Ok(())
}

/// Octets that one call receives into several buffers at most.
const ROOM_MAX: usize = 1 << 20;
