//! t_connect, t_rcvconnect, t_listen, t_accept.

use super::errors::return_to_c;
use super::structures::TCall;
use super::{all_fitted, optional, required};
use crate::endpoint::WaitFor;
use crate::table;
use libc::c_int;
use xti::tpi::{TransportOption, parse_options, write_options};
use xti::{Error, TliError, With, XtiCall};

/// t_connect: connects, and waits for the answer unless the descriptor is non-blocking (TNODATA, and t_rcvconnect
/// has it).
///
/// # Safety
///
/// `to` is a structure with its buffers, `answer` null or one.
// SAFETY: no other symbol has this name.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn t_connect(fd: c_int, to: *const TCall, answer: *mut TCall) -> c_int {
    return_to_c(|| {
        let endpoint = table::find(fd)?;
        // SAFETY: the caller's promise.
        let to = unsafe { required(to.cast_mut()) }?;
        // SAFETY: the caller's promise.
        let (address, said, options) =
            unsafe { (to.addr.octets(), to.udata.octets(), options_of(to)?) };
        let with = With {
            options: &options,
            user_data: said,
        };
        endpoint.now(|xti| xti.start_connect_with(address, with))?;
        let call = endpoint.until(WaitFor::Room, |xti| xti.receive_connect_call())?;
        // SAFETY: the caller's promise.
        unsafe { put(answer, &call) }
    })
}

/// t_rcvconnect: the answer to a t_connect.
///
/// # Safety
///
/// `answer` is null or a structure with its buffers.
// SAFETY: no other symbol has this name.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn t_rcvconnect(fd: c_int, answer: *mut TCall) -> c_int {
    return_to_c(|| {
        let endpoint = table::find(fd)?;
        let call = endpoint.until(WaitFor::Room, |xti| xti.receive_connect_call())?;
        // SAFETY: the caller's promise.
        unsafe { put(answer, &call) }
    })
}

/// t_listen: the next connection that comes.
///
/// # Safety
///
/// `call` is a structure with its buffers.
// SAFETY: no other symbol has this name.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn t_listen(fd: c_int, call: *mut TCall) -> c_int {
    return_to_c(|| {
        let endpoint = table::find(fd)?;
        // SAFETY: the caller's promise.
        unsafe { required(call) }?;
        let came = endpoint.until(WaitFor::Event, |xti| xti.listen(std::time::Instant::now()))?;
        // SAFETY: the caller's promise.
        unsafe { put(call, &came) }
    })
}

/// t_accept: accepts a connection that t_listen gave, on another endpoint or on this one.
///
/// # Safety
///
/// `call` is a structure with its buffers.
// SAFETY: no other symbol has this name.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn t_accept(fd: c_int, on: c_int, call: *const TCall) -> c_int {
    return_to_c(|| {
        let (listener, acceptor) = (table::find(fd)?, table::find(on)?);
        // SAFETY: the caller's promise.
        let call = unsafe { required(call.cast_mut()) }?;
        let sequence = call.sequence as u32;
        // An event that waits must be handled first: XTI's table of TLOOK.
        if listener.xti().look().is_some() {
            return Err(TliError::Look.into());
        }
        // SAFETY: the caller's promise.
        let (said, options) = unsafe { (call.udata.octets(), options_of(call)?) };
        let with = With {
            options: &options,
            user_data: said,
        };
        if fd == on {
            listener.now(|xti| xti.accept_here_with(sequence, with))?;
            return Ok(0);
        }
        let accepted = listener.now(|xti| xti.accept_with(acceptor.xti(), sequence, with));
        acceptor.settle(accepted)?;
        Ok(0)
    })
}

/// The options of a call (TBADOPT).
///
/// # Safety
///
/// The buffer is one.
unsafe fn options_of(call: &TCall) -> Result<Vec<TransportOption>, Error> {
    // SAFETY: the caller's promise.
    let octets = unsafe { call.opt.octets() };
    Ok(parse_options(octets).ok_or(TliError::BadOption)?)
}

/// Fills a call.
///
/// # Safety
///
/// `call` is null or a structure with its buffers.
unsafe fn put(call: *mut TCall, came: &XtiCall) -> Result<c_int, Error> {
    // SAFETY: the caller's promise.
    let Some(call) = (unsafe { optional(call) }) else {
        return Ok(0);
    };
    call.sequence = came.sequence as c_int;
    // SAFETY: the caller's promise.
    let fitted = unsafe {
        [
            call.addr.put(&came.address),
            call.opt.put(&write_options(&came.options)),
            call.udata.put(&came.user_data),
        ]
    };
    all_fitted(&fitted)
}
