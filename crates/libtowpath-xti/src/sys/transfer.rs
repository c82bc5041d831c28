//! t_snd, t_rcv, t_sndv, t_rcvv, and with options t_sndopt, t_rcvopt.

use super::errors::return_to_c;
use super::structures::{NetBuf, TIoVec};
use super::vectors::{self, gather, scatter};
use super::{all_fitted, required};
use crate::endpoint::{Endpoint, WaitFor};
use crate::table;
use libc::{c_int, c_uint, c_void};
use std::sync::Arc;
use xti::tpi::{TransportOption, parse_options, write_options};
use xti::{Error, Flags, TliError, XtiReceived};

/// T_MORE: the message goes on.
pub(super) const T_MORE: c_int = 1;
/// T_EXPEDITED: expedited data.
const T_EXPEDITED: c_int = 2;
/// T_PUSH: what is queued leaves now.
const T_PUSH: c_int = 4;

/// t_snd: sends `len` octets; a non-blocking descriptor may take fewer.
///
/// # Safety
///
/// `octets` has `len` octets.
// SAFETY: no other symbol has this name.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn t_snd(
    fd: c_int,
    octets: *const c_void,
    len: c_uint,
    flags: c_int,
) -> c_int {
    return_to_c(|| {
        let endpoint = table::find(fd)?;
        // SAFETY: the caller's promise.
        let octets = unsafe { vectors::octets(octets.cast(), len as usize) }?;
        send(&endpoint, octets, flags)
    })
}

/// t_sndopt, an extension: the same, of a message with options of its own.
///
/// # Safety
///
/// `octets` has `len` octets, `options` is a structure with its buffer.
// SAFETY: no other symbol has this name.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn t_sndopt(
    fd: c_int,
    octets: *const c_void,
    len: c_uint,
    flags: c_int,
    options: *const NetBuf,
) -> c_int {
    return_to_c(|| {
        let endpoint = table::find(fd)?;
        // SAFETY: the caller's promise.
        let octets = unsafe { vectors::octets(octets.cast(), len as usize) }?;
        // SAFETY: the caller's promise.
        let options = unsafe { required(options.cast_mut()) }?;
        // SAFETY: the caller's promise.
        let options = parse_options(unsafe { options.octets() });
        let options = options.ok_or(TliError::BadOption)?;
        send_with(&endpoint, octets, flags, &options)
    })
}

/// t_sndv: the same from several buffers.
///
/// # Safety
///
/// `parts` has `count` entries with their buffers.
// SAFETY: no other symbol has this name.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn t_sndv(
    fd: c_int,
    parts: *const TIoVec,
    count: c_uint,
    flags: c_int,
) -> c_int {
    return_to_c(|| {
        let endpoint = table::find(fd)?;
        // SAFETY: the caller's promise.
        let octets = unsafe { gather(parts, count) }?;
        send(&endpoint, &octets, flags)
    })
}

/// Sends all, or what is taken before a signal, an event or, on a non-blocking descriptor, flow control.
fn send(endpoint: &Arc<Endpoint>, octets: &[u8], flags: c_int) -> Result<c_int, Error> {
    send_with(endpoint, octets, flags, &[])
}

fn send_with(
    endpoint: &Arc<Endpoint>,
    octets: &[u8],
    flags: c_int,
    options: &[TransportOption],
) -> Result<c_int, Error> {
    if flags & !(T_MORE | T_EXPEDITED | T_PUSH) != 0 {
        return Err(TliError::BadFlag.into());
    }
    let with = Flags {
        more: flags & T_MORE != 0,
        expedited: flags & T_EXPEDITED != 0,
    };
    let mut done = 0;
    loop {
        // What follows is of the same message.
        let options = if done == 0 { options } else { &[] };
        let rest = &octets[done..];
        let sent = endpoint.until_sent(|xti| match options.is_empty() {
            true => xti.try_send(rest, with),
            false => xti.try_send_with(rest, with, options),
        });
        match sent {
            Ok(len) => done += len,
            Err(error) if done == 0 => return Err(error),
            Err(_) => break,
        }
        if done == octets.len() {
            break;
        }
    }
    if flags & T_PUSH != 0 {
        endpoint.xti().run();
    }
    Ok(done as c_int)
}

/// t_rcv: receives up to `len` octets; `flags` says whether the message goes on (T_MORE), and whether the octets are
/// expedited.
///
/// # Safety
///
/// `octets` has room for `len` octets, `flags` is null or a number.
// SAFETY: no other symbol has this name.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn t_rcv(
    fd: c_int,
    octets: *mut c_void,
    len: c_uint,
    flags: *mut c_int,
) -> c_int {
    return_to_c(|| {
        let endpoint = table::find(fd)?;
        // SAFETY: the caller's promise.
        let room = unsafe { vectors::room(octets.cast(), len as usize) }?;
        let received = receive(&endpoint, room)?;
        // SAFETY: the caller's promise.
        unsafe { say(flags, received) }
    })
}

/// t_rcvopt, an extension: the same, with the options that came with the message.
///
/// # Safety
///
/// `octets` has room for `len` octets, `flags` is null or a number, `options` is a structure with its buffer.
// SAFETY: no other symbol has this name.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn t_rcvopt(
    fd: c_int,
    octets: *mut c_void,
    len: c_uint,
    flags: *mut c_int,
    options: *mut NetBuf,
) -> c_int {
    return_to_c(|| {
        let endpoint = table::find(fd)?;
        // SAFETY: the caller's promise.
        let room = unsafe { vectors::room(octets.cast(), len as usize) }?;
        let mut came = Vec::new();
        let received =
            endpoint.until(WaitFor::Event, |xti| xti.try_receive_with(room, &mut came))?;
        // SAFETY: the caller's promise.
        let len = unsafe { say(flags, received) }?;
        // SAFETY: the caller's promise.
        let options = unsafe { required(options) }?;
        // SAFETY: the caller's promise.
        all_fitted(&[unsafe { options.put(&write_options(&came)) }])?;
        Ok(len)
    })
}

/// t_rcvv: the same into several buffers.
///
/// # Safety
///
/// `parts` has `count` entries with their buffers; `flags` is null or a number.
// SAFETY: no other symbol has this name.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn t_rcvv(
    fd: c_int,
    parts: *mut TIoVec,
    count: c_uint,
    flags: *mut c_int,
) -> c_int {
    return_to_c(|| {
        let endpoint = table::find(fd)?;
        let mut received = None;
        // SAFETY: the caller's promise.
        unsafe {
            scatter(parts, count, |room| {
                let got = receive(&endpoint, room)?;
                received = Some(got);
                Ok(got.len)
            })?;
            say(flags, received.ok_or(TliError::BadData)?)
        }
    })
}

fn receive(endpoint: &Arc<Endpoint>, room: &mut [u8]) -> Result<XtiReceived, Error> {
    if room.is_empty() {
        // Nothing is asked for: 0 at once, in the states of t_rcv.
        let received = XtiReceived {
            len: 0,
            more: false,
            expedited: false,
        };
        return Ok(received);
    }
    endpoint.until(WaitFor::Event, |xti| xti.try_receive(room))
}

/// Tells the program what it has received.
///
/// # Safety
///
/// `flags` is null or a number.
unsafe fn say(flags: *mut c_int, received: XtiReceived) -> Result<c_int, Error> {
    let mut said = 0;
    if received.more {
        said |= T_MORE;
    }
    if received.expedited {
        said |= T_EXPEDITED;
    }
    // SAFETY: the caller's promise.
    if let Ok(flags) = unsafe { required(flags) } {
        *flags = said;
    }
    Ok(received.len as c_int)
}
