//! t_sndudata, t_rcvudata, t_rcvuderr, t_sndvudata, t_rcvvudata.

use super::errors::return_to_c;
use super::structures::{TIoVec, TUdErr, TUnitData};
use super::transfer::T_MORE;
use super::vectors::{gather, scatter};
use super::{all_fitted, optional, required};
use crate::endpoint::{Endpoint, WaitFor};
use crate::table;
use libc::{c_int, c_uint};
use std::sync::Arc;
use xti::tpi::{TransportOption, parse_options, write_options};
use xti::{Error, TliError, XtiReceived};

/// t_sndudata: sends a datagram.
///
/// # Safety
///
/// `data` is a structure with its buffers.
// SAFETY: no other symbol has this name.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn t_sndudata(fd: c_int, data: *const TUnitData) -> c_int {
    return_to_c(|| {
        let endpoint = table::find(fd)?;
        // SAFETY: the caller's promise.
        let data = unsafe { required(data.cast_mut()) }?;
        // SAFETY: the caller's promise.
        unsafe { send(&endpoint, data, data.udata.octets()) }
    })
}

/// t_sndvudata: the same from several buffers.
///
/// # Safety
///
/// `data` is a structure with its buffers; `parts` has `count` entries with theirs.
// SAFETY: no other symbol has this name.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn t_sndvudata(
    fd: c_int,
    data: *const TUnitData,
    parts: *const TIoVec,
    count: c_uint,
) -> c_int {
    return_to_c(|| {
        let endpoint = table::find(fd)?;
        // SAFETY: the caller's promise.
        unsafe {
            let data = required(data.cast_mut())?;
            send(&endpoint, data, &gather(parts, count)?)
        }
    })
}

/// # Safety
///
/// The address and the options of `data` are buffers.
unsafe fn send(endpoint: &Arc<Endpoint>, data: &TUnitData, octets: &[u8]) -> Result<c_int, Error> {
    // SAFETY: the caller's promise.
    let (to, options) = unsafe { (data.addr.octets(), data.opt.octets()) };
    let options = parse_options(options).ok_or(TliError::BadOption)?;
    endpoint.until_sent(|xti| xti.try_send_datagram_with(to, octets, &options))?;
    Ok(0)
}

/// t_rcvudata: receives a datagram, or the rest of one, which T_MORE has announced.
///
/// # Safety
///
/// `data` is a structure with its buffers, `flags` null or a number.
// SAFETY: no other symbol has this name.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn t_rcvudata(fd: c_int, data: *mut TUnitData, flags: *mut c_int) -> c_int {
    return_to_c(|| {
        let endpoint = table::find(fd)?;
        // SAFETY: the caller's promise.
        unsafe {
            let data = required(data)?;
            let came = receive(&endpoint, data.udata.room(), data.opt.maxlen > 0)?;
            data.udata.len = came.received.len as c_uint;
            said(data, flags, &came)
        }
    })
}

/// t_rcvvudata: the same into several buffers; returns the octets.
///
/// # Safety
///
/// `data` is a structure with its buffers, `parts` has `count` entries with theirs, `flags` is null or a number.
// SAFETY: no other symbol has this name.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn t_rcvvudata(
    fd: c_int,
    data: *mut TUnitData,
    parts: *mut TIoVec,
    count: c_uint,
    flags: *mut c_int,
) -> c_int {
    return_to_c(|| {
        let endpoint = table::find(fd)?;
        let mut came = None;
        // SAFETY: the caller's promise.
        unsafe {
            let data = required(data)?;
            scatter(parts, count, |room| {
                let one = receive(&endpoint, room, data.opt.maxlen > 0)?;
                let len = one.received.len;
                came = Some(one);
                Ok(len)
            })?;
            let came = came.ok_or(TliError::BadData)?;
            said(data, flags, &came)?;
            Ok(came.received.len as c_int)
        }
    })
}

/// What came with a datagram.
struct Came {
    received: XtiReceived,
    source: Vec<u8>,
    options: Vec<TransportOption>,
}

/// Receives a datagram, with its options for a program that has room for them.
fn receive(endpoint: &Arc<Endpoint>, room: &mut [u8], wants_options: bool) -> Result<Came, Error> {
    let (mut source, mut options) = (Vec::new(), Vec::new());
    let received = endpoint.until(WaitFor::Event, |xti| match wants_options {
        true => xti.try_receive_datagram_with(room, &mut source, &mut options),
        false => xti.try_receive_datagram(room, &mut source),
    })?;
    Ok(Came {
        received,
        source,
        options,
    })
}

/// Tells the program what it has received.
///
/// # Safety
///
/// The address and the options of `data` are buffers; `flags` is null or a number.
unsafe fn said(data: &mut TUnitData, flags: *mut c_int, came: &Came) -> Result<c_int, Error> {
    // SAFETY: the caller's promise.
    unsafe {
        if let Some(flags) = optional(flags) {
            *flags = if came.received.more { T_MORE } else { 0 };
        }
        let options = write_options(&came.options);
        all_fitted(&[data.addr.put(&came.source), data.opt.put(&options)])
    }
}

/// t_rcvuderr: which datagram did not leave, and why; null if the program does not want to know.
///
/// # Safety
///
/// `error` is null or a structure with its buffers.
// SAFETY: no other symbol has this name.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn t_rcvuderr(fd: c_int, error: *mut TUdErr) -> c_int {
    return_to_c(|| {
        let endpoint = table::find(fd)?;
        let _ = endpoint.xti().look();
        let failure = endpoint.now(|xti| xti.receive_datagram_error())?;
        // SAFETY: the caller's promise.
        let Some(error) = (unsafe { optional(error) }) else {
            return Ok(0);
        };
        error.error = failure.errno;
        let options = write_options(&failure.options);
        // SAFETY: the caller's promise.
        let fitted = unsafe {
            [
                error.addr.put(&failure.destination),
                error.opt.put(&options),
            ]
        };
        all_fitted(&fitted)
    })
}
