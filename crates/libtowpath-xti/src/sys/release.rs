//! t_sndrel, t_rcvrel, t_snddis, t_rcvdis, t_sndreldata, t_rcvreldata.

use super::errors::return_to_c;
use super::structures::{TCall, TDiscon};
use super::{all_fitted, optional};
use crate::endpoint::WaitFor;
use crate::table;
use libc::c_int;
use xti::XtiState;

/// t_sndrel: sends no more; what was sent arrives.
// SAFETY: no other symbol has this name.
#[unsafe(no_mangle)]
pub extern "C" fn t_sndrel(fd: c_int) -> c_int {
    return_to_c(|| {
        let endpoint = table::find(fd)?;
        endpoint.until(WaitFor::Room, |xti| xti.send_release())?;
        Ok(0)
    })
}

/// t_rcvrel: takes the peer's release.
// SAFETY: no other symbol has this name.
#[unsafe(no_mangle)]
pub extern "C" fn t_rcvrel(fd: c_int) -> c_int {
    return_to_c(|| {
        let endpoint = table::find(fd)?;
        let _ = endpoint.xti().look();
        endpoint.now(|xti| xti.receive_release())?;
        Ok(0)
    })
}

/// t_sndreldata: as t_sndrel, with data for the peer's user.
///
/// # Safety
///
/// `said` is null or a structure with its buffer.
// SAFETY: no other symbol has this name.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn t_sndreldata(fd: c_int, said: *mut TDiscon) -> c_int {
    return_to_c(|| {
        let endpoint = table::find(fd)?;
        // SAFETY: the caller's promise.
        let octets = match unsafe { optional(said) } {
            // SAFETY: the caller's promise.
            Some(said) => unsafe { said.udata.octets() },
            None => &[],
        };
        endpoint.until(WaitFor::Room, |xti| xti.send_release_with_data(octets))?;
        Ok(0)
    })
}

/// t_rcvreldata: as t_rcvrel, with what the peer's user said.
///
/// # Safety
///
/// `said` is null or a structure with its buffer.
// SAFETY: no other symbol has this name.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn t_rcvreldata(fd: c_int, said: *mut TDiscon) -> c_int {
    return_to_c(|| {
        let endpoint = table::find(fd)?;
        let _ = endpoint.xti().look();
        let octets = endpoint.now(|xti| xti.receive_release_data())?;
        // SAFETY: the caller's promise.
        let Some(said) = (unsafe { optional(said) }) else {
            return Ok(0);
        };
        (said.reason, said.sequence) = (0, 0);
        // SAFETY: the caller's promise.
        all_fitted(&[unsafe { said.udata.put(&octets) }])
    })
}

/// t_snddis: ends the connection at once, or refuses the one that `call` names.
///
/// # Safety
///
/// `call` is null or a structure with its buffers.
// SAFETY: no other symbol has this name.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn t_snddis(fd: c_int, call: *const TCall) -> c_int {
    return_to_c(|| {
        let endpoint = table::find(fd)?;
        // SAFETY: the caller's promise.
        let call = unsafe { optional(call.cast_mut()) };
        // SAFETY: the caller's promise.
        let said = call
            .as_ref()
            .map_or(&[][..], |call| unsafe { call.udata.octets() });
        let is_incoming = endpoint.xti().state() == XtiState::Incoming;
        let sequence = call.as_ref().filter(|_| is_incoming);
        let sequence = sequence.map(|call| call.sequence as u32);
        endpoint.now(|xti| xti.send_disconnect_with_data(sequence, said))?;
        Ok(0)
    })
}

/// t_rcvdis: why the connection ended, or which one was withdrawn; null if the program does not want to know.
///
/// # Safety
///
/// `why` is null or a structure with its buffer.
// SAFETY: no other symbol has this name.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn t_rcvdis(fd: c_int, why: *mut TDiscon) -> c_int {
    return_to_c(|| {
        let endpoint = table::find(fd)?;
        let _ = endpoint.xti().look();
        let end = endpoint.now(|xti| xti.receive_disconnect())?;
        // SAFETY: the caller's promise.
        let Some(why) = (unsafe { optional(why) }) else {
            return Ok(0);
        };
        why.reason = end.reason;
        why.sequence = end.sequence as c_int;
        // SAFETY: the caller's promise.
        all_fitted(&[unsafe { why.udata.put(&end.user_data) }])
    })
}
